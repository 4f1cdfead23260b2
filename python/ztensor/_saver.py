"""Saving from a training loop: a state is copied, and the loop goes on while a thread stores the copy. What went wrong there is raised
at the next call.
"""

from __future__ import annotations

import sys
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from . import _native
from ._background import Background
from ._errors import SlowSaveWarning, from_core, invalid
from ._trees import put_together, special_from, take_apart, tree_of, with_tree
from ._types import Effort

if TYPE_CHECKING:
    from ._store import AddReport, Store

#: Snapshots that may wait or be stored while the program goes on.
_PENDING = 2


class Saver:
    """Saves the states of one training run in a store, in the background.

    >>> with store.saver("run-8", every=100, keep=5) as saver:
    ...     for step in range(saver.next_step(), steps):
    ...         train(step)
    ...         saver.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step})

    A state is there, whole, once it is stored, and not at all before: a process that is killed loses what was not yet stored, and
    nothing else. Steps are stored in the order in which they were saved. ``Store.saver`` makes savers.
    """

    __module__ = "ztensor"

    def __init__(
        self,
        store: Store,
        run: str,
        *,
        every: int = 1,
        keep: int | None = None,
        keep_every: int | None = None,
        memory: int | None = None,
        metadata: dict[str, Any] | None = None,
        effort: Effort = None,
    ) -> None:
        if every < 1:
            raise invalid("every is a number of steps, at least 1")
        if keep is not None and keep < 1:
            raise invalid("keep is how many of the last checkpoints stay, at least 1")
        if keep is None and keep_every is not None:
            raise invalid(
                "keep_every says which checkpoints stay besides the last ones: say how many of those with keep"
            )
        self.store = store
        self.run = run
        self._every = every
        self._keep = keep
        self._keep_every = keep_every
        self._memory = memory
        self._metadata = dict(metadata or {})
        self._effort = effort
        self._background = Background(f"ztensor saver of {run}")
        self._spare: list[_native.Snapshot] = []
        #: Bytes of each state that is not stored yet.
        self._taken: dict[int, int] = {}
        self._closed = False
        self._last: AddReport | None = None

    def save(self, step: int, tree: Any, *, metadata: dict[str, Any] | None = None) -> bool:
        """Copies a state and returns; a thread stores it as ``run/step-N``. ``False`` says that ``every`` leaves this step out.

        ``tree`` is what ``save_tree`` takes: nested dicts, lists, tuples, numbers, text, bytes, ``None``, tensors and arrays. While
        two states are waiting, or more memory would be taken than ``memory`` allows, this call waits, and warns.

        :param metadata: kept with the checkpoint, besides the step.
        :raises: what went wrong with an earlier step; that step is not stored.
        """
        self._background.check()
        if self._closed:
            raise invalid("the saver is closed")
        if step < 0:
            raise invalid(f"a step is a number from 0 on, not {step}")
        if step % self._every:
            return False
        framework = _framework()
        text, tensors = _taken_apart(tree, framework)
        about = {**self._metadata, **(metadata or {}), "step": step, "framework": framework}
        snapshot = self._room(sum(_nbytes(tensor) for tensor in tensors.values()))
        snapshot.take(tensors, with_tree(None, text))
        self._taken[id(snapshot)] = snapshot.nbytes
        self._background.submit(lambda: self._store(step, snapshot, about))
        return True

    def wait(self) -> None:
        """Waits until everything is stored. Raises what went wrong."""
        self._background.wait()

    def close(self) -> None:
        """Waits until everything is stored, and gives the memory back. Raises what went wrong."""
        self._closed = True
        try:
            self.wait()
        finally:
            self._spare.clear()

    def steps(self) -> list[int]:
        """The steps that are stored, in order."""
        prefix = f"{self.run}/step-"
        ends = (name.removeprefix(prefix) for name in self.store.keys(self.run) if name.startswith(prefix))
        return sorted(int(end) for end in ends if end.isascii() and end.isdigit())

    def latest(self) -> int | None:
        """The last step that is stored; ``None`` if there is none."""
        return max(self.steps(), default=None)

    def next_step(self) -> int:
        """Where a run goes on: the step after the last one that is stored, or 0."""
        latest = self.latest()
        return 0 if latest is None else latest + 1

    def load(self, step: int | None = None, *, framework: str | None = None, device: Any = None) -> Any:
        """The tree of a step, or of the last one.

        :param framework: ``"pt"`` or ``"np"``; ``None`` gives what was saved.
        :param device: where PyTorch's tensors go.
        """
        if step is None and (step := self.latest()) is None:
            raise from_core(
                "not_found", f'the run "{self.run}" has no steps', str(self.store.location), None, None, None
            )
        return load_tree(self.store, f"{self.run}/step-{step}", framework=framework, device=device)

    @property
    def last_report(self) -> AddReport | None:
        """What storing the last step came to."""
        return self._last

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as failure:
            if error is None:
                raise
            # What ended the block is what counts; this is said as well.
            error.add_note(f"and a step was not stored: {failure}")

    def __repr__(self) -> str:
        return f"<ztensor.Saver of {self.run!r} in {self.store!r}>"

    def _room(self, nbytes: int) -> _native.Snapshot:
        """A snapshot to copy to, once there is room for it."""
        limit = sys.maxsize if self._memory is None else self._memory

        def fits(unfinished: int) -> bool:
            return unfinished < _PENDING and (unfinished == 0 or sum(list(self._taken.values())) + nbytes <= limit)

        def warn(unfinished: int) -> None:
            states = "an earlier state" if unfinished == 1 else f"{unfinished} earlier states"
            message = f"{self.run}: this step waits until {states} are stored; save less often, or allow more memory"
            warnings.warn(message, SlowSaveWarning, stacklevel=5)

        self._background.wait_until(fits, warn)
        self._background.check()
        try:
            return self._spare.pop()
        except IndexError:
            return _native.Snapshot()

    def _store(self, step: int, snapshot: _native.Snapshot, about: dict[str, Any]) -> None:
        try:
            self._last = self.store.add_snapshot(
                snapshot, f"{self.run}/step-{step}", metadata=about, effort=self._effort
            )
            if self._keep is not None:
                self._prune()
        except BaseException as error:
            error.add_note(f"while step {step} of {self.run} was stored")
            raise
        finally:
            del self._taken[id(snapshot)]
            if not self._closed and len(self._spare) < _PENDING:
                self._spare.append(snapshot)

    def _prune(self) -> None:
        steps = self.steps()
        kept = set(steps[-(self._keep or 0) :])
        old = [step for step in steps if step not in kept and (self._keep_every is None or step % self._keep_every)]
        self.store.remove(*(f"{self.run}/step-{step}" for step in old))


def load_tree(store: Store, name: str, *, framework: str | None = None, device: Any = None) -> Any:
    """The tree that a checkpoint holds."""
    reader = store.open(name)
    place = f"{store.location}//{name}"
    text = tree_of(reader, place)
    if framework is None:
        framework = store.info(name)["metadata"].get("framework", _framework())
    if framework in ("pt", "torch", "pytorch"):
        from .torch import another, placed
        from .torch import special_from as torch_special_from

        tensors = reader.read_torch(reader.keys(), device=device, objects=True)
        return put_together(text, place, lambda tag, key: placed(tensors, tag, key), torch_special_from, another)
    if framework not in ("np", "numpy"):
        raise invalid(f'framework must be "np" or "pt", not "{framework}"')
    from .numpy import given

    arrays = reader.read_numpy(reader.keys(), objects=True)
    return put_together(text, place, lambda tag, key: given(arrays, tag, key), special_from)


def _framework() -> str:
    """Who has not imported PyTorch has no tensors of its."""
    return "pt" if "torch" in sys.modules else "np"


def _taken_apart(tree: Any, framework: str) -> tuple[str, dict[str, Any]]:
    if framework == "pt":
        from .torch import leaf_of, special_of

        return take_apart(tree, leaf_of, special_of)
    from .numpy import leaf_of as array_leaf_of

    return take_apart(tree, array_leaf_of)


def _nbytes(tensor: Any) -> int:
    return int(getattr(tensor, "nbytes", 0))
