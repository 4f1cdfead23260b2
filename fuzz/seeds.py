"""Writes the seeds of the codec's targets to `fuzz/seeds/`: `python fuzz/seeds.py`. Those of the parsers were found by fuzzing.

Fuzzing builds take every checksum of a frame for 0, so the golden frames cannot be seeds as they are: here their
checksums are set to 0.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SEEDS = ROOT / "fuzz" / "seeds"
#: Larger frames would slow down the search.
LARGEST = 8192
WIDTHS = [1, 2, 2, 4, 8, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 1, 8, 16]


class Frame:
    """A frame that is read from front to back, its checksums set to 0 on the way."""

    def __init__(self, data: bytes) -> None:
        """Starts behind the magic and the version."""
        self.data, self.at = bytearray(data), 5

    def byte(self) -> int:
        """Reads a byte."""
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        """Reads a number."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def clear(self, count: int) -> None:
        """Sets bytes to 0 and passes them."""
        self.data[self.at : self.at + count] = bytes(count)
        self.at += count

    def cleared(self) -> bytes:
        """Gives the frame without its checksums."""
        flags, dtype = self.byte(), self.byte()
        length: int | None = None
        if flags & 2:
            length = WIDTHS[dtype]
            for _ in range(self.varint()):
                length *= self.varint()
            length = length if flags & 1 else None
        elif flags & 1:
            length = self.varint()
        if flags & 4:
            name = self.varint()
            self.at += name
        if flags & 8:
            self.varint()
            self.at += 16
        self.clear(2)
        while length != 0 and (size := self.section(length)):
            length = None if length is None else length - size
        return bytes(self.data)

    def section(self, left: int | None) -> int:
        """Passes a section, and says how many bytes it decodes to."""
        first = self.varint()
        if left is not None and first <= 1:
            encoded = left if first else self.varint() + self.varint()
            self.clear(4)
            self.at += encoded
            return left
        length, originals = first >> 1, first >> 1
        if first & 1:
            for _ in range(self.varint()):
                _, copied, _ = self.varint(), self.varint(), self.varint()
                originals -= copied
        if first == 0:
            return 0
        block, model = self.varint(), self.varint()
        count = -(-originals // block) if block else 1
        lengths = [self.varint() for _ in range(count)]
        self.clear(4 * count)
        self.at += model
        self.clear(4)
        self.at += sum(lengths)
        return length


def case_of_the_tests(case: int) -> bytes:
    """Gives the input of a case in `agreement/structure.rs`, made by the same generator."""
    mask = (1 << 64) - 1
    state, choices = case * 0x9E37_79B9_7F4A_7C15 & mask | 1, bytearray()
    for _ in range(64):
        state ^= state << 13 & mask
        state ^= state >> 7
        state ^= state << 17 & mask
        choices.append((state * 0x2545_F491_4F6C_DD1D & mask) >> 8 & 255)
    choices[:3] = case % 18, case // 18 % 3, case // 54 % 15
    return bytes(choices)


def cbor(value: Any) -> bytes:
    """Gives a list, a number, a float or a text as CBOR."""
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    major, number = (0, value) if isinstance(value, int) else (4 if isinstance(value, list) else 3, len(value))
    if number < 0:
        major, number = 1, -1 - number
    sizes = ((24, ""), (1 << 8, "B"), (1 << 16, ">H"), (1 << 32, ">I"))
    place = next(place for place, (limit, _) in enumerate(sizes) if number < limit)
    head = bytes([major << 5 | (23 + place if place else number)])
    head += struct.pack(sizes[place][1], number) if place else b""
    if major == 4:
        return head + b"".join(cbor(item) for item in value)
    return head + value.encode() if major == 3 else head


def recipes() -> dict[str, list[Any]]:
    """Gives a recipe with each operation, over operands of 1024 bytes."""
    one, other = ["operand", 0, "bf16"], ["operand", 1, "bf16"]
    words, byte = ["operand", 0, "i16"], ["operand", 2, "u8"]
    scales = ["slice", 0, 32, ["operand", 1, "f16"]]
    levels = ["levels", "u8", "f32", 0.0, [0, 15], 64, 1, 16, scales]
    table = ["levels", "u8", "bf16", 1.0, [[-0.5, 0.0, 0.5], [3, 2, 0, 1]], 64, 1, 16, scales, one]
    return {
        "cast": ["cast", "f8_e4m3fn", 1, one],
        "rows": ["interleave", 2, 32, ["separate", 4, 16, one]],
        "join": ["join", one, ["slice", 3, 40, other]],
        "scaled": ["scaled", "i8", 32, 4, 8, ["slice", 0, 16, other], one],
        "q8_0": ["blocks", "q8_0", one],
        "q4_k": [
            "blocks",
            "q4_k",
            one,
            ["slice", 0, 2, ["operand", 1, "f16"]],
            ["slice", 2, 2, ["operand", 1, "f16"]],
            ["slice", 0, 16, byte],
            ["slice", 16, 16, byte],
        ],
        "sum": ["sum", "bf16", 3.0, [0.5, 0.25], one, other],
        "consensus": ["consensus", "f16", 1, [0.6, 0.4], [0.5, 0.0], one, other],
        "product": ["product", 4, 8, 16, 0.5, ["slice", 0, 32, words], ["slice", 32, 64, words]],
        "levels": ["packed", 4, [0, 1], 1, [*levels, one]],
        "zeros": ["packed", 4, [0, 4, 1, 5, 2, 6, 3, 7], 1, [*levels, ["slice", 0, 32, byte], one]],
        "table": ["packed", 4, [1, 0], 1, table],
        "columns": ["packed", 4, list(range(8)), 32, ["transposed", 32, 16, ["operand", 2, "u8"]]],
        "largest": ["largest", 32, 4, 8, one],
        "exponents": ["cast", "f8_e8m0", 0, ["operand", 0, "f8_e8m0"]],
    }


def main() -> None:
    """Writes all seeds that are missing."""
    for target in ("z4ai_decode", "z4ai_delta", "z4ai_kernels", "z4ai_structure", "archive", "recipe"):
        (SEEDS / target).mkdir(parents=True, exist_ok=True)
    for path in sorted((ROOT / "conformance" / "versions").glob("**/*.z4ai")):
        if path.stat().st_size <= LARGEST:
            frame = Frame(path.read_bytes()).cleared()
            is_delta = bool(frame[5] & 8)
            target, choice = ("z4ai_delta", b"\0") if is_delta else ("z4ai_decode", b"")
            (SEEDS / target / path.stem).write_bytes(choice + frame)
            if path.stem.endswith("fast"):
                (SEEDS / "z4ai_kernels" / path.stem).write_bytes(b"\1" + frame)
    # The first three bytes choose dtype, effort and how the data is made.
    generator = random.Random(14)
    for number in range(90):
        choices = bytes([number % 18, number // 18 % 3, number % 15]) + generator.randbytes(61)
        (SEEDS / "z4ai_structure" / f"{number:02}").write_bytes(choices)
    # Four models are rare among them; these cases of the deterministic run have them.
    for model, cases in {
        "subnormal": [505, 1333, 1927],
        "grid": [307, 343, 378],
        "adaptive": [144, 632, 846],
        "cast": [686, 1423, 3584],
    }.items():
        for case in cases:
            (SEEDS / "z4ai_structure" / f"{model}-{case}").write_bytes(case_of_the_tests(case))
    generator = random.Random(21)
    for name, recipe in recipes().items():
        encoded = cbor(recipe)
        # The length of the recipe, that of operands in 16 bytes, and where a part begins.
        (SEEDS / "recipe" / name).write_bytes(bytes([len(encoded), 64, 77]) + encoded + generator.randbytes(3072))
    for path in sorted((ROOT / "conformance" / "versions").glob("*/*.zstn")):
        (SEEDS / "archive" / path.stem).write_bytes(b"\0" + path.read_bytes())


if __name__ == "__main__":
    main()
