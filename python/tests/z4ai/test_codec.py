"""`z4ai`: every kind of input comes back bit for bit; everything else is an error."""

from __future__ import annotations

import array
import concurrent.futures
import contextlib

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import z4ai
import z4ai.chunked

EFFORTS = [None, "fast", "balanced", "max"]
WEIGHTS = np.random.default_rng(0).normal(0, 0.02, (64, 300)).astype(np.float32)


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("dtype", [code for code in z4ai.DTYPE_WIDTHS])
def test_buffers_of_every_dtype(dtype: str | None, effort: str | None) -> None:
    data = WEIGHTS.tobytes()
    for tail in (b"", b"!"):
        blob = z4ai.compress(data + tail, dtype=dtype, effort=effort)
        assert z4ai.peek_is_z4ai(blob)
        assert z4ai.decompress(blob) == data + tail


@pytest.mark.parametrize("effort", EFFORTS)
def test_arrays_of_every_type(effort: str | None) -> None:
    names = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu", "int4"]
    types = [
        np.dtype(code)
        for code in [
            "f2",
            "f4",
            "f8",
            ">f4",
            "i1",
            "i2",
            "i4",
            ">i8",
            "u1",
            "u2",
            "u4",
            "u8",
            "?",
            "c8",
            "c16",
            "M8[s]",
            "S3",
            "U2",
        ]
    ]
    types += [np.dtype(getattr(ml_dtypes, name)) for name in names]
    for dtype in types:
        values = (WEIGHTS[:6, :7] * 100).astype(np.int8)
        values = values.astype(str).astype(dtype) if dtype.kind in "SU" else values.astype(dtype)
        for value in (values, values.T, values[::2, ::-1], values[0, 0:1].reshape(()), values[:0]):
            restored = z4ai.decompress_array(z4ai.compress_array(value, effort=effort))
            assert restored.dtype == value.dtype
            assert restored.shape == value.shape
            assert restored.tobytes() == value.tobytes()
            assert restored.flags.writeable


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e5m2, torch.int64, torch.bool])
def test_torch_tensors(dtype: torch.dtype) -> None:
    tensor = torch.from_numpy(WEIGHTS).to(dtype)
    blob = z4ai.compress(tensor)
    restored = z4ai.decompress_array(blob)
    assert restored.shape == (64, 300)
    assert torch.equal(torch.from_numpy(restored.view(np.uint8)), tensor.view(torch.uint8))
    out = torch.zeros_like(tensor)
    assert z4ai.decompress(blob, out=out) is out
    assert torch.equal(out.view(torch.uint8), tensor.view(torch.uint8))


def test_torch_tensors_that_numpy_has_no_type_for() -> None:
    halves = torch.from_numpy(WEIGHTS).half()
    blob = z4ai.compress(torch.view_as_complex(halves.reshape(64, 150, 2)))
    restored = z4ai.decompress_array(blob)
    assert restored.shape == (64, 150, 2)
    assert restored.tobytes() == halves.numpy().tobytes()
    pairs = torch.arange(256, dtype=torch.uint8).reshape(4, 64)
    blob = z4ai.compress(pairs.view(torch.float4_e2m1fn_x2))
    np.testing.assert_array_equal(z4ai.decompress_array(blob), pairs.numpy())
    out = torch.zeros_like(pairs).view(torch.float4_e2m1fn_x2)
    z4ai.decompress(blob, out=out)
    assert torch.equal(out.view(torch.uint8), pairs)


def test_anything_with_a_buffer() -> None:
    data = WEIGHTS.tobytes()
    numbers = array.array("f", WEIGHTS.reshape(-1).tolist())
    for value in (data, bytearray(data), memoryview(data), memoryview(WEIGHTS), numbers, memoryview(numbers)):
        assert z4ai.decompress(z4ai.compress(value, dtype="fp32")) == data
    gaps = memoryview(data)[::2]
    assert z4ai.decompress(z4ai.compress(gaps)) == bytes(gaps)
    assert z4ai.decompress(memoryview(z4ai.compress(data))) == data
    assert z4ai.decompress(bytearray(z4ai.compress(b""))) == b""
    for wrong in ("text", 3, None, [1, 2], object()):
        with pytest.raises(TypeError):
            z4ai.compress(wrong)
        with pytest.raises(TypeError):
            z4ai.decompress(wrong)


def test_frames_remember_what_they_hold() -> None:
    blob = z4ai.compress(WEIGHTS.tobytes(), dtype="fp32", shape=[64, 300])
    np.testing.assert_array_equal(z4ai.decompress_array(blob), WEIGHTS)
    flat = z4ai.decompress_ndarray(z4ai.compress(WEIGHTS.tobytes(), dtype="fp32"))
    np.testing.assert_array_equal(flat, WEIGHTS.reshape(-1))
    with pytest.raises(ValueError, match="opaque"):
        z4ai.decompress_array(z4ai.compress(b"just bytes"))
    with pytest.raises(ValueError, match="3 bytes, which are no whole float32"):
        z4ai.decompress_array(z4ai.compress(b"123", dtype="fp32"))
    with pytest.raises(ValueError, match="shape"):
        z4ai.compress(b"1234", dtype="fp32", shape=[2])


def test_an_array_may_carry_other_elements() -> None:
    tensor = torch.from_numpy(WEIGHTS).bfloat16()
    carrier = tensor.view(torch.uint16).numpy()
    blob = z4ai.compress(carrier, dtype="bf16")
    assert len(blob) <= len(z4ai.compress(tensor)) + 16
    restored = z4ai.decompress_array(blob)
    assert restored.dtype == np.uint16
    np.testing.assert_array_equal(restored, carrier)
    for buffer in (carrier.view(np.uint8), torch.from_numpy(carrier.view(np.uint8))):
        assert z4ai.compress(buffer, dtype="bf16") == z4ai.compress(carrier.tobytes(), dtype="bf16")
    assert z4ai.compress(WEIGHTS, dtype="raw") == z4ai.compress(WEIGHTS.tobytes())
    assert z4ai.decompress_array(z4ai.compress(WEIGHTS, shape=[300, 64])).shape == (300, 64)
    delta = z4ai.compress_delta(carrier, carrier[::-1], dtype="bf16")
    assert abs(len(delta) - len(z4ai.compress_delta(tensor, carrier[::-1].copy()))) < 16
    with pytest.raises(ValueError, match="q9"):
        z4ai.compress(WEIGHTS, dtype="q9")
    with pytest.raises(ValueError, match="shape"):
        z4ai.compress(WEIGHTS, shape=[3])


def test_more_dimensions_than_a_frame_can_say() -> None:
    assert z4ai.decompress(z4ai.compress(b"1234", shape=[1] * 63 + [4])) == b"1234"
    with pytest.raises(ValueError, match="65 dimensions"):
        z4ai.compress(b"1234", shape=[1] * 64 + [4])


def test_out_must_fit_exactly() -> None:
    data = WEIGHTS.tobytes()
    blob = z4ai.compress(data, dtype="fp32")
    for size in (len(data) - 1, len(data) + 1, 0):
        out = bytearray(b"x" * size)
        with pytest.raises(ValueError, match="bytes"):
            z4ai.decompress(blob, out=out)
        assert out == b"x" * size
    with pytest.raises(ValueError, match="read-only"):
        z4ai.decompress(blob, out=bytes(len(data)))
    array_out = np.empty_like(WEIGHTS)
    assert z4ai.decompress(blob, out=array_out) is array_out
    np.testing.assert_array_equal(array_out, WEIGHTS)
    view = memoryview(bytearray(len(data)))
    z4ai.decompress(blob, out=view)
    assert view == data
    gaps = memoryview(bytearray(2 * len(data)))[::2]
    for strided in (np.empty((300, 64), dtype=np.float32).T, torch.empty(300, 64).T, gaps):
        with pytest.raises(ValueError, match="contiguous"):
            z4ai.decompress(blob, out=strided)
    parameter = torch.nn.Parameter(torch.empty(64, 300))
    with pytest.raises(ValueError, match="detach"):
        z4ai.decompress(blob, out=parameter)
    z4ai.decompress(blob, out=parameter.detach())
    np.testing.assert_array_equal(parameter.detach().numpy(), WEIGHTS)


def test_threads_change_nothing() -> None:
    data = WEIGHTS.tobytes() * 40
    frames = {z4ai.compress(data, dtype="fp32", threads=threads) for threads in (0, 1, 2, 5)}
    assert len(frames) == 1
    frame = frames.pop()
    assert all(z4ai.decompress(frame, threads=threads) == data for threads in (0, 1, 3))
    assert z4ai.chunked.decompress(z4ai.chunked.compress(data, dtype="fp32", threads=2), threads=1) == data
    with pytest.raises(OverflowError):
        z4ai.compress(data, threads=-1)


def test_the_lock_is_released() -> None:
    data = WEIGHTS.tobytes() * 20
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        frames = list(pool.map(lambda _: z4ai.compress(data, dtype="fp32"), range(8)))
        assert all(restored == data for restored in pool.map(z4ai.decompress, frames))


def test_unknown_arguments() -> None:
    with pytest.raises(ValueError, match="q9"):
        z4ai.compress(b"1234", dtype="q9")
    with pytest.raises(ValueError, match="q9"):
        z4ai.dtype_width("q9")
    with pytest.raises(ValueError, match="turbo"):
        z4ai.compress(b"1234", effort="turbo")
    with pytest.raises(ValueError, match="level"):
        z4ai.compress(b"1234", level=23)
    with pytest.raises(TypeError):
        z4ai.compress_array(b"1234")
    with pytest.raises(ValueError, match="object"):
        z4ai.compress(np.array([object()]))
    with pytest.raises(ValueError, match="dtype"):
        z4ai.compress(np.zeros(2, dtype=[("a", "f4")]))
    assert z4ai.dtype_width("bf16") == z4ai.dtype_width("BF16") == 2
    assert z4ai.dtype_width(None) == 1
    assert not z4ai.peek_is_z4ai(b"Z4A")
    assert not z4ai.peek_is_z4ai(b"")


@pytest.mark.parametrize("start", [b"Z4AI\x01", b"Z4AIMF01", b"ZARA\x01", b"ZSP1", b"ZPL1", b"ZRT1", b"Z4DL"], ids=repr)
def test_frames_of_earlier_releases_are_named(start: bytes) -> None:
    for call in (z4ai.decompress, z4ai.decompress_array, lambda blob: z4ai.decompress_delta(blob, b"")):
        with pytest.raises(ValueError, match=r"z4ai 0\.2"):
            call(start + bytes(40))


def test_bad_frames_are_value_errors() -> None:
    blob = z4ai.compress(WEIGHTS[:4, :5].copy(), effort="max")
    for length in range(len(blob)):
        with pytest.raises(ValueError):
            z4ai.decompress(blob[:length])
    original = z4ai.decompress(blob)
    for position in range(len(blob)):
        for bit in range(8):
            damaged = bytearray(blob)
            damaged[position] ^= 1 << bit
            with contextlib.suppress(ValueError, MemoryError):
                assert z4ai.decompress(damaged) == original
            with contextlib.suppress(ValueError, MemoryError, TypeError):
                z4ai.decompress_array(damaged)


@settings(max_examples=200, deadline=None)
@given(
    data=st.binary(max_size=2000),
    dtype=st.sampled_from([None, "bf16", "fp16", "fp32", "fp64", "int8", "int32", "complex64"]),
    effort=st.sampled_from(EFFORTS),
    threads=st.integers(0, 3),
)
def test_whatever_goes_in_comes_out(data: bytes, dtype: str | None, effort: str | None, threads: int) -> None:
    assert z4ai.decompress(z4ai.compress(data, dtype=dtype, effort=effort, threads=threads), threads=threads) == data


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_an_error(data: bytes) -> None:
    for head in (b"", b"Z4AI", b"Z4AI\x02"):
        with pytest.raises(ValueError):
            z4ai.decompress(head + data)


def test_a_numpy_scalar_is_an_array_without_dimensions() -> None:
    for scalar in (np.float32(3.5), np.array(3.5, np.float32)):
        back = z4ai.decompress_array(z4ai.compress_array(scalar))
        assert back.shape == () and back.dtype == np.float32 and back == 3.5
