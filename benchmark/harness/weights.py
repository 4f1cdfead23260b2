"""Raw weight files with an index beside them (`minilm.bf16` and `minilm.bf16.tsv`), as `codec/sets.py` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

WIDTHS = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8_e4m3": 1, "fp8_e5m2": 1, "opaque": 1}


@dataclass(frozen=True)
class Weights:
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def suffix(self) -> str:
        return self.path.suffix.removeprefix(".")

    @property
    def dtype(self) -> str | None:
        """The codec's name of the element type; `None` for bytes that are no numbers."""
        return None if self.suffix == "opaque" else self.suffix

    @property
    def width(self) -> int:
        return WIDTHS[self.suffix]

    def pieces(self, granularity: str) -> list[tuple[bytes, tuple[int, ...] | None]]:
        """The whole file as one buffer without a shape, or every tensor with its shape."""
        contents = self.path.read_bytes()
        if granularity == "whole":
            return [(contents, None)]
        found = []
        for line in Path(f"{self.path}.tsv").read_text().splitlines():
            offset, length, shape, _ = line.split("\t")
            begin = int(offset)
            sizes = tuple(int(size) for size in shape.split(",") if size)
            found.append((contents[begin : begin + int(length)], sizes))
        return found


def weights_in(directory: Path) -> list[Weights]:
    return [Weights(path.with_suffix("")) for path in sorted(directory.glob("*.tsv"))]
