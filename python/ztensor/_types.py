"""Types that several signatures share."""

from __future__ import annotations

from typing import TypeAlias

#: ``False``: raw; ``True``: zstd level 3; 1 to 22: that zstd level; a codec's name.
Compression: TypeAlias = bool | int | str | None

#: Text stored with a file.
Metadata: TypeAlias = dict[str, str] | None
