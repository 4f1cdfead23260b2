"""Types that several signatures share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

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


def io_of(backend: Backend) -> Literal["auto", "mmap", "read"]:
    """What ``Reader`` calls a backend."""
    names: dict[Backend, Literal["auto", "mmap", "read"]] = {None: "auto", "mmap": "mmap", "pread": "read"}
    try:
        return names[backend]
    except KeyError:
        raise ValueError(f'backend must be "mmap" or "pread", not {backend!r}') from None
