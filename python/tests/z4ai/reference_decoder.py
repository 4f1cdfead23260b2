"""Models 8 and 9 of ``spec/z4ai.md``, difference and reference, for ``frame_decoder``."""

from __future__ import annotations

import math

from frame_decoder import (
    MODELS,
    Bytes,
    Decoder,
    Element,
    read_model,
    read_plane,
    read_plane_model,
    read_rans,
    read_table,
)


def difference_model(reader: Bytes, section: int, element: Element) -> Decoder:
    inner = read_model(reader, section, element)

    def decoder(block: Bytes, count: int, at: int) -> list[int]:
        bases = element.bases(at, count)
        return [
            (value + base) % (1 << 8 * element.width)
            for value, base in zip(inner(block, count, at), bases, strict=True)
        ]

    return decoder


def signed(value: int, bits: int) -> int:
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


def order(pattern: int, bits: int) -> int:
    magnitude = pattern & ((1 << (bits - 1)) - 1)
    return -1 - magnitude if pattern >> (bits - 1) else magnitude


def reference_model(reader: Bytes, _section: int, element: Element) -> Decoder:
    bits, mantissa_bits = 8 * element.width, element.mantissa_bits
    direct, top = {8: (8, 0), 16: (7, 3), 32: (4, 3), 64: (4, 2)}[bits]
    rate, top_exponent, mask = reader.zigzag(), reader.varint(), reader.u16()
    rows, tables = {}, []
    occurring = [number for number in range(16) if mask >> number & 1]
    assert not mask & 1
    if mask:
        contexts = reader.u8()
        plane = read_plane(reader, 32 * len(occurring)) if contexts > 1 else bytes(32 * len(occurring))
        rows = {number: plane[32 * row : 32 * row + 32] for row, number in enumerate(occurring)}
        tables = [read_table(reader, 12) for _ in range(contexts)]
    classes_plane = read_plane_model(reader)

    def number(base: int) -> int:
        below = top_exponent - (base >> mantissa_bits & ((1 << element.exponent_bits) - 1))
        return min(max(below, 0), 16) + min(max(below - 16, 0), 32) // 4 + min(max(below - 48, 0), 56) // 8

    def restored(z: int, base: int) -> int:
        shift = 21 if bits == 64 else 0
        mantissa = (1 << mantissa_bits) + (base & ((1 << mantissa_bits) - 1))
        decay = (rate * (mantissa >> shift) + (1 << (31 - shift))) >> (32 - shift)
        moved = (z >> 1 ^ -(z & 1)) + decay
        found = signed(order(base, bits) + (-moved if base >> (bits - 1) else moved), bits)
        return found if found >= 0 else 1 << (bits - 1) | (-1 - found)

    def decoder(block: Bytes, count: int, at: int) -> list[int]:
        bases = element.bases(at, count)
        classes = classes_plane(block, -(-count // 256))
        zs = [0] * count
        listed = [chunk for chunk, kind in enumerate(classes) if kind > 15]
        for chunk, places in zip(listed, read_sets(block, [classes[chunk] - 15 for chunk in listed]), strict=True):
            for place in places:
                zs[256 * chunk + place] = 1
        coded = [place for place in range(count) if 0 < classes[place // 256] < 16]
        lanes = block.u8()
        assert bool(lanes) == bool(coded)

        def table(index: int, _: list[int]):
            return tables[rows[classes[coded[index] // 256]][number(bases[coded[index]])]]

        symbols = read_rans(block, len(coded), table, lanes) if coded else []
        widths = []
        for symbol in symbols:
            length = direct + ((symbol - (1 << direct)) >> top)
            widths.append(0 if symbol < 1 << direct else length - top)
        for place, symbol, width, raw in zip(coded, symbols, widths, read_raw(block, widths, bits), strict=True):
            leading = 1 << top | (symbol - (1 << direct)) & ((1 << top) - 1)
            zs[place] = symbol if symbol < 1 << direct else leading << width | raw
        return [restored(z, base) for z, base in zip(zs, bases, strict=True)]

    return decoder


def read_sets(block: Bytes, sizes: list[int]) -> list[list[int]]:
    """The places of the elements that a chunk lists, for chunks that list so many."""
    data = block.take(block.varint())
    stream, used = int.from_bytes(data, "little"), 0

    def take(width: int) -> int:
        nonlocal used
        used += width
        return stream >> (used - width) & ((1 << width) - 1)

    sets = []
    for start in range(0, len(sizes), 7):
        group = sizes[start : start + 7]
        low = [max((math.comb(256, size) - 1).bit_length() - 8, 0) for size in group]
        radixes = [((math.comb(256, size) - 1) >> bits) + 1 for size, bits in zip(group, low, strict=True)]
        joint, rests = take((math.prod(radixes) - 1).bit_length()), []
        for radix in radixes:
            joint, rest = divmod(joint, radix)
            rests.append(rest)
        for size, bits, rest in zip(group, low, rests, strict=True):
            left, places = rest << bits | take(bits), []
            for chosen in range(size, 0, -1):
                place = max(place for place in range(256) if math.comb(place, chosen) <= left)
                left -= math.comb(place, chosen)
                places.append(place)
            sets.append(places)
    assert len(data) == -(-used // 8) and stream >> used == 0
    return sets


def read_raw(block: Bytes, widths: list[int], bits: int) -> list[int]:
    """Numbers of so many bits each."""
    if not any(widths):
        return widths
    lanes = block.u8()
    held = []
    for _ in range(lanes):
        state = block.u32()
        count = state.bit_length() - 1
        held.append([state - (1 << count), count])
    values = [0] * len(widths)
    for start in range(0, len(widths), lanes):
        for low in range(0, bits, 16):
            for lane, index in enumerate(range(start, min(start + lanes, len(widths)))):
                taken = min(max(widths[index] - low, 0), 16)
                state, count = held[lane]
                values[index] |= (state & ((1 << taken) - 1)) << low
                state, count = state >> taken, count - taken
                if count < 16:
                    state, count = state | block.u16() << count, count + 16
                held[lane] = [state, count]
    assert all(lane == [0, 16] for lane in held)
    return values


MODELS[8] = difference_model
MODELS[9] = reference_model
