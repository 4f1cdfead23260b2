"""Frames decode by what ``spec/z4ai.md`` says of them: with a decoder that follows its text and shares no code with ours."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import z4ai

sys.path.insert(0, str(Path(__file__).parent))
import adaptive_decoder  # noqa: F401  # the decoders add their models
import fast_decoder  # noqa: F401
import frame_decoder
import grid_decoder
import reference_decoder  # noqa: F401

generator = np.random.default_rng(0)
rows, columns = np.exp(generator.normal(0, 0.5, (60, 1))), np.exp(generator.normal(0, 0.3, (1, 300)))
WEIGHTS = (generator.normal(0, 0.02, (60, 300)) * rows * columns).astype(np.float32)
WALK = np.cumsum(generator.normal(0, 0.02, (60, 300)), axis=1)
LEVELS = generator.integers(-127, 128, (60, 320))
SCALES = np.exp(generator.normal(-5, 0.5, (60, 10))).astype(np.float32).repeat(32, 1)
MINIMA = generator.normal(0, 0.05, (60, 10)).astype(np.float32).repeat(32, 1)
CENTRES = generator.uniform(5, 10, (60, 10)).astype(np.float16).astype(np.float32).repeat(32, 1)

ARRAYS = {
    "bf16": WEIGHTS.astype(ml_dtypes.bfloat16),
    "fp16": WEIGHTS.astype(np.float16),
    "fp32": WEIGHTS,
    "fp64": WEIGHTS[:20].astype(np.float64),
    "complex64": (WEIGHTS[:20, ::2] + 1j * WEIGHTS[:20, 1::2]).astype(np.complex64),
    "few elements": WEIGHTS[:5, :50].astype(ml_dtypes.bfloat16),
    "bf16 in fp32": WEIGHTS.astype(ml_dtypes.bfloat16).astype(np.float32),
    "bf16 in fp16": WEIGHTS.astype(ml_dtypes.bfloat16).astype(np.float16),
    "almost bf16 in fp16": np.where(
        generator.random(WEIGHTS.shape) < 0.999, WEIGHTS.astype(ml_dtypes.bfloat16), WEIGHTS
    ).astype(np.float16),
    "fp16 in fp64": WEIGHTS[:20].astype(np.float16).astype(np.float64),
    "e5m2 in fp32": WEIGHTS.astype(ml_dtypes.float8_e5m2).astype(np.float32),
    "one sign": np.abs(WEIGHTS).astype(ml_dtypes.bfloat16),
    "mostly one sign": np.where(generator.random(WEIGHTS.shape) < 0.9, np.abs(WEIGHTS), WEIGHTS).astype(np.float32),
    "subnormals": (WEIGHTS * 1e-4).astype(np.float16),
    "subnormals of one sign": np.abs(WEIGHTS * 1e-4).astype(np.float16),
    "like its neighbours": WALK.astype(ml_dtypes.bfloat16),
    "kernels": np.cumsum(WEIGHTS.reshape(50, 40, 9)[:, :32], axis=2).reshape(50, 32, 3, 3).astype(np.float16),
    "integers": (WEIGHTS * 1000).astype(np.int16),
    "bytes": generator.binomial(40, 0.5, 9000).astype(np.uint8),
    "palette": np.round(WEIGHTS, 3),
    "pruned": np.where(generator.random(WEIGHTS.shape) < 0.7, 0, WEIGHTS).astype(ml_dtypes.bfloat16),
    "pruned with signs": (WEIGHTS * (generator.random(WEIGHTS.shape) < 0.3)).astype(np.float32),
    "grid of integers": LEVELS.astype(np.float32) * SCALES,
    "grid with minus zeros": np.where(LEVELS % 9 == 0, np.float32(-0.0), LEVELS.astype(np.float32) * SCALES),
    "grid of NF4": (np.array(grid_decoder.NF4, np.float32)[LEVELS % 16] * SCALES).astype(np.float16),
    "grid with minima": ((LEVELS % 16).astype(np.float32) * SCALES + MINIMA).astype(np.float16),
    "grid with centres": (
        ((LEVELS % 16).astype(np.float32) - CENTRES).astype(np.float16).astype(np.float32) * SCALES.astype(np.float16)
    ).astype(np.float16),
    "grid of e4m3": ((LEVELS / 3).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * SCALES).astype(np.float16),
    "grid of e5m2": ((LEVELS / 3).astype(ml_dtypes.float8_e5m2).astype(np.float32) * SCALES).astype(np.float32),
    "grid of e2m1": (LEVELS / 22).astype(ml_dtypes.float4_e2m1fn).astype(np.float32) * (SCALES * 9000).round() / 7,
    "grid by columns": (LEVELS * np.exp(generator.normal(0, 1, (1, 320)))).astype(np.float32),
    "decimals": WEIGHTS.round(4).astype(np.float32),
    "many decimals": (WEIGHTS * 100).astype(np.float64).round(6),
    "tied": np.concatenate([WEIGHTS, WEIGHTS]).astype(ml_dtypes.bfloat16),
    "constant": np.full(100, 3.5, np.float32),
    "stored": np.arange(3, dtype=np.float32),
    "nothing": np.zeros((0, 3), np.float32),
}


@pytest.mark.parametrize("effort", ["fast", None, "max"])
@pytest.mark.parametrize("name", ARRAYS)
def test_a_decoder_from_the_specification(name: str, effort: str | None) -> None:
    array = ARRAYS[name]
    assert frame_decoder.decode(z4ai.compress(array, effort=effort)) == array.tobytes()


@pytest.mark.parametrize("effort", [None, "max"])
def test_casts_from_eight_bits(effort: str | None) -> None:
    """With the least effort zstd takes the codes."""
    array = (WEIGHTS * 100).astype(ml_dtypes.float8_e4m3fn).astype(ml_dtypes.bfloat16)
    assert frame_decoder.decode(z4ai.compress(array, effort=effort)) == array.tobytes()


def test_long_streams_of_signs_and_subnormals() -> None:
    """Streams from some length on have more states than others."""
    array = np.abs(generator.normal(0, 1, 120_000)) * np.where(generator.random(120_000) < 0.1, -1, 1)
    for scaled in (array.astype(np.float16), (array * 1e-6).astype(np.float16)):
        assert frame_decoder.decode(z4ai.compress(scaled)) == scaled.tobytes()


def test_frames_of_several_sections_and_blocks() -> None:
    """Long streams have 64 lanes; a stream of an unknown length ends with a mark."""
    array = generator.normal(0, 0.02, (400, 600)).astype(ml_dtypes.bfloat16)
    assert frame_decoder.decode(z4ai.compress(array.tobytes() + b"!", dtype="bf16")) == array.tobytes() + b"!"


#: Deltas: what the newer weights are made from the older by.
STEPS = {
    "a fine-tune in bf16": (
        WEIGHTS.astype(ml_dtypes.bfloat16),
        lambda w: (w.astype(np.float32) * 1.003).astype(w.dtype),
    ),
    "noise in fp16": (WEIGHTS.astype(np.float16), lambda w: (w + generator.normal(0, 1e-4, w.shape)).astype(w.dtype)),
    "training in fp32": (WEIGHTS, lambda w: (w + generator.normal(0, 1e-5, w.shape)).astype(w.dtype)),
    "weight decay": (WEIGHTS, lambda w: w * np.float32(1 - 1 / 4096)),
    "fp64": (WEIGHTS[:20].astype(np.float64), lambda w: w + generator.normal(0, 1e-9, w.shape)),
    "fp8": (WEIGHTS.astype(ml_dtypes.float8_e5m2), lambda w: (w.astype(np.float32) * 1.1).astype(w.dtype)),
    "few changes": (
        WEIGHTS.astype(ml_dtypes.bfloat16),
        lambda w: (w.view(np.uint16) - (generator.random(w.shape) < 0.01)).astype(np.uint16).view(w.dtype),
    ),
    "bf16 in fp32": (
        WEIGHTS.astype(ml_dtypes.bfloat16).astype(np.float32),
        lambda w: (w * 1.01).astype(ml_dtypes.bfloat16).astype(np.float32),
    ),
    "integers": ((WEIGHTS * 1e6).astype(np.int32), lambda w: w + generator.integers(-3, 4, w.shape, np.int32)),
    "nothing": (WEIGHTS, lambda w: w.copy()),
    "another tensor": (WEIGHTS, lambda w: generator.normal(0, 1, w.shape).astype(w.dtype)),
}


@pytest.mark.parametrize("name", STEPS)
def test_deltas(name: str) -> None:
    before, step = STEPS[name]
    after = step(before)
    delta = z4ai.compress_delta(after, before)
    assert frame_decoder.decode(delta, before.tobytes()) == after.tobytes()


GOLDEN = Path(__file__).parents[3] / "conformance" / "versions"


def test_golden_frames() -> None:
    """Every frame of every version."""
    checked = 0
    for digests in GOLDEN.glob("*/z4ai/digests.tsv"):
        decoded: dict[str, bytes] = {}
        for line in digests.read_text().splitlines():
            name, against, _ = line.split("\t")
            frame, reference = (digests.parent / f"{name}.z4ai").read_bytes(), decoded.get(against)
            ours = z4ai.decompress(frame) if reference is None else z4ai.decompress_delta(frame, reference)
            decoded[name] = bytes(ours)
            # A decoder in plain Python takes a second for so many bytes.
            if len(ours) <= 1 << 17:
                assert frame_decoder.decode(frame, reference) == decoded[name], name
                checked += 1
    assert checked > 200


def test_records() -> None:
    """No Python function makes frames of records, archives do; the golden ones are of every effort."""
    frames = [path.read_bytes() for path in sorted(GOLDEN.glob("0.1.0/z4ai/records-*.z4ai"))]
    assert len(frames) >= 4
    for frame in frames:
        assert frame_decoder.decode(frame) == z4ai.decompress(frame)
