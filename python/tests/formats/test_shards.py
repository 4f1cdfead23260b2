"""Models in several files, each opened, archived and restored as one: PyTorch shards, GGUF splits, ONNX external data."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import ztensor
import ztensor.torch
from ztensor import _native


def cli(*words: object) -> int:
    return _native.run_cli(["ztensor", *map(str, words)])


def sharded(folder: Path, *, zipped: bool = True) -> dict[str, torch.Tensor]:
    """A model as Hugging Face sharded it before safetensors."""
    tensors = {f"layers.{number}.weight": torch.randn(16, 8) for number in range(4)}
    tensors["half"] = torch.randn(5).bfloat16()
    weight_map = {}
    for number, names in enumerate([list(tensors)[:2], list(tensors)[2:]], 1):
        name = f"pytorch_model-{number:05}-of-00002.bin"
        part = {tensor: tensors[tensor] for tensor in names}
        torch.save(part, folder / name, _use_new_zipfile_serialization=zipped)
        weight_map |= dict.fromkeys(names, name)
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text("{}")
    return tensors


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_shards_of_pytorch(tmp_path: Path, zipped: bool) -> None:
    tensors = sharded(tmp_path, zipped=zipped)
    for place in (tmp_path / "pytorch_model.bin.index.json", tmp_path):
        reader = ztensor.open(place)
        assert (reader.format, set(reader.keys())) == ("pickle", set(tensors))
        loaded = ztensor.torch.load_file(place)
        for name, tensor in tensors.items():
            assert torch.equal(loaded[name], tensor)
    assert cli("convert", tmp_path, "-o", tmp_path / "model.safetensors") == 0
    assert torch.equal(ztensor.torch.load_file(tmp_path / "model.safetensors")["half"], tensors["half"])


def test_shards_of_pytorch_are_archived_as_one(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    tensors = sharded(folder)
    archive = tmp_path / "model.zstn"
    assert cli("archive", folder / "pytorch_model.bin.index.json", "-o", archive) == 0
    loaded = ztensor.torch.load_file(archive)
    assert set(loaded) == set(tensors) and all(torch.equal(loaded[name], tensors[name]) for name in tensors)
    assert cli("restore", archive, "-o", tmp_path / "restored") == 0
    for file in folder.glob("pytorch_model*"):
        assert (tmp_path / "restored" / file.name).read_bytes() == file.read_bytes()


def test_a_shard_of_pytorch_that_does_not_hold_its_tensors(tmp_path: Path) -> None:
    sharded(tmp_path)
    index = tmp_path / "pytorch_model.bin.index.json"
    document = json.loads(index.read_text())
    document["weight_map"]["missing"] = "pytorch_model-00001-of-00002.bin"
    index.write_text(json.dumps(document))
    with pytest.raises(ztensor.ZTensorError, match="no shard holds it"):
        ztensor.open(index)


def test_splits_of_gguf_in_one_archive(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    writer = gguf.GGUFWriter(folder / "model.gguf", "llama", split_max_tensors=1)
    expected = {}
    for number in range(3):
        expected[f"blk.{number}.weight"] = np.random.default_rng(number).standard_normal((32, 64), np.float32)
        writer.add_tensor(f"blk.{number}.weight", expected[f"blk.{number}.weight"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    parts = sorted(folder.glob("*.gguf"))
    assert len(parts) > 1
    archive = tmp_path / "model.zstn"
    assert cli("archive", parts[0], "-o", archive) == 0
    reader = ztensor.open(archive)
    assert set(reader.keys()) == set(expected)
    for name, array in expected.items():
        assert np.array_equal(reader.read_numpy(name), array)
    assert cli("restore", archive, "-o", tmp_path / "restored") == 0
    for part in parts:
        assert (tmp_path / "restored" / part.name).read_bytes() == part.read_bytes()


def test_external_data_of_onnx_in_one_archive(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    arrays = {f"w{number}": np.random.default_rng(number).standard_normal((64, 64), np.float32) for number in range(3)}
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    output = helper.make_tensor_value_info("w0", TensorProto.FLOAT, (64, 64))
    model = helper.make_model(helper.make_graph([], "graph", [], [output], tensors))
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    archive = tmp_path / "model.zstn"
    assert cli("archive", folder / "model.onnx", "-o", archive) == 0
    reader = ztensor.open(archive)
    for name, array in arrays.items():
        assert np.array_equal(reader.read_numpy(name), array)
    assert cli("restore", archive, "-o", tmp_path / "restored") == 0
    for name in ("model.onnx", "weights.bin"):
        assert (tmp_path / "restored" / name).read_bytes() == (folder / name).read_bytes()
