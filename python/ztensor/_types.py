"""Types that several signatures share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from numpy.typing import NDArray

if TYPE_CHECKING:
    import array
    import mmap

#: ``False``: raw; ``True``: zstd level 3; 1 to 22: that zstd level; a codec's name.
Compression: TypeAlias = bool | int | str | None

#: How safetensors names the two ways to read a file; ``None`` takes the better one for the file system.
Backend: TypeAlias = Literal["mmap", "pread"] | None

#: Text stored with a file.
Metadata: TypeAlias = dict[str, str] | None

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
