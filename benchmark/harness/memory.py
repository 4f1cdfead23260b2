"""Memory as the kernel sees it: touching every page of a set of tensors, fingerprints of their bytes, peak resident
size.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np

PAGE = 4096

#: Below this length a range costs more as a call than as addresses.
SHORT = 64 * PAGE


def span(tensor: object) -> tuple[int, int]:
    """Address and length in bytes of a contiguous NumPy array or torch tensor."""
    if isinstance(tensor, np.ndarray):
        return tensor.__array_interface__["data"][0], tensor.nbytes
    return tensor.data_ptr(), tensor.nbytes


class _Memory:
    """Memory as NumPy asks for it; a fraction of the cost of a ctypes array, which is a new type for every length."""

    def __init__(self, address: int, length: int) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": (length,), "typestr": "|u1", "version": 3}


def at(address: int, length: int) -> np.ndarray:
    """The bytes at an address."""
    return np.asarray(_Memory(address, length))


def touch(tensors: dict) -> int:
    """Read one byte of every page of every tensor; returns how many bytes the tensors have.

    Tensors that are closer than a page are walked as one range: each page of such a range holds at least one byte of a
    tensor, so nothing outside mapped memory is read, and 50,000 tensors do not cost 50,000 calls. Short ranges, which a
    format with wide alignment has one per tensor, are read together in one call for the same reason.
    """
    spans = sorted(found for found in map(span, tensors.values()) if found[1])
    if not spans:
        return 0
    ranges = _ranges(spans)
    first = ranges[0][0]
    memory = at(first, ranges[-1][1] - first)
    pages: list[int] = []
    for start, end in ranges:
        if end - start > SHORT:
            np.bitwise_or.reduce(memory[start - first : end - first : PAGE])
        else:
            pages.extend(range(start - first, end - first, PAGE))
    memory.take(np.array(pages, dtype=np.intp))
    return sum(length for _, length in spans)


def _ranges(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Start, at a page, and end of the stretches of memory that sorted spans cover."""
    ranges = []
    start = end = spans[0][0]
    start -= start % PAGE
    for address, length in spans:
        if address - end >= PAGE:
            ranges.append((start, end))
            start = address - address % PAGE
        end = max(end, address + length)
    return [*ranges, (start, end)]


def fingerprint(tensors: dict) -> str:
    """A digest of all names and bytes, whatever their order, by which loads of the same file are compared."""
    total = 0
    for name, tensor in tensors.items():
        address, length = span(tensor)
        contents = at(address, length) if length else b""
        total ^= zlib.crc32(contents, zlib.crc32(name.encode())) << (zlib.crc32(name.encode()) % 32)
    return f"{len(tensors)}:{total:016x}"


def reset_peak() -> None:
    """Let the kernel forget the highest resident size so far."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """The highest resident size since the last reset; pages of mapped files count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("the kernel does not report VmHWM")


#: Notes the highest of each kind of memory of a process until its input ends.
_SAMPLER = """
import json, select, sys, time
from pathlib import Path
status, highest = Path(f"/proc/{sys.argv[1]}/status"), {}
print(flush=True)
while not select.select([sys.stdin], [], [], 0.0005)[0]:
    for line in status.read_text().splitlines():
        if line.startswith("Rss"):
            kind, amount, _ = line.split()
            highest[kind] = max(highest.get(kind, 0), int(amount) * 1024)
print(json.dumps(highest))
"""


class Peaks:
    """The highest anonymous (heaps, stacks) and file-backed memory (code, mapped files) of this process while the block runs. The
    kernel keeps the peak of their sum only, so a process of its own looks every half of a millisecond.
    """

    anonymous = 0
    file_backed = 0

    def __enter__(self) -> Peaks:
        command = [sys.executable, "-S", "-c", _SAMPLER, str(os.getpid())]
        self._sampler = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._sampler.stdout is not None
        self._sampler.stdout.readline()
        return self

    def __exit__(self, *error: object) -> None:
        found = json.loads(self._sampler.communicate()[0])
        self.anonymous, self.file_backed = found["RssAnon:"], found["RssFile:"]


def resident() -> tuple[int, int]:
    """Anonymous and file-backed memory of this process now, in bytes."""
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Rss"))
    found = {words[0]: int(words[1]) * 1024 for words in lines}
    return found["RssAnon:"], found["RssFile:"]
