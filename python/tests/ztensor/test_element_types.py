"""The one table of element types, compared with every library that has names for them, and two floats that cost a row each."""

from __future__ import annotations

from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
import onnx
import pytest
import torch

import z4ai
import ztensor
from ztensor import _native as native

TABLE = {row["name"]: row for row in native.element_types()}
FLOATS = [row for row in TABLE.values() if row["fields"]]
IEEE = ["f8_e3m4", "f8_e4m3"]


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: row["name"])
def test_floats_have_the_fields_that_ml_dtypes_says(row: dict) -> None:
    exponent, mantissa, bias = row["fields"]
    dtype = getattr(ml_dtypes, row["numpy"]) if row["ml_dtypes"] else np.dtype(row["numpy"])
    about = ml_dtypes.finfo(dtype)
    assert (about.bits, about.nexp, about.nmant) == (row["bits"], exponent, mantissa)
    # The smallest normal number has 1 in its exponent; E8M0 has no subnormal numbers, so there it is 0.
    assert float(about.smallest_normal) == 2.0 ** ((1 if mantissa else 0) - bias)


def test_numpy_and_ml_dtypes_know_every_name() -> None:
    for row in TABLE.values():
        if row["numpy"] and not (row["ml_dtypes"] and not hasattr(ml_dtypes, row["numpy"])):
            dtype = np.dtype(getattr(ml_dtypes, row["numpy"]) if row["ml_dtypes"] else row["numpy"])
            assert dtype.itemsize == max(1, row["bits"] // 8), row["name"]
    named = {row["numpy"] for row in TABLE.values()}
    missing = {name for name in dir(ml_dtypes) if name.startswith(("float", "bfloat", "int", "uint"))} - named
    # Not read or written: types narrower or wider than anything else here.
    assert missing <= {"float8_e4m3b11fnuz", "int1", "uint1"}


def test_torch_has_every_name_and_we_have_every_type_of_it() -> None:
    ours = {row["torch"]: row for row in TABLE.values() if row["torch"]}
    for name, row in ours.items():
        assert getattr(torch, name).itemsize == max(1, row["bits"] // 8), name
    floats = {
        str(value).removeprefix("torch.")
        for value in vars(torch).values()
        if isinstance(value, torch.dtype) and value.is_floating_point
    }
    assert floats - set(ours) == set()


def test_onnx_numbers() -> None:
    ours = {row["onnx"]: row for row in TABLE.values() if row["onnx"]}
    known = {number: name for name, number in onnx.TensorProto.DataType.items() if name not in ("UNDEFINED", "STRING")}
    assert set(known) <= set(ours)
    for number, name in known.items():
        expected = onnx.helper.tensor_dtype_to_np_dtype(number).name
        assert ours[number]["numpy"] == expected, name


def test_gguf_numbers() -> None:
    for row in TABLE.values():
        if row["gguf"] is not None:
            assert gguf.GGMLQuantizationType(row["gguf"]).name.lower() == {
                "float64": "f64",
                "float32": "f32",
                "float16": "f16",
                "bfloat16": "bf16",
                "int64": "i64",
                "int32": "i32",
                "int16": "i16",
                "int8": "i8",
            }.get(row["name"])


def test_safetensors_names() -> None:
    from safetensors.numpy import _TYPES

    for name, dtype in _TYPES.items():
        row = next(row for row in TABLE.values() if row["safetensors"] == name)
        assert row["numpy"] == np.dtype(dtype).name


def test_the_codec_agrees() -> None:
    assert z4ai.DTYPE_WIDTHS[None] == z4ai.DTYPE_WIDTHS["raw"] == 1
    for row in TABLE.values():
        if row["z4ai"]:
            assert z4ai.DTYPE_WIDTHS[row["z4ai"]] == row["bits"] // 8, row["name"]


@pytest.mark.parametrize("name", IEEE)
@pytest.mark.parametrize("compression", [None, "zstd", "z4ai"])
def test_new_floats_go_through_a_file(tmp_path: Path, name: str, compression: str | None) -> None:
    dtype = getattr(ml_dtypes, TABLE[name]["numpy"])
    bits = np.arange(256, dtype=np.uint8).reshape(16, 16)
    path = tmp_path / "model.zt"
    ztensor.numpy.save_file({"weight": bits.view(dtype)}, path, compression=compression)
    loaded = ztensor.numpy.load_file(path)["weight"]
    assert loaded.dtype == dtype
    np.testing.assert_array_equal(loaded.view(np.uint8), bits)
    with ztensor.Reader(path) as reader:
        assert reader.metadata("weight").type == name
        np.testing.assert_array_equal(reader["weight"][3:4].view(np.uint8), bits[3:4])


@pytest.mark.parametrize("name", IEEE)
def test_new_floats_in_frames(name: str) -> None:
    dtype = getattr(ml_dtypes, TABLE[name]["numpy"])
    array = np.arange(256, dtype=np.uint8).repeat(16).view(dtype)
    restored = z4ai.decompress_array(z4ai.compress_array(array))
    assert restored.dtype == dtype
    np.testing.assert_array_equal(restored.view(np.uint8), array.view(np.uint8))


@pytest.mark.parametrize("name", IEEE)
def test_new_floats_have_no_tensor_in_torch_and_no_name_in_safetensors(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.zt"
    array = np.zeros(4, dtype=getattr(ml_dtypes, TABLE[name]["numpy"]))
    ztensor.numpy.save_file({"weight": array}, path)
    loaded = ztensor.torch.load_file(path)["weight"]
    assert isinstance(loaded, ztensor.Tensor)
    with pytest.raises(ztensor.ZTensorError, match=f"PyTorch has no type for {name} elements; read them with NumPy"):
        loaded.torch()
    with pytest.raises(ztensor.ZTensorError, match=name):
        ztensor.numpy.save_file({"weight": array}, tmp_path / "model.safetensors")
