"""`Tensor`: construction and conversion."""

from __future__ import annotations

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
    with pytest.raises(RuntimeError, match="dense"):
        tensor.torch()


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="dict"):
        Tensor([np.zeros(3)])
    with pytest.raises(TypeError, match="NumPy"):
        Tensor({"data": [1, 2]})
    with pytest.raises(ValueError, match="data"):
        Tensor({})
    with pytest.raises(ValueError, match="dtype"):
        Tensor({}, shape=[3])
    with pytest.raises(TypeError):
        Tensor({"data": np.zeros(3)}, dtype="no such type")
