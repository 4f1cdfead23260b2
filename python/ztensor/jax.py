"""Save and load JAX arrays, with the interface of ``safetensors.flax``. Flax's and Haiku's parameters are dicts of them.

>>> import jax.numpy as jnp
>>> from ztensor.jax import load_file, save_file
>>> save_file({"weight": jnp.ones((2, 3))}, "model.zt")
>>> load_file("model.zt")["weight"].shape
(2, 3)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from . import numpy as _numpy
from ._errors import from_core
from ._types import Metadata, Path, Paths, StorageOptions

__all__ = ["Checkpointer", "load", "load_file", "restore_tree", "save", "save_file", "save_tree"]


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


def save_tree(tree: Any, filename: Path, metadata: Metadata = None, **options: Any) -> None:
    """Saves a pytree (parameters, the state of an optimizer, counters) to a file: each leaf under the path that leads to it, as
    ``jax.tree_util.keystr`` writes it. Arrays may be spread over devices; all of their parts must be on this process's.

    The options are those of :func:`save_file`.
    """
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    arrays: dict[str, Any] = {}
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path)
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            message = f"{name} has parts on other processes; gather it first, or save each process's part to a file of its own"
            raise from_core("invalid_argument", message, None, name, None, None)
        arrays[name] = np.asarray(leaf)
    _numpy.save_file(arrays, filename, metadata, **options)


def restore_tree(filename: Path, target: Any, *, storage_options: StorageOptions = None) -> Any:
    """Restores a pytree that :func:`save_tree` has saved, in the form of ``target``: a pytree of arrays or ``jax.ShapeDtypeStruct``s,
    whose shardings say where the parts go. Of a file only the parts that devices of this process hold are read, whatever the sharding
    was when it was saved. Leaves that are plain numbers come back as such.
    """
    import jax

    reader = _native.Reader(filename, storage_options=storage_options)

    def restored(path: Any, leaf: Any) -> Any:
        name = jax.tree_util.keystr(path)
        if isinstance(leaf, bool | int | float | complex):
            return type(leaf)(reader.read_numpy(name).item())
        shape = tuple(reader[name].shape)
        if shape != tuple(leaf.shape):
            message = f"{name} has the shape {shape} in the file, and {tuple(leaf.shape)} in the target"
            raise from_core("mismatch", message, str(filename), name, None, None)

        def part(index: Any) -> Any:
            array = reader.read_slice(name, index) if index else reader.read_numpy(name)
            if array.dtype != leaf.dtype:
                message = f"{name} is {array.dtype} in the file, and {leaf.dtype} in the target"
                raise from_core("mismatch", message, str(filename), name, None, None)
            return array

        sharding = getattr(leaf, "sharding", None)
        if sharding is None:
            return from_array(part(()))
        return jax.make_array_from_callback(tuple(leaf.shape), sharding, part)

    return jax.tree_util.tree_map_with_path(restored, target)


class Checkpointer:
    """Saves and restores pytrees as ``orbax.checkpoint.StandardCheckpointer`` does, each as one file:

    >>> with Checkpointer() as checkpointer:
    ...     checkpointer.save("state.zt", state)
    ...     state = checkpointer.restore("state.zt", abstract_state)

    :param storage_options: for files by URL, which are restored only.

    The other options are those of :func:`save_file`.
    """

    def __init__(self, *, storage_options: StorageOptions = None, **options: Any) -> None:
        self._storage_options = storage_options
        self._options = options

    def save(self, path: Path, state: Any, *, force: bool = False, metadata: Metadata = None) -> None:
        """Saves a pytree, as :func:`save_tree` does. It is there, whole, when this returns.

        :param force: replace what is there.
        """
        if not force and os.path.lexists(path):
            message = f'there is something at "{os.fspath(path)}" already. Choose another name, or force=True.'
            raise from_core("duplicate", message, os.fspath(path), None, None, None)
        save_tree(state, path, metadata, **self._options)

    def restore(self, path: Path, target: Any) -> Any:
        """Restores a pytree in the form and with the shardings of ``target``, as :func:`restore_tree` does."""
        return restore_tree(path, target, storage_options=self._storage_options)

    def wait_until_finished(self) -> None:
        """Nothing is left to wait for: a save is finished when it returns."""

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


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


def __dir__() -> list[str]:
    return __all__
