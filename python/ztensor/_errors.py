"""Exceptions. Every error is a :class:`ZTensorError`; those that Python has a class for are of that class too, so that
``except FileNotFoundError`` and ``except KeyError`` do what one expects. So are those that code written for ztensor 1.2 catches
(``RuntimeError``), and, once safetensors is imported, what its users catch (``SafetensorError``).
"""

from __future__ import annotations

import errno
import os
import sys
import warnings

_ERRNO = {"not_found": errno.ENOENT, "permission_denied": errno.EACCES, "no_space": errno.ENOSPC}


class ZTensorError(Exception):
    """Something about a file, a tensor or an argument is wrong.

    ``kind`` is a stable name to match on; ``path``, ``tensor`` and ``offset`` say where, ``hint`` says what to do. Each is ``None``
    where it does not apply.
    """

    def __init__(
        self,
        message: str = "",
        kind: str = "invalid_argument",
        path: str | None = None,
        tensor: str | None = None,
        offset: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.path = path
        self.tensor = tensor
        self.offset = offset
        self.hint = hint

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[object, ...]:
        return from_core, (self.kind, str(self), self.path, self.tensor, self.offset, self.hint)


class _SystemError(ZTensorError, OSError):
    def __init__(self, message: str, kind: str, path: str | None, *where: object) -> None:
        super().__init__(message, kind, path, *where)  # type: ignore[arg-type]
        self.errno = _ERRNO.get(kind, errno.EIO)
        self.strerror = os.strerror(self.errno)
        self.filename = path


class _MissingFileError(_SystemError, FileNotFoundError):
    pass


class _AccessError(_SystemError, PermissionError):
    pass


class _MissingTensorError(ZTensorError, KeyError):
    pass


class _BadIndexError(ZTensorError, IndexError):
    pass


class _BadValueError(ZTensorError, ValueError, RuntimeError):
    pass


class _MismatchError(_BadValueError, TypeError):
    pass


class _OtherError(ZTensorError, RuntimeError):
    pass


_CLASSES: dict[str, type[ZTensorError]] = {
    "not_found": _MissingFileError,
    "permission_denied": _AccessError,
    "io": _SystemError,
    "no_space": _SystemError,
    "no_such_tensor": _MissingTensorError,
    # What a file says is a value too, as it is to json and pickle.
    "unknown_format": _BadValueError,
    "truncated": _BadValueError,
    "malformed": _BadValueError,
    "checksum": _BadValueError,
    "duplicate": _BadValueError,
    "mismatch": _MismatchError,
    "invalid_argument": _BadValueError,
    "wrong_base": _BadValueError,
    "index": _BadIndexError,
}

for _class in {*_CLASSES.values(), _OtherError}:
    # Tracebacks name the class people catch.
    _class.__name__ = _class.__qualname__ = "ZTensorError"
    _class.__module__ = "ztensor"
ZTensorError.__module__ = "ztensor"


class SkippedTensorWarning(UserWarning):
    """A file holds tensors that cannot be read; ``Reader.skipped()`` lists them with the reasons."""

    __module__ = "ztensor"


class RecoveredFileWarning(UserWarning):
    """A write to a file was interrupted or is going on: its last complete state was opened. ``Reader.recovered`` says more."""

    __module__ = "ztensor"


class SlowSaveWarning(UserWarning):
    """A training step waited for earlier states to be stored."""

    __module__ = "ztensor"


def warn_of_recovered(message: str, path: str | None) -> None:
    """Says that a file was opened in its last complete state."""
    where = f'"{path}": ' if path is not None else ""
    warnings.warn(f"{where}{message}. The next write to the file tidies up.", RecoveredFileWarning, stacklevel=2)


def warn_of_skipped(skipped: dict[str, str], path: str | os.PathLike[str] | None, level: int = 3) -> None:
    """Says which tensors a bulk load leaves out, so that none goes missing unnoticed."""
    if not skipped:
        return
    # The module names these classes when it raises; imported at the top, each would wait for the other.
    from ._native import printable

    name, reason = map(printable, next(iter(skipped.items())))
    others = f" and {len(skipped) - 1} more" if len(skipped) > 1 else ""
    where = f'"{printable(os.fspath(path))}": ' if path is not None else ""
    message = f'{where}not loaded: "{name}" ({reason}){others}. Reader.skipped() lists them with the reasons.'
    warnings.warn(message, SkippedTensorWarning, stacklevel=level)


#: Our classes that are also the SafetensorError of the imported safetensors.
_for_safetensors: dict[tuple[type[ZTensorError], type], type[ZTensorError]] = {}


def _class_of(kind: str) -> type[ZTensorError]:
    own = _CLASSES.get(kind, _OtherError)
    theirs = getattr(sys.modules.get("safetensors"), "SafetensorError", None)
    if not isinstance(theirs, type):
        return own
    if (own, theirs) not in _for_safetensors:
        _for_safetensors[own, theirs] = type("ZTensorError", (own, theirs), {"__module__": "ztensor"})
    return _for_safetensors[own, theirs]


def from_core(
    kind: str,
    message: str,
    path: str | None,
    tensor: str | None,
    offset: int | None,
    hint: str | None,
) -> ZTensorError:
    """The exception for an error of the core."""
    return _class_of(kind)(message, kind, path, tensor, offset, hint)


def invalid(message: str, tensor: str | None = None) -> ZTensorError:
    """The exception for an argument that cannot be used."""
    return from_core("invalid_argument", message, None, tensor, None, None)
