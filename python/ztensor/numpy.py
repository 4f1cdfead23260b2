"""Save and load NumPy arrays, with the interface of ``safetensors.numpy``.

>>> import numpy as np
>>> from ztensor.numpy import load_file, save_file
>>> save_file({"weight": np.ones((2, 3), dtype=np.float32)}, "model.zt")
>>> load_file("model.zt")["weight"].shape
(2, 3)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._arrays import StorageType
from ._errors import from_core, invalid, warn_of_skipped
from ._loading import load_files
from ._trees import Leaf, Unread, put_together, special_from, take_apart, tree_of, with_tree
from ._types import (
    Backend,
    Base,
    Checksum,
    Codec,
    Compression,
    Dequantize,
    Effort,
    Metadata,
    Path,
    Paths,
    Progress,
    StorageOptions,
)

__all__ = ["load", "load_file", "load_tree", "save", "save_file", "save_tree"]


def save_file(
    tensors: Mapping[str, NDArray[Any] | _native.Tensor],
    filename: Path,
    metadata: Metadata = None,
    compression: Compression = False,
    *,
    codec: Codec = None,
    effort: Effort = None,
    level: int | None = None,
    checksum: Checksum = None,
    progress: Progress = None,
) -> None:
    """Saves arrays and :class:`ztensor.Tensor`s to a file: ``.safetensors`` if the name ends so, ``.zt`` otherwise. Names of formats
    that are not written are refused.

    :param metadata: text that is stored with the file; ``Reader.file_metadata`` and ``safe_open(...).metadata()`` give it back.
    :param codec: ``"z4ai"`` for weights, ``"zstd"`` for readers of other makes; ``None`` stores raw bytes.
    :param effort: ``"fast"``, ``"default"`` or ``"max"``, for z4ai.
    :param level: 1 to 22, for zstd.
    :param checksum: ``"crc32c"`` or ``"sha256"`` stores one with each tensor.
    :param compression: the older word for codec, effort and level: ``True`` is zstd level 3, 1 to 22 is that zstd level.
    :param progress: called with the bytes done and the bytes in all.
    """
    _native.save_file(
        _checked(tensors),
        filename,
        metadata,
        compression,
        codec=codec,
        effort=effort,
        level=level,
        checksum=checksum,
        progress=progress,
    )


def save(
    tensors: Mapping[str, NDArray[Any] | _native.Tensor],
    metadata: Metadata = None,
    compression: Compression = False,
    *,
    codec: Codec = None,
    effort: Effort = None,
    level: int | None = None,
    checksum: Checksum = None,
) -> bytes:
    """The bytes of the ``.zt`` file that :func:`save_file` would write."""
    return _native.save(
        _checked(tensors), metadata, compression, codec=codec, effort=effort, level=level, checksum=checksum
    )


def load_file(
    filename: Paths,
    copy: bool = False,
    *,
    backend: Backend = None,
    verify: bool = True,
    base: Base = None,
    keys: Iterable[str] | None = None,
    dtype: Any = None,
    dequantize: Dequantize = None,
    progress: Progress = None,
    limits: _native.Limits | None = None,
    storage_options: StorageOptions = None,
) -> dict[str, Any]:
    """Loads the tensors of a file of any format, of the one model in a folder, or of several: as arrays, and as
    :class:`ztensor.Tensor` where an array cannot say what they are, which is so for sparse and quantised ones. :func:`save_file`
    takes both.

    :param copy: ``False`` gives views of a copy-on-write memory map: writable, private to this process, valid for as long as they are
        used. ``True`` gives arrays in memory of their own.
    :param backend: ``"mmap"`` maps the file, ``"pread"`` reads it; ``None`` takes the better one for the file system.
    :param verify: check the checksums that the file stores. Without them, and with ``False``, views cost no reading at all.
    :param base: where the base of a delta is: a file, a folder or an opened file, or a list of them.
    :param keys: the names of the tensors to load; ``None`` loads all.
    :param dtype: what floating-point arrays are converted to, such as ``"float16"``.
    :param dequantize: ``True`` or a dtype gives quantised tensors as the numbers they stand for.
    :param progress: called with the bytes done and the bytes in all.
    :param limits: what the file may cost, for files that the defaults refuse, or that are trusted less.
    :param storage_options: endpoints and keys for URLs, such as ``{"endpoint_url": ..., "key": ..., "secret": ...}``.
    """
    target = None if dtype is None else _dtype(dtype)

    def read(reader: _native.Reader, names: list[str]) -> dict[str, Any]:
        arrays = reader.read_numpy(names, copy=copy, dequantize=dequantize, objects=True)
        if target is None:
            return arrays
        return {
            name: array.astype(target, copy=False) if _is_floating(array) else array for name, array in arrays.items()
        }

    return load_files(
        filename,
        read,
        backend=backend,
        verify=verify,
        base=base,
        keep_open=copy,
        keys=keys,
        progress=progress,
        limits=limits,
        storage_options=storage_options,
    )


def load(data: bytes, *, dequantize: Dequantize = None, limits: _native.Limits | None = None) -> dict[str, Any]:
    """Loads all tensors of a file of any format that is already in memory, as :func:`load_file` does."""
    reader = _native.Reader.from_bytes(data, limits=limits)
    warn_of_skipped(reader.skipped(), None)
    return reader.read_numpy(reader.keys(), dequantize=dequantize, objects=True)


def save_tree(tree: Any, filename: Path, metadata: Metadata = None, **options: Any) -> None:
    """Saves nested dicts, lists, tuples, numbers, text, bytes, ``None`` and arrays, such as a training checkpoint, without pickle. An
    array that occurs several times is stored once.

    The options are those of :func:`save_file`.
    """
    text, arrays = take_apart(tree, leaf_of, filename=filename)
    save_file(arrays, filename, with_tree(metadata, text), **options)


def load_tree(filename: Path, copy: bool = False, **options: Any) -> Any:
    """Loads what ``save_tree`` of this module or of :mod:`ztensor.torch`, or ``torch.save``, has saved; tensors are arrays. No code of
    a ``.pt`` file is run; what a tree does not express is a :class:`ztensor.Unread`, and a warning says so.

    The options are those of :func:`load_file`.
    """
    reader = _native.Reader(
        filename,
        base=options.get("base"),
        limits=options.get("limits"),
        storage_options=options.get("storage_options"),
    )
    text = tree_of(reader, str(filename))
    arrays = load_file(filename, copy, **options)
    return put_together(text, str(filename), lambda tag, name: given(arrays, tag, name), special_from)


def leaf_of(value: Any) -> Leaf:
    """What is stored of an array in a tree."""
    if isinstance(value, np.ma.MaskedArray):
        return None
    if isinstance(value, np.ndarray):
        about = value.__array_interface__
        kind = type(value)
        own = kind in (np.ndarray, np.memmap)
        attributes = {} if own else {"__class__": Unread(f"{kind.__module__}.{kind.__qualname__}")}
        identity = (about["data"][0], value.shape, value.strides, value.dtype.str, value.dtype.name)
        return "tensor", identity, value, attributes
    if isinstance(value, np.generic):
        return "scalar", None, np.asarray(value), {}
    if isinstance(value, _native.Tensor):
        return "tensor", id(value), value, {}
    return None


def given(arrays: dict[str, Any], tag: str, name: str) -> Any:
    """What a tree has in the place of an array."""
    if name not in arrays:
        raise from_core("malformed", f'the tree names "{name}", which the file does not hold', None, name, None, None)
    return arrays[name][()] if tag == "scalar" else arrays[name]


def _checked(tensors: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(tensors, dict):
        raise invalid(f"Expected a dict of str to np.ndarray, but received {type(tensors)}")
    for name, array in tensors.items():
        if not isinstance(array, np.ndarray | _native.Tensor):
            raise invalid(f"`{name}` is not a np.ndarray but {type(array)}")
    return tensors


def _dtype(dtype: Any) -> np.dtype[Any]:
    return StorageType(dtype).numpy() if isinstance(dtype, str) else np.dtype(dtype)


def _is_floating(array: Any) -> bool:
    # Types that ml_dtypes adds are of no kind that NumPy knows.
    return isinstance(array, np.ndarray) and (array.dtype.kind == "f" or "float" in array.dtype.name)


def __dir__() -> list[str]:
    return __all__
