"""Model 4 of ``spec/z4ai.md``, fast, for ``frame_decoder``."""

from __future__ import annotations

from collections.abc import Iterator

from frame_decoder import MODELS, Bytes, Decoder, Element, read_scales


def fast_model(reader: Bytes, section: int, element: Element) -> Decoder:
    shifts = read_scales(reader, section)

    def decoder(block: Bytes, count: int, at: int) -> list[int]:
        nested = Bytes(block.take(block.varint()))
        code, two_bits = nested.u8(), nested.u8()
        levels, spelled = code & 0x7F, code >> 7
        widths = [2 if two_bits >> level & 1 else 1 for level in range(levels)]
        ranks = nested.take(sum((1 << width) - 1 for width in widths) + (not spelled))
        lengths = [nested.u32() for _ in range(max(levels - 1, 0) + spelled)]
        chunks = [nested.u8() for _ in range(-(-count // 4096))]
        streams = [nested.take(length) for length in lengths]
        spellings = iter(streams.pop() if spelled else b"")
        padded = -(-count // 256) * 256
        streams[:0] = [nested.take(padded * width // 8) for width in widths[:1]]
        numbers = [fields(stream, width) for stream, width in zip(streams, widths, strict=True)]
        symbols = [0] * padded
        for start in range(0, padded, 128):
            for order in range(128):
                place = start + 8 * (order >> 5) + (order >> 2) % 8 + 32 * (order % 4)
                named = 0
                for width, level in zip(widths, numbers, strict=True):
                    number = next(level)
                    if number < (1 << width) - 1:
                        symbols[place] = ranks[named + number]
                        break
                    named += (1 << width) - 1
                else:
                    # Without levels the padding gets here too, which is not spelled.
                    symbols[place] = ranks[named] if not spelled else next(spellings) if place < count else 0
        values = []
        for start, chunk in zip(range(0, count, 4096), chunks, strict=True):
            here, dropped, sign = min(4096, count - start), chunk & 31, chunk >> 5
            kept = element.mantissa_bits - dropped
            for number, low in enumerate(read_nested_planes(nested, here, kept + (sign == 0))):
                exponent = (symbols[start + number] + shifts(at + start + number)) % 256
                negative = low >> kept if sign == 0 else sign == 2
                mantissa = (low & ((1 << kept) - 1)) << dropped
                values.append(negative << 8 * element.width - 1 | exponent << element.mantissa_bits | mantissa)
        assert nested.take(16) == bytes(16) and nested.left() == 0
        return values

    return decoder


def fields(stream: bytes, width: int) -> Iterator[int]:
    """The numbers in a bit stream."""
    for byte in stream:
        for shift in range(0, 8, width):
            yield byte >> shift & ((1 << width) - 1)


def read_nested_planes(nested: Bytes, count: int, bits: int) -> list[int]:
    values = [0] * count
    for plane in range(bits % 8):
        data = nested.take(-(-count // 256) * 32)
        for number in range(count):
            group, place = divmod(number, 256)
            bit = data[32 * group + place % 32] >> place // 32 & 1
            values[number] |= bit << bits // 8 * 8 + plane
    for plane in range(bits // 8):
        for number, byte in enumerate(nested.take(count)):
            values[number] |= byte << 8 * plane
    return values


MODELS[4] = fast_model
