"""`Tensor`: construction and conversion."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
import torch

from ztensor import Tensor


def test_shape_and_dtype_of_a_dense_tensor_are_its_datas() -> None:
    data = np.ones((3, 4), dtype=np.float32)
    tensor = Tensor({"data": data})
    assert (tensor.shape, tensor.dtype, tensor.type, tensor.format) == ([3, 4], "float32", None, "dense")
    assert tensor.attributes is None
    assert tensor.components["data"] is data
    assert tensor.numpy() is data
    assert tensor.torch().data_ptr() == data.ctypes.data
    assert tensor.torch(device="cpu").dtype == torch.float32
    assert repr(tensor) == "<ztensor.Tensor shape=[3, 4] dtype='float32' format='dense'>"


def test_logical_types() -> None:
    tensor = Tensor({"data": np.ones(3, dtype=ml_dtypes.float8_e4m3fn)})
    assert (tensor.dtype, tensor.type) == ("uint8", "f8_e4m3fn")
    tensor = Tensor({"data": np.ones(3, dtype=np.complex64)})
    assert (tensor.dtype, tensor.type) == ("float32", "complex64")
    assert tensor.torch().dtype == torch.complex64
    tensor = Tensor({"data": np.zeros(4, dtype=np.uint8)}, type="f8_e5m2")
    assert tensor.numpy().dtype == ml_dtypes.float8_e5m2
    assert tensor.torch().dtype == torch.float8_e5m2


def test_arrays_that_torch_cannot_use_are_copied() -> None:
    data = np.arange(10, dtype=np.float32)
    assert Tensor({"data": data[::-1]}).torch().tolist() == list(range(9, -1, -1))
    read_only = np.broadcast_to(data, (2, 10))
    tensor = Tensor({"data": read_only}).torch()
    tensor[0, 0] = 7
    assert data[0] == 0


def test_other_formats_need_a_shape() -> None:
    parts = {"values": np.ones(2, dtype=np.float16), "indices": np.zeros(2), "indptr": np.zeros(3)}
    with pytest.raises(ValueError, match="shape"):
        Tensor(parts, format="sparse_csr")
    tensor = Tensor(parts, shape=[2, 2], format="sparse_csr")
    assert tensor.dtype == "float16"
    with pytest.raises(RuntimeError, match="dense"):
        tensor.numpy()
    # PyTorch looks at the indices before it trusts them.
    with pytest.raises(RuntimeError, match="crow_indices"):
        tensor.torch()
    blocks = Tensor({"data": np.zeros(144, np.uint8)}, shape=[1, 256], layout="gguf.q4_k/1")
    with pytest.raises(RuntimeError, match="dequantize"):
        blocks.torch()


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="dict"):
        Tensor([np.zeros(3)])
    with pytest.raises(TypeError, match="NumPy"):
        Tensor({"data": [1, 2]})
    with pytest.raises(ValueError, match="data"):
        Tensor({})
    with pytest.raises(ValueError, match="data"):
        Tensor({}, shape=[3], dtype="float32")
    with pytest.raises(ValueError, match="dtype"):
        Tensor({}, shape=[3], format="sparse_coo")
    with pytest.raises(TypeError):
        Tensor({"data": np.zeros(3)}, dtype="no such type")


@pytest.mark.parametrize(
    ("data", "arguments"),
    [
        (np.ones((3, 4), np.float32), {"shape": [5, 5]}),
        (np.ones((3, 4), np.float32), {"shape": []}),
        (np.ones((3, 4), np.float32), {"shape": [1 << 40, 1 << 40]}),
        (np.ones((3, 4), np.float32), {"dtype": "int8"}),
        (np.ones((3, 4), np.float32), {"dtype": "int32"}),
        (np.ones((3, 4), np.float32), {"dtype": "bfloat16"}),
        (np.ones((3, 4), np.float32), {"type": "f8_e4m3fn", "dtype": "uint8"}),
        (np.ones((3, 4), np.int32), {"dtype": np.float32}),
        (np.zeros(4, np.uint8), {"type": "i4", "shape": [10]}),
        (np.zeros(4, np.uint8), {"type": "f8_e5m2", "shape": [5]}),
    ],
)
def test_arguments_that_the_array_contradicts(data: np.ndarray, arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"array holds|does not fit"):
        Tensor({"data": data}, **arguments)


def test_a_shape_of_as_many_elements_is_given_to_the_data() -> None:
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensor = Tensor({"data": data}, shape=(2, 6), dtype="float32")
    assert tensor.shape == [2, 6] and tensor.numpy().shape == (2, 6) and tensor.torch().shape == (2, 6)
    assert np.shares_memory(tensor.numpy(), data)
    packed = Tensor({"data": np.array([0x21, 0x43], np.uint8)}, type="u4", shape=[2, 2])
    assert packed.numpy().astype(int).tolist() == [[1, 2], [3, 4]]


def test_integers_carry_what_numpy_has_no_type_for() -> None:
    tensor = Tensor({"data": np.array([0x3F80], np.uint16)}, dtype="bfloat16")
    assert tensor.numpy().dtype == ml_dtypes.bfloat16 and tensor.torch().item() == 1


def test_tensors_are_pickled_and_copied() -> None:
    parts = {"values": np.ones(2, np.float16), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2])}
    for tensor in (
        Tensor({"data": np.arange(6.0).reshape(2, 3)}, attributes={"unit": "m"}),
        Tensor({"data": np.array([0x21, 0x43], np.uint8)}, type="u4", shape=[2, 2]),
        Tensor({"data": np.ones(3, ml_dtypes.float8_e4m3fn)}),
        Tensor(parts, shape=[2, 2], format="sparse_csr"),
    ):
        for again in (pickle.loads(pickle.dumps(tensor)), copy.deepcopy(tensor), copy.copy(tensor)):
            for field in ("shape", "dtype", "type", "format", "attributes"):
                assert getattr(again, field) == getattr(tensor, field)
            for role, array in tensor.components.items():
                np.testing.assert_array_equal(again.components[role], array)
