"""Types that several signatures share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

if TYPE_CHECKING:
    import array
    import mmap

#: ``False``: raw; ``True``: zstd level 3; 1 to 22: that zstd level; a codec's name.
Compression: TypeAlias = bool | int | str | None

#: Text stored with a file.
Metadata: TypeAlias = dict[str, str] | None

#: Anything with the buffer protocol. ``collections.abc.Buffer`` exists from Python 3.12 on.
Buffer: TypeAlias = "bytes | bytearray | memoryview | array.array[Any] | mmap.mmap | NDArray[Any]"
