"""Stores: collections of related checkpoints, each tensor once, similar ones as differences. The work is done in Rust; here are the
signatures, and what becomes arrays or PyTorch's tensors.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias, TypedDict

from . import _native
from ._errors import invalid, warn_of_skipped
from ._saver import Saver, load_tree
from ._types import Dequantize, Effort

__all__ = [
    "AddReport",
    "CheckpointInfo",
    "DiffReport",
    "ExportReport",
    "FileInfo",
    "GcReport",
    "GetReport",
    "Listing",
    "PinInfo",
    "Problem",
    "PruneReport",
    "Store",
    "StoreInfo",
    "StoreStats",
]

#: What tensors become.
Framework: TypeAlias = Literal["np", "numpy", "pt", "torch", "pytorch"]


class AddReport(TypedDict):
    """What came of an add."""

    name: str
    #: The checkpoint that most was taken from.
    parent: str | None
    original_bytes: int
    #: Bytes that were put into packs.
    stored_bytes: int
    files: int
    tensors: int
    #: Pieces that the store had already, or that occur twice.
    duplicates: int
    #: Pieces stored as differences.
    deltas: int
    #: Those of them that are differences to what is computed from others: casts, quantised copies.
    computed: int
    seconds: float


class GetReport(TypedDict):
    """What was restored."""

    name: str
    path: str
    files: int
    bytes: int


class ExportReport(TypedDict):
    """What an export wrote."""

    name: str
    output: str
    original_bytes: int
    stored_bytes: int
    tensors: int
    seconds: float


class Listing(TypedDict):
    """A checkpoint in a list."""

    name: str
    generation: int
    #: Seconds since 1970.
    time: int
    #: The checkpoint that it was stored against.
    parent: str | None
    metadata: dict[str, Any]
    files: int
    tensors: int
    #: Bytes of all files.
    logical_bytes: int
    #: Bytes that everything it refers to takes in packs.
    referred_bytes: int
    #: Bytes of packs that no other checkpoint refers to.
    exclusive_bytes: int
    #: Bytes of packs that no checkpoint added before it refers to.
    added_bytes: int
    #: The longest chain of differences.
    depth: int


class FileInfo(TypedDict, total=False):
    """A file, a folder (``folder``) or a link (``target``) of a checkpoint."""

    path: str
    bytes: int
    mode: int
    #: ``None`` where the digests of its tensors are enough: the files of ranks.
    sha256: str | None
    tensors: int
    folder: bool
    target: str


class CheckpointInfo(TypedDict):
    """What is known of a checkpoint."""

    name: str
    generation: int
    time: int
    parent: str | None
    metadata: dict[str, Any]
    files: list[FileInfo]
    packs: int
    depth: int


class StoreInfo(TypedDict):
    """What a store is."""

    id: str
    grace_seconds: int
    mode: Literal["shared", "single-writer"]


#: A tensor of another type or shape: its name, and what it was and is.
Retyped = TypedDict("Retyped", {"name": str, "from": str, "to": str})


class DiffReport(TypedDict):
    """What changed from one checkpoint to another."""

    added: list[str]
    removed: list[str]
    changed: list[str]
    retyped: list[Retyped]
    identical: int
    #: Files without tensors that were added, removed or changed.
    files: list[str]


class StoreStats(TypedDict):
    """What a store holds."""

    checkpoints: int
    #: Bytes of all files of all checkpoints.
    logical_bytes: int
    #: Bytes of all distinct pieces, decoded.
    unique_bytes: int
    #: Bytes of these pieces in packs.
    stored_bytes: int
    packs: int
    #: Bytes of all packs, collected or not.
    pack_bytes: int
    manifest_bytes: int


class PruneReport(TypedDict):
    """What a prune removed and kept."""

    removed: list[str]
    kept: list[str]
    #: Of these, those that are stored without what they needed of removed ones.
    reanchored: list[str]
    dry_run: bool
    #: Bytes in packs that the checkpoints need, before and after; :meth:`Store.gc` frees the difference.
    stored_before: int
    stored_after: int


class Damage(TypedDict):
    """A checkpoint with a missing pack."""

    name: str
    pack: str


class GcReport(TypedDict):
    """What a collection did, or would do."""

    dry_run: bool
    packs: int
    bytes: int
    proposed: int
    proposed_bytes: int
    waiting: int
    deleted: int
    deleted_bytes: int
    records_deleted: int
    pins_ended: int
    damaged: list[Damage]
    #: Keys that belong to no store; they are left alone.
    unknown: list[str]


class Problem(TypedDict):
    """Something that is wrong with a checkpoint."""

    name: str
    kind: str
    message: str


class PinInfo(TypedDict):
    """A pin that is in place."""

    pin: str
    time: int
    packs: int
    bytes: int


class Store(_native.Store):
    """Related checkpoints in a directory or a bucket: equal tensors once, similar ones as differences, every file byte for byte.

    >>> store = Store("models", create=True)
    >>> store.add("out/checkpoint-1000", "run-7/step-1000")
    >>> store["run-7/step-1000"].read_numpy("lm_head.weight")

    Any number of processes may add, read, remove and collect at the same time. A checkpoint is a path as well:
    ``"models//run-7/step-1000"`` opens wherever a file does.

    :param location: a directory, or the URL of a bucket or of a folder in one: ``s3://``, ``gs://``, ``az://``.
    :param create: make the store if there is none.
    :param storage_options: endpoints and keys for buckets.
    :param grace: for a new store, how many seconds what was removed stays readable.
    :param single_writer: for a new store on storage that cannot tell two writers apart: only one process may change it at a time.
    """

    __module__ = "ztensor"

    def __getitem__(self, name: str) -> _native.Reader:
        """Opens a checkpoint; a tensor is decoded when it is read. The same as ``open(name)``."""
        return self.open(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def load(
        self,
        name: str,
        framework: Framework = "np",
        *,
        file: str | None = None,
        keys: Iterable[str] | None = None,
        device: Any = None,
        dequantize: Dequantize = None,
        limits: _native.Limits | None = None,
    ) -> dict[str, Any]:
        """Loads the tensors of a checkpoint.

        :param framework: ``"np"`` gives NumPy's arrays, ``"pt"`` PyTorch's tensors; what is neither is a :class:`ztensor.Tensor`.
        :param file: only those of this file or folder of the checkpoint.
        :param keys: only the tensors of these names.
        :param device: where PyTorch's tensors go.
        """
        reader = self.open(name, file, limits=limits)
        warn_of_skipped(reader.skipped(), f"{os.fspath(self.location)}//{name}")
        names = reader.keys() if keys is None else [keys] if isinstance(keys, str) else list(keys)
        if framework in ("pt", "torch", "pytorch"):
            return reader.read_torch(names, device=device, dequantize=dequantize, objects=True)
        if framework not in ("np", "numpy"):
            raise invalid(f'framework must be "np" or "pt", not "{framework}"')
        if device is not None:
            raise invalid('device is for framework="pt"; NumPy has arrays in memory only')
        return reader.read_numpy(names, dequantize=dequantize, objects=True)

    def load_tree(self, name: str, *, framework: Framework | None = None, device: Any = None) -> Any:
        """The tree that a checkpoint holds, as ``save_tree`` and :meth:`saver` store them.

        :param framework: ``"pt"`` or ``"np"``; ``None`` gives what was saved.
        """
        return load_tree(self, name, framework=framework, device=device)

    def saver(
        self,
        run: str,
        *,
        every: int = 1,
        keep: int | None = None,
        keep_every: int | None = None,
        memory: int | None = None,
        metadata: dict[str, Any] | None = None,
        effort: Effort = None,
    ) -> Saver:
        """Saves the states of a training run as ``run/step-N``, in the background.

        :param every: only steps that are multiples of this are saved.
        :param keep: how many of the last checkpoints stay; older ones are removed once a new one is stored. :meth:`gc` frees their
            bytes.
        :param keep_every: besides, those whose step is a multiple of this stay.
        :param memory: bytes that states waiting to be stored may take; at most two wait in any case, and one always may.
        :param metadata: kept with every checkpoint.
        """
        return Saver(
            self,
            run,
            every=every,
            keep=keep,
            keep_every=keep_every,
            memory=memory,
            metadata=metadata,
            effort=effort,
        )
