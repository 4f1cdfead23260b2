"""The native half of ztensor and z4ai."""

import builtins
import os
from collections.abc import Iterable, Iterator, KeysView, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar, final, overload

import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from ._arrays import Dimensions, StorageType
from ._store import (
    AddReport,
    CheckpointInfo,
    DiffReport,
    ExportReport,
    GcReport,
    GetReport,
    Listing,
    PinInfo,
    Problem,
    PruneReport,
    StoreInfo,
    StoreStats,
)
from ._types import Base, Buffer, Checksum, Codec, Compression, Dequantize, Effort, Progress, ScanReport, StorageOptions

_Array: TypeAlias = NDArray[Any]
_Names: TypeAlias = list[str] | tuple[str, ...] | set[str] | KeysView[str] | Iterator[str]
_Path: TypeAlias = str | os.PathLike[str]
_Default = TypeVar("_Default")
_Device: TypeAlias = str | int | torch.device | None

__all__ = [
    "Limits",
    "Memory",
    "Reader",
    "Snapshot",
    "Store",
    "Tensor",
    "TensorMetadata",
    "TensorSlice",
    "Writer",
    "__version__",
    "apply_bytes",
    "apply_file",
    "archive_bytes",
    "archive_file",
    "archive_tensors",
    "codec_widths",
    "compress",
    "compress_delta",
    "decompress",
    "decompress_array",
    "decompress_delta",
    "delta_bytes",
    "delta_file",
    "element_types",
    "fetch",
    "file_length",
    "is_delta",
    "printable",
    "read_file",
    "read_metadata",
    "remove_tensors",
    "repair",
    "replace_tensor",
    "restore_bytes",
    "restore_file",
    "run_cli",
    "run_z4ai",
    "safe_open",
    "save",
    "save_file",
    "scan",
    "write_metadata",
]

__version__: Final[str]

@final
class Memory:
    """The object that keeps an array's memory alive; NumPy shows it as the array's `base`."""

@final
class Limits:
    """What a file may cost before it is refused; limits that are not given keep their defaults, and ``float("inf")`` is no limit."""

    def __new__(
        cls,
        *,
        header: float | None = None,
        index: float | None = None,
        objects: float | None = None,
        stream: float | None = None,
        decoded: float | None = None,
        ratio: float | None = None,
    ) -> Self: ...
    @property
    def header(self) -> int:
        """Bytes of one manifest, header or pickle, and bytes that are decoded to index an archive."""
    @property
    def index(self) -> int:
        """Memory that the index may take."""
    @property
    def objects(self) -> int:
        """Tensors in a file."""
    @property
    def stream(self) -> int:
        """Bytes taken into memory from a pipe."""
    @property
    def decoded(self) -> int:
        """Bytes that the tensors of a file may take once decoded; what is lent from a memory map is not decoded."""
    @property
    def ratio(self) -> int:
        """How many times as long as the file its tensors may be once decoded, beyond a gigabyte."""
    def __eq__(self, other: object, /) -> bool: ...

@final
class TensorMetadata:
    """Shape, types and layout of one tensor in a file; nothing of its data has been read."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> list[int]:
        """Tensor dimensions, outermost first."""
    @property
    def dtype(self) -> str:
        """Storage type of the values, such as "float32"."""
    @property
    def type(self) -> str | None:
        """Logical type, such as "f8_e4m3fn"; None when the storage type says it all."""
    @property
    def layout(self) -> str:
        """Layout, such as "dense" or "sparse_csr"."""
    @property
    def format(self) -> str:
        """Another name for layout."""
    @property
    def attributes(self) -> dict[str, Any] | None:
        """The tensor's own attributes, or None."""
    @property
    def components(self) -> dict[str, dict[str, Any]]:
        """The components by role: dtype, type, offset, length (bytes once decoded), stored_length (bytes in the file), encoding and
        digest.
        """
    @property
    def nbytes(self) -> int:
        """Bytes of all components once decoded."""

@final
class Tensor(NDArrayOperatorsMixin):
    """A tensor as its component arrays: one array "data" when dense, several when sparse or quantized.

    A dense tensor is an array: np.asarray, indexing, arithmetic and the methods of ndarray work on it. One that is not dense has
    dequantize() or to_dense(), and components.
    """

    def __new__(
        cls,
        components: dict[str, _Array],
        *,
        shape: Sequence[int] | None = None,
        dtype: object = None,
        format: str = "dense",
        type: str | None = None,
        attributes: dict[str, Any] | None = None,
        layout: str = "dense",
    ) -> Self: ...
    @property
    def shape(self) -> Dimensions:
        """Tensor dimensions, outermost first; equal to a list and to a tuple of them."""
    @property
    def dtype(self) -> StorageType:
        """Storage type of the values, such as "float32"; equal to the NumPy type too."""
    @property
    def type(self) -> str | None:
        """Logical type, such as "f8_e4m3fn"; None when the storage type says it all."""
    @property
    def layout(self) -> str:
        """Layout, such as "dense" or "sparse_csr"."""
    @property
    def format(self) -> str:
        """Another name for layout."""
    @property
    def components(self) -> dict[str, _Array]:
        """The component arrays by role."""
    @property
    def attributes(self) -> dict[str, Any] | None:
        """The tensor's own attributes, or None."""
    @property
    def ndim(self) -> int:
        """The number of dimensions."""
    @property
    def size(self) -> int:
        """The number of elements."""
    @property
    def nbytes(self) -> int:
        """Bytes of all components."""
    def numpy(self) -> _Array:
        """The tensor as a NumPy array (dense tensors only)."""
    def torch(self, *, device: _Device = "cpu") -> torch.Tensor:
        """The tensor as a torch.Tensor, without a copy where PyTorch can use the memory; a sparse one as PyTorch's own."""
    def dequantize(self, dtype: Dequantize = "float32") -> Tensor:
        """The dense tensor of numbers that ggml blocks or PyTorch's quantised integers stand for; a dense tensor is itself.

        dtype: float32, float16 or bfloat16.
        """
    def to_dense(self) -> Tensor:
        """The dense tensor with all elements of a sparse one; a dense tensor is itself."""
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> _Array: ...
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any: ...
    def __dlpack__(self, **options: Any) -> Any: ...
    def __jax_array__(self) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: Any, /) -> Any:
        """A part of a dense tensor, as of a NumPy array. Of a tensor that has not been read, only what the part needs is decoded."""
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __contains__(self, value: object, /) -> bool: ...
    def __bool__(self) -> bool: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...
    def __getattribute__(self, name: str, /) -> Any:
        """Everything else that a NumPy array has, too."""
    def __getnewargs_ex__(self) -> tuple[tuple[dict[str, _Array]], dict[str, Any]]:
        """What pickle and copy make the tensor from again."""

@final
class Reader:
    """Opens a model file of any format: .zt, .safetensors, .pt/.pth/.bin, .gguf, .npz/.npy, .onnx, .h5/.hdf5/.keras."""

    def __new__(
        cls,
        path: _Path,
        io: Literal["auto", "mmap", "read"] = "auto",
        verify: bool = True,
        *,
        base: Base = None,
        keep_open: bool = False,
        limits: Limits | None = None,
        storage_options: StorageOptions = None,
    ) -> Self:
        """:param keep_open: keep a mapped file open as well: copies are then read, which is faster than out of the map."""
    @staticmethod
    def from_bytes(
        data: bytes | bytearray,
        verify: bool = True,
        *,
        base: Base = None,
        limits: Limits | None = None,
    ) -> Reader:
        """Opens a file that is already in memory. Tensors are copied out of it."""
    def keys(self) -> list[str]:
        """The names of all tensors."""
    @property
    def format(self) -> str:
        """The detected format: "zt", "safetensors", "pickle", "gguf", "npz", "onnx" or "hdf5"."""
    @property
    def archive(self) -> dict[str, Any] | None:
        """What the archive or delta says, where the file was opened through one: format, length and sha256 of the original, stored
        bytes, and the base of a delta. None for other files.
        """
    def stored_length(self, name: str) -> int:
        """Bytes that a tensor takes in the file; in an archive, those of its compressed form."""
    @property
    def file_metadata(self) -> dict[str, Any]:
        """The file's own metadata."""
    def tree(self) -> str | None:
        """The text of the tree that the file holds, which load_tree loads; None where there is none."""
    def skipped(self) -> dict[str, str]:
        """What the file holds but cannot be read, with the reasons."""
    @property
    def recovered(self) -> dict[str, Any] | None:
        """What is not finished, where a write to the file was interrupted or is going on: this is its last complete state.

        "edit" ("append", "replace", "repair") and "unfinished_bytes". None for files that are complete.
        """
    @overload
    def metadata(self, name: str) -> TensorMetadata: ...
    @overload
    def metadata(self, name: _Names) -> list[TensorMetadata]: ...
    @overload
    def read(self, name: str, *, copy: bool = False, dequantize: Dequantize = None) -> Tensor: ...
    @overload
    def read(self, name: _Names, *, copy: bool = False, dequantize: Dequantize = None) -> dict[str, Tensor]: ...
    @overload
    def read_numpy(
        self, name: str, *, copy: bool = False, dequantize: Dequantize = None, objects: bool = False
    ) -> _Array: ...
    @overload
    def read_numpy(
        self, name: _Names, *, copy: bool = False, dequantize: Dequantize = None, objects: bool = False
    ) -> dict[str, _Array]: ...
    def read_tensors(self, names: _Names, *, copy: bool = False) -> dict[str, _Array]:
        """The same as read_numpy of a list."""
    @overload
    def read_torch(
        self,
        name: str,
        *,
        copy: bool = False,
        device: _Device = "cpu",
        dequantize: Dequantize = None,
        objects: bool = False,
    ) -> torch.Tensor: ...
    @overload
    def read_torch(
        self,
        name: _Names,
        *,
        copy: bool = False,
        device: _Device = "cpu",
        dequantize: Dequantize = None,
        objects: bool = False,
    ) -> dict[str, torch.Tensor]: ...
    def read_slice(self, name: str, slices: Any, *, dequantize: Dequantize = None) -> _Array:
        """Reads a part of a dense tensor as a NumPy array: slices is what one would write between the brackets of array[...]."""
    def read_regions(self, regions: Sequence[tuple[str, Sequence[int], Sequence[int], Any]]) -> None:
        """Reads regions of dense tensors into PyTorch tensors: each is a name, the first element and the number of elements in each
        dimension, and a contiguous CPU tensor of just that shape and type.
        """
    @overload
    def read_into(
        self, name: str, dst: _Array | torch.Tensor, *, cast: bool = False, dequantize: Dequantize = None
    ) -> None: ...
    @overload
    def read_into(
        self,
        name: dict[str, _Array] | dict[str, torch.Tensor] | dict[str, _Array | torch.Tensor],
        dst: None = None,
        *,
        cast: bool = False,
        dequantize: Dequantize = None,
    ) -> None: ...
    def values(self) -> list[Tensor]:
        """The tensors in the order of keys(), each as a ztensor.Tensor that is read when it is first used."""
    def items(self) -> list[tuple[str, Tensor]]:
        """Names and tensors, as keys() and values() have them."""
    @overload
    def get(self, name: str) -> Tensor | None: ...
    @overload
    def get(self, name: str, default: _Default) -> Tensor | _Default: ...
    def close(self) -> None:
        """Closes the reader. Tensors that were read stay valid."""
    def __getitem__(self, name: str, /) -> Tensor: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class Snapshot:
    """Tensors as they were at one moment, in memory that is used again for the next."""

    def __new__(cls) -> Self: ...
    def take(self, tensors: dict[str, Any], metadata: dict[str, str]) -> None:
        """Copies tensors. What was held before is gone."""
    @property
    def nbytes(self) -> int:
        """Bytes of the file that holds the tensors."""

class Store:
    """The native half of ztensor.Store."""

    def __new__(
        cls,
        location: _Path,
        create: bool = False,
        *,
        storage_options: StorageOptions = None,
        grace: float = 86400.0,
        single_writer: bool = False,
    ) -> Self: ...
    @property
    def location(self) -> Path:
        """Where the store is."""
    @property
    def address(self) -> str:
        """Where the store is, as text: a URL stays one."""
    def add(
        self,
        path: _Path,
        name: str,
        *,
        base: str | None = "auto",
        metadata: dict[str, Any] | None = None,
        effort: Effort = None,
        dry_run: bool = False,
        progress: Progress = None,
    ) -> AddReport:
        """Adds a file or a folder as a checkpoint. It is there, whole, once this returns; an error leaves nothing of it that counts.

        base: "auto" finds what is similar in the whole store, a name looks in that checkpoint only, None stores what is new by itself.
        metadata: text, numbers, lists and dicts that are kept with it. dry_run: store nothing, and say what would be stored.
        """
    def add_snapshot(
        self,
        snapshot: Snapshot,
        name: str,
        *,
        base: str | None = "auto",
        metadata: dict[str, Any] | None = None,
        effort: Effort = None,
    ) -> AddReport:
        """Adds what a snapshot holds as a checkpoint of one file."""
    def add_part(
        self,
        stem: str,
        tensors: dict[str, Any],
        name: str,
        *,
        base: str | None = "auto",
        effort: Effort = None,
    ) -> tuple[bytes, str, dict[str, tuple[int, int, str]], AddReport]:
        """Stores tensors of one writer among several as a file of a checkpoint that is to be. Returns what commit_parts needs, the
        file, the place of each tensor in it (offset, length and element type), and what came of it.
        """
    def commit_parts(
        self,
        name: str,
        parts: Sequence[bytes],
        files: Sequence[tuple[str, bytes]],
        *,
        base: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> AddReport:
        """Makes what several writers stored, and some files, a checkpoint. These may be differences to base as well."""
    def get(self, name: str, output: _Path, *, progress: Progress = None) -> GetReport:
        """Restores a checkpoint byte for byte: a folder to a folder that is new or empty, a single file to a file or into a folder."""
    def open(self, name: str, file: str | None = None, *, verify: bool = True, limits: Limits | None = None) -> Reader:
        """Opens a checkpoint, or one file or folder in it: all its tensors, whichever file they are in. Where two files have a
        tensor of one name, the file stands before it: "ema.pt::weight".
        """
    def list(self, run: str = "") -> builtins.list[Listing]:
        """The checkpoints by name: all, or those named run and below it."""
    def keys(self, run: str = "") -> builtins.list[str]:
        """The names of the checkpoints."""
    def log(self, run: str = "") -> builtins.list[Listing]:
        """The checkpoints in the order in which they were added."""
    def last(self, run: str = "") -> str | None:
        """The checkpoint below a run, or of all, that was added last."""
    @overload
    def info(self, name: None = None) -> StoreInfo:
        """What is known of a checkpoint, or of the store itself."""
    @overload
    def info(self, name: str) -> CheckpointInfo: ...
    def diff(self, first: str, second: str) -> DiffReport:
        """What changed from one checkpoint to another, tensor by tensor, across files and formats."""
    def stats(self) -> StoreStats:
        """How many bytes the checkpoints have and take."""
    def remove(self, *names: str) -> None:
        """Removes checkpoints. Others stay readable, whatever they were stored against; gc() frees the bytes."""
    def prune(
        self,
        run: str = "",
        *,
        keep_last: int = 0,
        keep_every: int | None = None,
        keep_name: str | Iterable[str] | None = None,
        dry_run: bool = False,
    ) -> PruneReport:
        """Removes the checkpoints of a run that no rule keeps: the last so many, those whose step is a multiple, those named so."""
    def gc(self, *, now: bool = False, force: bool = False, dry_run: bool = False) -> GcReport:
        """Deletes what no checkpoint refers to any more: one run proposes, one after the grace period deletes; now=True does both."""
    def verify(self, *, decode: bool = False, progress: Progress = None) -> builtins.list[Problem]:
        """Checks every pack against its digest, and with decode=True every file against its own. Returns what is wrong."""
    def export(self, name: str, output: _Path, *, effort: Effort = None, progress: Progress = None) -> ExportReport:
        """Writes a checkpoint as an archive (.zstn) that needs no store; it opens like the checkpoint, import_archive() takes it."""
    def import_archive(
        self,
        archive: _Path,
        name: str,
        *,
        base: str | None = "auto",
        metadata: dict[str, Any] | None = None,
        effort: Effort = None,
        dry_run: bool = False,
        progress: Progress = None,
    ) -> AddReport:
        """Adds what an archive or a delta holds: an exported checkpoint as it was, or the original of any other."""
    def pin(self, name: str) -> str:
        """Keeps what a checkpoint needs from being collected, also once it is removed, for 30 days or until unpin()."""
    def pins(self) -> builtins.list[PinInfo]:
        """The pins that are in place, the oldest first."""
    def unpin(self, pin: str) -> None:
        """Ends a pin."""
    def __contains__(self, name: str, /) -> bool: ...
    def __len__(self) -> int: ...

@final
class Writer:
    """Creates a .zt file, with compression and checksum chosen per tensor."""

    def __new__(cls, path: _Path, *, version: Literal[1, 2] = 1) -> Self: ...
    @staticmethod
    def append(path: _Path) -> Writer:
        """Opens an existing .zt file for more tensors. What it holds is kept, also when the process dies in the middle."""
    def write(
        self,
        name: str,
        tensor: Tensor,
        *,
        compress: Compression = None,
        checksum: Checksum = "none",
        codec: Codec = None,
        effort: Effort = None,
        level: int | None = None,
    ) -> None:
        """Writes a ztensor.Tensor of any format."""
    def write_numpy(
        self,
        name: str,
        data: _Array | Tensor,
        *,
        compress: Compression = None,
        checksum: Checksum = "none",
        codec: Codec = None,
        effort: Effort = None,
        level: int | None = None,
    ) -> None:
        """Writes a dense tensor from a NumPy array."""
    def write_torch(
        self,
        name: str,
        data: torch.Tensor,
        *,
        compress: Compression = None,
        checksum: Checksum = "none",
        codec: Codec = None,
        effort: Effort = None,
        level: int | None = None,
    ) -> None:
        """Writes a dense tensor from a torch.Tensor, wherever it is and however it is strided."""
    def add(
        self,
        name: str,
        data: _Array | Tensor,
        compress: Compression = None,
        checksum: Checksum = "none",
        *,
        codec: Codec = None,
        effort: Effort = None,
        level: int | None = None,
    ) -> None:
        """The same as write_numpy."""
    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Sets metadata of the file; Reader.file_metadata reads it."""
    def finish(self) -> int:
        """Writes the manifest and puts the file in place. Returns its size in bytes."""
    def discard(self) -> None:
        """Gives up the file: nothing appears under its path, and a file that was appended to stays as it was."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...

@final
class TensorSlice:
    """A tensor of a file to take parts of, by indexing it as one would index a NumPy array. Made by safe_open.get_slice."""

    def get_shape(self) -> list[int]:
        """The shape of the whole tensor."""
    def get_dtype(self) -> str:
        """The element type by the name safetensors gives it, such as "F32"; our own name where it has none."""
    def __getitem__(self, key: Any, /) -> Any: ...

@final
class safe_open:
    """Opens a model file of any format lazily and gives tensors as they are asked for."""

    def __new__(
        cls,
        filename: _Path,
        framework: str,
        device: _Device = "cpu",
        *,
        backend: Literal["mmap", "pread"] | None = None,
        base: Base = None,
        dequantize: Dequantize = None,
        limits: Limits | None = None,
        storage_options: StorageOptions = None,
    ) -> Self: ...
    def keys(self) -> list[str]:
        """The names of all tensors, sorted."""
    def offset_keys(self) -> list[str]:
        """The names of all tensors in the order of their data in the file."""
    def metadata(self) -> dict[str, str] | None:
        """The file's own metadata as text, or None where it has none."""
    def get_tensor(self, name: str) -> Any:
        """One tensor."""
    def get_tensors(self) -> dict[str, Any]:
        """All tensors by name."""
    def get_slice(self, name: str) -> TensorSlice:
        """One tensor to take parts of, as in `file.get_slice(name)[:, 2:4]`."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

def codec_widths() -> dict[str, int]:
    """Bytes per element of every spelling of every dtype of the codec."""

def compress(
    data: Buffer | Any,
    *,
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    level: int | None = None,
    threads: int = 0,
    effort: str | None = None,
) -> bytes:
    """Compresses a buffer, a NumPy array or a torch.Tensor into a z4ai frame."""

def decompress(blob: Buffer, *, out: Any = None, threads: int = 0, max_output: int | None = None) -> Any:
    """Restores the bytes of a z4ai frame, into `out` if it is given. `out` must have exactly the right size."""

def decompress_array(blob: Buffer, *, threads: int = 0, max_output: int | None = None) -> _Array:
    """Restores the array of a z4ai frame, with its dtype and shape."""

def archive_file(
    source: _Path,
    target: _Path,
    *,
    effort: str | None = None,
    level: int | None = None,
    threads: int = 0,
    progress: Progress = None,
    storage_options: StorageOptions = None,
) -> dict[str, Any]:
    """Archives a model file of any format."""

def archive_bytes(
    data: bytes | bytearray, *, effort: str | None = None, level: int | None = None, threads: int = 0
) -> bytes:
    """Archives a model file that is in memory."""

def archive_tensors(
    tensors: dict[str, Any],
    target: _Path,
    metadata: dict[str, str] | None = None,
    *,
    effort: str | None = None,
    level: int | None = None,
    threads: int = 0,
    progress: Progress = None,
) -> dict[str, Any]:
    """Archives tensors as the .safetensors file that they would make."""

def restore_file(
    source: _Path,
    target: _Path,
    *,
    progress: Progress = None,
    limits: Limits | None = None,
    storage_options: StorageOptions = None,
) -> int:
    """Restores the original of an archive. Returns its length."""

def restore_bytes(data: bytes | bytearray, *, limits: Limits | None = None) -> bytes:
    """Restores the original of an archive that is in memory."""

def delta_file(
    source: _Path,
    base: Base,
    target: _Path,
    *,
    effort: str | None = None,
    level: int | None = None,
    threads: int = 0,
    progress: Progress = None,
    storage_options: StorageOptions = None,
) -> dict[str, Any]:
    """Stores a model file as differences to a base, which is a path or a Reader, or to a list of them."""

def delta_bytes(
    data: bytes | bytearray,
    base: Base,
    *,
    effort: str | None = None,
    level: int | None = None,
    threads: int = 0,
) -> bytes:
    """Stores a model file that is in memory as differences to a base."""

def apply_file(
    source: _Path,
    base: Base,
    target: _Path,
    *,
    progress: Progress = None,
    limits: Limits | None = None,
    storage_options: StorageOptions = None,
) -> int:
    """Restores the model file of a delta. Returns its length."""

def apply_bytes(data: bytes | bytearray, base: Base, *, limits: Limits | None = None) -> bytes:
    """Restores the model file of a delta that is in memory."""

def compress_delta(
    current: Buffer | Any,
    reference: Buffer | Any,
    *,
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    level: int | None = None,
    threads: int = 0,
    effort: str | None = None,
) -> bytes:
    """Compresses a buffer, an array or a tensor against a reference."""

def decompress_delta(
    blob: Buffer, reference: Buffer | Any, *, out: Any = None, threads: int = 0, max_output: int | None = None
) -> Any:
    """Restores the bytes of a delta with its reference, into `out` if it is given."""

def is_delta(blob: Buffer) -> bool:
    """Whether some bytes are a z4ai frame that needs a reference."""

def save_file(
    tensors: dict[str, Any],
    path: _Path,
    metadata: dict[str, Any] | None = None,
    compression: Compression = None,
    *,
    codec: Codec = None,
    effort: Effort = None,
    level: int | None = None,
    checksum: Checksum = None,
    progress: Progress = None,
) -> None:
    """Writes NumPy arrays, PyTorch tensors and ztensor.Tensors to a file: .safetensors when the path ends so, .zt otherwise."""

def save(
    tensors: dict[str, Any],
    metadata: dict[str, Any] | None = None,
    compression: Compression = None,
    *,
    codec: Codec = None,
    effort: Effort = None,
    level: int | None = None,
    checksum: Checksum = None,
) -> bytes:
    """Writes NumPy arrays, PyTorch tensors and ztensor.Tensors as the bytes of a .zt file."""

def element_types() -> list[dict[str, Any]]:
    """Every element type, for the packages and their tests: its names, bits and the fields of floats."""

def printable(text: str) -> str:
    """Text with everything escaped that would not be seen as itself, for messages that hold names from files."""

def remove_tensors(input: _Path, output: _Path, names: Sequence[str]) -> None:
    """Writes a copy of a .zt file without some of its tensors; encodings, checksums and attributes of the others are kept."""

def replace_tensor(path: _Path, name: str, data: _Array | Tensor) -> None:
    """Replaces the data of a dense, uncompressed tensor inside a .zt file by an array of the same type and byte size.

    Who has the file open keeps the old data.
    """

def repair(path: _Path, *, at: int | None = None) -> bool:
    """Cuts off what an interrupted append or replacement left behind the last complete state of a .zt file.

    Returns whether there was something. at: go back to the state that ended at this offset, in a file of an earlier version that does
    not say where its last complete state ends.
    """

def read_metadata(path: _Path) -> dict[str, Any]:
    """The metadata of a file of any format."""

def write_metadata(
    path: _Path,
    metadata: dict[str, Any] | None = None,
    *,
    remove: Sequence[str] = ...,
    types: dict[str, str] | None = None,
    progress: Progress = None,
) -> None:
    """Changes metadata of a .zt, .safetensors or .gguf file in place; its tensors are not read."""

def read_file(path: _Path, *, storage_options: StorageOptions = None) -> bytes:
    """The bytes of a file: by path, by URL, or of one in a checkpoint of a store."""

def file_length(path: _Path, *, storage_options: StorageOptions = None) -> int:
    """Bytes of a file by path or URL."""

def fetch(path: _Path, output: _Path, *, storage_options: StorageOptions = None) -> int:
    """Copies a file by path or URL to a path, where it appears whole or not at all. Returns its bytes."""

def scan(path: _Path, *, limits: Limits | None = None, storage_options: StorageOptions = None) -> ScanReport:
    """Scans a file of any format without running anything in it. What the limits leave out could not be told."""

def run_cli(arguments: Sequence[str]) -> int:
    """Runs the ztensor command with the arguments of a process, the program's name first. Returns the exit code."""

def run_z4ai(arguments: Sequence[str]) -> int:
    """Runs the z4ai command in the same way."""
