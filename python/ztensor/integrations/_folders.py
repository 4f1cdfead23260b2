"""Checkpoints that another package writes as files: they are stored in the background, and the files may go meanwhile."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from .._background import Background
from .._store import Store

#: Checkpoints that may wait or be stored while the program goes on.
_PENDING = 2


class FolderSaver:
    """Stores files and folders as they are now, one after the other."""

    def __init__(self, store: Store, run: str, *, keep: int | None, metadata: dict[str, Any] | None) -> None:
        self.store = store
        self.run = run
        self._keep = keep
        self._metadata = dict(metadata or {})
        self._background = Background(f"ztensor saver of {run}")

    def save(self, path: Path, step: int, metadata: dict[str, Any]) -> None:
        """Stores a file or a folder as ``run/checkpoint-N``; it may be deleted meanwhile. Raises what went wrong before."""
        self.take(_hold(path), step, metadata)

    def take(self, kept: Path, step: int, metadata: dict[str, Any]) -> None:
        """Stores a file or a folder that is alone in a folder, and deletes that folder."""
        self._background.wait_until(lambda unfinished: unfinished < _PENDING)
        try:
            self._background.check()
        except BaseException:
            shutil.rmtree(kept.parent)
            raise
        about = {**self._metadata, **metadata, "step": step}
        self._background.submit(lambda: self._store(kept, step, about))

    def wait(self) -> None:
        """Waits until everything is stored, and raises what went wrong."""
        self._background.wait()

    def _store(self, kept: Path, step: int, about: dict[str, Any]) -> None:
        try:
            name = f"{self.run}/checkpoint-{step}"
            if name in self.store:
                # A run that was resumed saves the steps again that it had not stored the results of.
                self.store.remove(name)
            self.store.add(kept, name, metadata=about)
            if self._keep is not None:
                self.store.prune(self.run, keep_last=self._keep)
        finally:
            shutil.rmtree(kept.parent)


def latest(store: Store, run: str) -> int | None:
    """The last step of a run that is stored."""
    prefix = f"{run}/checkpoint-"
    ends = (name.removeprefix(prefix) for name in store.keys(run) if name.startswith(prefix))
    return max((int(end) for end in ends if end.isascii() and end.isdigit()), default=None)


def _hold(path: Path) -> Path:
    """The same files once more, in a folder of their own beside them, so that the originals may be deleted: as links, which cost
    nothing, or as copies where the file system has no links.
    """
    folder = Path(tempfile.mkdtemp(prefix=".ztensor-", dir=path.parent))
    held = folder / path.name
    try:
        if path.is_dir():
            shutil.copytree(path, held, symlinks=True, copy_function=_link)
        else:
            _link(str(path), str(held))
    except BaseException:
        shutil.rmtree(folder)
        raise
    return held


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
