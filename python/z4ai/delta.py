"""A buffer stored as its differences to another one, under the names that z4ai 0.2 has in its module of this name.

>>> from z4ai import delta
>>> blob = delta.compress(step_2000, step_1000, dtype="bf16")
>>> assert delta.decompress(blob, step_1000) == step_2000
"""

from __future__ import annotations

from ztensor import _native as native
from ztensor._types import Buffer

from . import compress_delta as compress
from . import decompress_delta as decompress

__all__ = ["compress", "decompress", "peek_is_delta"]


def peek_is_delta(blob: Buffer) -> bool:
    """Whether some bytes are a frame that needs a reference."""
    return native.is_delta(blob)


def __dir__() -> list[str]:
    return __all__
