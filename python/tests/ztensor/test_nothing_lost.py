"""`load_file` then `save_file` loses nothing, whatever the tensors are; what would be less than asked for is refused."""

from __future__ import annotations

from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter, quants

import ztensor
import ztensor.numpy
import ztensor.torch
from ztensor import Reader, Tensor, ZTensorError

WEIGHTS = np.random.default_rng(1).standard_normal((6, 512)).astype(np.float32)
DENSE = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def quantized(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    writer = GGUFWriter(path, "test")
    writer.add_tensor("dense", DENSE)
    size = gguf.GGML_QUANT_SIZES[GGMLQuantizationType.Q4_K][1]
    blocks = np.random.default_rng(0).integers(0, 64, (6, 2 * size), dtype=np.uint8)
    writer.add_tensor("q4_k", blocks, raw_dtype=GGMLQuantizationType.Q4_K)
    q8 = quants.quantize(WEIGHTS, GGMLQuantizationType.Q8_0)
    writer.add_tensor("q8_0", q8, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def numbers(path: Path, name: str) -> np.ndarray:
    tensor = next(tensor for tensor in gguf.GGUFReader(path).tensors if tensor.name == name)
    return quants.dequantize(tensor.data, tensor.tensor_type)


@pytest.mark.parametrize("module", [ztensor.numpy, ztensor.torch], ids=["numpy", "torch"])
def test_quantized_tensors_stay_what_they_are(quantized: Path, tmp_path: Path, module: object) -> None:
    loaded = module.load_file(quantized)
    assert not isinstance(loaded["dense"], Tensor)
    for name, layout in (("q4_k", "gguf.q4_k/1"), ("q8_0", "gguf.q8_0/1")):
        assert isinstance(loaded[name], Tensor) and loaded[name].shape == [6, 512] and loaded[name].layout == layout
    for target in ("m.zt", "again.zt"):
        module.save_file(loaded, tmp_path / target, codec="z4ai")
        before, after = Reader(quantized), Reader(tmp_path / target)
        for name in before:
            old, new = before.metadata(name), after.metadata(name)
            assert (old.shape, old.layout, old.dtype, old.attributes) == (
                new.shape,
                new.layout,
                new.dtype,
                new.attributes,
            )
            old, new = before.read(name).components["data"], after.read(name).components["data"]
            assert old.tobytes() == new.tobytes()
        loaded = module.load_file(tmp_path / target)
    assert np.array_equal(loaded["q8_0"].dequantize(), numbers(quantized, "q8_0"))
    with pytest.raises(ZTensorError, match=r"gguf.q4_k/1.*Name the file .zt"):
        module.save_file(loaded, tmp_path / "m.safetensors")
    assert module.load(module.save(loaded))["q4_k"].layout == "gguf.q4_k/1"


@pytest.mark.parametrize(
    ("precision", "dtype"), [(True, np.float32), ("float16", np.float16), (torch.bfloat16, ml_dtypes.bfloat16)]
)
def test_dequantize_everywhere(quantized: Path, precision: object, dtype: type) -> None:
    expected = numbers(quantized, "q4_k").astype(dtype)
    reader = Reader(quantized)
    found = [
        ztensor.numpy.load_file(quantized, dequantize=precision)["q4_k"],
        reader.read_numpy("q4_k", dequantize=precision),
        reader.read("q4_k", dequantize=precision).numpy(),
        reader["q4_k"].dequantize(precision).numpy(),
        reader.read_slice("q4_k", np.s_[:], dequantize=precision),
    ]
    with ztensor.safe_open(quantized, framework="np", dequantize=precision) as file:
        found.append(file.get_tensor("q4_k"))
        part = file.get_slice("q4_k")
        assert part.get_shape() == list(part[:].shape) == [6, 512] and part[2:4, 1].shape == (2,)
        assert part[4].tobytes() == expected[4].tobytes() and part[1:5:2, 3:].tobytes() == expected[1:5:2, 3:].tobytes()
    reader.read_into("q4_k", into := np.empty((6, 512), dtype), dequantize=precision)
    for array in [*found, into]:
        assert array.dtype == dtype and array.tobytes() == expected.tobytes()
    for tensor in (
        ztensor.torch.load_file(quantized, dequantize=precision)["q4_k"],
        reader.read_torch("q4_k", dequantize=precision),
    ):
        assert torch.equal(tensor.float(), torch.from_numpy(expected.astype(np.float32)))


def test_blocks_are_not_taken_for_bytes(quantized: Path) -> None:
    reader = Reader(quantized)
    for read in (
        lambda: reader.read_numpy("q4_k"),
        lambda: reader.read_torch(["q4_k"]),
        lambda: reader.read_slice("q4_k", 0),
        lambda: reader.read_into("q4_k", np.empty((6, 288), np.uint8)),
    ):
        with pytest.raises(ZTensorError, match="dequantize=True"):
            read()
    with ztensor.safe_open(quantized, framework="pt") as file:
        assert isinstance(file.get_tensor("q4_k"), Tensor) and isinstance(file.get_tensors()["dense"], torch.Tensor)
        part = file.get_slice("q4_k")
        assert part.get_shape() == [6, 512] and part.get_dtype() == "gguf.q4_k/1"
        with pytest.raises(ZTensorError, match="dequantize=True"):
            part[:2]
    with pytest.raises(ZTensorError, match="dequantize must be"):
        reader.read("q4_k", dequantize="int8")


def test_sparse_tensors_survive(tmp_path: Path) -> None:
    dense = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
    twice = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 1.0], (2, 2))
    tensors = {"csr": dense.to_sparse_csr(), "coo": dense.to_sparse_coo(), "dense": dense, "twice": twice}
    ztensor.torch.save_file(tensors, tmp_path / "m.zt")
    loaded = ztensor.torch.load_file(tmp_path / "m.zt")
    for name, tensor in tensors.items():
        assert loaded[name].layout == tensor.layout and torch.equal(loaded[name].to_dense(), tensor.to_dense())
    arrays = ztensor.numpy.load_file(tmp_path / "m.zt")
    assert isinstance(arrays["csr"], Tensor) and arrays["csr"].layout == "sparse_csr"
    assert arrays["coo"].to_dense().tolist() == dense.tolist() and arrays["coo"].components["coords"].shape == (6,)
    ztensor.numpy.save_file(arrays, tmp_path / "n.zt")
    again = ztensor.torch.load_file(tmp_path / "n.zt")
    assert torch.equal(again["csr"].to_dense(), dense) and torch.equal(again["coo"].to_dense(), dense)
    with pytest.raises(ValueError, match=r"csr.*\.zt"):
        ztensor.torch.save_file(tensors, tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="to_dense"):
        hybrid = torch.sparse_coo_tensor([[0, 1]], torch.ones(2, 4), (3, 4))
        ztensor.torch.save_file({"x": hybrid}, tmp_path / "m.zt")


def test_types_that_torch_lacks_stay(tmp_path: Path) -> None:
    ztensor.numpy.save_file({"i4": np.arange(6).astype(ml_dtypes.int4)}, tmp_path / "m.zt")
    loaded = ztensor.torch.load_file(tmp_path / "m.zt")
    assert isinstance(loaded["i4"], Tensor) and loaded["i4"].type == "i4"
    ztensor.torch.save_file(loaded, tmp_path / "n.zt")
    assert ztensor.numpy.load_file(tmp_path / "n.zt")["i4"].astype(int).tolist() == list(range(6))


@pytest.mark.parametrize("name", ["m.pkl", "m.GGUF", "m.gguf", "m.npz", "m.safetensors.index.json", "m.zstn", "m.h5"])
def test_names_that_promise_another_format(tmp_path: Path, name: str) -> None:
    for save in (ztensor.numpy.save_file, lambda arrays, path: ztensor.Writer(path)):
        with pytest.raises(ZTensorError, match=r"Name the file \.zt"):
            save({"x": DENSE}, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_writer_does_not_pretend_to_write_safetensors(tmp_path: Path) -> None:
    with pytest.raises(ZTensorError, match="save_file"):
        ztensor.Writer(tmp_path / "m.safetensors")
    for options in ({"codec": "z4ai"}, {"checksum": "crc32c"}, {"compression": True}):
        with pytest.raises(ZTensorError, match=r"name it \.zt"):
            ztensor.numpy.save_file({"x": DENSE}, tmp_path / "m.safetensors", **options)
    with pytest.raises(ZTensorError, match="attributes"):
        ztensor.numpy.save_file({"x": Tensor({"data": DENSE}, attributes={"unit": "m"})}, tmp_path / "m.safetensors")
    ztensor.numpy.save_file({"x": Tensor({"data": DENSE})}, tmp_path / "M.SafeTensors")
    assert Reader(tmp_path / "M.SafeTensors").format == "safetensors"


def test_read_into_another_dtype_only_on_request(tmp_path: Path) -> None:
    ztensor.numpy.save_file({"x": np.array([1.5, 2.25]), "n": np.array([3, 4])}, tmp_path / "m.zt")
    reader = Reader(tmp_path / "m.zt")
    for target in (np.empty(2, np.float16), np.empty(2, np.int64), torch.empty(2)):
        with pytest.raises(ZTensorError, match="cast=True"):
            reader.read_into("x", target)
        with pytest.raises(ZTensorError, match="cast=True"):
            reader.read_into({"x": target})
        reader.read_into("x", target, cast=True)
    assert target.tolist() == [1.5, 2.25]
    reader.read_into("x", truncated := np.empty(2, np.int8), cast=True)
    assert truncated.tolist() == [1, 2]
    reader.read_into("x", swapped := np.empty(2, ">f8"))
    assert swapped.tolist() == [1.5, 2.25]


def test_one_vocabulary(tmp_path: Path) -> None:
    arrays = {"x": np.zeros(5000, np.float32)}
    tensors = {"x": torch.zeros(5000)}
    model = torch.nn.Linear(100, 50)
    torch.nn.init.zeros_(model.weight)
    for words, encoding in (
        ({}, "raw"),
        ({"codec": None}, "raw"),
        ({"codec": "zstd"}, "zstd"),
        ({"codec": "zstd", "level": 19}, "zstd"),
        ({"level": 1}, "zstd"),
        ({"codec": "z4ai"}, "z4ai"),
        ({"codec": "z4ai", "effort": "max"}, "z4ai"),
        ({"effort": "fast"}, "z4ai"),
        ({"effort": "default"}, "z4ai"),
    ):
        path = tmp_path / "m.zt"
        ztensor.numpy.save_file(arrays, path, **words, checksum="crc32c")
        assert Reader(path).metadata("x").components["data"]["encoding"] == encoding
        assert Reader(path).metadata("x").components["data"]["digest"].startswith("crc32c")
        ztensor.torch.save_file(tensors, path, **words, checksum="sha256")
        assert Reader(path).metadata("x").components["data"]["encoding"] == encoding
        ztensor.torch.save_model(model, path, **words)
        assert Reader(path).metadata("weight").components["data"]["encoding"] == encoding
        for save in (ztensor.numpy.save, ztensor.torch.save):
            data = save(arrays if save is ztensor.numpy.save else tensors, **words)
            assert Reader.from_bytes(data).metadata("x").components["data"]["encoding"] == encoding
        with ztensor.Writer(path) as writer:
            writer.write("a", Tensor({"data": arrays["x"]}), **words)
            writer.write_numpy("b", arrays["x"], **words)
            writer.write_torch("c", tensors["x"], **words)
            writer.add("d", arrays["x"], **words)
        assert {about.components["data"]["encoding"] for about in Reader(path).metadata(list("abcd"))} == {encoding}
    for wrong in (
        {"codec": "lzma"},
        {"codec": "zstd", "effort": "max"},
        {"codec": "z4ai", "level": 3},
        {"effort": "huge"},
        {"level": 23},
        {"codec": "z4ai", "compression": True},
        {"checksum": "md5"},
    ):
        with pytest.raises(ValueError, match=r"codec|effort|level|checksum"):
            ztensor.numpy.save_file(arrays, tmp_path / "n.zt", **wrong)
    assert not (tmp_path / "n.zt").exists()


def test_load_some_of_several_files(tmp_path: Path) -> None:
    ztensor.numpy.save_file({"a": np.ones(3, np.float32), "n": np.arange(3)}, tmp_path / "1.zt")
    ztensor.numpy.save_file({"b": np.ones(2, ml_dtypes.bfloat16)}, tmp_path / "2.safetensors")
    paths = [tmp_path / "1.zt", str(tmp_path / "2.safetensors")]
    assert list(ztensor.numpy.load_file(paths)) == ["a", "n", "b"]
    for module in (ztensor.numpy, ztensor.torch):
        loaded = module.load_file(paths, keys=["b", "n"], dtype="float16")
        assert set(loaded) == {"b", "n"} and "float16" in str(loaded["b"].dtype) and "int64" in str(loaded["n"].dtype)
        with pytest.raises(KeyError, match="'c'"):
            module.load_file(paths, keys=["a", "c"])
        with pytest.raises(ValueError, match="is in"):
            module.load_file([paths[0], paths[0]])
    assert ztensor.torch.load_file(paths, dtype=torch.float64)["b"].dtype == torch.float64
    assert ztensor.numpy.load_file(paths, dtype=ml_dtypes.bfloat16)["a"].dtype == ml_dtypes.bfloat16


def test_progress_is_reported(tmp_path: Path) -> None:
    arrays = {"a": np.ones(1000, np.float32), "b": np.arange(3)}
    for name in ("m.zt", "m.safetensors"):
        told: list[tuple[int, int]] = []
        ztensor.numpy.save_file(arrays, tmp_path / name, progress=lambda done, total: told.append((done, total)))  # noqa: B023
        assert told[-1] == (4024, 4024)
        told.clear()
        ztensor.torch.load_file(tmp_path / name, progress=lambda done, total: told.append((done, total)))  # noqa: B023
        assert told[-1] == (4024, 4024)

    def stop(done: int, total: int) -> None:
        raise InterruptedError(f"{done} of {total}")

    with pytest.raises(InterruptedError):
        ztensor.numpy.save_file(arrays, tmp_path / "never.zt", progress=stop)
    assert not (tmp_path / "never.zt").exists()
