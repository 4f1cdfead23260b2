"""What the hardware allows: walking a mapped file, copying memory, plain write(). Rows that the others are held
against.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from harness.clock import now
from harness.memory import at, touch
from harness.peer import Peer
from harness.schedule import Contestant

WALK = "mmap walk"
#: The copies need as much memory again for their source; beyond this size nothing new is learned.
COPY_LIMIT = 1 << 30
COPIES = {
    f"memcpy, {memory}, {threads} thread{'s' * (threads > 1)}": (memory, threads)
    for memory in ("fresh 4 KiB pages", "fresh huge pages", "reused memory")
    for threads in (1, 2)
}
WRITES = ("write()", "write() + fsync()")
_memcpy = ctypes.CDLL(None).memcpy
_memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def reading(path: Path, copies: bool) -> list[Contestant]:
    """The walk of that file, and the copies of memory, which are the same for every file of that size."""
    kinds = (WALK, *COPIES) if copies else (WALK,)
    return [Contestant(kind, "hardware", "limits", {"path": path, "kind": kind}) for kind in kinds]


def writing(path: Path, payload: int) -> list[Contestant]:
    return [
        Contestant(kind, "hardware", "limits", {"path": path, "kind": kind, "payload": payload}, call="measure_write")
        for kind in WRITES
    ]


def measure(peer: Peer, path: str, kind: str) -> dict:
    if kind == WALK:
        return _walk(path)
    memory, threads = COPIES[kind]
    return _copy(min(Path(path).stat().st_size, COPY_LIMIT), memory, threads)


def _walk(path: str) -> dict:
    start = now()
    with Path(path).open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    size = touch({"file": np.frombuffer(mapped, dtype=np.uint8)})
    return {"seconds": {"total": now() - start}, "bytes": size}


def _anonymous(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _copy(size: int, memory: str, threads: int) -> dict:
    source, target = _anonymous(size), _anonymous(size)
    source_address, target_address = (np.frombuffer(m, dtype=np.uint8).ctypes.data for m in (source, target))
    at(source_address, size)[:] = 1
    if memory == "reused memory":
        at(target_address, size)[:] = 2
    target.madvise(mmap.MADV_HUGEPAGE if memory == "fresh huge pages" else mmap.MADV_NOHUGEPAGE)
    step = -(-size // threads)

    def copy(part: int) -> None:
        begin = part * step
        _memcpy(target_address + begin, source_address + begin, min(step, size - begin))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(abs, range(threads)))  # threads start outside the measured time
        start = now()
        list(pool.map(copy, range(threads)))
        seconds = now() - start
    return {"seconds": {"total": seconds}, "bytes": size}


def measure_write(peer: Peer, path: str, kind: str, payload: int) -> dict:
    """Write the same number of bytes from touched memory, in pieces of 16 MiB."""
    piece = memoryview(np.ones(min(payload, 1 << 24), dtype=np.uint8))
    Path(path).unlink(missing_ok=True)
    start = now()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    left = payload
    while left:
        left -= os.write(descriptor, piece[: min(left, len(piece))])
    if kind == "write() + fsync()":
        os.fsync(descriptor)
    os.close(descriptor)
    seconds = now() - start
    Path(path).unlink()
    return {"seconds": {"total": seconds}, "bytes": payload}
