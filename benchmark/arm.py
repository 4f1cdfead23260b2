"""Instructions per element of the codec's kernels for 64-bit ARM, counted in an emulator: there is no such CPU here to take times on.

`make bench-arm` builds what this runs. One more repetition than another costs what one costs, so start-up and set-up do not count.
"""

from __future__ import annotations

import os
import subprocess
import sys

ELEMENTS = 1024 * 1024
OPERATIONS = [
    ("decompress", "fast"),
    ("decompress", "default"),
    ("filters", "max"),
    ("restore", "default"),
    ("compress", "fast"),
    ("compress", "default"),
    ("delta", "default"),
]


def count(program: str, plugin: str, kernel: str, operation: str, effort: str, repeat: int) -> int:
    """Instructions that so many repetitions take, with what goes before them."""
    command = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-plugin", plugin, program, operation, effort]
    environment = os.environ | {"Z4AI_KERNEL": kernel}
    run = subprocess.run([*command, str(repeat)], env=environment, capture_output=True, text=True, check=True)
    return int(run.stderr.split()[-1])


def main() -> None:
    program, plugin = sys.argv[1:]
    print("| operation | effort | portable | NEON | ratio |\n|---|---|---|---|---|")
    for operation, effort in OPERATIONS:
        each = {}
        for kernel in ["portable", "neon"]:
            once, twice = (count(program, plugin, kernel, operation, effort, repeat) for repeat in [1, 2])
            each[kernel] = (twice - once) / ELEMENTS
        portable, neon = each["portable"], each["neon"]
        print(f"| {operation} | {effort} | {portable:.2f} | {neon:.2f} | {portable / neon:.2f} |", flush=True)


if __name__ == "__main__":
    main()
