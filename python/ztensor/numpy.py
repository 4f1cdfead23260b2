"""Save and load NumPy arrays, with the interface of ``safetensors.numpy``.

>>> import numpy as np
>>> from ztensor.numpy import load_file, save_file
>>> save_file({"weight": np.ones((2, 3), dtype=np.float32)}, "model.zt")
>>> load_file("model.zt")["weight"].shape
(2, 3)
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._errors import warn_of_skipped
from ._types import Backend, Compression, Metadata, io_of

__all__ = ["load", "load_file", "save", "save_file"]

_Arrays = dict[str, NDArray[Any]]


def save_file(
    tensors: _Arrays,
    filename: str | os.PathLike[str],
    metadata: Metadata = None,
    compression: Compression = False,
) -> None:
    """Saves arrays to a file: ``.safetensors`` if the name ends so, ``.zt`` otherwise.

    :param metadata: text that is stored with the file; ``Reader.file_metadata`` and ``safe_open(...).metadata()`` give it back.
    :param compression: ``False`` stores raw bytes, ``True`` is zstd level 3, 1 to 22 is that zstd level.
    """
    _native.save_file(_checked(tensors), filename, metadata, compression)


def save(tensors: _Arrays, metadata: Metadata = None, compression: Compression = False) -> bytes:
    """The bytes of the ``.zt`` file that :func:`save_file` would write."""
    return _native.save(_checked(tensors), metadata, compression)


def load_file(
    filename: str | os.PathLike[str],
    copy: bool = False,
    *,
    backend: Backend = None,
    verify: bool = True,
    base: str | os.PathLike[str] | _native.Reader | None = None,
) -> _Arrays:
    """Loads all tensors of a file of any format. Sparse ones are an error, because NumPy has no array for them: ``Reader.read`` gives
    their components.

    :param copy: ``False`` gives views of a copy-on-write memory map: writable, private to this process, valid for as long as they are
        used. ``True`` gives arrays in memory of their own.
    :param backend: ``"mmap"`` maps the file, ``"pread"`` reads it; ``None`` takes the better one for the file system.
    :param verify: check the checksums that the file stores. Without them, and with ``False``, views cost no reading at all.
    :param base: the base of a delta, as a path or an opened file.
    """
    reader = _native.Reader(filename, io_of(backend), verify=verify, base=base, keep_open=copy)
    warn_of_skipped(reader.skipped(), filename)
    arrays: _Arrays = reader.read_numpy(reader.keys(), copy=copy)
    return arrays


def load(data: bytes) -> _Arrays:
    """Loads all tensors of a file of any format that is already in memory."""
    reader = _native.Reader.from_bytes(data)
    warn_of_skipped(reader.skipped(), None)
    arrays: _Arrays = reader.read_numpy(reader.keys())
    return arrays


def _checked(tensors: _Arrays) -> _Arrays:
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of str to np.ndarray, but received {type(tensors)}")
    for name, array in tensors.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(f"`{name}` is not a np.ndarray but {type(array)}")
    return tensors
