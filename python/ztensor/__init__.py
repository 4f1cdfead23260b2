"""Read any model file through one zero-copy API, and write ``.zt``.

>>> import ztensor
>>> reader = ztensor.open("model.safetensors")
>>> weight = reader.read_numpy("layer.weight")

``ztensor.numpy``, ``ztensor.torch`` and ``ztensor.jax`` have ``save_file`` and ``load_file`` as safetensors has them.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from . import _arrays as _arrays
from ._errors import RecoveredFileWarning, SkippedTensorWarning, SlowSaveWarning, ZTensorError
from ._native import (
    Limits,
    Reader,
    Tensor,
    TensorMetadata,
    TensorSlice,
    Writer,
    __version__,
    read_metadata,
    remove_tensors,
    repair,
    replace_tensor,
    safe_open,
    scan,
    write_metadata,
)
from ._saver import Saver
from ._store import Store
from ._trees import Unread
from ._types import Base, StorageOptions

__all__ = [
    "Limits",
    "Reader",
    "RecoveredFileWarning",
    "Saver",
    "SkippedTensorWarning",
    "SlowSaveWarning",
    "Store",
    "Tensor",
    "TensorMetadata",
    "TensorSlice",
    "Unread",
    "Writer",
    "ZTensorError",
    "__version__",
    "open",
    "read_metadata",
    "remove_tensors",
    "repair",
    "replace_tensor",
    "safe_open",
    "scan",
    "write_metadata",
]


def open(
    path: str | os.PathLike[str],
    *,
    base: Base = None,
    limits: Limits | None = None,
    storage_options: StorageOptions = None,
) -> Reader:
    """Opens a model file of any format, by path or URL, or the one model in a folder; the same as ``Reader(path)``.

    :param base: where the base of a delta is: a file, a folder or an opened file, or a list of them. What it holds decides, not its
        name; beside the delta it is found without.
    :param limits: what the file may cost, for files that the defaults refuse, or that are trusted less.
    :param storage_options: endpoints and keys for URLs, by the names that fsspec, boto3 and polars have for them; what is not given
        comes from the environment.
    """
    return Reader(path, base=base, limits=limits, storage_options=storage_options)


#: Imported when they are first used: each needs its framework.
_MODULES = ("batch", "dcp", "jax", "numpy", "ray", "torch")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
