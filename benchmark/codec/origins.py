"""Matrices whose numbers were something else before: every narrower type, every way to share scales, every type they are
stored in.

`cases` makes them from one matrix of real weights. What a quantiser does is done here in its plainest form: a scale is the
largest magnitude of the elements that share it over the largest number of the type, and elements are rounded to nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

from codec.structured import NF4, bf16, nvfp4

Shared = Callable[[np.ndarray], np.ndarray]


def _blocks(
    rows: int | None, columns: int | None
) -> tuple[Shared, Callable[[np.ndarray, tuple[int, ...]], np.ndarray]]:
    """How a matrix becomes rows of elements that share a scale (blocks of so many rows and columns, `None`: all), and back."""

    def size(shape: tuple[int, ...]) -> tuple[int, int]:
        return rows or shape[0], columns or shape[1]

    def apart(matrix: np.ndarray) -> np.ndarray:
        height, width = size(matrix.shape)
        split = matrix.reshape(matrix.shape[0] // height, height, matrix.shape[1] // width, width)
        return np.ascontiguousarray(split.swapaxes(1, 2)).reshape(-1, height * width)

    def together(blocks: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        height, width = size(shape)
        split = blocks.reshape(shape[0] // height, shape[1] // width, height, width)
        return np.ascontiguousarray(split.swapaxes(1, 2)).reshape(shape)

    return apart, together


#: Which elements share a scale.
SCALES = {
    "tensor": _blocks(None, None),
    "row": _blocks(1, None),
    "column": _blocks(None, 1),
    "128x128": _blocks(128, 128),
    **{f"group{size}": _blocks(1, size) for size in (16, 32, 64, 128)},
}


def _scale(values: np.ndarray, largest: float) -> np.ndarray:
    scale = np.abs(values).max(axis=1, keepdims=True) / np.float32(largest)
    return np.where(scale == 0, np.float32(1), scale)


def _integers(bits: int) -> Shared:
    top = 2 ** (bits - 1) - 1

    def quantise(values: np.ndarray) -> np.ndarray:
        scale = _scale(values, top)
        return np.clip(np.rint(values / scale), -top, top) * scale

    return quantise


def _unsigned(bits: int) -> Shared:
    """Unsigned integers with a zero point."""
    top = 2**bits - 1

    def quantise(values: np.ndarray) -> np.ndarray:
        low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
        scale = (high - low) / np.float32(top)
        scale = np.where(scale == 0, np.float32(1), scale)
        zero = np.rint(-low / scale)
        return (np.clip(np.rint(values / scale) + zero, 0, top) - zero) * scale

    return quantise


def _floats(dtype: type, power_of_two: bool = False) -> Shared:
    largest = float(ml_dtypes.finfo(dtype).max)

    def quantise(values: np.ndarray) -> np.ndarray:
        scale = _scale(values, largest)
        if power_of_two:
            scale = np.exp2(np.ceil(np.log2(scale))).astype(np.float32)
        return (values / scale).astype(dtype).astype(np.float32) * scale

    return quantise


def _normal_float(values: np.ndarray) -> np.ndarray:
    scale = _scale(values, 1)
    return NF4[np.searchsorted((NF4[1:] + NF4[:-1]) / 2, values / scale)] * scale


E4M3, E5M2, E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn

#: Types that need a scale.
SCALED = {
    "int8": _integers(8),
    "int4": _integers(4),
    "uint4": _unsigned(4),
    "nf4": _normal_float,
    "e4m3": _floats(E4M3),
    "e5m2": _floats(E5M2),
    "e2m1": _floats(E2M1),
}


def _decimals(places: int) -> Shared:
    return lambda matrix: np.rint(matrix.astype(np.float64) * 10**places) / 10**places


def _grouped(quantise: Shared, size: int) -> Shared:
    return lambda matrix: quantise(matrix.reshape(-1, size)).reshape(matrix.shape)


#: What has no scale, or one of its own kind.
PLAIN = {
    "dense": lambda matrix: matrix,
    "bf16": lambda matrix: (bf16(matrix).astype(np.uint32) << 16).view(np.float32).reshape(matrix.shape),
    "fp16": lambda matrix: matrix.astype(np.float16).astype(np.float32),
    "e4m3": lambda matrix: matrix.astype(E4M3).astype(np.float32),
    "e5m2": lambda matrix: matrix.astype(E5M2).astype(np.float32),
    "int8": lambda matrix: np.rint(matrix / np.abs(matrix).max() * 127),
    "int4": lambda matrix: np.rint(matrix / np.abs(matrix).max() * 7),
    "ternary": lambda matrix: np.clip(np.rint(matrix / np.abs(matrix).mean()), -1, 1) * np.abs(matrix).mean(),
    "decimals3": _decimals(3),
    "decimals4": _decimals(4),
    "decimals6": _decimals(6),
    "mxfp4": _grouped(_floats(E2M1, power_of_two=True), 32),
    "mxfp8": _grouped(_floats(E4M3, power_of_two=True), 32),
    "nvfp4": nvfp4,
    "pruned50": lambda matrix: np.where(np.abs(matrix) < np.median(np.abs(matrix)), 0, matrix),
}

STORED = {
    "fp32": lambda numbers: numbers.tobytes(),
    "fp16": lambda numbers: numbers.astype(np.float16).tobytes(),
    "bf16": lambda numbers: bf16(numbers).tobytes(),
}
#: Codes of the small types themselves, the scales being somewhere else.
SMALL = {"fp8_e4m3": E4M3, "fp8_e5m2": E5M2}


@dataclass(frozen=True)
class Case:
    """The bytes of a matrix whose numbers were of type `origin`, shared scales as `scale` says, and are of `dtype` now."""

    origin: str
    scale: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def name(self) -> str:
        return f"{self.origin}-{self.scale}.{self.dtype}"


def cases(weights: np.ndarray) -> Iterator[Case]:
    """All cases of one tensor, whose rows and columns (all dimensions but the first) are multiples of 128."""
    shape = weights.shape
    matrix = np.ascontiguousarray(weights, dtype=np.float32).reshape(shape[0], -1)
    for origin, scale, numbers in _numbers(matrix):
        for dtype, store in STORED.items():
            yield Case(origin, scale, dtype, shape, store(np.ascontiguousarray(numbers, dtype=np.float32)))
    for dtype, kind in SMALL.items():
        yield Case(dtype, "none", dtype, shape, matrix.astype(kind).tobytes())
        for scale, (apart, together) in SCALES.items():
            blocks = apart(matrix)
            codes = (blocks / _scale(blocks, float(ml_dtypes.finfo(kind).max))).astype(kind)
            yield Case(dtype, scale, dtype, shape, together(codes, matrix.shape).tobytes())


def _numbers(matrix: np.ndarray) -> Iterator[tuple[str, str, np.ndarray]]:
    for origin, change in PLAIN.items():
        yield origin, "none", change(matrix)
    for origin, quantise in SCALED.items():
        for scale, (apart, together) in SCALES.items():
            yield origin, scale, together(quantise(apart(matrix)), matrix.shape)


def one_tensor(source: Path, name: str) -> np.ndarray:
    """A tensor of a real set (`sets.py`) in fp32 or fp16."""
    for line in Path(f"{source}.tsv").read_text().splitlines():
        offset, length, shape, found = line.split("\t")
        if found == name:
            dtype = np.float16 if source.suffix == ".fp16" else np.float32
            sizes = [int(size) for size in shape.split(",")]
            count = int(length) // np.dtype(dtype).itemsize
            return np.fromfile(source, dtype=dtype, offset=int(offset), count=count).reshape(sizes).astype(np.float32)
    raise ValueError(f'{source} has no tensor "{name}"')
