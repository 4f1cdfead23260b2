"""Warm and cold files: putting a file into the page cache, taking it out, and checking with mincore that it is so."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

import numpy as np

from harness.memory import PAGE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]


class StillCachedError(Exception):
    """The kernel kept pages of a file that was to be read cold, usually because a process still maps it."""


def resident_fraction(path: Path) -> float:
    """The part of a file's pages that is in memory."""
    size = path.stat().st_size
    if size == 0:
        return 0.0
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as mapped:
        view = np.frombuffer(mapped, dtype=np.uint8)
        pages = np.zeros(-(-size // PAGE), dtype=np.uint8)
        status = _libc.mincore(view.ctypes.data, size, pages.ctypes.data)
        del view
        if status != 0:
            raise OSError(ctypes.get_errno(), "mincore failed", str(path))
        return float((pages & 1).mean())


def evict(path: Path) -> None:
    """Drop a file from the page cache: flush it (dirty pages cannot be dropped), advise, and check."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    left = resident_fraction(path)
    if left > 0.01:
        raise StillCachedError(f'{left:.0%} of "{path}" stayed in the page cache')


def settle(path: Path) -> None:
    """Bring a file into the page cache in one way, whoever wrote it.

    How a file came into memory decides how large the kernel's pieces of it are, and with that how fast anybody walks
    over it: by a factor of ten between a file that was written in small parts and one that was read in large ones.
    """
    evict(path)
    warm(path)


def warm(path: Path) -> None:
    """Read a file once, so that the next reader finds all of it in the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass
