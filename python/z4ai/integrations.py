"""Compressed weights in PyTorch and Hugging Face programs.

:func:`save_file` and :func:`load_file` stand in for those of ``safetensors.torch``. :func:`enable_hf` lets programs that load
``.safetensors`` files themselves, such as transformers, load compressed ones: tensors are decoded as they are asked for, straight from
the compressed file.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ztensor
from ztensor import _native as native
from ztensor._types import Effort, Progress

from ._stats import Stats, stats

if TYPE_CHECKING:
    import torch

__all__ = ["disable_hf", "enable_hf", "is_enabled", "load_file", "save_file"]

_Path = str | os.PathLike[str]

#: How the files begin that we serve: ``.zt``, which archives and deltas are.
_MAGIC = (b"ZTEN", b"\x89ZT2")


def save_file(
    tensors: dict[str, torch.Tensor],
    path: _Path,
    metadata: dict[str, str] | None = None,
    *,
    level: int | None = None,
    threads: int = 0,
    effort: Effort = None,
    progress: Progress = None,
) -> Stats:
    """Saves a state dict compressed: an archive of the ``.safetensors`` file that it makes. Tensors that share memory, such as tied
    weights, are stored once and come back under every name.
    """
    from ztensor.torch import check

    checked = check(tensors, dense_only=True, separate=False)
    options: dict[str, Any] = {"effort": effort, "level": level, "threads": threads, "progress": progress}
    return stats(native.archive_tensors(checked, path, metadata, **options))


def load_file(path: _Path, device: str | int | torch.device = "cpu", **options: Any) -> dict[str, Any]:
    """Loads a state dict from a compressed file, or from a plain file of any format, as :func:`ztensor.torch.load_file` does."""
    from ztensor.torch import load_file

    return load_file(path, device=device, **options)


#: What was replaced, by what; empty while nothing is.
_replaced: list[tuple[Any, Any]] = []


def enable_hf() -> None:
    """Lets safetensors, and what is built on it, load compressed files. Other files go where they went before.

    It may be called before or after transformers is imported, and more than once.
    """
    if _replaced:
        return
    try:
        plain = importlib.import_module("safetensors")
        plain_torch = importlib.import_module("safetensors.torch")
    except ImportError as error:
        raise RuntimeError("enable_hf needs the packages safetensors and torch: `pip install ztensor[hf]`") from error
    _replaced.append((plain.safe_open, _opener(plain.safe_open)))
    _replaced.append((plain_torch.load_file, _file_loader(plain_torch.load_file)))
    _replaced.append((plain_torch.load, _bytes_loader(plain_torch.load)))
    _exchange(_by_identity(_replaced))


def disable_hf() -> None:
    """Undoes :func:`enable_hf`, also in modules that were imported since."""
    back = [(ours, theirs) for theirs, ours in _replaced]
    _replaced.clear()
    _exchange(_by_identity(back))


def is_enabled() -> bool:
    """Whether :func:`enable_hf` is in effect."""
    return bool(_replaced)


def _by_identity(pairs: list[tuple[Any, Any]]) -> dict[int, tuple[Any, Any]]:
    """Pairs by the identity of what is to be replaced: objects of other packages need not be hashable."""
    return {id(old): (old, new) for old, new in pairs}


def _exchange(replacements: dict[int, tuple[Any, Any]]) -> None:
    """Replaces objects wherever a module has them: ``from safetensors import safe_open`` makes a name in every module that does it."""
    for module in list(sys.modules.values()):
        # vars() instead of getattr(): modules that load lazily are not to be woken up.
        for name, value in list(getattr(module, "__dict__", {}).items()):
            found = replacements.get(id(value))
            if found is not None and found[0] is value and module is not sys.modules[__name__]:
                setattr(module, name, found[1])


def _is_ours(path: Any) -> bool:
    try:
        # A pipe cannot be looked into without taking something out of it.
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            return file.read(4).startswith(_MAGIC)
    except (OSError, TypeError, ValueError):
        # Whoever opens it next says what is wrong.
        return False


def _opener(original: Any) -> type:
    opened = (original, ztensor.safe_open)

    class Opener(type):
        """What files are opened with is an instance of the class that opened them, as it was before."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, opened)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return cls in subclass.__mro__ or issubclass(subclass, opened)

    class safe_open(metaclass=Opener):
        """Opens a ``.safetensors`` file, plain or compressed, lazily."""

        def __new__(cls, filename: _Path, framework: str, device: Any = "cpu", **options: Any) -> Any:
            opens = ztensor.safe_open if _is_ours(filename) else original
            return opens(filename, framework=framework, device=device, **options)

    # Under these names it is found where it is: by pickle, and in messages.
    safe_open.__module__, safe_open.__qualname__ = "safetensors", "safe_open"
    return safe_open


def _file_loader(original: Callable[..., Any]) -> Callable[..., Any]:
    def load_compressed_file(filename: _Path, device: Any = "cpu", *rest: Any, **options: Any) -> Any:
        """Loads a ``.safetensors`` file, plain or compressed."""
        if _is_ours(filename):
            return load_file(filename, device=device)
        return original(filename, device, *rest, **options)

    return load_compressed_file


def _bytes_loader(original: Callable[..., Any]) -> Callable[..., Any]:
    def load_compressed(data: bytes, *rest: Any, **options: Any) -> Any:
        """Loads a ``.safetensors`` file, plain or compressed, that is in memory."""
        if bytes(data[:4]).startswith(_MAGIC):
            from ztensor.torch import load

            return load(data)
        return original(data, *rest, **options)

    return load_compressed


def __dir__() -> list[str]:
    return __all__
