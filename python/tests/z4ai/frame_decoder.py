"""A decoder of z4ai frames that follows the text of ``spec/z4ai.md``, for tests: plain Python, one element at a time.

``fast_decoder``, ``grid_decoder``, ``adaptive_decoder`` and ``reference_decoder`` add their models. Frames of zstd inside of blocks
are for the package ``zstandard``. Checksums, which need XXH3, are left out: tests compare what comes out with what went in.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np


@dataclass
class Element:
    """What a dtype code says of the elements: their bytes, and of floats the bits of exponents and NumPy's type.

    In deltas also the reference's bytes from the beginning of the section on.
    """

    width: int
    exponent_bits: int = 0
    type: Any = None
    reference: bytes = b""

    @property
    def mantissa_bits(self) -> int:
        return 8 * self.width - 1 - self.exponent_bits

    def bases(self, at: int, count: int) -> list[int]:
        """The elements of the reference in place of ``count`` ones from the position ``at`` on."""
        data = Bytes(self.reference[at * self.width :])
        return [int.from_bytes(data.take(self.width), "little") for _ in range(count)]


BF16, FP16, FP32 = Element(2, 8, ml_dtypes.bfloat16), Element(2, 5, np.float16), Element(4, 8, np.float32)
FP64 = Element(8, 11, np.float64)
E4M3, E5M2 = Element(1, 4, ml_dtypes.float8_e4m3fn), Element(1, 5, ml_dtypes.float8_e5m2)
INTEGERS = [Element(width) for width in (1, 1, 2, 2, 4, 4, 8, 8)]
#: By code. Complex numbers are two elements each.
ELEMENTS = [Element(1), BF16, FP16, FP32, FP64, E4M3, E5M2, *INTEGERS, Element(1), FP32, FP64]


class Bytes:
    """A position in bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        assert self.at + count <= len(self.data), "the bytes end early"
        self.at += count
        return self.data[self.at - count : self.at]

    def left(self) -> int:
        return len(self.data) - self.at

    def u8(self) -> int:
        return self.take(1)[0]

    def u16(self) -> int:
        return int.from_bytes(self.take(2), "little")

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                assert byte or shift == 7, "not in the shortest form"
                return value

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)


def decode(frame: bytes, reference: bytes | None = None) -> bytes:
    """The data of a frame, or of a delta against ``reference``."""
    reader = Bytes(frame)
    assert reader.take(4) == b"Z4AI" and reader.u8() == 2
    flags, dtype = reader.u8(), reader.u8()
    element, length = ELEMENTS[dtype], None
    if flags & 2:
        shape = [reader.varint() for _ in range(reader.varint())]
        if flags & 1:
            length = math.prod(shape) * element.width * (2 if dtype in (16, 17) else 1)
    elif flags & 1:
        length = reader.varint()
    if flags & 4:
        reader.take(reader.varint())
    if flags & 8:
        assert reference is not None and reader.varint() == len(reference)
        reader.take(16)
    reader.take(2)
    data = b""
    while length is None or len(data) < length:
        here = replace(element, reference=(reference or b"")[len(data) :])
        section = decode_section(reader, None if length is None else length - len(data), here)
        if section is None:
            break
        data += section
    assert reader.left() == 0 and length in (None, len(data))
    return data


def decode_section(reader: Bytes, left: int | None, element: Element) -> bytes | None:
    first = reader.varint()
    if left is None and first == 0:
        return None
    if first == 1:
        reader.u32()
        return reader.take(left or 0)
    if first == 0:
        assert left is not None
        model_length, block_length = reader.varint(), reader.varint()
        reader.u32()
        model, block = reader.take(model_length), reader.take(block_length)
        return decode_block(model, left, block, left, 0, element)
    length = first >> 1
    copies = []
    if first & 1:
        copies = [(reader.varint(), reader.varint(), reader.varint()) for _ in range(reader.varint())]
    originals_length = length - sum(copied for _, copied, _ in copies)
    block_length = reader.varint() or originals_length
    model_length = reader.varint()
    count = -(-originals_length // block_length)
    lengths = [reader.varint() for _ in range(count)]
    reader.take(4 * count)
    model = reader.take(model_length)
    reader.u32()
    originals = b""
    for encoded in lengths:
        decoded = min(block_length, originals_length - len(originals))
        at = len(originals) // element.width
        originals += decode_block(model, originals_length, reader.take(encoded), decoded, at, element)
    data, at = b"", 0
    for gap, copied, source in copies:
        data += originals[at : at + gap] + originals[source : source + copied]
        at += gap
    return data + originals[at:]


def decode_block(model: bytes, section: int, block: bytes, length: int, at: int, element: Element) -> bytes:
    """One block. ``section`` is the length of its section's originals, ``at`` the position of its first element."""
    if model[0] == 0:
        assert len(block) == length
        return block
    reader = Bytes(block)
    mode, count = reader.u8(), length // element.width
    if mode == 1:
        data = reader.take(length)
    elif mode == 2:
        data = reader.take(element.width) * count + reader.take(length % element.width)
    elif mode == 3:
        data = Bytes(element.reference[at * element.width :]).take(length)
    elif model == b"\x01":
        data = unzstd(reader.take(reader.left()), length)
    else:
        assert mode == 0
        decoder = read_model(Bytes(model), section // element.width, element)
        values = decoder(reader, count, at)
        data = b"".join(value.to_bytes(element.width, "little") for value in values)
        data += reader.take(length % element.width)
    assert reader.left() == 0
    return data


def unzstd(frame: bytes, length: int) -> bytes:
    """What a frame of zstd holds, which must be so many bytes."""
    import zstandard

    data = zstandard.ZstdDecompressor().decompress(frame, max_output_size=length)
    assert len(data) == length
    return bytes(data)


Decoder = Callable[[Bytes, int, int], list[int]]


def read_model(reader: Bytes, section: int, element: Element) -> Decoder:
    """What decodes the coded blocks of a section of so many elements."""
    decoder = MODELS[reader.u8()](reader, section, element)
    assert reader.left() == 0
    return decoder


# Entropy coding


@dataclass
class Table:
    """Frequencies that sum to a power of two."""

    precision: int
    frequencies: list[int]

    def __post_init__(self) -> None:
        assert sum(self.frequencies) == 1 << self.precision
        self.starts, self.symbols = [], []
        for symbol, frequency in enumerate(self.frequencies):
            self.starts.append(len(self.symbols))
            self.symbols += [symbol] * frequency


def read_table(reader: Bytes, precision: int) -> Table:
    bits = int.from_bytes(reader.data[reader.at :], "little")
    used = 0

    def take(count: int) -> int:
        nonlocal used
        used += count
        return bits >> (used - count) & ((1 << count) - 1)

    def rice(parameter: int) -> int:
        ones = 0
        while take(1):
            ones += 1
            if ones == 12:
                return take(16)
        return ones << parameter | take(parameter)

    first, last = take(8), take(8)
    frequencies = [0] * 256
    before = [0, 0]
    for symbol in range(first, last):
        mean = sum(before) // 2
        frequencies[symbol] = rice(mean.bit_length() - 1 if mean else 0)
        before = [before[1], frequencies[symbol]]
    frequencies[last] = (1 << precision) - sum(frequencies)
    reader.take(-(-used // 8))
    return Table(precision, frequencies)


def read_rans(
    reader: Bytes, count: int, table: Callable[[int, list[int]], Table], lanes: int | None = None
) -> list[int]:
    """Symbols of a stream; ``table`` gives the frequencies by the number of a symbol and those before it."""
    stream = Bytes(reader.take(reader.varint()))
    lanes = lanes or (1 if count < 512 else 4 if count < 32768 else 32)
    states = [stream.u32() for _ in range(lanes)]
    symbols: list[int] = []
    for number in range(count):
        chosen, state = table(number, symbols), states[number % lanes]
        slot = state & ((1 << chosen.precision) - 1)
        symbol = chosen.symbols[slot]
        state = chosen.frequencies[symbol] * (state >> chosen.precision) + slot - chosen.starts[symbol]
        if state < 1 << 15:
            state = state << 16 | stream.u16()
        states[number % lanes] = state
        symbols.append(symbol)
    assert stream.left() == 0 and set(states) <= {1 << 15}
    return symbols


PlaneDecoder = Callable[[Bytes, int], bytes]


def read_plane_model(reader: Bytes, lanes: Callable[[int], int | None] = lambda _count: None) -> PlaneDecoder:
    kind = reader.u8()
    if kind == 0:
        return lambda data, count: data.take(count)
    if kind == 1:
        byte = reader.take(1)
        return lambda _data, count: byte * count
    assert kind == 2
    table = read_table(reader, 12)
    return lambda data, count: bytes(read_rans(data, count, lambda *_: table, lanes(count)))


def read_plane(reader: Bytes, count: int) -> bytes:
    """A self-contained plane."""
    return read_plane_model(reader)(reader, count)


def read_counted_plane(reader: Bytes) -> bytes:
    return read_plane(reader, reader.varint())


def read_scales(reader: Bytes, section: int) -> Callable[[int], int]:
    base, parts = reader.zigzag(), reader.u8()
    if not parts:
        return lambda _at: base
    row = reader.varint()
    rows = struct.unpack(f"{-(-section // row)}b", read_plane(reader, -(-section // row))) if parts & 1 else None
    columns = struct.unpack(f"{row}b", read_plane(reader, row)) if parts & 2 else None
    return lambda at: base + (rows[at // row] if rows else 0) + (columns[at % row] if columns else 0)


# Shapes


def normal(x: int) -> int:
    y = min(max(x + 3072, 0), 3839)
    low, high = (round(2**24 * math.erf(2 ** (j / 16 - 12) / math.sqrt(2))) for j in (y >> 4, (y >> 4) + 1))
    return (low * (16 - y % 16) + high * (y % 16)) >> 4


def shape_table(shape: bytes, rate: int, phase: int) -> Table:
    """The table of the context whose place in the octave is ``phase`` sixteenths."""
    centre = shape[0] - 256 if shape[0] > 127 else shape[0]
    narrow, wide = shape[1] & 15, shape[1] >> 4
    distance, low, high = shape[2] & 3, shape[2] >> 2 & 15, shape[2] >> 6
    escape = 0 if rate == 255 else ((8 + rate % 8) << (rate >> 3)) >> 3
    below, above = 2 + low, (2, 3, 4, 6)[high]
    rest, step = 4096 - 4 * escape, 128 * (distance + 1)

    def bound(number: int) -> int:
        x = 256 * ((number >> 2) - below) + (0, 82, 150, 207)[number % 4] - 16 * (phase + centre)
        shares = (48 - narrow - wide) * normal(x) + narrow * normal(x + step) + wide * normal(x - step)
        return rest * (shares // 48) >> 24

    count = 4 * (below + above)
    bounds = [0, *(bound(number) for number in range(1, count)), rest]
    for number in range(1, count + 1):
        bounds[number] = max(bounds[number], bounds[number - 1] + 1)
    bounds[count] = rest
    for number in range(count - 1, -1, -1):
        bounds[number] = min(bounds[number], bounds[number + 1] - 1)
    frequencies = [escape] * 4 + [0] * 252
    for number in range(count):
        frequencies[4 * (48 - below) + number] = bounds[number + 1] - bounds[number]
    return Table(12, frequencies)


# Models


def float_model(reader: Bytes, section: int, element: Element) -> Decoder:
    flags = reader.u8()
    signs, precision = flags & 3, flags >> 3
    scales = read_scales(reader, section)
    sign_plane = None
    if signs == 3:
        assert reader.u8() == 0
        sign_plane = read_plane_model(reader, lambda count: 32 if count >= 8192 else None)
    if precision == 0:
        shape, rate = reader.take(3), reader.u8()
        tables = [shape_table(shape, rate, 4 * context) for context in range(4)]
    else:
        tables = [read_table(reader, precision) for _ in range(4 if flags & 4 else 1)]
    tails = read_tails(reader, section, element)
    exponent_bits = element.exponent_bits
    mantissa_bits = 15 - exponent_bits

    def decoder(block: Bytes, count: int, at: int) -> list[int]:
        expected = [scales(at + number) for number in range(count)]
        lanes = 64 if element.width == 2 and count >= 98304 else None
        symbols = read_rans(block, count, lambda number, _: tables[expected[number] % len(tables)], lanes)
        escaped, size = sum(symbol < 4 for symbol in symbols), 2 if element.width == 8 else 1
        exponents = iter(struct.unpack(f"<{escaped}{'BH'[size - 1]}", read_counted_plane(block)))
        fields = read_verbatim(block, count, mantissa_bits - 2 + (signs == 0))
        heads = []
        for symbol, expectation, field in zip(symbols, expected, fields, strict=True):
            part = symbol >> 2
            exponent = (part - 48 + expectation // 4) % (1 << exponent_bits) if part else next(exponents)
            head = exponent << mantissa_bits | (symbol & 3) << (mantissa_bits - 2)
            head |= field & ((1 << (mantissa_bits - 2)) - 1)
            negative = field >> (mantissa_bits - 2) if signs == 0 else signs == 2
            heads.append(head | negative << 15)
        values = tails(block, count, at)
        if sign_plane:
            packed = sign_plane(block, -(-count // 8))
            heads = [head | (packed[n >> 3] >> (n & 7) & 1) << 15 for n, head in enumerate(heads)]
        shift = 8 * (element.width - 2)
        return [head << shift | tail for head, tail in zip(heads, values, strict=True)]

    return decoder


def read_verbatim(block: Bytes, count: int, bits: int) -> list[int]:
    values = []
    for start in range(0, count, 4096):
        here = min(4096, count - start)
        chunk, taken = [0] * here, 0
        for width in (8, 4, 2, 1):
            if bits & width:
                size = -(-here * width // 8)
                data = block.take(size)
                for number in range(here):
                    place, byte = divmod(number, size)
                    chunk[number] |= (data[byte] >> place * width & ((1 << width) - 1)) << taken
                taken += width
        values += chunk
    return values


def read_tails(reader: Bytes, section: int, element: Element) -> Decoder:
    size = element.width - 2
    if size == 0:
        return lambda _block, count, _at: [0] * count
    row = reader.varint()
    usual = [read_plane_model(reader) for _ in range(size)]
    others, short = [], b""
    if row:
        others = [read_plane_model(reader) for _ in range(size)]
        rows = -(-section // row)
        short = read_plane(reader, -(-rows // 8))

    def decoder(block: Bytes, count: int, at: int) -> list[int]:
        is_short = [bool(row) and bool(short[(at + n) // row >> 3] >> ((at + n) // row & 7) & 1) for n in range(count)]
        values = [0] * count
        for byte in range(size):
            parts = [(usual[byte], False)] + ([(others[byte], True)] if row else [])
            for plane, wanted in parts:
                places = [number for number in range(count) if is_short[number] == wanted]
                for number, value in zip(places, plane(block, len(places)), strict=True):
                    values[number] |= value << 8 * byte
        return values

    return decoder


def opaque_model(_reader: Bytes, _section: int, element: Element) -> Decoder:
    """Inside of other models; a block of its own takes all bytes, those of an unfinished element too."""

    def decoder(block: Bytes, count: int, _at: int) -> list[int]:
        data = Bytes(unzstd(block.take(block.left()), count * element.width))
        return [int.from_bytes(data.take(element.width), "little") for _ in range(count)]

    return decoder


def planes_model(reader: Bytes, _section: int, element: Element) -> Decoder:
    models = [read_plane_model(reader) for _ in range(element.width)]

    def decoder(block: Bytes, count: int, _at: int) -> list[int]:
        planes = [model(block, count) for model in models]
        return [int.from_bytes(parts, "little") for parts in zip(*planes, strict=True)]

    return decoder


def palette_model(reader: Bytes, section: int, element: Element) -> Decoder:
    table = read_counted_plane(reader)
    entries = [int.from_bytes(table[at : at + element.width], "little") for at in range(0, len(table), element.width)]
    low: PlaneDecoder
    scaled = None
    if reader.data[reader.at] == 3:
        reader.u8()
        low = lambda block, count: unzstd(block.take(block.varint()), count)  # noqa: E731
    elif reader.data[reader.at] == 4:
        reader.u8()
        scaled = scaled_model(reader, section, ELEMENTS[0])
    else:
        low = read_plane_model(reader)
    high = read_plane_model(reader)

    def decoder(block: Bytes, count: int, at: int) -> list[int]:
        lows = scaled(block, count, at) if scaled else low(block, count)
        highs = high(block, count) if len(entries) > 256 else bytes(count)
        return [entries[top << 8 | bottom] for top, bottom in zip(highs, lows, strict=True)]

    return decoder


def sparse_model(reader: Bytes, section: int, element: Element) -> Decoder:
    inner = read_model(reader, section, element)

    def decoder(block: Bytes, count: int, _at: int) -> list[int]:
        bitmap = read_plane(block, -(-count // 8))
        present = [bitmap[number >> 3] >> (number & 7) & 1 for number in range(count)]
        zeros = count - sum(present)
        negative = read_counted_plane(block) or bytes(-(-zeros // 8))
        values = iter(inner(block, sum(present), 0))
        sign, numbers = 1 << 8 * element.width - 1, iter(range(zeros))
        result = []
        for is_present in present:
            if is_present:
                result.append(next(values))
            else:
                number = next(numbers)
                result.append(sign if negative[number >> 3] >> (number & 7) & 1 else 0)
        return result

    return decoder


def subnormal_model(reader: Bytes, section: int, _element: Element) -> Decoder:
    flags = reader.u8()
    signs, contexts = flags & 3, 1 << (flags >> 2)
    scales = read_scales(reader, section)
    first = reader.zigzag()
    tables = [read_table(reader, 10) for _ in range(contexts)]

    def decoder(block: Bytes, count: int, at: int) -> list[int]:
        def table(number: int, _: list[int]) -> Table:
            return tables[min(max(scales(at + number) - first, 0), contexts - 1)]

        symbols = read_rans(block, count, table, 64 if count >= 98304 else None)
        bits, used, values = int.from_bytes(block.data[block.at :], "little"), 0, []

        def take(width: int) -> int:
            nonlocal used
            used += width
            return bits >> (used - width) & ((1 << width) - 1)

        for symbol in symbols:
            exponent, mantissa = symbol >> 2, (symbol & 3) << 8
            negative = take(1) if signs == 0 else signs == 2
            if exponent == 0:
                top = 0
            elif exponent > 10:
                top = (exponent - 10) << 10 | mantissa
            else:
                top = (1 << 10 | mantissa) >> (11 - exponent)
            values.append(negative << 15 | top | take(min(max(exponent - 3, 0), 8)))
        block.take(-(-used // 8))
        return values

    return decoder


def cast_model(reader: Bytes, section: int, element: Element) -> Decoder:
    code = reader.u8()
    source = ELEMENTS[code]
    if element.reference:
        numbers = np.frombuffer(element.reference[: section * element.width], element.type)
        numbers = np.where(np.isnan(numbers), 0, numbers).astype(np.float32)
        source = replace(source, reference=numbers.astype(source.type).tobytes())
    decimals = reader.u8() if code in (9, 11) else None
    inner = read_model(reader, section, source)

    def decoder(block: Bytes, count: int, at: int) -> list[int]:
        places, place = [], -1
        for _ in range(block.varint()):
            place += 1 + block.varint()
            places.append(place)
        exceptions = [int.from_bytes(block.take(element.width), "little") for _ in places]
        narrow = Bytes(block.take(block.varint()))
        codes = np.array(inner(narrow, count, at), f"u{source.width}")
        assert narrow.left() == 0
        signed = f"i{source.width}" if decimals is not None else source.type
        numbers = codes.view(signed).astype(np.float64)
        if code == 5:
            numbers = np.where(codes % 128 == 127, np.where(codes > 127, -480.0, 480.0), numbers)
        if decimals is not None:
            least = numbers == np.iinfo(signed).min
            numbers = np.where(least, -0.0, numbers / 10.0**decimals)
            numbers = numbers.astype(np.float32) if element.width == 2 else numbers
        values = numbers.astype(element.type).view(f"u{element.width}").tolist()
        for place, exception in zip(places, exceptions, strict=True):
            values[place] = exception
        return list(values)

    return decoder


def records_model(reader: Bytes, section: int, element: Element) -> Decoder:
    assert element.width == 1
    length = reader.varint()
    fields: list[tuple[Element, list[list[tuple[int, int, int]]]]] = []
    for _ in range(reader.varint()):
        kind, elements = ELEMENTS[reader.u8()], []
        for _ in range(reader.varint()):
            elements += read_bit_array(reader)
        fields.append((kind, elements))
    used = sorted(
        bit
        for _, field in fields
        for slices in field
        for first, bits, _ in slices
        for bit in range(first, first + bits)
    )
    assert used == list(range(8 * length)), "every bit belongs to one element"
    models: list[Decoder | GivenModel] = []
    for kind, elements in fields:
        tag = reader.u8()
        if tag == 15:
            models.append(GivenModel(reader, len(models), [len(elements) for _, elements in fields]))
        else:
            models.append(MODELS[tag](reader, section // length * len(elements), kind))

    def decoder(block: Bytes, count: int, at: int) -> list[int]:
        assert at % length == 0
        records = [0] * (count // length)
        decoded: list[list[int]] = []
        for (_, elements), model in zip(fields, models, strict=True):
            if not records:
                break
            part = Bytes(block.take(block.varint()))
            if isinstance(model, GivenModel):
                values = model.decode(part, decoded, len(records))
            else:
                values = model(part, len(records) * len(elements), at // length * len(elements))
            decoded.append(values)
            assert part.left() == 0
            for number, value in enumerate(values):
                for first, bits, low in elements[number % len(elements)]:
                    records[number // len(elements)] |= (value >> low & ((1 << bits) - 1)) << first
        return list(b"".join(record.to_bytes(length, "little") for record in records) + block.take(count % length))

    return decoder


class GivenModel:
    """A field of records in contexts that follow from fields before it."""

    def __init__(self, reader: Bytes, place: int, counts: list[int]) -> None:
        self.count = counts[place]
        kind = reader.u8()
        assert kind <= 1
        self.sources = [reader.varint() for _ in range(4 if kind else 1)]
        assert all(source < place for source in self.sources)
        self.groups = counts[self.sources[0]]
        assert self.count % self.groups == 0
        if kind:
            assert counts[self.sources[1]] == self.groups and [counts[source] for source in self.sources[2:]] == [1, 1]
        flags = reader.u8()
        self.contexts, precision = 1 << (flags & 7), flags >> 3
        assert self.contexts <= 16 and 8 <= precision <= 12
        self.shift, self.first = reader.zigzag(), reader.zigzag()
        assert -8 <= self.shift <= 8 and abs(self.first) <= 4096
        self.tables = [read_table(reader, precision) for _ in range(self.contexts)]

    def context(self, decoded: list[list[int]], group: int) -> int:
        number = np.float32(decoded[self.sources[0]][group])
        if len(self.sources) > 1:
            record = group // self.groups
            factors = [np.array([decoded[source][record]], np.uint16).view(np.float16) for source in self.sources[2:]]
            scale, offset = (factor.astype(np.float32)[0] for factor in factors)
            with np.errstate(all="ignore"):
                number = (offset * np.float32(decoded[self.sources[1]][group])) / (scale * number)
        number = number * np.float32(2.0**-self.shift)
        number = np.float32(0) if np.isnan(number) else min(max(number, np.float32(-16384)), np.float32(16384))
        return min(max(math.floor(number) - self.first, 0), self.contexts - 1)

    def decode(self, block: Bytes, decoded: list[list[int]], records: int) -> list[int]:
        contexts = [self.context(decoded, group) for group in range(records * self.groups)]
        count, size = records * self.count, self.count // self.groups
        lanes = 64 if count >= 98304 else None
        return read_rans(block, count, lambda number, _: self.tables[contexts[number // size]], lanes)


def scaled_model(reader: Bytes, section: int, element: Element) -> Decoder:
    assert element.width == 1
    contexts = 1 << reader.u8()
    assert contexts <= 16
    scales = read_scales(reader, section)
    first = reader.zigzag()
    tables = [read_table(reader, 12) for _ in range(contexts)]

    def decoder(block: Bytes, count: int, at: int) -> list[int]:
        def table(number: int, _: list[int]) -> Table:
            return tables[min(max(scales(at + number) - first, 0), contexts - 1)]

        return read_rans(block, count, table, 64 if count >= 98304 else None)

    return decoder


def read_bit_array(reader: Bytes) -> list[list[tuple[int, int, int]]]:
    """The slices of each element: where they begin in the record, their bits, and where they begin in the element."""
    dimensions = [reader.varint() for _ in range(reader.varint())]
    elements: list[list[tuple[int, int, int]]] = [[] for _ in range(math.prod(dimensions))]
    low = 0
    for _ in range(reader.varint()):
        bits, start, strides = reader.u8(), reader.varint(), [reader.varint() for _ in dimensions]
        for place, slices in zip(np.ndindex(*dimensions), elements, strict=True):
            first = start + sum(index * stride for index, stride in zip(place, strides, strict=True))
            assert first % 8 + bits <= 8 and low % 8 + bits <= 8, "a slice lies in one byte"
            slices.append((first, bits, low))
        low += bits
    return elements


MODELS: dict[int, Callable[[Bytes, int, Element], Decoder]] = {
    1: opaque_model,
    2: float_model,
    3: planes_model,
    5: palette_model,
    7: sparse_model,
    11: subnormal_model,
    12: cast_model,
    13: records_model,
    14: scaled_model,
}
