"""The checkpoints of Lightning's ``Trainer`` in a store.

>>> trainer = Trainer(..., callbacks=[StoreCheckpoint("models", "run-7", every=1000, keep=10)])
>>> trainer.fit(model, ckpt_path=resume("models", "run-7", "out"))
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError:
    from pytorch_lightning import Callback, LightningModule, Trainer  # type: ignore[no-redef,unused-ignore]

from .._store import Store
from ._folders import FolderSaver, latest

__all__ = ["StoreCheckpoint", "resume"]


class StoreCheckpoint(Callback):  # type: ignore[misc,unused-ignore]
    """Adds a checkpoint to a store every so many steps, and at the end of the training, as ``run/checkpoint-N``, in the background.
    What went wrong is raised at the next checkpoint, and at the end of the training.

    :param store: a store, or where it is; it is made if there is none.
    :param every: steps of the optimizer between checkpoints.
    :param keep: how many of the last checkpoints of the run stay in the store.
    :param metadata: kept with every checkpoint, besides the step, the epoch and the logged numbers.
    """

    def __init__(
        self,
        store: Store | str | os.PathLike[str],
        run: str,
        *,
        every: int = 1000,
        keep: int | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self.store = store if isinstance(store, Store) else Store(store, create=True)
        self.every = every
        self._saver = FolderSaver(self.store, run, keep=keep, metadata=metadata)
        self._last: int | None = None

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *arguments: Any) -> None:
        """Told by the ``Trainer`` after every batch."""
        if trainer.global_step and trainer.global_step % self.every == 0:
            self._save(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Told by the ``Trainer`` at the end; waits until everything is stored."""
        self._save(trainer)
        self._saver.wait()

    def _save(self, trainer: Trainer) -> None:
        step = trainer.global_step
        # With gradients that add up over batches a step takes several of them.
        if step == self._last:
            return
        self._last = step
        folder = Path(tempfile.mkdtemp(prefix=".ztensor-", dir=_folder(trainer)))
        path = folder / "lightning.ckpt"
        try:
            # All processes take part in it, and the first one writes.
            trainer.save_checkpoint(path)
        except BaseException:
            shutil.rmtree(folder)
            raise
        if trainer.is_global_zero:
            logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
            self._saver.take(path, step, {**logged, "epoch": trainer.current_epoch})
        else:
            shutil.rmtree(folder)


def resume(
    store: Store | str | os.PathLike[str], run: str, folder: str | os.PathLike[str], step: int | None = None
) -> str | None:
    """Restores the last checkpoint of a run, or that of a step, into a folder. Returns what ``fit(ckpt_path=...)`` takes: ``None`` if
    there is no checkpoint, or no store, yet.
    """
    if not isinstance(store, Store):
        store = Store(store, create=True)
    step = latest(store, run) if step is None else step
    if step is None:
        return None
    path = Path(folder) / f"checkpoint-{step}.ckpt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        store.get(f"{run}/checkpoint-{step}", path)
    return str(path)


def _folder(trainer: Trainer) -> str:
    folder = Path(trainer.default_root_dir)
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)
