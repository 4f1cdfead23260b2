"""Deltas: whatever changed between two buffers comes back with the right reference, and with no other."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import z4ai

generator = np.random.default_rng(3)


def checkpoints(dtype: Any = np.float32, count: int = 100_000, rate: float = 1e-4) -> tuple[np.ndarray, np.ndarray]:
    base = generator.normal(0, 0.05, count)
    tuned = base + generator.normal(0, rate, count) * (generator.random(count) < 0.5)
    return tuned.astype(dtype), base.astype(dtype)


def test_samples_of_the_documentation() -> None:
    current, previous = (array.tobytes() for array in checkpoints(np.float16))
    blob = z4ai.compress_delta(current, reference=previous, dtype="bf16")
    assert bytes(z4ai.decompress_delta(blob, reference=previous)) == current
    blob = z4ai.compress_delta(current, reference=previous)
    assert z4ai.decompress_delta(blob, reference=previous) == current


@pytest.mark.parametrize(
    "dtype", ["bf16", "fp16", "fp32", "fp64", "fp8_e4m3", "int8", "int32", "complex64", "raw", None]
)
def test_every_dtype(dtype: str | None) -> None:
    current, previous = (array.tobytes() for array in checkpoints(np.float32, 20_000))
    blob = z4ai.compress_delta(current, previous, dtype=dtype)
    assert z4ai.decompress_delta(blob, previous) == current
    assert len(blob) <= len(z4ai.compress(current, dtype=dtype)) + 64


@pytest.mark.parametrize("effort", [None, "fast", "balanced", "max"])
def test_arguments(effort: Any) -> None:
    current, previous = (array.tobytes() for array in checkpoints())
    blob = z4ai.compress_delta(current, previous, dtype="fp32", shape=(100, 1000), level=3, threads=2, effort=effort)
    assert z4ai.decompress_delta(blob, previous, threads=1) == current


def test_deltas_are_small() -> None:
    current, previous = checkpoints(np.float32, 200_000, 1e-6)
    bits = 8 * len(z4ai.compress_delta(current, previous)) / current.size
    assert bits < 0.6 * 8 * len(z4ai.compress(current)) / current.size
    assert len(z4ai.compress_delta(current, current)) < 120


def test_arrays_tensors_and_destinations() -> None:
    current, previous = checkpoints()
    blob = z4ai.compress_delta(current, previous)
    assert blob == z4ai.compress_delta(current, torch.from_numpy(previous))
    out = np.empty_like(current)
    assert z4ai.decompress_delta(blob, previous, out=out) is out
    assert (out == current).all()
    tensor = torch.empty(current.shape, dtype=torch.float32)
    z4ai.decompress_delta(blob, torch.from_numpy(previous), out=tensor)
    assert (tensor.numpy() == current).all()
    new, old = torch.from_numpy(current).bfloat16(), torch.from_numpy(previous).bfloat16()
    blob = z4ai.compress_delta(new, old)
    restored = torch.empty_like(new)
    z4ai.decompress_delta(blob, old, out=restored)
    assert torch.equal(restored, new)
    with pytest.raises(ValueError, match="out has"):
        z4ai.decompress_delta(blob, old, out=bytearray(3))
    with pytest.raises(TypeError, match="bytes-like"):
        z4ai.compress_delta(current, 5)


def test_out_may_not_be_the_reference() -> None:
    current, previous = checkpoints()
    blob = z4ai.compress_delta(current, previous)
    buffer = previous.copy()
    with pytest.raises(ValueError, match="shares memory"):
        z4ai.decompress_delta(blob, buffer, out=buffer)
    assert (buffer == previous).all()


def test_lengths_may_differ() -> None:
    current, previous = (array.tobytes() for array in checkpoints(np.float32, 3000))
    for reference in (previous[:-5], previous[:4001], b"", previous + current):
        blob = z4ai.compress_delta(current, reference, dtype="fp32")
        assert z4ai.decompress_delta(blob, reference) == current


def test_wrong_references_are_refused() -> None:
    current, previous = (array.tobytes() for array in checkpoints(np.float32, 3000))
    blob = z4ai.compress_delta(current, previous, dtype="fp32")
    changed = bytes([previous[0] ^ 1]) + previous[1:]
    for wrong in (current, changed, previous[:-1], previous + b"x", b""):
        with pytest.raises(ValueError, match="wrong reference"):
            z4ai.decompress_delta(blob, wrong)
    with pytest.raises(ValueError, match="delta"):
        z4ai.decompress(blob)
    with pytest.raises(ValueError, match="not a delta"):
        z4ai.decompress_delta(z4ai.compress(current), previous)
    with pytest.raises(ValueError):
        z4ai.decompress_delta(blob[:-1], previous)


def test_special_values() -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38], np.float32)
    special = np.concatenate([special, np.array([0x7FC00001, 0xFFFFFFFF, 0x7F800001], np.uint32).view(np.float32)])
    current, previous = np.repeat(special, special.size), np.tile(special, special.size)
    blob = z4ai.compress_delta(current, previous)
    assert z4ai.decompress_delta(blob, previous) == current.tobytes()


def test_other_threads_run_meanwhile() -> None:
    current, previous = checkpoints(np.float32, 2_000_000)
    ticks, stop = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            stop.wait(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks
    z4ai.compress_delta(current, previous)
    during = ticks - before
    stop.set()
    thread.join()
    assert during > 3


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400), st.binary(max_size=400), st.sampled_from(["bf16", "fp32", "int16", None]))
def test_any_pair(current: bytes, reference: bytes, dtype: str | None) -> None:
    blob = z4ai.compress_delta(current, reference, dtype=dtype)
    assert z4ai.decompress_delta(blob, reference) == current
