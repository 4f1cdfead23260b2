"""What came of compressing a file or restoring one."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, cast


class Stats(TypedDict):
    """What came of compressing a file or restoring one."""

    #: Bytes of the plain file.
    original_bytes: int
    #: Bytes of the compressed file.
    compressed_bytes: int
    #: The plain file's bytes for each of the compressed one.
    ratio: float
    #: What is saved, in percent of the plain file.
    saved_pct: float
    seconds: float
    #: Tensors in the file.
    tensors: NotRequired[int]
    #: Tensors that a delta takes from its base as they are.
    copied: NotRequired[int]
    #: Tensors that a delta stores as differences.
    deltas: NotRequired[int]
    #: Tensors that are stored as differences to what a recipe makes of others.
    derived: NotRequired[int]


#: What z4ai 0.2 calls some of them.
_OLDER = {
    "original": "original_bytes",
    "restored": "original_bytes",
    "bytes": "original_bytes",
    "stored": "compressed_bytes",
}


class _Stats(dict[str, Any]):
    """Answers to the older names, too, without listing them."""

    def __missing__(self, key: str) -> Any:
        return self[_OLDER[key]]


def stats(found: dict[str, Any]) -> Stats:
    """What the core reports."""
    return cast(Stats, _Stats(found))


def restored(original: int, compressed: int, seconds: float) -> Stats:
    """What came of restoring a file."""
    return stats(
        {
            "original_bytes": original,
            "compressed_bytes": compressed,
            "ratio": original / max(1, compressed),
            "saved_pct": 100 * (1 - compressed / max(1, original)),
            "seconds": seconds,
        }
    )
