"""Weights in the block types of GGUF, as llama.cpp's reference quantisers make them.

gguf's Python package has the simple types; the K types are llama.cpp's routines (`quantize_row_q4_K_ref`, `make_qkx2_quants`,
`make_qx_quants`) over all groups of a tensor at once, without importance weights. `gguf.quants.dequantize` reads the
blocks back.
"""

from __future__ import annotations

import numpy as np
from gguf import GGMLQuantizationType, quants

#: Elements of a block of the K types.
SUPER = 256
SIMPLE = {"q8_0": 32, "q4_0": 32, "q4_1": 32, "q5_0": 32, "q5_1": 32, "tq1_0": 256, "tq2_0": 256, "mxfp4": 32}
TYPES = (*SIMPLE, "q4_k", "q5_k", "q6_k")


def elements_of(kind: str) -> int:
    """Elements of a block."""
    return SIMPLE.get(kind, SUPER)


def quantize(values: np.ndarray, kind: str) -> np.ndarray:
    """The blocks of a tensor whose last dimension is a multiple of the block's elements, as bytes."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    if kind in SIMPLE:
        return quants.quantize(values, GGMLQuantizationType[kind.upper()])
    routine = {"q4_k": lambda blocks: affine(blocks, 4), "q5_k": lambda blocks: affine(blocks, 5), "q6_k": symmetric}
    blocks = routine[kind](values.reshape(-1, SUPER))
    return blocks.reshape(*values.shape[:-1], -1)


def nearest(values: np.ndarray) -> np.ndarray:
    return np.rint(values).astype(np.int32)


def scales_and_minima(groups: np.ndarray, top: int, first: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """`make_qkx2_quants` for each row: the scale and the offset with the least weighted error among some."""
    weights = np.sqrt((groups**2).mean(axis=1, keepdims=True)) + np.abs(groups)
    low = np.minimum(groups.min(axis=1, keepdims=True), 0)
    span = groups.max(axis=1, keepdims=True) - low
    flat = span == 0
    span[flat] = 1
    weight, weighted = weights.sum(axis=1, keepdims=True), (weights * groups).sum(axis=1, keepdims=True)

    def levels(steps: float) -> np.ndarray:
        return np.clip(np.rint(np.float32(steps) / span * (groups - low)), 0, top)

    def error(scale: np.ndarray, offset: np.ndarray, level: np.ndarray) -> np.ndarray:
        return (weights * (scale * level + offset - groups) ** 2).sum(axis=1, keepdims=True)

    scale, offset = span / np.float32(top), low.copy()
    best = error(scale, offset, levels(top))
    for step in range(steps + 1):
        level = levels(first + 0.1 * step + top)
        linear = (weights * level).sum(axis=1, keepdims=True)
        square = (weights * level * level).sum(axis=1, keepdims=True)
        mixed = (weights * level * groups).sum(axis=1, keepdims=True)
        determinant = weight * square - linear * linear
        usable = determinant > 0
        safe = np.where(usable, determinant, 1)
        its_scale, its_offset = (weight * mixed - weighted * linear) / safe, (square * weighted - linear * mixed) / safe
        positive = its_offset > 0
        its_scale = np.where(positive, mixed / np.where(square > 0, square, 1), its_scale)
        its_offset = np.where(positive, 0, its_offset)
        its_error = error(its_scale, its_offset, level)
        better = usable & (its_error < best)
        scale, offset, best = (
            np.where(better, its_scale, scale),
            np.where(better, its_offset, offset),
            np.where(better, its_error, best),
        )
    return np.where(flat, 0, scale)[:, 0], -offset[:, 0]


def affine(blocks: np.ndarray, bits: int) -> np.ndarray:
    """`q4_k` and `q5_k`: groups of 32 with a scale and an offset of six bits."""
    count, top = len(blocks), 2**bits - 1
    groups = blocks.reshape(-1, 32)
    first, steps = (-1.0, 20) if bits == 4 else (-0.5, 15)
    scales, minima = (part.reshape(count, 8) for part in scales_and_minima(groups, top, first, steps))

    def six_bits(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        most = values.max(axis=1, keepdims=True)
        inverse = np.where(most > 0, 63 / np.where(most > 0, most, 1), 0)
        return (most / 63).astype(np.float16), np.clip(nearest(inverse * values), 0, 63).astype(np.uint8)

    (d, scale), (dmin, offset) = six_bits(scales), six_bits(minima)
    step = (d.astype(np.float32) * scale)[:, :, None]
    shifted = blocks.reshape(count, 8, 32) + (dmin.astype(np.float32) * offset)[:, :, None]
    level = np.clip(np.rint(shifted / np.where(step == 0, 1, step)), 0, top).astype(np.uint8)
    level[np.broadcast_to(step == 0, level.shape)] = 0
    packed = np.concatenate(
        [
            scale[:, :4] | (scale[:, 4:] >> 4 << 6),
            offset[:, :4] | (offset[:, 4:] >> 4 << 6),
            (scale[:, 4:] & 15) | (offset[:, 4:] & 15) << 4,
        ],
        axis=1,
    )
    nibbles = (level[:, 0::2] & 15 | (level[:, 1::2] & 15) << 4).reshape(count, 128)
    parts = [d.view(np.uint8), dmin.view(np.uint8), packed]
    if bits == 5:
        parts.append(((level >> 4) << np.arange(8, dtype=np.uint8)[None, :, None]).sum(axis=1, dtype=np.uint8))
    return np.concatenate([*parts, nibbles], axis=1)


def symmetric_scales(groups: np.ndarray, half: int) -> np.ndarray:
    """`make_qx_quants` for each row, with squares as weights."""
    extreme = np.take_along_axis(groups, np.abs(groups).argmax(axis=1)[:, None], axis=1)
    safe = np.where(extreme == 0, 1, extreme)
    weights = groups * groups

    def fit(steps: float) -> tuple[np.ndarray, np.ndarray]:
        level = np.clip(np.rint(-np.float32(steps) / safe * groups), -half, half - 1)
        return (weights * groups * level).sum(axis=1), (weights * level * level).sum(axis=1)

    mixed, square = fit(half)
    scale = np.divide(mixed, square, out=np.zeros_like(mixed), where=square > 0)
    best = scale * mixed
    for step in (*range(-9, 0), *range(1, 10)):
        mixed, square = fit(half + 0.1 * step)
        better = (square > 0) & (mixed * mixed > best * square)
        scale = np.where(better, mixed / np.where(square > 0, square, 1), scale)
        best = np.where(better, scale * mixed, best)
    return np.where(extreme[:, 0] == 0, 0, scale)


def symmetric(blocks: np.ndarray) -> np.ndarray:
    """`q6_k`: groups of 16 with a scale of eight bits."""
    count = len(blocks)
    scales = symmetric_scales(blocks.reshape(-1, 16), 32).reshape(count, 16)
    most = np.take_along_axis(scales, np.abs(scales).argmax(axis=1)[:, None], axis=1)
    inverse = np.where(most == 0, 0, -128 / np.where(most == 0, 1, most))
    d = np.where(inverse == 0, 0, 1 / np.where(inverse == 0, 1, inverse)).astype(np.float16)
    scale = np.minimum(nearest(inverse * scales), 127).astype(np.int8)
    step = (d.astype(np.float32) * scale)[:, :, None]
    level = np.clip(np.rint(blocks.reshape(count, 16, 16) / np.where(step == 0, 1, step)), -32, 31)
    level = np.where(step == 0, 0, level).astype(np.int32).reshape(count, 2, 4, 32) + 32
    low = (level[:, :, :2] & 15) | (level[:, :, 2:] & 15) << 4
    high = ((level >> 4) << np.array([0, 2, 4, 6])[None, None, :, None]).sum(axis=2)
    parts = [low.reshape(count, 128), high.reshape(count, 64)]
    as_bytes = [part.astype(np.uint8) for part in parts]
    return np.concatenate([*as_bytes, scale.view(np.uint8), d.view(np.uint8)], axis=1)
