"""Narrow floats in safetensors files against the `safetensors` package, and their values against ml_dtypes."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors
import torch

import ztensor

# safetensors' name, bits, ml_dtypes' name, PyTorch's name
TYPES = [
    ("F4", 4, "float4_e2m1fn", "float4_e2m1fn_x2"),
    ("F6_E2M3", 6, "float6_e2m3fn", None),
    ("F6_E3M2", 6, "float6_e3m2fn", None),
    ("F8_E8M0", 8, "float8_e8m0fnu", "float8_e8m0fnu"),
    ("F8_E4M3", 8, "float8_e4m3fn", "float8_e4m3fn"),
    ("F8_E5M2", 8, "float8_e5m2", "float8_e5m2"),
    ("F8_E4M3FNUZ", 8, "float8_e4m3fnuz", "float8_e4m3fnuz"),
    ("F8_E5M2FNUZ", 8, "float8_e5m2fnuz", "float8_e5m2fnuz"),
]
SHAPES = [(4,), (4, 8), (5, 4), (2, 3, 4), (0, 4), (64, 48)]


def write(path: Path, dtype: str, shape: tuple[int, ...], data: bytes) -> None:
    header = json.dumps({"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}}).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def unpack(data: bytes, bits: int, count: int) -> np.ndarray:
    """The codes of packed elements, lowest bits first."""
    stream = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[: count * bits].reshape(count, bits)
    return (stream.astype(np.uint8) << np.arange(bits, dtype=np.uint8)).sum(axis=1, dtype=np.uint8)


@pytest.mark.parametrize(("name", "bits", "numpy_name", "torch_name"), TYPES, ids=[row[0] for row in TYPES])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_narrow_floats(
    tmp_path: Path, name: str, bits: int, numpy_name: str, torch_name: str | None, shape: tuple[int, ...]
) -> None:
    path = tmp_path / "model.safetensors"
    count = int(np.prod(shape))
    data = np.random.default_rng(bits).bytes(count * bits // 8)
    write(path, name, shape, data)

    dtype = np.dtype(getattr(ml_dtypes, numpy_name))
    expected = unpack(data, bits, count).view(dtype).reshape(shape)
    with ztensor.safe_open(path, "np") as ours:
        found = ours.get_tensor("x")
        assert found.dtype == dtype and found.shape == shape
        assert found.tobytes() == expected.tobytes()
        np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))
        assert ours.get_slice("x")[1:].tobytes() == expected[1:].tobytes()

    with safetensors.safe_open(path, "pt") as theirs, ztensor.safe_open(path, "pt") as ours:
        assert ours.get_slice("x").get_dtype() == theirs.get_slice("x").get_dtype() == name
        assert ours.get_slice("x").get_shape() == theirs.get_slice("x").get_shape() == list(shape)
        if torch_name is None:
            # Neither PyTorch nor, so, the package has them; what we give loses nothing.
            with pytest.raises(safetensors.SafetensorError):
                theirs.get_tensor("x")
            tensor = ours.get_tensor("x")
            assert isinstance(tensor, ztensor.Tensor) and tuple(tensor.shape) == shape
            assert tensor.numpy().tobytes() == expected.tobytes()
        else:
            left, right = ours.get_tensor("x"), theirs.get_tensor("x")
            assert left.dtype == right.dtype == getattr(torch, torch_name)
            assert left.shape == right.shape
            assert torch.equal(left.view(torch.uint8), right.view(torch.uint8))

    copy = tmp_path / "copy.safetensors"
    ztensor.numpy.save_file(ztensor.numpy.load_file(path), copy)
    with safetensors.safe_open(copy, "pt") as theirs:
        assert (theirs.get_slice("x").get_dtype(), theirs.get_slice("x").get_shape()) == (name, list(shape))
    assert copy.read_bytes()[-len(data) :] == data or not data


@pytest.mark.parametrize(("name", "count"), [("F4", 3), ("F6_E2M3", 3), ("F6_E3M2", 2)])
def test_both_refuse_a_part_of_a_byte(tmp_path: Path, name: str, count: int) -> None:
    path = tmp_path / "model.safetensors"
    write(path, name, (count,), bytes(-(-count * int(name[1]) // 8)))
    with pytest.raises(safetensors.SafetensorError):
        safetensors.safe_open(path, "pt")
    with pytest.raises(ztensor.ZTensorError):
        ztensor.safe_open(path, "pt")
