"""``torch.distributed.checkpoint`` on a store: every rank stores its own shards, the coordinator makes them a checkpoint in one
commit, and any number of ranks loads it again. A step exists whole or not at all.

    import torch.distributed.checkpoint as dcp
    from ztensor.dcp import Reader, Writer

    dcp.save(state, storage_writer=Writer("s3://bucket/models"), checkpoint_id="run-7/step-1000")
    dcp.load(state, storage_reader=Reader("s3://bucket/models"), checkpoint_id="run-7/step-1000")

The step is a checkpoint of the store like any other: ``store.load``, ``ztensor info``, ``diff`` and ``store get --as safetensors`` see
whole tensors.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from . import _native
from ._errors import ZTensorError, invalid
from ._native import save
from ._store import AddReport, Store
from ._types import Effort, StorageOptions

__all__ = ["Reader", "Writer"]

#: The tensor of a rank's file that holds its objects, one after the other.
_BYTES = "ztensor.dcp/bytes"
#: The file that describes tensors in boxes of the ranks' files, and the one that only loading needs (``spec/dcp.md``).
_BOXES = "boxes.zt"
_PLANNER = "planner.json"
_VERSION = 1
#: How the names of files end that hold weights, or list where they are.
_WEIGHTS = (
    *(".bin", ".ckpt", ".distcp", ".gguf", ".h5", ".hdf5", ".keras", ".msgpack", ".npy", ".npz", ".onnx", ".ot", ".pt"),
    *(".pth", ".safetensors", ".z4ai", ".z4dm", ".zstn", ".zt", ".index.json"),
)
#: What ranks say of where they stored what: by name, and by the offsets of the shard; objects have none.
_Places: TypeAlias = dict[str, dict[torch.Size | None, dict[str, Any]]]
#: PyTorch's names of element types.
_TORCH_NAMES: dict[str, str | None] = {row["name"]: row["torch"] for row in _native.element_types()}


class _Place:
    """Where a store is: what a process that is handed a writer or a reader needs to open it."""

    def __init__(self, location: str | os.PathLike[str] | Store, storage_options: StorageOptions) -> None:
        self.location = location.address if isinstance(location, Store) else os.fspath(location)
        self.storage_options = storage_options
        self._opened: tuple[int, Store] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def open(self, create: bool) -> Store:
        # Each process has a handle of its own: connections do not survive a fork.
        if self._opened is None or self._opened[0] != os.getpid():
            store = Store(self.location, create, storage_options=self.storage_options)
            self._opened = (os.getpid(), store)
        return self._opened[1]


class Writer(StorageWriter):
    """Stores what ``dcp.save`` and ``dcp.async_save`` are given as a checkpoint of a store.

    :param store: a directory that all ranks see, the URL of a bucket, or a :class:`~ztensor.Store`. It is made if it is not there.
    :param name: the checkpoint's name; ``checkpoint_id`` of ``dcp.save`` goes before it.
    :param base: what is similar is stored as differences to this checkpoint: ``"auto"`` takes the last one beside it (``run-7/…``),
        ``None`` none.
    :param effort: the trade between size and speed: ``"fast"``, ``"default"`` or ``"max"``.
    :param metadata: text, numbers, lists and dicts that are kept with the checkpoint.
    :param files: what belongs to the model besides its tensors: a folder, such as ``save_pretrained`` makes of a configuration and a
        tokenizer, whose files that hold no weights are kept with each step; or a list of files. The coordinator reads them.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Store,
        name: str | None = None,
        *,
        base: str | None = "auto",
        effort: Effort = "fast",
        metadata: dict[str, Any] | None = None,
        files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
        storage_options: StorageOptions = None,
    ) -> None:
        super().__init__()
        self._place = _Place(store, storage_options)
        self._name = name
        self._files = files if files is None or isinstance(files, str | os.PathLike) else list(files)
        self._base = base
        self._found: str | None = None
        self._effort = effort
        self._metadata = dict(metadata or {})
        self._is_coordinator = False
        self._last: AddReport | None = None

    @property
    def last_report(self) -> AddReport | None:
        """What the last save came to, on the coordinator."""
        return self._last

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begins a save or a load of the checkpoint of this name."""
        if checkpoint_id is not None:
            self._name = os.fspath(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Refuses a name that is taken before anything is written."""
        self._is_coordinator = is_coordinator
        name = self._checkpoint()
        if is_coordinator and name in self._place.open(create=True):
            hint = "Choose another name, or remove it first."
            raise invalid(f'there is a checkpoint "{name}" in {self._place.location} already. {hint}')
        if is_coordinator:
            _beside(self._files)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Leaves the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Tells each rank its number and the base."""
        base = self._base
        if base == "auto":
            base = self._place.open(create=False).last(self._checkpoint().rpartition("/")[0])
        elif base is not None and base not in self._place.open(create=False):
            raise invalid(f'there is no checkpoint "{base}" in {self._place.location} to take differences to')
        self._found = base
        return [dataclasses.replace(plan, storage_data={"rank": rank, "base": base}) for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Stores what this rank has."""
        future: Future[list[WriteResult]] = Future()
        future.set_result(self._write(plan, planner) if plan.items else [])
        return future

    def _write(self, plan: SavePlan, planner: SavePlanner) -> list[WriteResult]:
        tensors: dict[str, Any] = {}
        objects = bytearray()
        stored: list[tuple[MetadataIndex, dict[str, Any]]] = []
        for item in plan.items:
            data = planner.resolve_data(item)
            if item.type == WriteItemType.BYTE_IO:
                content = data.getvalue() if isinstance(data, io.BytesIO) else bytes(data)
                about = {"start": len(objects), "length": len(content), **_plain(content)}
                objects += content
                stored.append((item.index, about))
                continue
            if not isinstance(data, torch.Tensor) or item.tensor_data is None:
                raise invalid(f'"{item.index.fqn}" is no tensor that can be stored')
            key = _chunk_name(item.index.fqn, item.tensor_data.chunk, item.tensor_data.size)
            tensors[key] = data.detach()
            stored.append((item.index, {"tensor": key}))
        if objects:
            tensors[_BYTES] = torch.frombuffer(objects, dtype=torch.uint8)
        settings = plan.storage_data
        store = self._place.open(create=False)
        part, file, places, _ = store.add_part(
            f"rank-{settings['rank']:05}", tensors, self._checkpoint(), base=settings["base"], effort=self._effort
        )
        results = []
        for number, (index, about) in enumerate(stored):
            if key := about.pop("tensor", None):
                offset, length, element = places[key]
                about.update(offset=offset, length=length, element=element)
            # What the coordinator needs of a rank as a whole comes with its first item.
            about.update({"file": file, "part": part} if number == 0 else {"file": file})
            results.append(WriteResult(index=index, size_in_bytes=about["length"], storage_data=about))
        return results

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Makes what all ranks stored a checkpoint."""
        # Nothing is made anew for each of maybe 100,000 shards that the garbage collector would have to watch.
        places: _Places = {}
        files: dict[str, int] = {}
        parts: list[bytes] = []
        for result in (result for rank in results for result in rank):
            about = result.storage_data
            places.setdefault(result.index.fqn, {})[result.index.offset] = about
            files.setdefault(about["file"], len(files))
            if "part" in about:
                parts.append(about["part"])
        boxes, objects, values = _describe(metadata, places, files)
        index = {"version": _VERSION, "files": list(files), "tensors": boxes}
        planner = {
            "format": "ztensor-dcp",
            "version": _VERSION,
            "objects": objects,
            "planner": _planner_paths(metadata.planner_data),
        }
        self._last = self._place.open(create=False).commit_parts(
            self._checkpoint(),
            parts,
            [
                (_BOXES, save({}, {**values, "ztensor.boxes": index})),
                (_PLANNER, json.dumps(planner, ensure_ascii=False, separators=(",", ":")).encode()),
                *((name, file.read_bytes()) for name, file in _beside(self._files).items()),
            ],
            base=self._found,
            metadata=self._metadata,
        )

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether this may be a checkpoint's name."""
        return bool(os.fspath(checkpoint_id))

    def storage_meta(self) -> StorageMeta | None:
        """What planners are told of the storage."""
        return StorageMeta(checkpoint_id=self._name)

    def _checkpoint(self) -> str:
        if not self._name:
            raise invalid("the checkpoint needs a name: checkpoint_id of dcp.save, or name of ztensor.dcp.Writer")
        return self._name


class Reader(StorageReader):
    """Loads what ``dcp.load`` asks for, and no more: regions of tensors, decoded into their destinations.

    :param source: a store, with ``name`` or ``checkpoint_id``; or by itself anything that ``ztensor`` opens: ``store//name``, a model
        file of any format, a folder, a URL.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Store,
        name: str | None = None,
        *,
        storage_options: StorageOptions = None,
    ) -> None:
        super().__init__()
        self._place = _Place(source, storage_options)
        self._name = name
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None, "_described": None, "_files": {}}

    def _forget(self) -> None:
        """Each opening reads the manifest: what is open is kept until another checkpoint is read."""
        self._reader: _native.Reader | None = None
        self._described: dict[str, Any] | None = None
        self._files: dict[str, _native.Reader] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begins a save or a load of the checkpoint of this name."""
        self._forget()
        if checkpoint_id is not None:
            self._name = os.fspath(checkpoint_id)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint holds."""
        reader = self._open()
        state: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
        for about in reader.metadata(reader.keys()):
            dtype = _dtype(about)
            if dtype is None:
                continue
            size = torch.Size(about.shape)
            # How a tensor is cut is the store's business: any region of it is read from whatever boxes have it.
            chunk = ChunkStorageMetadata(offsets=torch.Size([0] * len(size)), sizes=size)
            state[about.name] = TensorStorageMetadata(TensorProperties(dtype=dtype), size, [chunk])
        planner = self._planner()
        state.update({name: BytesStorageMetadata() for name, *_ in planner.get("objects", ())})
        paths = planner.get("planner")
        return Metadata(
            state_dict_metadata=state,
            planner_data=None if paths is None else {name: tuple(path) for name, path in paths},
            storage_data={},
            storage_meta=StorageMeta(checkpoint_id=self._name),
        )

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Does nothing: what a rank asks for tells what has to be opened."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Leaves the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Leaves the plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Reads what this rank asks for."""
        reader = self._open()
        names = {item.storage_index.fqn for item in plan.items if item.type != LoadItemType.BYTE_IO}
        dtypes = {about.name: _dtype(about) for about in reader.metadata(sorted(names))}
        objects: dict[str, tuple[str, int, int]] = {}
        if any(item.type == LoadItemType.BYTE_IO for item in plan.items):
            objects = {name: (file, start, length) for name, file, start, length in self._planner().get("objects", ())}
        direct: list[tuple[str, list[int], list[int], torch.Tensor]] = []
        done: list[tuple[Any, torch.Tensor, torch.Tensor]] = []
        for item in plan.items:
            name = item.storage_index.fqn
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(self._object(name, objects)))
                continue
            target = planner.resolve_tensor(item).detach()
            dtype = dtypes[name]
            plain = target.device.type == "cpu" and target.is_contiguous() and target.dtype == dtype
            region = target if plain else torch.empty(tuple(item.lengths), dtype=dtype)
            direct.append((name, list(item.storage_offsets), list(item.lengths), region))
            done.append((item, target, region))
        reader.read_regions(direct)
        for item, target, region in done:
            if region is not target:
                target.copy_(region)
            planner.commit_tensor(item, target)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether this may be a checkpoint's name."""
        return bool(os.fspath(checkpoint_id))

    @property
    def _path(self) -> str:
        return f"{self._place.location}//{self._name}" if self._name else self._place.location

    def _open(self) -> _native.Reader:
        if self._reader is None:
            self._reader = _native.Reader(self._path, storage_options=self._place.storage_options)
        return self._reader

    def _planner(self) -> dict[str, Any]:
        """What only loading needs to know; nothing where the tensors were not saved by a :class:`Writer`."""
        if self._described is None:
            self._described = self._read_planner()
        return self._described

    def _read_planner(self) -> dict[str, Any]:
        rest = self._path.rpartition("://")[2]
        if not (self._name or Path(self._path).is_dir() or "//" in rest):
            return {}
        try:
            text = _native.read_file(f"{self._path}/{_PLANNER}", storage_options=self._place.storage_options)
        except ZTensorError as error:
            if error.kind == "not_found":
                return {}
            raise
        planner = json.loads(text)
        if planner.get("format") != "ztensor-dcp" or planner.get("version") != _VERSION:
            raise invalid(f'"{self._path}/{_PLANNER}" was written by a later release. Update ztensor.')
        return dict(planner)

    def _object(self, name: str, objects: dict[str, tuple[str, int, int]]) -> bytes:
        if name not in objects:
            raise invalid(f'"{self._path}" has no object "{name}"')
        file, start, length = objects[name]
        if file not in self._files:
            path = f"{self._path}/{file}"
            self._files[file] = _native.Reader(path, storage_options=self._place.storage_options)
        return bytes(self._files[file].read_slice(_BYTES, slice(start, start + length)))


def _dtype(about: _native.TensorMetadata) -> torch.dtype | None:
    """What a dense tensor is to PyTorch; ``None`` for what it has no type for."""
    name = _TORCH_NAMES.get(about.type or about.dtype) if about.layout == "dense" else None
    dtype = getattr(torch, name, None) if name else None
    return dtype if isinstance(dtype, torch.dtype) else None


def _describe(
    metadata: Metadata, places: _Places, files: dict[str, int]
) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Tensors and the boxes that make them up, objects and where they are, and those objects that are plain values."""
    boxes: list[Any] = []
    objects: list[Any] = []
    values: dict[str, Any] = {}
    for name, about in metadata.state_dict_metadata.items():
        if isinstance(about, BytesStorageMetadata):
            place = places[name][None]
            objects.append([name, place["file"], place["start"], place["length"]])
            if "value" in place:
                values[name] = place["value"]
            continue
        own = []
        element = None
        for chunk in about.chunks:
            place = places[name][chunk.offsets]
            element = place["element"]
            # The garbage collector forgets tuples of numbers, and keeps walking through lists.
            own.append((files[place["file"]], place["offset"], *chunk.offsets, *chunk.sizes))
        boxes.append([name, element or str(about.properties.dtype).removeprefix("torch."), list(about.size), own])
    return boxes, objects, values


def _beside(files: str | os.PathLike[str] | list[str | os.PathLike[str]] | None) -> dict[str, Path]:
    """The files that are kept beside the tensors, by their paths in the checkpoint."""
    found: dict[str, Path] = {}
    if isinstance(files, str | os.PathLike):
        folder = Path(files)
        if not folder.is_dir():
            raise invalid(f'files="{folder}" is no folder. Name one, or a list of files.')
        for file in sorted(folder.rglob("*")):
            path = file.relative_to(folder)
            hidden = any(part.startswith(".") for part in path.parts)
            if file.is_file() and not hidden and not path.name.lower().endswith(_WEIGHTS):
                found[path.as_posix()] = file
    for file in map(Path, files if isinstance(files, list) else ()):
        if not file.is_file() or file.name in found:
            problem = "twice" if file.name in found else "which is no file"
            raise invalid(f'files= names "{file.name}" {problem}')
        found[file.name] = file
    for name in found:
        if name in (_BOXES, _PLANNER) or re.fullmatch(r"rank-\d+\.\w+", name):
            raise invalid(f'files= has "{name}", which is the name of a file that a checkpoint of several ranks has')
    return found


def _chunk_name(name: str, chunk: ChunkStorageMetadata, size: torch.Size) -> str:
    """A tensor's name if it is whole, else with its place: ``weight[0:512, 0:64]``. The next step finds the same part by it."""
    if chunk.sizes == size:
        return name
    ranges = (f"{start}:{start + length}" for start, length in zip(chunk.offsets, chunk.sizes, strict=True))
    return f"{name}[{', '.join(ranges)}]"


def _plain(content: bytes) -> dict[str, Any]:
    """The value of an object if it is a number, a text, ``None`` or a list of these: people see it in listings."""
    try:
        value = torch.load(io.BytesIO(content), weights_only=True)
    except Exception:
        return {}

    def is_plain(value: Any) -> bool:
        small = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
        return value is None or isinstance(value, bool | float | str) or small

    if is_plain(value):
        return {"value": value}
    if isinstance(value, list | tuple) and all(map(is_plain, value)):
        return {"value": list(value)}
    return {}


def _planner_paths(planner_data: Any) -> list[Any] | None:
    """Where each entry of a flattened state dict came from, as the default planner notes it."""
    if planner_data is None:
        return None
    known = isinstance(planner_data, dict) and all(
        isinstance(name, str) and isinstance(path, tuple) and all(isinstance(step, str | int) for step in path)
        for name, path in planner_data.items()
    )
    if not known:
        raise invalid("the planner's data cannot be stored: only that of DefaultSavePlanner is known")
    return [[name, list(path)] for name, path in planner_data.items()]


def __dir__() -> list[str]:
    return __all__
