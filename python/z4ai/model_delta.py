"""A model stored as its differences to another one, such as a fine-tune to its base.

>>> from z4ai import model_delta
>>> blob = model_delta.compress(finetuned, base)
>>> assert model_delta.decompress(blob, base) == finetuned

Tensors are matched by name, type and shape whatever moved around them, and by content where they were renamed. Each is stored as the
shortest of a copy, a difference, or by itself, so a delta is never larger than an archive of the model. Base and model may be of any
formats. A delta opens like any other file, with its base: ``ztensor.open("tuned.z4dm", base="base.safetensors")``.
"""

from __future__ import annotations

import os
import time
from typing import Any

import ztensor
from ztensor import _native as native
from ztensor._types import Base, Buffer, Effort, Progress, StorageOptions

from ._stats import Stats, restored, stats
from .safetensors import as_bytes

__all__ = ["compress", "compress_file", "decompress", "decompress_file", "peek_is_model_delta"]

_Path = str | os.PathLike[str]


def _opened(base: Buffer | list[Buffer]) -> list[ztensor.Reader]:
    bases = base if isinstance(base, list) else [base]
    return [ztensor.Reader.from_bytes(as_bytes(one)) for one in bases]


def compress(
    target: Buffer, base: Buffer | list[Buffer], *, level: int | None = None, threads: int = 0, effort: Effort = None
) -> bytes:
    """Stores a model file as its differences to another, or to several such as the parents of a merge, all given as bytes."""
    options: dict[str, Any] = {"effort": effort, "level": level, "threads": threads}
    return native.delta_bytes(as_bytes(target), _opened(base), **options)


def decompress(blob: Buffer, base: Buffer | list[Buffer], *, limits: ztensor.Limits | None = None) -> bytes:
    """Restores the model file of a delta. Another base than the one it was made against is an error.

    :param limits: what the delta may cost; by default a model out of proportion to delta and base is refused.
    """
    return native.apply_bytes(as_bytes(blob), _opened(base), limits=limits)


def compress_file(
    target_path: _Path,
    base_path: Base,
    out_path: _Path,
    *,
    level: int | None = None,
    threads: int = 0,
    effort: Effort = None,
    progress: Progress = None,
    storage_options: StorageOptions = None,
) -> Stats:
    """Stores a model file as its differences to another. The delta appears under its name when it is complete.

    :param base_path: the base: a file of any format, an archive of it, or an opened :class:`ztensor.Reader`; or a list of them, such
        as the parents of a merge. The delta needs those that were of use.
    :param progress: called with the bytes done and the bytes in all.
    :param storage_options: endpoints and keys, where model or base are URLs.
    """
    options: dict[str, Any] = {"effort": effort, "level": level, "threads": threads, "progress": progress}
    return stats(native.delta_file(target_path, base_path, out_path, **options, storage_options=storage_options))


def decompress_file(
    delta_path: _Path,
    base_path: Base,
    out_path: _Path,
    *,
    progress: Progress = None,
    limits: ztensor.Limits | None = None,
    storage_options: StorageOptions = None,
) -> Stats:
    """Restores the model file of a delta. It appears under its name after its digest was found right.

    :param base_path: the base, or where to look for it: a file, a folder or an opened file, or a list of them; ``None`` finds it
        beside the delta.
    :param progress: called with the bytes done and the bytes in all.
    :param limits: what the delta may cost; by default a model out of proportion to delta and base is refused.
    :param storage_options: endpoints and keys, where delta or base are URLs.
    """
    start = time.perf_counter()
    compressed = native.file_length(delta_path, storage_options=storage_options)
    length = native.apply_file(
        delta_path, base_path, out_path, progress=progress, limits=limits, storage_options=storage_options
    )
    return restored(length, compressed, time.perf_counter() - start)


def peek_is_model_delta(blob: Buffer) -> bool:
    """Whether some bytes are an archive or delta of a model: a delta that needs no base is an archive."""
    try:
        reader = ztensor.Reader.from_bytes(as_bytes(blob))
    except ztensor.ZTensorError as error:
        return error.kind == "wrong_base"
    return reader.archive is not None


def __dir__() -> list[str]:
    return __all__
