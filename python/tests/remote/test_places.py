"""One behaviour for files from everywhere: what a local path gives, a URL gives."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from servers import Publish, program

import z4ai.safetensors
import ztensor
import ztensor.numpy
import ztensor.torch

FILES = [
    "m.safetensors",
    "m.zt",
    "small.zt",
    "m.safetensors.zstn",
    "m.npz",
    "m.pt",
    "m.gguf",
    "s.safetensors.index.json",
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    tensors = {
        f"layer.{i}.weight": np.random.default_rng(i).standard_normal((64, 96)).astype(np.float32) for i in range(12)
    }
    ztensor.numpy.save_file(tensors, folder / "m.safetensors")
    ztensor.numpy.save_file(tensors, folder / "m.zt")
    ztensor.numpy.save_file(tensors, folder / "small.zt", compression="z4ai")
    z4ai.safetensors.compress_file(folder / "m.safetensors", folder / "m.safetensors.zstn")
    np.savez(folder / "m.npz", **tensors)
    torch.save({name: torch.from_numpy(value) for name, value in tensors.items()}, folder / "m.pt")
    writer = gguf.GGUFWriter(folder / "m.gguf", "llama")
    for name, value in tensors.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    weight_map = {}
    for number in range(2):
        shard = f"s-{number + 1:05}-of-00002.safetensors"
        part = {name: value for name, value in tensors.items() if int(name.split(".")[1]) % 2 == number}
        ztensor.numpy.save_file(part, folder / shard)
        weight_map.update(dict.fromkeys(part, shard))
    (folder / "s.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


@pytest.mark.parametrize("name", FILES)
def test_what_a_path_gives_a_url_gives(place: Publish, folder: Path, name: str) -> None:
    url = f"{place(folder)}/{name}"
    local, remote = ztensor.open(folder / name), ztensor.open(url)
    assert list(remote.keys()) == list(local.keys())
    key = "layer.7.weight"
    assert np.array_equal(remote.read_numpy(key), local.read_numpy(key))
    assert np.array_equal(remote.read_slice(key, np.s_[3:5, ::2]), local.read_numpy(key)[3:5, ::2])
    expected = ztensor.numpy.load_file(folder / name)
    loaded = ztensor.numpy.load_file(url)
    assert loaded.keys() == expected.keys()
    assert all(np.array_equal(loaded[key], expected[key]) for key in expected)
    torches = ztensor.torch.load_file(url)
    assert all(torch.equal(torches[key], torch.from_numpy(expected[key].copy())) for key in expected)
    with ztensor.safe_open(url, framework="np") as file:
        assert np.array_equal(file.get_slice(key)[1:3], expected[key][1:3])


def test_a_file_that_is_not_there_is_named(place: Publish, folder: Path) -> None:
    url = f"{place(folder)}/none.safetensors"
    with pytest.raises(ztensor.ZTensorError) as caught:
        ztensor.open(url)
    assert caught.value.kind == "not_found"
    assert "none.safetensors" in str(caught.value)


def test_a_forked_child_reads_too(place: Publish, folder: Path) -> None:
    url = f"{place(folder)}/small.zt"
    expected = ztensor.numpy.load_file(url)["layer.3.weight"].sum()
    reader = ztensor.open(url)
    child = os.fork()
    if child == 0:
        same = ztensor.numpy.load_file(url)["layer.3.weight"].sum() == expected
        also = reader.read_numpy("layer.3.weight").sum() == expected
        os._exit(0 if same and also else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    "words", ["info --json FILE", "verify FILE", "cat FILE layer.1.weight", "scan FILE", "diff FILE FILE"]
)
def test_commands_take_urls(place: Publish, folder: Path, words: str) -> None:
    ran = [
        subprocess.run([program("ztensor"), *words.replace("FILE", path).split()], capture_output=True, timeout=60)
        for path in (f"{place(folder)}/m.safetensors", str(folder / "m.safetensors"))
    ]
    assert ran[0].returncode == ran[1].returncode == 0, ran[0].stderr
    assert len(ran[0].stdout.splitlines()) == len(ran[1].stdout.splitlines())
