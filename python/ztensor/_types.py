"""Types that several signatures share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from numpy.typing import NDArray

if TYPE_CHECKING:
    import array
    import mmap
    import os
    from collections.abc import Sequence

    from ._native import Reader

#: What tensors are compressed with: the codec for weights, the general one, or nothing.
Codec: TypeAlias = Literal["z4ai", "zstd"] | None

#: How hard z4ai tries: ``"fast"`` decodes fastest, ``"max"`` is smallest. ``"balanced"`` is another name for ``"default"``.
Effort: TypeAlias = Literal["fast", "default", "max", "balanced"] | None

#: The older word for codec, effort and level. ``False``: raw; ``True``: zstd level 3; 1 to 22: that zstd level; the name of a codec or
#: an effort.
Compression: TypeAlias = bool | int | str | None

#: What is stored to check tensors against.
Checksum: TypeAlias = Literal["none", "crc32c", "sha256"] | None

#: Whether quantised tensors become the numbers they stand for: ``True`` is float32; or float32, float16 or bfloat16, by name or as a
#: dtype.
Dequantize: TypeAlias = bool | str | type | Any | None

#: A function of the bytes done and the bytes in all, called while long work goes on. What it raises ends the work.
Progress: TypeAlias = Callable[[int, int], object] | None

#: A file's name.
Path: TypeAlias = "str | os.PathLike[str]"

#: One file, or several that are loaded as one.
Paths: TypeAlias = "Path | Iterable[Path]"

#: How safetensors names the two ways to read a file; ``None`` takes the better one for the file system.
Backend: TypeAlias = Literal["mmap", "pread"] | None

#: Text stored with a file.
Metadata: TypeAlias = dict[str, str] | None

#: Where the base of a delta is.
Base: TypeAlias = "str | os.PathLike[str] | Reader | Sequence[str | os.PathLike[str] | Reader] | None"

#: Endpoints and keys for files by URL, by the names that fsspec (s3fs, gcsfs, adlfs), boto3, obstore and polars have for them:
#: ``endpoint_url``, ``key``, ``secret``, ``token``, ``region``, ``anon``, ``account_name``, ``account_key``, ``headers``, …
StorageOptions: TypeAlias = dict[str, Any] | None

#: Anything with the buffer protocol. ``collections.abc.Buffer`` exists from Python 3.12 on.
Buffer: TypeAlias = "bytes | bytearray | memoryview | array.array[Any] | mmap.mmap | NDArray[Any]"

#: What is known of a file: loading it runs nothing but what makes tensors; unknown code; code that reaches the system.
Verdict: TypeAlias = Literal["safe", "could_not_tell", "dangerous"]

#: How far a name can be trusted that loading a file would import.
Trust: TypeAlias = Literal["harmless", "unknown", "dangerous"]


class ScannedPart(TypedDict):
    """A part of a file that may run code: a pickle, or the description of a Keras model."""

    name: str
    kind: Literal["pickle", "keras", "member"]
    verdict: Verdict
    #: Names that would be imported.
    globals: dict[str, Trust]
    #: Calls that would be made, with their arguments, where they are not known to be harmless.
    calls: dict[str, Trust]
    #: Why the part could not be followed to its end.
    error: str | None


class ScanReport(TypedDict):
    """What loading a file with the library it was made for would run."""

    verdict: Verdict
    parts: list[ScannedPart]


def io_of(backend: Backend) -> Literal["auto", "mmap", "read"]:
    """What ``Reader`` calls a backend."""
    names: dict[Backend, Literal["auto", "mmap", "read"]] = {None: "auto", "mmap": "mmap", "pread": "read"}
    try:
        return names[backend]
    except KeyError:
        raise ValueError(f'backend must be "mmap" or "pread", not {backend!r}') from None
