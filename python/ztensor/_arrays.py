"""What makes a :class:`ztensor.Tensor` an array to code that was written for arrays: shapes and dtypes that compare as NumPy's do, and
NumPy's operators.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from . import _native


class Dimensions(list[int]):
    """A shape: a list, and as good as the tuple that NumPy would give."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return list.__eq__(self, list(other) if isinstance(other, tuple) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]  # shapes are keys, as tuples are
        return hash(tuple(self))

    def __add__(self, other: Any) -> Any:
        return tuple(self) + other if isinstance(other, tuple) else list.__add__(self, other)

    def __radd__(self, other: Any) -> Any:
        return other + tuple(self) if isinstance(other, tuple) else NotImplemented

    def __reduce__(self) -> tuple[type[Self], tuple[list[int]]]:
        return type(self), (list(self),)


class StorageType(str):
    """The name of an element type, such as ``"float32"``: equal to the NumPy type of that name, and with its attributes, such as
    ``itemsize`` and ``kind``.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) or other is None:
            return str.__eq__(self, other)
        try:
            return bool(self.numpy() == np.dtype(other))  # type: ignore[call-overload]  # whatever NumPy takes for a type
        except TypeError:
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.numpy(), name)

    def numpy(self) -> np.dtype[Any]:
        """The NumPy type."""
        if self == "bfloat16":
            import ml_dtypes

            brain: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return brain
        return np.dtype(str(self))


def _compressed_places(tensor: _native.Tensor) -> tuple[NDArray[Any], ...]:
    """Rows and columns of all values of a compressed sparse matrix, of blocks too."""
    parts = tensor.components
    counts: Any = np.diff(parts["indptr"].astype(np.int64))
    lines = np.repeat(np.arange(len(parts["indptr"]) - 1), counts)
    across = parts["indices"].astype(np.int64)
    rows, columns = (across, lines) if tensor.layout.endswith(("csc/1", "bsc/1")) else (lines, across)
    block = (tensor.attributes or {}).get("block_shape")
    if block is None:
        return rows, columns
    inner = np.indices(block)
    return tuple(
        (starts.reshape(-1, 1, 1) * size + within).reshape(-1)
        for starts, size, within in zip((rows, columns), block, inner, strict=True)
    )


def dense(tensor: _native.Tensor, values: NDArray[Any]) -> _native.Tensor:
    """All elements of a sparse tensor; values of the same place are added up, as PyTorch does."""
    parts, shape = tensor.components, tuple(tensor.shape)
    elements = np.zeros(shape, values.dtype)
    if tensor.layout == "sparse_coo":
        place: tuple[NDArray[Any], ...] = tuple(parts["coords"].reshape(len(shape), -1).astype(np.int64))
    else:
        place = _compressed_places(tensor)
        values = values.reshape(-1)
    if len(np.unique(np.ravel_multi_index(place, shape))) == len(values):
        elements[place] = values
    else:
        np.add.at(elements, place, values)
    return _native.Tensor({"data": elements}, attributes=tensor.attributes)


def dequantized(tensor: _native.Tensor, dtype: np.dtype[Any]) -> _native.Tensor:
    """The numbers that PyTorch's quantised integers stand for, as PyTorch computes them: by channel in float64, then float32."""
    parts, about = tensor.components, tensor.attributes or {}
    integers = parts["data"].reshape(tuple(tensor.shape)).astype(np.int64)
    scale: Any = np.float32(about.get("scale", 1))
    zero: Any = about.get("zero_point", 0)
    if about.get("scheme") == "per_channel_affine":
        along = [1] * integers.ndim
        along[about["axis"]] = -1
        scale, zero = parts["scales"].astype(np.float64).reshape(along), parts["zeros"].reshape(along)
        numbers = ((integers - zero) * scale).astype(np.float32)
    else:
        numbers = (integers - zero).astype(np.float32) * scale
    return _native.Tensor({"data": numbers.astype(dtype)})


def _become_arrays() -> None:
    """Gives tensors NumPy's operators, which all go through ``Tensor.__array_ufunc__``."""
    for name, operator in vars(NDArrayOperatorsMixin).items():
        if callable(operator):
            setattr(_native.Tensor, name, operator)
    # As of arrays: what compares element by element has no hash.
    _native.Tensor.__hash__ = None  # type: ignore[assignment]


_become_arrays()
