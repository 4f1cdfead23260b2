"""Weights with a structure that a codec can find: dequantised, pruned, tied, cast; and bytes without any.

Each case is made from the matrices of a real set and stored like the sets themselves (`sets.py`): one raw file per
dtype beside an index. The group-quantised cases keep only what the quantiser would have produced, so a codec that
recovers its grid needs the integers and the scales, nothing else.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np

MATRICES = 24
OPAQUE_BYTES = 16_000_000


def symmetric(values: np.ndarray, bits: int) -> np.ndarray:
    """Quantise each row of `values` to signed integers with one scale, and dequantise."""
    top = 2 ** (bits - 1) - 1
    scale = np.abs(values).max(axis=1, keepdims=True) / np.float32(top)
    scale[scale == 0] = 1
    return (np.clip(np.rint(values / scale), -top, top) * scale).astype(np.float32)


def asymmetric(values: np.ndarray, bits: int) -> np.ndarray:
    """The same with unsigned integers and a zero point."""
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    scale = ((high - low) / np.float32(2**bits - 1)).astype(np.float32)
    scale[scale == 0] = 1
    zero = np.rint(-low / scale)
    integers = np.clip(np.rint(values / scale) + zero, 0, 2**bits - 1)
    return ((integers - zero) * scale).astype(np.float32)


#: The sixteen levels of NF4: quantiles of the normal distribution, scaled to [-1, 1].
NF4 = np.array(
    [
        *(-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0.0),
        *(0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0),
    ],
    dtype=np.float32,
)


def normal_float(values: np.ndarray) -> np.ndarray:
    scale = np.abs(values).max(axis=1, keepdims=True)
    scale[scale == 0] = 1
    middle = (NF4[1:] + NF4[:-1]) / 2
    return (NF4[np.searchsorted(middle, values / scale)] * scale).astype(np.float32)


def ternary(values: np.ndarray) -> np.ndarray:
    scale = np.float32(np.abs(values).mean())
    return (np.clip(np.rint(values / scale), -1, 1) * scale).astype(np.float32)


def grouped(quantise: Callable[[np.ndarray], np.ndarray], group: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda matrix: quantise(matrix.reshape(-1, group)).reshape(matrix.shape)


def whole(quantise: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda matrix: quantise(matrix.reshape(1, -1)).reshape(matrix.shape)


def pruned(part: float) -> Callable[[np.ndarray], np.ndarray]:
    def prune(matrix: np.ndarray) -> np.ndarray:
        return np.where(np.abs(matrix) < np.quantile(np.abs(matrix), part), np.float32(0), matrix)

    return prune


def cast_to_bf16(matrix: np.ndarray) -> np.ndarray:
    return (bf16(matrix).astype(np.uint32) << 16).view(np.float32).reshape(matrix.shape)


def cast_to_fp16(matrix: np.ndarray) -> np.ndarray:
    return matrix.astype(np.float16).astype(np.float32)


def small_floats(dtype: type, rows: int | None, columns: int | None) -> Callable[[np.ndarray], np.ndarray]:
    """Casts blocks of so many rows and columns (`None`: all) to a small float type with a scale each, and multiplies out."""
    largest = np.float32(ml_dtypes.finfo(dtype).max)

    def quantise(matrix: np.ndarray) -> np.ndarray:
        changed = np.empty_like(matrix)
        height, width = rows or matrix.shape[0], columns or matrix.shape[1]
        for row in range(0, matrix.shape[0], height):
            for column in range(0, matrix.shape[1], width):
                block = matrix[row : row + height, column : column + width]
                scale = np.abs(block).max() / largest or np.float32(1)
                numbers = (block / scale).astype(dtype).astype(np.float32)
                changed[row : row + height, column : column + width] = numbers * scale
        return changed

    return quantise


def nvfp4(matrix: np.ndarray) -> np.ndarray:
    """Four-bit floats in groups of 16, with scales that are eight-bit floats times one for the tensor."""
    groups = matrix.reshape(-1, 16)
    tensor = np.abs(matrix).max() / np.float32(6 * 448)
    scale = (np.abs(groups).max(axis=1, keepdims=True) / 6 / tensor).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    scale = np.where(scale == 0, 1, scale) * tensor
    return ((groups / scale).astype(ml_dtypes.float4_e2m1fn).astype(np.float32) * scale).reshape(matrix.shape)


E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2

#: case → (what happens to a matrix, dtypes it is stored in)
CASES = {
    "int8-tensor": (whole(lambda values: symmetric(values, 8)), ("fp32", "bf16")),
    "int4-tensor": (whole(lambda values: symmetric(values, 4)), ("fp32", "bf16")),
    "int8-row": (lambda matrix: symmetric(matrix, 8), ("fp32", "bf16")),
    "int4-group128": (grouped(lambda values: symmetric(values, 4), 128), ("fp32", "bf16")),
    "int4-group64-asymmetric": (grouped(lambda values: asymmetric(values, 4), 64), ("fp32", "bf16")),
    "int2-group64": (grouped(lambda values: symmetric(values, 2), 64), ("fp32", "bf16")),
    "nf4-group64": (grouped(normal_float, 64), ("fp32", "bf16")),
    "ternary": (whole(ternary), ("fp32", "bf16")),
    "bf16-in-fp32": (cast_to_bf16, ("fp32",)),
    "pruned-50": (pruned(0.5), ("fp32", "bf16")),
    "pruned-80": (pruned(0.8), ("fp32", "bf16")),
}

#: The same for numbers that were those of a narrower type before.
ORIGINS = {
    "bf16-in-fp16": (cast_to_bf16, ("fp16",)),
    "fp16-in-fp32": (cast_to_fp16, ("fp32",)),
    "e4m3-cast": (lambda matrix: matrix.astype(E4M3).astype(np.float32), ("fp32", "fp16", "bf16")),
    "e4m3-tensor": (small_floats(E4M3, None, None), ("fp32", "fp16", "bf16")),
    "e4m3-row": (small_floats(E4M3, 1, None), ("fp32", "fp16", "bf16")),
    "e4m3-128x128": (small_floats(E4M3, 128, 128), ("fp32", "fp16", "bf16")),
    "e4m3-group32": (small_floats(E4M3, 1, 32), ("fp32", "fp16", "bf16")),
    "e5m2-row": (small_floats(E5M2, 1, None), ("fp32", "fp16", "bf16")),
    "nvfp4": (nvfp4, ("fp32", "fp16", "bf16")),
}


def bf16(values: np.ndarray) -> np.ndarray:
    """Round to nearest, ties to even; weights hold no NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def build(source: Path, output: Path) -> None:
    """Make all cases from the fp32 file of one real set."""
    matrices = list(_matrices(source))
    output.mkdir(parents=True, exist_ok=True)
    for case, (change, dtypes) in (CASES | ORIGINS).items():
        changed = [(name, change(matrix)) for name, matrix in matrices]
        for dtype in dtypes:
            _store(output / f"{case}.{dtype}", [(name, matrix, _cast(matrix, dtype)) for name, matrix in changed])
    # A model whose output matrix is its embedding, and whose layers share their weights.
    tied = [(f"{name}.{copy}", matrix, _cast(matrix, "bf16")) for copy in range(3) for name, matrix in matrices[:8]]
    _store(output / "tied.bf16", tied)
    text = b"".join(path.read_bytes() for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")))[
        :OPAQUE_BYTES
    ]
    _store(output / "text.opaque", [("text", np.empty(len(text)), text)])
    noise = np.random.default_rng(7).bytes(OPAQUE_BYTES)
    _store(output / "noise.opaque", [("noise", np.empty(len(noise)), noise)])


def _matrices(source: Path):
    contents = np.fromfile(source, dtype=np.float32)
    found = 0
    for line in Path(f"{source}.tsv").read_text().splitlines():
        offset, length, shape, name = line.split("\t")
        sizes = [int(size) for size in shape.split(",") if size]
        if len(sizes) == 2 and sizes[1] % 128 == 0 and found < MATRICES:
            found += 1
            start = int(offset) // 4
            yield name, contents[start : start + int(length) // 4].reshape(sizes)


def _cast(matrix: np.ndarray, dtype: str) -> bytes:
    if dtype == "fp16":
        return matrix.astype(np.float16).tobytes()
    return bf16(matrix).tobytes() if dtype == "bf16" else matrix.tobytes()


def is_built(output: Path) -> bool:
    """Whether all cases are there."""
    return all(
        (output / f"{case}.{dtype}").exists() for case, (_, dtypes) in (CASES | ORIGINS).items() for dtype in dtypes
    )


def _store(path: Path, tensors: list[tuple[str, np.ndarray, bytes]]) -> None:
    offset, lines = 0, []
    with path.open("wb") as file:
        for name, array, payload in tensors:
            file.write(payload)
            lines.append(f"{offset}\t{len(payload)}\t{','.join(map(str, array.shape))}\t{name}\n")
            offset += len(payload)
    Path(f"{path}.tsv").write_text("".join(lines))
