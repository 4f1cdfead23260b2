"""A description of the machine that is stored with every record: numbers mean little without it."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from harness.environments import ROOT


def describe(data: Path) -> dict:
    return {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "vector_extensions": [
            name for name in ("avx2", "avx512f", "avx512bw", "avx512vbmi", "avx512_vbmi2", "bmi2") if name in _flags()
        ],
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": _file_system(data),
        "python": platform.python_version(),
        "load_average": os.getloadavg(),
        "commit": _commit(),
    }


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _field(path: str, name: str) -> str | None:
    for line in (_read(path) or "").splitlines():
        if line.startswith(name):
            return line.split(":", 1)[1].strip()
    return None


def _flags() -> set[str]:
    return set((_field("/proc/cpuinfo", "flags") or "").split())


def _file_system(data: Path) -> str | None:
    """The type of the file system that holds the data files."""
    best = ("", None)
    for line in (_read("/proc/mounts") or "").splitlines():
        _, mount, kind, *_ = line.split()
        if str(data.resolve()).startswith(mount) and len(mount) >= len(best[0]):
            best = (mount, kind)
    return best[1]


def _commit() -> str | None:
    found = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() or None
