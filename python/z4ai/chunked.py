"""The codec at its fastest to decode, for weights that are loaded often. Frames are the same as those of :func:`z4ai.compress`."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ztensor._types import Buffer, Effort

from . import compress as _compress
from . import decompress as _decompress
from . import peek_is_z4ai as _peek_is_z4ai

__all__ = ["compress", "decompress", "is_chunked"]


def compress(
    data: Buffer | NDArray[Any] | Any,
    *,
    dtype: str | None = None,
    level: int | None = None,
    threads: int = 0,
    effort: Effort = "fast",
    chunk_size: int | None = None,
) -> bytes:
    """Compresses a buffer, array or tensor on this many threads (0: all cores).

    :param chunk_size: for programs that give one. Every frame is cut into blocks that decode at the same time, of a size that suits
        the data, so there is nothing to choose.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"chunk_size must be positive, not {chunk_size}")
    return _compress(data, dtype=dtype, level=level, threads=threads, effort=effort)


def decompress(blob: Buffer, *, out: Any = None, threads: int = 0, max_output: int | None = None) -> Any:
    """Restores the bytes of a frame, ``max_output`` at most, on this many threads (0: all cores)."""
    return _decompress(blob, out=out, threads=threads, max_output=max_output)


def is_chunked(blob: Buffer) -> bool:
    """Whether some bytes begin like a frame, all of which are cut into blocks."""
    return _peek_is_z4ai(blob)


def __dir__() -> list[str]:
    return __all__
