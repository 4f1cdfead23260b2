"""Save and load JAX arrays, with the interface of ``safetensors.flax``. Flax's and Haiku's parameters are dicts of them.

>>> import jax.numpy as jnp
>>> from ztensor.jax import load_file, save_file
>>> save_file({"weight": jnp.ones((2, 3))}, "model.zt")
>>> load_file("model.zt")["weight"].shape
(2, 3)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from . import numpy as _numpy
from ._errors import from_core
from ._types import Metadata, Path, Paths

__all__ = ["load", "load_file", "save", "save_file"]


def save_file(tensors: Mapping[str, Any], filename: Path, metadata: Metadata = None, **options: Any) -> None:
    """Saves JAX arrays to a file, as :func:`ztensor.numpy.save_file` does; it takes the same options."""
    _numpy.save_file(_arrays(tensors), filename, metadata, **options)


def save(tensors: Mapping[str, Any], metadata: Metadata = None, **options: Any) -> bytes:
    """The bytes of the ``.zt`` file that :func:`save_file` would write."""
    return _numpy.save(_arrays(tensors), metadata, **options)


def load_file(filename: Paths, device: Any = None, **options: Any) -> dict[str, Any]:
    """Loads the tensors of a file of any format as JAX arrays, and as :class:`ztensor.Tensor` what an array cannot express.

    :param device: one of JAX's devices, or the name of a platform such as ``"cpu"``; ``None`` takes JAX's own choice.

    The other options are those of :func:`ztensor.numpy.load_file`.
    """
    return {name: _placed(value, device) for name, value in _numpy.load_file(filename, **options).items()}


def load(data: bytes, device: Any = None, **options: Any) -> dict[str, Any]:
    """Loads all tensors of a file of any format that is already in memory, as :func:`load_file` does."""
    return {name: _placed(value, device) for name, value in _numpy.load(data, **options).items()}


def from_array(array: NDArray[Any], device: Any = None) -> Any:
    """A JAX array of a NumPy array. Without ``jax_enable_x64`` JAX has no 64-bit types; numbers that 32 bits cannot hold are an
    error.
    """
    import jax

    place = jax.devices(device)[0] if isinstance(device, str) else device
    array = np.asarray(array)
    narrow = jax.dtypes.canonicalize_dtype(array.dtype)
    if narrow != array.dtype:
        # NumPy warns of what overflows on the way; the comparison finds it.
        with np.errstate(all="ignore"):
            converted = array.astype(narrow)
        if not np.array_equal(converted, array, equal_nan=array.dtype.kind in "fc"):
            message = f"{array.dtype} values would be rounded to {narrow}, because JAX runs without 64-bit types"
            hint = 'Call jax.config.update("jax_enable_x64", True) first, or load with dtype="float32" to have them rounded.'
            raise from_core("mismatch", f"{message}. {hint}", None, None, None, hint)
        array = converted
    return jax.device_put(array, place)


def _placed(value: Any, device: Any) -> Any:
    return value if isinstance(value, _native.Tensor) else from_array(value, device)


def _arrays(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, _native.Tensor) else np.asarray(value) for name, value in tensors.items()}
