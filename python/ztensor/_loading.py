"""What ``load_file`` does in every framework: which files, which tensors, in which portions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _native
from ._errors import from_core, warn_of_skipped
from ._native import printable
from ._types import Backend, Paths, Progress, StorageOptions, io_of

#: Bytes that are read between two reports of progress.
_PORTION = 256 << 20


def load_files(
    filename: Paths,
    read: Callable[[_native.Reader, list[str]], dict[str, Any]],
    *,
    backend: Backend = None,
    verify: bool = True,
    base: Any = None,
    keep_open: bool = False,
    keys: Iterable[str] | None = None,
    progress: Progress = None,
    limits: _native.Limits | None = None,
    storage_options: StorageOptions = None,
) -> dict[str, Any]:
    """Loads the tensors of one or several files, all or those of the given names."""
    paths = [filename] if isinstance(filename, str | os.PathLike) else list(filename)
    wanted = None if keys is None else [keys] if isinstance(keys, str) else list(keys)
    parts: list[tuple[_native.Reader, list[str]]] = []
    holders: dict[str, Any] = {}
    for path in paths:
        reader = _native.Reader(
            path,
            io_of(backend),
            verify=verify,
            base=base,
            keep_open=keep_open,
            limits=limits,
            storage_options=storage_options,
        )
        names = reader.keys() if wanted is None else [name for name in wanted if name in reader]
        skipped = reader.skipped()
        if wanted is not None:
            skipped = {name: reason for name, reason in skipped.items() if name in wanted}
        warn_of_skipped(skipped, path, level=4)
        for name in names:
            if name in holders:
                message = printable(f'"{name}" is in "{os.fspath(holders[name])}" and in "{os.fspath(path)}"')
                raise from_core("duplicate", message, os.fspath(path), name, None, None)
            holders[name] = path
        parts.append((reader, names))
    missing = [name for name in wanted or () if name not in holders]
    if missing:
        where = ", ".join(f'"{os.fspath(path)}"' for path in paths)
        message = printable(f"no tensor {', '.join(map(repr, missing))} in {where}")
        raise from_core("no_such_tensor", message, os.fspath(paths[0]) if paths else None, missing[0], None, None)
    return _read(parts, read, progress)


def _read(
    parts: list[tuple[_native.Reader, list[str]]],
    read: Callable[[_native.Reader, list[str]], dict[str, Any]],
    progress: Progress,
) -> dict[str, Any]:
    loaded: dict[str, Any] = {}
    if progress is None:
        for reader, names in parts:
            loaded.update(read(reader, names))
        return loaded
    total = sum(about.nbytes for reader, names in parts for about in reader.metadata(names))
    done = 0
    for reader, names in parts:
        for portion, nbytes in _portions(reader, names):
            loaded.update(read(reader, portion))
            done += nbytes
            progress(done, total)
    return loaded


def _portions(reader: _native.Reader, names: list[str]) -> Iterator[tuple[list[str], int]]:
    portion: list[str] = []
    nbytes = 0
    for about in reader.metadata(names):
        portion.append(about.name)
        nbytes += about.nbytes
        if nbytes >= _PORTION:
            yield portion, nbytes
            portion, nbytes = [], 0
    if portion:
        yield portion, nbytes
