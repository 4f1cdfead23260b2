"""`Tensor` is an array to NumPy, to PyTorch and to code written for ztensor 1.2, whose reader gives arrays."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

import z4ai
import ztensor
from ztensor import Tensor, ZTensorError
from ztensor.numpy import save_file

VALUES = np.random.default_rng(3).standard_normal((40, 6)).astype(np.float32)


@pytest.fixture(params=[None, "z4ai"])
def tensor(request: pytest.FixtureRequest, tmp_path: Path) -> Tensor:
    save_file({"w": VALUES, "n": np.arange(5)}, tmp_path / "m.zt", codec=request.param)
    return ztensor.Reader(tmp_path / "m.zt")["w"]


def test_numpy_takes_it_for_an_array(tensor: Tensor) -> None:
    array = np.asarray(tensor)
    assert array.dtype == np.float32 and array.shape == (40, 6) and np.array_equal(array, VALUES)
    assert np.shares_memory(array, tensor.numpy())
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(tensor), tensor.numpy())
    assert np.array_equal(tensor.__array__(np.float16, copy=True), VALUES.astype(np.float16))
    with pytest.raises(ValueError, match="copy"):
        tensor.__array__(np.float16, copy=False)
    assert np.array_equal(np.concatenate([tensor, tensor]), np.concatenate([VALUES, VALUES]))
    assert np.mean(tensor) == VALUES.mean() and np.isfinite(tensor).all()


def test_the_array_outlives_the_tensor(tmp_path: Path) -> None:
    save_file({"w": VALUES}, tmp_path / "m.zt", codec="z4ai")
    array = np.asarray(ztensor.Reader(tmp_path / "m.zt")["w"])
    filler = [np.ones(VALUES.shape, np.float32) for _ in range(100)]
    assert np.array_equal(array, VALUES) and filler


def test_fields_of_an_array(tensor: Tensor) -> None:
    assert (len(tensor), tensor.size, tensor.ndim, tensor.nbytes) == (40, 240, 2, 960)
    assert np.array_equal(tensor.T, VALUES.T) and tensor.flags.c_contiguous
    assert tensor.itemsize == 4 and tensor.strides == (24, 4)
    assert tensor.mean() == VALUES.mean() and tensor.astype(np.float64).dtype == np.float64
    assert tensor.reshape(-1).shape == (240,) and tensor.tolist() == VALUES.tolist()
    assert tensor.shape == (40, 6) == tensor.shape and tensor.shape == [40, 6]
    assert tensor.shape + (1,) == (40, 6, 1) and (1,) + tensor.shape == (1, 40, 6)  # noqa: RUF005
    assert {tensor.shape: 1}[(40, 6)] == 1 and isinstance(tensor.shape, list)
    assert tensor.dtype == "float32" and tensor.dtype == np.float32 and tensor.dtype == np.dtype("float32")
    assert tensor.dtype != np.float64 and np.dtype("float32") == tensor.dtype and np.float64 != tensor.dtype
    assert tensor.dtype.itemsize == 4 and np.zeros(2, tensor.dtype).dtype == np.float32
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = tensor.nothing_like_it
    with pytest.raises(TypeError):
        len(Tensor({"data": np.array(1.0)}))


def test_arithmetic_and_comparison(tensor: Tensor) -> None:
    for left, right in ((tensor, tensor), (tensor, 2), (2, tensor), (tensor, VALUES), (VALUES, tensor)):
        plain = [VALUES if isinstance(side, Tensor) else side for side in (left, right)]
        assert np.array_equal(left + right, plain[0] + plain[1])
        assert np.array_equal(left * right, plain[0] * plain[1])
        assert np.array_equal(left > right, plain[0] > plain[1])
        assert np.array_equal(left == right, plain[0] == plain[1])
    assert np.array_equal(-tensor, -VALUES) and np.array_equal(abs(tensor), abs(VALUES))
    assert np.array_equal(tensor @ tensor.T, VALUES @ VALUES.T)
    assert np.array_equal(np.exp(tensor), np.exp(VALUES)) and np.add.reduce(tensor, axis=None) == VALUES.sum()
    with pytest.raises(TypeError, match="unhashable"):
        hash(tensor)
    tensor += 1
    assert isinstance(tensor, Tensor) and np.array_equal(tensor, VALUES + 1)
    tensor[0] = 0
    assert not tensor.numpy()[0].any() and not tensor[0].any()
    assert float(Tensor({"data": np.array(1.5)})) == 1.5 and int(Tensor({"data": np.array(3)})) == 3
    assert list(Tensor({"data": np.arange(3)})) == [0, 1, 2] and 2 in Tensor({"data": np.arange(3)})
    with pytest.raises(ValueError, match="ambiguous"):
        bool(tensor)


def test_parts_are_decoded_alone(tmp_path: Path) -> None:
    large = np.random.default_rng(0).standard_normal((64, 1 << 16)).astype(np.float32)
    path = tmp_path / "m.zt"
    save_file({"w": large}, path, codec="z4ai", effort="fast")
    raw = bytearray(path.read_bytes())
    about = ztensor.Reader(path).metadata("w").components["data"]
    # Damage near the end of the frame: rows at its beginning can be had, the whole tensor cannot.
    raw[about["offset"] + about["stored_length"] * 3 // 4] ^= 0x55
    path.write_bytes(raw)
    tensor = ztensor.Reader(path)["w"]
    assert np.array_equal(tensor[1:3, ::2], large[1:3, ::2]) and np.array_equal(tensor[0], large[0])
    with pytest.raises(ZTensorError):
        np.asarray(tensor)
    with pytest.raises(IndexError) as caught:
        _ = tensor[64]
    assert isinstance(caught.value, ZTensorError) and caught.value.kind == "index"


def test_bfloat16_and_packed_types() -> None:
    tensor = Tensor({"data": np.ones(3, ml_dtypes.bfloat16)})
    assert np.asarray(tensor).dtype == ml_dtypes.bfloat16 and tensor.dtype == ml_dtypes.bfloat16
    assert (tensor + tensor).dtype == ml_dtypes.bfloat16
    packed = Tensor({"data": np.array([0x21, 0x43], np.uint8)}, type="u4", shape=[2, 2])
    assert np.asarray(packed).astype(int).tolist() == [[1, 2], [3, 4]] and packed[1].astype(int).tolist() == [3, 4]
    assert not hasattr(packed, "__array_interface__")


def test_dlpack(tensor: Tensor) -> None:
    assert torch.equal(torch.from_dlpack(tensor), torch.from_numpy(VALUES))
    assert np.array_equal(np.from_dlpack(tensor), VALUES)
    half = Tensor({"data": np.ones(3, ml_dtypes.bfloat16)})
    assert torch.from_dlpack(half).dtype == torch.bfloat16
    assert torch.equal(torch.as_tensor(np.asarray(tensor)), torch.from_numpy(VALUES))


def test_what_is_not_dense_says_what_to_do() -> None:
    sparse = Tensor(
        {"values": np.ones(2, np.float32), "coords": np.array([0, 1, 1, 0])}, shape=[2, 2], layout="sparse_coo"
    )
    for use in (np.asarray, lambda t: t + 1, lambda t: t[0], lambda t: t.numpy(), lambda t: t == 1, list):
        with pytest.raises(RuntimeError, match=r"to_dense\(\)") as caught:
            use(sparse)
        assert isinstance(caught.value, ZTensorError) and caught.value.kind == "mismatch"
    with pytest.raises(AttributeError, match="to_dense"):
        _ = sparse.T
    assert sparse.to_dense().tolist() == [[0, 1], [1, 0]] and sparse.ndim == 2 and len(sparse) == 2
    rows = {"values": np.array([1, 2], np.float16), "indices": np.array([2, 0]), "indptr": np.array([0, 1, 2])}
    assert Tensor(rows, shape=[2, 3], layout="sparse_csr").to_dense().tolist() == [[0, 0, 1], [2, 0, 0]]
    twice = Tensor({"values": np.ones(2), "coords": np.array([0, 0, 1, 1])}, shape=[2, 2], layout="sparse_coo")
    assert twice.to_dense().tolist() == [[0, 2], [0, 0]]
    blocks = Tensor({"data": np.zeros(34, np.uint8)}, shape=[1, 32], layout="gguf.q8_0/1")
    with pytest.raises(RuntimeError, match=r"dequantize\(\)"):
        np.asarray(blocks)
    assert blocks.dequantize().numpy().shape == (1, 32) and blocks.dequantize("float16").dtype == np.float16
    other = Tensor({"a": np.zeros(3)}, shape=[3], layout="somebody.else/1")
    with pytest.raises(RuntimeError, match="components"):
        np.asarray(other)


def test_layout_and_format_are_one_thing() -> None:
    parts = {"values": np.ones(1), "coords": np.array([0])}
    tensor = Tensor(parts, shape=[2], layout="sparse_coo")
    assert tensor.layout == tensor.format == Tensor(parts, shape=[2], format="sparse_coo").layout == "sparse_coo"
    with pytest.raises(ValueError, match="layout"):
        Tensor(parts, shape=[2], format="sparse_coo", layout="dense")


def test_items_values_and_get(tmp_path: Path) -> None:
    save_file({"w": VALUES, "n": np.arange(5)}, tmp_path / "m.zt")
    reader = ztensor.Reader(tmp_path / "m.zt")
    assert [name for name, _ in reader.items()] == reader.keys() == ["w", "n"]
    assert np.array_equal(dict(reader.items())["w"], VALUES) and np.array_equal(reader.values()[1], np.arange(5))
    assert np.array_equal(reader.get("w"), VALUES) and reader.get("x") is None and reader.get("x", 7) == 7
    assert np.array_equal(reader.read_tensors(["w"])["w"], VALUES)
    assert reader.metadata("w").layout == reader.metadata("w").format == "dense"


def test_it_is_written_and_compressed_like_an_array(tmp_path: Path) -> None:
    """What a reader gives for a name was an array in ztensor 1.2, and went where arrays go."""
    values = {"weight": np.arange(64, dtype=np.float32).reshape(8, 8), "half": np.ones(5, ml_dtypes.bfloat16)}
    save_file(values, tmp_path / "model.zt")
    reader = ztensor.Reader(tmp_path / "model.zt")
    with ztensor.Writer(tmp_path / "copy.zt") as writer:
        writer.write_numpy("weight", reader["weight"], checksum="crc32c")
        writer.add("half", reader["half"], True)
        with pytest.raises(TypeError, match="no NumPy array but list"):
            writer.write_numpy("list", [1.0])  # type: ignore[arg-type]
    copy = ztensor.Reader(tmp_path / "copy.zt")
    assert all(np.array_equal(copy.read_numpy(name), array) for name, array in values.items())
    ztensor.replace_tensor(tmp_path / "copy.zt", "weight", (reader["weight"] + 1).astype(np.float32))
    ztensor.replace_tensor(tmp_path / "copy.zt", "weight", reader["weight"])
    assert np.array_equal(ztensor.Reader(tmp_path / "copy.zt").read_numpy("weight"), values["weight"])
    for name, array in values.items():
        assert z4ai.compress_array(reader[name]) == z4ai.compress_array(array)
        assert np.array_equal(z4ai.decompress_array(z4ai.compress_array(reader[name])), array)
    blocks = ztensor.Tensor({"data": np.zeros(18, np.uint8)}, shape=[32], dtype="uint8", format="gguf.q4_0/1")
    with pytest.raises(ztensor.ZTensorError, match="not one array"):
        z4ai.compress_array(blocks)
