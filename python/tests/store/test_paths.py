"""A checkpoint of a store opens wherever a path does: ``store//name`` and ``store//name/file``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import ztensor
from ztensor import Store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    shards = {"a.safetensors": {"a": torch.arange(64.0)}, "b.safetensors": {"b": torch.arange(32.0).half()}}
    for name, tensors in shards.items():
        save_file(tensors, folder / name)
    index = {"metadata": {}, "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    torch.save({"momentum": torch.ones(16)}, folder / "inner" / "optimizer.pt")
    ztensor.torch.save_tree({"w": torch.eye(8), "step": 7}, tmp_path / "tree.zt")
    store = Store(tmp_path / "models", create=True)
    store.add(folder, "run/step-1")
    store.add(tmp_path / "tree.zt", "tree")
    return tmp_path / "models"


def ztensor_command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ztensor", *words], capture_output=True, text=True, check=False)


def test_the_openers_of_python(store: Path) -> None:
    path = f"{store}//run/step-1"
    assert set(ztensor.open(path).keys()) == {"a", "b", "momentum"}
    arrays = ztensor.numpy.load_file(path)
    np.testing.assert_array_equal(arrays["a"], np.arange(64, dtype=np.float32))
    assert torch.equal(ztensor.torch.load_file(path)["b"], torch.arange(32.0).half())
    with ztensor.safe_open(path, "pt") as opened:
        assert torch.equal(opened.get_slice("a")[3:5], torch.tensor([3.0, 4.0]))
    assert ztensor.torch.load_tree(f"{store}//tree")["step"] == 7
    assert torch.equal(ztensor.torch.load_tree(f"{store}//tree/tree.zt")["w"], torch.eye(8))


def test_files_and_folders_of_a_checkpoint(store: Path) -> None:
    assert ztensor.open(f"{store}//run/step-1/a.safetensors").keys() == ["a"]
    assert ztensor.open(f"{store}//run/step-1/inner").keys() == ["momentum"]
    # What an index refers to is looked for in the checkpoint, not in the folder that the program runs in.
    assert set(ztensor.open(f"{store}//run/step-1/model.safetensors.index.json").keys()) == {"a", "b"}


def test_what_is_not_there(store: Path, tmp_path: Path) -> None:
    for path, what in {
        "run/step-2": "no checkpoint",
        "run/step-1/c.pt": r"no file \"c\.pt\"",
        "run": "no checkpoint",
    }.items():
        with pytest.raises(FileNotFoundError, match=what):
            ztensor.open(f"{store}//{path}")
    # Two slashes mean nothing where there is no store.
    save_file({"x": torch.ones(4)}, tmp_path / "folder" / "plain.safetensors")
    assert ztensor.open(f"{tmp_path}//folder//plain.safetensors").keys() == ["x"]
    Store(store).remove("tree")
    with pytest.raises(ztensor.ZTensorError, match="removed"):
        ztensor.open(f"{store}//tree")


def test_commands(store: Path, tmp_path: Path) -> None:
    path = f"{store}//run/step-1"
    listed = ztensor_command("info", path, "--json")
    assert listed.returncode == 0, listed.stderr
    assert {tensor["name"] for tensor in json.loads(listed.stdout)["result"]["tensors"]} == {"a", "b", "momentum"}
    assert ztensor_command("verify", path).returncode == 0
    printed = ztensor_command("cat", path, "a", "-o", str(tmp_path / "a.npy"))
    assert printed.returncode == 0, printed.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.arange(64, dtype=np.float32))
    converted = ztensor_command("convert", path, "-o", str(tmp_path / "all.safetensors"))
    assert converted.returncode == 0, converted.stderr
    same = ztensor_command("diff", path, str(tmp_path / "all.safetensors"))
    assert same.returncode == 0, same.stdout + same.stderr
    archived = ztensor_command("archive", f"{path}/a.safetensors", "-o", str(tmp_path / "a.zstn"))
    assert archived.returncode == 0, archived.stderr
    assert ztensor.open(tmp_path / "a.zstn").keys() == ["a"]
    several = ztensor_command("scan", path)
    assert several.returncode == 2
    assert "several files" in several.stderr
