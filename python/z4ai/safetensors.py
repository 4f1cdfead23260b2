"""Archives of model files: smaller, restored byte for byte, and read tensor by tensor.

>>> from z4ai.safetensors import ZstnReader, compress_file, decompress_file
>>> stats = compress_file("model.safetensors", "model.zstn")
>>> decompress_file("model.zstn", "model.safetensors")

The functions are named after ``.safetensors`` files and take model files of every readable format. Archives also open with
:func:`ztensor.open`, :class:`ztensor.safe_open` and ``load_file``, like the files they hold.
"""

from __future__ import annotations

import os
import time
from typing import Any, Self

from numpy.typing import NDArray

import ztensor
from ztensor import _native as native
from ztensor._types import Base, Buffer, Effort, Progress, StorageOptions

from ._stats import Stats, restored, stats

__all__ = ["ZstnReader", "compress_bytes", "compress_file", "decompress_bytes", "decompress_file"]

_Path = str | os.PathLike[str]

#: safetensors' names of element types, by ours.
_DTYPES: dict[str, str] = {row["name"]: row["safetensors"] for row in native.element_types() if row["safetensors"]}


def compress_file(
    in_path: _Path,
    out_path: _Path,
    *,
    level: int | None = None,
    threads: int = 0,
    workers: int | None = None,
    effort: Effort = None,
    progress: Progress = None,
    storage_options: StorageOptions = None,
) -> Stats:
    """Archives a model file. The archive appears under its name when it is complete.

    :param level: zstd level, 1 to 22, for what is not coded as floats; by default one that suits the effort.
    :param threads: worker threads; 0 uses all cores. ``workers`` is another name for it.
    :param effort: ``"fast"`` decodes fastest, ``"max"`` is smallest, ``"default"`` (or ``None``) is between them.
    :param progress: called with the bytes done and the bytes in all.
    :param storage_options: endpoints and keys, where ``in_path`` is a URL.
    """
    options: dict[str, Any] = {"effort": effort, "level": level, "threads": workers or threads, "progress": progress}
    return stats(native.archive_file(in_path, out_path, **options, storage_options=storage_options))


def decompress_file(
    in_path: _Path,
    out_path: _Path,
    *,
    workers: int | None = None,
    progress: Progress = None,
    limits: ztensor.Limits | None = None,
    storage_options: StorageOptions = None,
) -> Stats:
    """Restores the original of an archive. It appears under its name after its digest was found right; ``workers`` has no effect.

    :param progress: called with the bytes done and the bytes in all.
    :param limits: what the archive may cost; by default an original out of proportion to its archive is refused.
    :param storage_options: endpoints and keys, where ``in_path`` is a URL.
    """
    start = time.perf_counter()
    compressed = native.file_length(in_path, storage_options=storage_options)
    length = native.restore_file(in_path, out_path, progress=progress, limits=limits, storage_options=storage_options)
    return restored(length, compressed, time.perf_counter() - start)


def compress_bytes(
    blob: Buffer, *, level: int | None = None, threads: int = 0, workers: int | None = None, effort: Effort = None
) -> bytes:
    """Archives a model file that is in memory."""
    return native.archive_bytes(as_bytes(blob), effort=effort, level=level, threads=workers or threads)


def decompress_bytes(frame: Buffer, *, workers: int | None = None, limits: ztensor.Limits | None = None) -> bytes:
    """Restores the original of an archive in memory, after its digest was found right; ``workers`` has no effect.

    :param limits: what the archive may cost; by default an original out of proportion to its archive is refused.
    """
    return native.restore_bytes(as_bytes(frame), limits=limits)


class ZstnReader:
    """Reads tensors out of an archive, decoding only those that are asked for.

    >>> with ZstnReader.open("model.zstn") as reader:
    ...     weight = reader.read_numpy("layer.weight")
    """

    def __init__(self, reader: ztensor.Reader) -> None:
        """Takes an opened file; :meth:`open` and :meth:`from_bytes` are the usual ways in."""
        if reader.archive is None:
            raise ValueError(f"this is a {reader.format} file, not an archive")
        self._reader = reader

    @classmethod
    def open(
        cls,
        path: _Path,
        *,
        base: Base = None,
        limits: ztensor.Limits | None = None,
        storage_options: StorageOptions = None,
    ) -> Self:
        """Opens an archive, or a delta together with its base; ``limits`` says what it may cost, ``storage_options`` has endpoints
        and keys for URLs.
        """
        return cls(ztensor.Reader(path, base=base, limits=limits, storage_options=storage_options))

    @classmethod
    def from_bytes(cls, frame: Buffer, *, limits: ztensor.Limits | None = None) -> Self:
        """Opens an archive that is in memory; ``limits`` says what it may cost."""
        return cls(ztensor.Reader.from_bytes(as_bytes(frame), limits=limits))

    def names(self) -> list[str]:
        """The names of all tensors, in the order of their data."""
        return sorted(self._reader.keys(), key=self._place)

    def header(self) -> dict[str, Any]:
        """The tensors as the header of a ``.safetensors`` file lists them: dtype, shape and data_offsets, and ``__metadata__``."""
        entries: dict[str, Any] = {}
        metadata = self.metadata()
        if metadata:
            entries["__metadata__"] = metadata
        names = self.names()
        begin = min((start for start, length in map(self._extent, names) if length), default=0)
        position = 0
        for name in names:
            start, length = self._extent(name)
            position = start - begin if length else position
            about = self._reader.metadata(name)
            entries[name] = {
                "dtype": self._dtype(name),
                "shape": list(about.shape),
                "data_offsets": [position, position + length],
            }
            position += length
        return entries

    def metadata(self) -> dict[str, str]:
        """The file's own metadata as text; empty if it has none."""
        return {
            key: value if isinstance(value, str) else str(value) for key, value in self._reader.file_metadata.items()
        }

    def read_raw(self, name: str) -> bytes:
        """The bytes of one tensor."""
        tensor = self._reader.read(name)
        return b"".join(array.tobytes() for array in tensor.components.values())

    def read_numpy(self, name: str) -> NDArray[Any]:
        """One tensor as an array. bfloat16 and the 8-bit floats need the package ``ml_dtypes``."""
        array: NDArray[Any] = self._reader.read_numpy(name)
        return array

    def frame_size(self, name: str) -> int:
        """Bytes one tensor takes in the archive."""
        return self._reader.stored_length(name)

    def close(self) -> None:
        """Closes the archive. Arrays that were read stay valid."""
        self._reader.close()

    def __contains__(self, name: object) -> bool:
        return name in self._reader

    def __len__(self) -> int:
        return len(self._reader)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _extent(self, name: str) -> tuple[int, int]:
        """Where a tensor's bytes begin in the original, and how many there are."""
        about = self._reader.metadata(name)
        offsets = [part["offset"] for part in about.components.values() if part["offset"] is not None]
        return min(offsets, default=0), about.nbytes

    def _place(self, name: str) -> tuple[int, bool]:
        start, length = self._extent(name)
        return start, length > 0

    def _dtype(self, name: str) -> str:
        about = self._reader.metadata(name)
        return _DTYPES.get(about.type or about.dtype, (about.type or about.dtype).upper())


def as_bytes(data: Buffer) -> bytes | bytearray:
    """Bytes as they are, other buffers as a copy."""
    # Not bytes(data), which would make bytes of a number, too.
    return data if isinstance(data, bytes | bytearray) else memoryview(data).tobytes()  # type: ignore[arg-type]


def __dir__() -> list[str]:
    return __all__
