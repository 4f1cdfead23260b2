"""A source limited to a given rate, without privileges: `throttle/throttle.c`, compiled here and preloaded into a
worker.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from harness.formats import DATA

SOURCE = Path(__file__).resolve().parents[1] / "throttle" / "throttle.c"


def variables(directory: Path, bytes_per_second: float) -> dict[str, str]:
    """The environment variables of a worker for which files below a directory are slow."""
    DATA.mkdir(exist_ok=True)
    library = DATA / "throttle.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True)
    return {
        "LD_PRELOAD": str(library),
        "THROTTLE_DIRECTORY": str(directory.resolve()),
        "THROTTLE_RATE": str(int(bytes_per_second)),
    }


def bytes_passed() -> int:
    """In a worker: how many bytes came through the limited source so far."""
    count = ctypes.CDLL(None).throttled_bytes
    count.restype = ctypes.c_uint64
    return count()
