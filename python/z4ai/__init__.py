"""Compress model weights without losing a bit.

>>> import z4ai
>>> blob = z4ai.compress(weights, dtype="bf16")
>>> assert z4ai.decompress(blob) == weights

Arrays come back with their dtype and shape:

>>> blob = z4ai.compress_array(array)
>>> restored = z4ai.decompress_array(blob)

:mod:`z4ai.safetensors` archives whole model files, :mod:`z4ai.model_delta` stores one model as its differences to another, and
:func:`enable_hf` lets transformers load compressed weights.

A checkpoint is stored as what changed since the one before:

>>> delta = z4ai.compress_delta(step_2000, reference=step_1000, dtype="bf16")
>>> assert z4ai.decompress_delta(delta, reference=step_1000) == step_2000
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ztensor import ZTensorError, __version__
from ztensor import _native as native
from ztensor._types import Buffer, Effort

from ._stats import Stats
from .integrations import disable_hf, enable_hf, is_enabled, load_file, save_file
from .models import save_model, save_pretrained

__all__ = [
    "DTYPE_WIDTHS",
    "Stats",
    "ZTensorError",
    "__version__",
    "chunked",
    "cli",
    "compress",
    "compress_array",
    "compress_delta",
    "compress_ndarray",
    "decompress",
    "decompress_array",
    "decompress_delta",
    "decompress_ndarray",
    "delta",
    "disable_hf",
    "dtype_width",
    "enable_hf",
    "is_enabled",
    "load_file",
    "model_delta",
    "peek_is_z4ai",
    "safetensors",
    "save_file",
    "save_model",
    "save_pretrained",
]

#: Bytes per element of every dtype code that :func:`compress` understands, in lower case; ``None`` and ``"raw"`` are opaque bytes.
DTYPE_WIDTHS: dict[str | None, int] = {None: 1, "raw": 1}
DTYPE_WIDTHS.update(native.codec_widths())


def dtype_width(dtype: str | None) -> int:
    """Bytes per element of a dtype code; ``ValueError`` for an unknown one."""
    try:
        return DTYPE_WIDTHS[dtype.lower() if isinstance(dtype, str) else dtype]
    except KeyError:
        known = ", ".join(sorted(code for code in DTYPE_WIDTHS if code is not None))
        raise ValueError(f"unknown dtype {dtype!r}; known are {known}") from None


def compress(
    data: Buffer | NDArray[Any] | Any,
    *,
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    level: int | None = None,
    threads: int = 0,
    effort: Effort = None,
) -> bytes:
    """Compresses a buffer, a NumPy array or a ``torch.Tensor`` into a self-describing frame.

    :param dtype: what the elements of a buffer are, such as ``"bf16"`` or ``"fp32"``; ``None`` for opaque bytes. Arrays and tensors
        know it themselves, unless they carry something else: a ``uint16`` array with ``"bf16"``, an array of bytes with ``"fp32"``.
    :param shape: the shape of the tensor in a buffer; knowing rows and columns makes the frame smaller.
    :param level: zstd level, 1 to 22, for what is not coded as floats; by default one that suits the effort.
    :param threads: how many threads may work at the same time, the caller among them; 0 is one per core.
    :param effort: ``"fast"`` decodes fastest, ``"max"`` is smallest, ``"default"`` (or ``None``, or ``"balanced"``) is between them.
    """
    return native.compress(data, dtype=dtype, shape=shape, level=level, threads=threads, effort=effort)


def decompress(blob: Buffer, *, out: Any = None, threads: int = 0, max_output: int | None = None) -> Any:
    """Restores the bytes of a frame.

    :param out: a writable buffer, array or tensor of exactly the right size to decode into; it is also what is returned. If decoding
        fails, its content is not defined. Booleans in it are 0 or 1, whatever the frame holds.
    :param max_output: the most bytes that the frame may decode to, because one of a few hundred bytes may stand for gigabytes.
        ``ValueError`` if it decodes to more, before anything is decoded.
    """
    return native.decompress(blob, out=out, threads=threads, max_output=max_output)


def compress_array(
    array: NDArray[Any] | Any, *, level: int | None = None, threads: int = 0, effort: Effort = None
) -> bytes:
    """Compresses an array; dtype and shape are kept in the frame."""
    if not hasattr(array, "dtype") or not hasattr(array, "shape"):
        raise TypeError(f"a NumPy array is needed, not {type(array).__name__}")
    if isinstance(array, np.generic):
        array = np.asarray(array)
    return native.compress(array, level=level, threads=threads, effort=effort)


def decompress_array(blob: Buffer, *, threads: int = 0, max_output: int | None = None) -> NDArray[Any]:
    """Restores an array with its dtype and shape. Booleans are 0 or 1, whatever the frame holds.

    :param max_output: the most bytes that the array may have; ``ValueError`` if it has more, before anything is decoded.
    """
    return native.decompress_array(blob, threads=threads, max_output=max_output)


compress_ndarray = compress_array
decompress_ndarray = decompress_array


def compress_delta(
    current: Buffer | NDArray[Any] | Any,
    reference: Buffer | NDArray[Any] | Any,
    *,
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    level: int | None = None,
    threads: int | None = None,
    effort: Effort = None,
) -> bytes:
    """Compresses a buffer, an array or a tensor against another one, such as the checkpoint before it.

    The reference's length and digest are kept in the frame. The two may have different lengths; elements at the same place
    are compared.

    :param dtype: what the elements of a buffer are; the delta of floats is much smaller if they are known to be floats. Arrays
        and tensors know it themselves.
    """
    return native.compress_delta(
        current, reference, dtype=dtype, shape=shape, level=level, threads=threads or 0, effort=effort
    )


def decompress_delta(
    blob: Buffer,
    reference: Buffer | NDArray[Any] | Any,
    *,
    out: Any = None,
    threads: int | None = None,
    max_output: int | None = None,
) -> Any:
    """Restores what a delta stands for; ``ValueError`` if the reference is not the one it was made against.

    :param out: a writable buffer, array or tensor of exactly the right size to decode into; it is also what is returned.
    :param max_output: the most bytes that the delta may stand for; ``ValueError`` if it is more, before anything is decoded.
    """
    return native.decompress_delta(blob, reference, out=out, threads=threads or 0, max_output=max_output)


def peek_is_z4ai(blob: Buffer) -> bool:
    """Whether some bytes begin like a z4ai frame."""
    view: memoryview[int] = memoryview(blob)  # type: ignore[arg-type]  # NumPy's stubs know the buffer protocol from 3.12 on
    return bytes(view.cast("B")[:4]) == b"Z4AI"


# At the end, because they are made of what is above.
from . import chunked, cli, delta, model_delta, safetensors  # noqa: E402


def __dir__() -> list[str]:
    return sorted(__all__)
