"""The codec at its fastest to decode, for weights that are loaded often. Frames are the same as those of :func:`z4ai.compress`."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ztensor._types import Buffer

from . import Effort
from . import compress as _compress
from . import decompress as _decompress

__all__ = ["compress", "decompress"]


def compress(
    data: Buffer | NDArray[Any] | Any,
    *,
    dtype: str | None = None,
    level: int | None = None,
    threads: int = 0,
    effort: Effort = "fast",
) -> bytes:
    """Compresses a buffer, array or tensor on this many threads (0: all cores)."""
    return _compress(data, dtype=dtype, level=level, threads=threads, effort=effort)


def decompress(blob: Buffer, *, out: Any = None, threads: int = 0, max_output: int | None = None) -> Any:
    """Restores the bytes of a frame, ``max_output`` at most, on this many threads (0: all cores)."""
    return _decompress(blob, out=out, threads=threads, max_output=max_output)
