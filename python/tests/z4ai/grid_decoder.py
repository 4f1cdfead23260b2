"""Model 6 of ``spec/z4ai.md``, grid, for ``frame_decoder``."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from frame_decoder import MODELS, Bytes, Decoder, Element, read_plane

NF4 = [-1, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0]
NF4 += [0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1]
FP4 = [-1, -0.6666667, -0.5, -0.33333334, -0.25, -0.16666667, -0.0052083335, 0]
FP4 += [0.0052083335, 0.16666667, 0.25, 0.33333334, 0.5, 0.6666667, 1, 0]
FLOATS = [ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn]


def grid_model(reader: Bytes, _section: int, element: Element) -> Decoder:
    row = reader.varint()
    if row == 0:
        width = reader.varint()

        def by_columns(block: Bytes, count: int, at: int) -> list[int]:
            assert at % width == 0 and count % width == 0
            values = rows_decoder(count // width, element)(block, count, 0)
            return [int(value) for value in np.array(values).reshape(width, -1).T.ravel()]

        return by_columns
    return rows_decoder(row, element)


def rows_decoder(row: int, element: Element) -> Decoder:
    def decoder(block: Bytes, count: int, at: int) -> list[int]:
        header = Bytes(block.take(block.varint()))
        kind, flag, group = header.u8(), header.u8(), header.varint()
        assert header.left() == 0
        lengths = (block.varint() for _ in range(11))
        planes = [read_plane(block, length) if length else b"" for length in lengths]
        scales, offsets = ([bytes(parts) for parts in zip(*planes[at : at + 4], strict=True)] for at in (1, 7))
        bases, level, plain = planes[5], iter(planes[0]), Bytes(planes[6])
        if kind >= 5 and flag:
            scales = [scales[place] for place in bases]
        values: list[int] = []
        number = -1
        for place in range(at, at + count):
            if place == at or place % row % group == 0:
                number += 1
            if scales[number] == bytes.fromhex("0000c07f"):
                values.append(int.from_bytes(plain.take(element.width), "little"))
                continue
            byte, scale = next(level), np.frombuffer(scales[number], "<f4")[0]
            if kind == 0:
                first = -128 + (bases[number] - 256 if bases[number] > 128 else bases[number])
                value = np.float32(first + (byte - first) % 256) * scale
            elif kind in (1, 2):
                value = np.float32((NF4, FP4)[kind - 1][byte & 15]) * scale
            elif kind == 3:
                value = np.float32(byte) * scale + np.frombuffer(offsets[number], "<f4")[0]
            elif kind >= 5:
                value = np.uint8(byte & 15 if kind == 5 else byte).view(FLOATS[kind - 5]).astype(np.float32) * scale
            else:
                distance = np.float32(byte) - np.frombuffer(offsets[number], "<f4")[0]
                value = distance.astype(element.type).astype(np.float32) * scale
            if kind < 3 and flag and byte == 0x80:
                value = np.float32(-0.0)
            values.append(int(value.astype(element.type).view(f"u{element.width}")))
        assert next(level, None) is None and plain.left() == 0 and number + 1 == len(scales)
        return values

    return decoder


MODELS[6] = grid_model
