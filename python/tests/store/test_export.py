"""Exported checkpoints: archives that need no store, and come back as what they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import z4ai.safetensors
import ztensor
from ztensor import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "logs" / "empty").mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    save_file({"weight": torch.randn(64, 48, generator=generator).bfloat16()}, folder / "model.safetensors")
    torch.save({"exp_avg": torch.arange(4096.0)}, folder / "optimizer.pt")
    (folder / "config.json").write_text('{"hidden_size": 48}')
    (folder / "nothing.txt").write_bytes(b"")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "latest.pt").symlink_to("optimizer.pt")
    return folder


def contents(folder: Path) -> dict[str, object]:
    """Everything about a folder that a store keeps."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat().st_mode & 0o777
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = (about, path.read_bytes() if path.is_file() else None)
    return found


def test_a_folder(folder: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    store.add(folder, "run/step-1", metadata={"loss": 0.5})
    exported = tmp_path / "step-1.zstn"
    report = store.export("run/step-1", exported)
    assert report["stored_bytes"] == exported.stat().st_size
    assert report["original_bytes"] == sum(
        path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()
    )

    # It opens like the checkpoint, without the store.
    opened = ztensor.open(exported)
    assert set(opened.keys()) == set(store["run/step-1"].keys()) == {"weight", "exp_avg"}
    np.testing.assert_array_equal(opened.read_numpy("exp_avg"), np.arange(4096, dtype=np.float32))
    assert torch.equal(opened.read_torch("weight"), store["run/step-1"].read_torch("weight"))
    assert opened.archive is not None
    assert opened.archive["format"] == "checkpoint"

    # The files come back without a store, too.
    done = subprocess.run(
        [sys.executable, "-m", "ztensor", "restore", str(exported), "-o", str(tmp_path / "plain")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in ("model.safetensors", "optimizer.pt", "config.json", "nothing.txt"):
        assert (tmp_path / "plain" / name).read_bytes() == (folder / name).read_bytes()

    # Into another store it goes as what it was: modes, links, empty folders and metadata included.
    other = Store(tmp_path / "other", create=True)
    other.import_archive(exported, "again")
    assert other.info("again")["metadata"] == {"loss": 0.5}
    other.get("again", tmp_path / "restored")
    assert contents(tmp_path / "restored") == contents(folder)
    # Where its tensors are known, next to nothing is stored.
    assert store.import_archive(exported, "twice", metadata={"a": 1})["stored_bytes"] == 0
    assert store.info("twice")["metadata"] == {"a": 1}


def test_one_file(folder: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    store.add(folder / "model.safetensors", "single")
    store.export("single", tmp_path / "any.zstn")
    assert ztensor.open(tmp_path / "any.zstn").format == "safetensors"
    store.import_archive(tmp_path / "any.zstn", "again")
    assert [file["path"] for file in store.info("again")["files"]] == ["model.safetensors"]
    store.get("again", tmp_path / "restored.safetensors")
    assert (tmp_path / "restored.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_archives_of_others(folder: Path, tmp_path: Path) -> None:
    z4ai.safetensors.compress_file(folder / "model.safetensors", tmp_path / "model.safetensors.zstn")
    store = Store(tmp_path / "store", create=True)
    assert store.import_archive(tmp_path / "model.safetensors.zstn", "dry", dry_run=True)["tensors"] == 1
    assert "dry" not in store
    store.import_archive(tmp_path / "model.safetensors.zstn", "model")
    assert store["model"].keys() == ["weight"]
    store.get("model", tmp_path / "back.safetensors")
    assert (tmp_path / "back.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    with pytest.raises(ValueError, match="not an archive"):
        store.import_archive(folder / "model.safetensors", "plain")


def test_what_an_archive_has_no_place_for(folder: Path, tmp_path: Path) -> None:
    (folder / ".hidden").write_text("x")
    store = Store(tmp_path / "store", create=True)
    store.add(folder, "hidden")
    with pytest.raises(ValueError, match="hidden"):
        store.export("hidden", tmp_path / "hidden.zstn")
    assert not (tmp_path / "hidden.zstn").exists()
    store.add(folder / "config.json", "text")
    with pytest.raises(ValueError, match="no tensors"):
        store.export("text", tmp_path / "text.zstn")


def test_at_the_shell(folder: Path, tmp_path: Path) -> None:
    def run(*words: str) -> dict[str, object]:
        command = [sys.executable, "-m", "ztensor", "store", *words, "--json"]
        environment = {**os.environ, "ZTENSOR_STORE": str(tmp_path / "store")}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        result: dict[str, object] = json.loads(done.stdout)["result"]
        return result

    store = Store(tmp_path / "store", create=True, grace=0)
    store.add(folder, "one")
    exported = tmp_path / "one.zstn"
    assert run("export", "one", "-o", str(exported))["stored_bytes"] == exported.stat().st_size
    assert run("import", str(exported), "-n", "two")["stored_bytes"] == 0
    pin = run("pin", "two")["pin"]
    assert [found["pin"] for found in store.pins()] == [pin]
    assert run("unpin", str(pin)) == {"ended": [pin]}
    assert store.pins() == []
