"""A call of everything that is public, for the type checker, which takes it strictly, and for Python, which runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import z4ai
import z4ai.chunked
import ztensor
import ztensor.numpy
import ztensor.torch
from z4ai import enable_hf, model_delta
from z4ai.safetensors import ZstnReader, compress_file, decompress_file

PATH = Path("model.zt")
ARRAY: NDArray[np.float32] = np.ones((2, 3), dtype=np.float32)


def save_and_load() -> bytes:
    arrays: dict[str, NDArray[np.float32]] = {"a": ARRAY}
    ztensor.numpy.save_file(arrays, PATH, metadata={"a": "b"}, compression=True)
    ztensor.numpy.save_file({"a": ARRAY}, "model.zt", None, "z4ai")
    data: bytes = ztensor.numpy.save({"a": ARRAY})
    loaded = ztensor.numpy.load_file(PATH, copy=True, backend="pread", verify=False, base=None)
    shape: tuple[int, ...] = {**loaded, **ztensor.numpy.load(data)}["a"].shape
    assert shape == (2, 3)
    tensors: dict[str, torch.Tensor] = {"a": torch.ones(2)}
    parameters: dict[str, torch.nn.Parameter] = {"a": torch.nn.Parameter(torch.ones(2))}
    ztensor.torch.save_file(tensors, PATH)
    ztensor.torch.save_file(parameters, PATH)
    tensors = ztensor.torch.load_file(PATH, "cpu", False)
    tensors = ztensor.torch.load(ztensor.torch.save(tensors))
    model = torch.nn.Linear(2, 2)
    ztensor.torch.save_model(model, PATH)
    missing, unexpected = ztensor.torch.load_model(model, PATH)
    ztensor.torch.save_tree({"model": dict(model.state_dict()), 1: (None, b"x")}, "tree.zt", codec="z4ai")
    assert ztensor.torch.load_tree("tree.zt")[1] == (None, b"x") == ztensor.numpy.load_tree("tree.zt")[1]
    ztensor.torch.save_model(model, PATH, codec="z4ai", effort="fast", checksum="crc32c")
    assert not missing and not unexpected
    return data


def read(data: bytes) -> None:
    with ztensor.open(PATH), ztensor.Reader.from_bytes(data), ztensor.Reader(PATH, "auto", True) as reader:
        names: list[str] = reader.keys()
        one: ztensor.TensorMetadata = reader.metadata("weight")
        several: list[ztensor.TensorMetadata] = reader.metadata(names)
        assert one.shape == several[1].shape or one.components["data"]["length"] == one.nbytes
        tensor: ztensor.Tensor = reader["weight"]
        assert reader.read(names, copy=True)["weight"].numpy().shape == tuple(tensor.shape)
        arrays: dict[str, NDArray[Any]] = reader.read_numpy(names)
        array: NDArray[Any] = reader.read_numpy("weight")
        moved: dict[str, torch.Tensor] = reader.read_torch(tuple(names), device="cpu")
        reader.read_into("weight", array)
        reader.read_into(arrays)
        reader.read_into(moved)
        mixed: dict[str, NDArray[Any] | torch.Tensor] = {"weight": array, "bias": moved["bias"]}
        reader.read_into(mixed)
        reader.read_into("weight", np.empty((2, 2), np.float16), cast=True)
        total: NDArray[Any] = tensor + np.asarray(tensor)
        assert total.shape == tensor.T.shape and tensor[0].shape == (2,) and len(tensor) == tensor.shape[0] == 2
        assert tensor.dtype == np.float32 and tensor.dtype.itemsize == 4 and tensor.to_dense().dequantize().ndim == 2
        assert [name for name, _ in reader.items()] == names and len(reader.values()) == 2
        assert reader.get("none") is None and reader.get("none", 3) == 3
        assert reader.read_slice("weight", np.s_[:1]).shape == (1, 2)
        count: int = len(reader)
        known: bool = "weight" in reader
        assert known and count == len(list(reader)) == len(reader.keys())
        text: str = reader.format
        stored: int = reader.stored_length("weight")
        assert text == "zt" and stored > 0 and reader.archive is None
        assert not reader.skipped() and not reader.file_metadata
    with ztensor.safe_open(PATH, framework="pt", device="cpu") as file:
        part = file.get_slice("weight")
        assert file.keys() == sorted(file.offset_keys()) and file.metadata() is None
        assert file.get_tensor("weight").shape == tuple(part.get_shape()) and part[:1].shape == (1, 2)
        assert part.get_dtype() == "F32" and len(file.get_tensors()) == 2


def write() -> None:
    with ztensor.Writer("written.zt") as writer:
        writer.write("tensor", ztensor.Tensor({"data": ARRAY}, shape=[3, 2], dtype="float32", attributes={"a": 1}))
        writer.write_numpy("numpy", ARRAY, checksum="crc32c")
        writer.write_torch("torch", torch.ones(2), compress=True)
        writer.add("added", ARRAY, compress=3)
        writer.set_metadata({"number": 1})
    writer = ztensor.Writer.append("written.zt")
    writer.write_numpy("late", ARRAY)
    size: int = writer.finish()
    repaired: bool = ztensor.repair("written.zt")
    assert size > 0 and not repaired
    ztensor.remove_tensors("written.zt", "fewer.zt", ["late"])
    ztensor.replace_tensor("written.zt", "numpy", ARRAY)


def compress(data: bytes) -> None:
    frame: bytes = z4ai.compress(data, dtype="fp32", effort="max", threads=1)
    out = bytearray(len(data))
    z4ai.decompress(frame, out=out)
    assert z4ai.decompress(frame) == data == bytes(out)
    assert z4ai.decompress_array(z4ai.compress_array(ARRAY)).shape == (2, 3)
    assert z4ai.decompress_delta(z4ai.compress_delta(data, reference=data), reference=data) == data
    assert z4ai.chunked.decompress(z4ai.chunked.compress(data, dtype="bf16")) == data
    assert model_delta.decompress(model_delta.compress(data, data), data) == data
    stats: z4ai.Stats = model_delta.compress_file("written.zt", "model.zt", "written.z4dm")
    model_delta.decompress_file("written.z4dm", "model.zt", "again.zt")
    assert stats["ratio"] > 0 and compress_file("model.zt", "model.zstn")["ratio"] > 0
    decompress_file("model.zstn", "restored.zt")
    with ZstnReader.open("model.zstn") as reader:
        assert reader.read_numpy(reader.names()[0]).size > 0
    z4ai.save_file({"a": torch.ones(2)}, "model.z4ai.safetensors")
    state: dict[str, torch.Tensor] = z4ai.load_file("model.z4ai.safetensors")
    assert state["a"].tolist() == [1, 1]
    enable_hf()


def fail() -> tuple[str, str | None, str | None, int | None, str | None]:
    try:
        ztensor.open("missing")
    except ztensor.ZTensorError as error:
        return error.kind, error.path, error.tensor, error.offset, error.hint
    raise AssertionError


if __name__ == "__main__":
    saved = save_and_load()
    read(saved)
    write()
    compress(saved)
    assert fail()[:2] == ("not_found", "missing")
