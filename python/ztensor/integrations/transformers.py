"""The checkpoints of ``transformers.Trainer`` in a store.

>>> trainer = Trainer(..., callbacks=[StoreCallback("models", "run-7", keep=10)])
>>> trainer.train(resume_from_checkpoint=resume("models", "run-7", "out"))
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from .._store import Store
from ._folders import FolderSaver, latest

__all__ = ["StoreCallback", "resume"]


class StoreCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Adds every checkpoint that a ``Trainer`` writes to a store as ``run/checkpoint-N``, in the background: weights, optimizer,
    scheduler, random state, everything. The ``Trainer`` may delete its own meanwhile (``save_total_limit=1``).

    What went wrong is raised at the next checkpoint, and at the end of the training.

    :param store: a store, or where it is; it is made if there is none.
    :param keep: how many of the last checkpoints of the run stay in the store.
    :param metadata: kept with every checkpoint, besides the step, the epoch and the last logged numbers.
    """

    def __init__(
        self,
        store: Store | str | os.PathLike[str],
        run: str,
        *,
        keep: int | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self.store = store if isinstance(store, Store) else Store(store, create=True)
        self._saver = FolderSaver(self.store, run, keep=keep, metadata=metadata)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Told by the ``Trainer`` once a checkpoint is written."""
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
        self._saver.save(folder, state.global_step, _about(state))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Told by the ``Trainer`` at the end; waits until everything is stored."""
        self._saver.wait()


def resume(
    store: Store | str | os.PathLike[str], run: str, output_dir: str | os.PathLike[str], step: int | None = None
) -> str | None:
    """Restores the last checkpoint of a run, or that of a step, to where the ``Trainer`` looks for it. Returns what its
    ``resume_from_checkpoint`` takes: ``None`` if there is no checkpoint, or no store, yet.
    """
    if not isinstance(store, Store):
        store = Store(store, create=True)
    step = latest(store, run) if step is None else step
    if step is None:
        return None
    folder = Path(output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{step}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        store.get(f"{run}/checkpoint-{step}", folder)
    return str(folder)


def _about(state: TrainerState) -> dict[str, Any]:
    logged = state.log_history[-1] if state.log_history else {}
    numbers = {name: value for name, value in logged.items() if isinstance(value, int | float)}
    return {**numbers, "epoch": float(state.epoch or 0)}
