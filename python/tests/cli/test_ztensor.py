"""The ztensor command on real files: what it prints, what it writes, and how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file as load_safetensors
from safetensors.numpy import save_file as save_safetensors

import ztensor
from ztensor.numpy import load_file, save_file


def run(*arguments: object, code: int = 0) -> str:
    result = subprocess.run([sys.executable, "-m", "ztensor", *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == code, result.stderr
    return result.stdout if code != 2 else result.stderr


@pytest.fixture
def tensors() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(7)
    return {
        "layer.weight": generator.standard_normal((64, 48)).astype(np.float32),
        "layer.bias": np.zeros(48, np.float16),
        "steps": np.array(3, np.int64),
        "empty": np.zeros((0, 5), np.int8),
    }


@pytest.fixture
def model(tmp_path: Path, tensors: dict[str, np.ndarray]) -> Path:
    path = tmp_path / "model.safetensors"
    save_safetensors(tensors, path, metadata={"format": "np", "note": "a test"})
    return path


def same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype
        and left[name].shape == right[name].shape
        and np.array_equal(left[name], right[name])
        for name in left
    )


def test_info(model: Path) -> None:
    text = run("info", model)
    assert "layer.weight" in text and "float32" in text and "[64, 48]" in text and "note: a test" in text
    document = json.loads(run("info", "--json", model))["result"]
    assert document["format"] == "safetensors"
    assert document["metadata"] == {"format": "np", "note": "a test"}
    assert {tensor["name"] for tensor in document["tensors"]} == {"layer.weight", "layer.bias", "steps", "empty"}


@pytest.mark.parametrize(
    "options", [[], ["-c"], ["-l", "9", "--checksum", "sha256"], ["--codec", "z4ai"], ["--zt-version", "2"]]
)
def test_convert_both_ways(model: Path, tmp_path: Path, tensors: dict[str, np.ndarray], options: list[str]) -> None:
    there, back = tmp_path / "there.zt", tmp_path / "back.safetensors"
    run("convert", model, "-o", there, *options)
    assert same(load_file(there), tensors)
    assert ztensor.Reader(there).file_metadata["note"] == "a test"
    run("verify", there)
    run("convert", there, "-o", back)
    assert same(load_safetensors(back), tensors)
    assert "4 identical" in run("diff", model, back)


def test_convert_refuses_to_overwrite(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "there.zt"
    target.write_bytes(b"precious")
    assert "--force" in run("convert", model, "-o", target, code=2)
    assert target.read_bytes() == b"precious"


def test_delete_original_after_a_verified_write(model: Path, tmp_path: Path, tensors: dict[str, np.ndarray]) -> None:
    run("convert", model, "--delete-original")
    assert not model.exists()
    assert same(load_file(tmp_path / "model.zt"), tensors)


def test_compress_and_decompress_in_place(tmp_path: Path) -> None:
    path = tmp_path / "m.zt"
    values = {"x": np.tile(np.arange(100, dtype=np.float32), 1000)}
    save_file(values, path)
    raw = path.stat().st_size
    run("compress", path)
    assert path.stat().st_size < raw / 2
    assert same(load_file(path), values)
    run("compress", path, "--codec", "max")
    assert same(load_file(path), values)
    run("decompress", path)
    assert path.stat().st_size == raw


def test_merge_split_append_remove(model: Path, tmp_path: Path, tensors: dict[str, np.ndarray]) -> None:
    extra, merged = tmp_path / "extra.zt", tmp_path / "merged.zt"
    save_file({"extra": np.ones(3, np.float32)}, extra)
    run("merge", model, extra, "-o", merged)
    assert set(load_file(merged)) == {*tensors, "extra"}
    assert "already written" in run("merge", model, model, "-o", tmp_path / "twice.zt", code=2)
    run("split", model, "-o", tmp_path / "shards", "-m", "4KB")
    index = tmp_path / "shards" / "model.safetensors.index.json"
    assert len(set(json.loads(index.read_text())["weight_map"].values())) > 1
    assert same(load_file(index), tensors)
    run("remove", merged, "extra", "steps")
    assert set(load_file(merged)) == set(tensors) - {"steps"}
    run("append", merged, extra)
    assert "extra" in load_file(merged)


def test_cat_writes_npy(model: Path, tmp_path: Path, tensors: dict[str, np.ndarray]) -> None:
    for name, values in tensors.items():
        run("cat", model, name, "-o", tmp_path / "x.npy", "--force")
        loaded = np.load(tmp_path / "x.npy")
        assert loaded.dtype == values.dtype and loaded.shape == values.shape and np.array_equal(loaded, values)


def test_diff_counts_changes(model: Path, tmp_path: Path, tensors: dict[str, np.ndarray]) -> None:
    changed = dict(tensors)
    changed["layer.weight"] = tensors["layer.weight"].copy()
    changed["layer.weight"][0, :2] += 1.0
    del changed["steps"]
    changed["new"] = np.ones(1, np.float32)
    other = tmp_path / "other.zt"
    save_file(changed, other)
    text = run("diff", model, other, code=1)
    assert "- steps" in text and "+ new" in text and "2 of 3,072 elements differ" in text
    document = json.loads(run("diff", "--json", model, other, code=1))["result"]
    assert document["changed"][0]["max_difference"] == pytest.approx(1.0, abs=1e-6)


def test_verify_names_damage(tmp_path: Path) -> None:
    path = tmp_path / "m.zt"
    with ztensor.Writer(path) as writer:
        writer.write_numpy("good", np.arange(8, dtype=np.float32), checksum="crc32c")
        writer.write_numpy("bad", np.arange(8, dtype=np.int32), checksum="sha256")
    data = bytearray(path.read_bytes())
    offset = ztensor.Reader(path).metadata("bad").components["data"]["offset"]
    data[offset] ^= 1
    path.write_bytes(data)
    text = run("verify", path, code=1)
    assert '"bad"' in text and "checksum" in text and "1 damaged" in text


def test_archive_and_restore(model: Path, tmp_path: Path) -> None:
    run("archive", model)
    archive = tmp_path / "model.safetensors.zstn"
    assert same(load_file(archive), load_safetensors(model))
    assert "archive of safetensors" in run("info", archive)
    original = model.read_bytes()
    assert "is there already" in run("restore", archive)
    model.write_bytes(b"precious")
    assert "exists" in run("restore", archive, code=2)
    assert model.read_bytes() == b"precious"
    model.unlink()
    run("restore", archive)
    assert model.read_bytes() == original


def test_repair(tmp_path: Path) -> None:
    path = tmp_path / "m.zt"
    save_file({"x": np.ones(5, np.float32)}, path)
    complete = path.read_bytes()
    path.write_bytes(complete + b"half an append")
    assert "repair" in run("info", path, code=2)
    run("repair", path)
    assert path.read_bytes() == complete


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "git lfs pull"),
        (b"<!DOCTYPE html><title>Not found</title>", "web page"),
        (b"no model at all, just some words in a file", "text file"),
    ],
)
def test_what_is_not_a_model_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    assert words in run("info", path, code=2)


def test_missing_file_and_directory(tmp_path: Path) -> None:
    assert "no such file" in run("info", tmp_path / "nothing.zt", code=2)
    assert "no model in" in run("info", tmp_path, code=2)


def test_completions() -> None:
    assert "_ztensor" in run("completions", "bash")


def test_names_of_files_that_are_not_text_are_kept(tmp_path: Path) -> None:
    source = tmp_path / os.fsdecode(b"caf\xe9.safetensors")
    save_safetensors({"a": np.ones(3)}, tmp_path / "m.safetensors")
    (tmp_path / "m.safetensors").rename(source)
    run("convert", source)
    assert sorted(os.fsencode(path.name) for path in tmp_path.iterdir()) == [b"caf\xe9.safetensors", b"caf\xe9.zt"]


def test_a_file_in_the_list_and_by_name_is_checked_once(model: Path, tmp_path: Path) -> None:
    plain, other, alone = (tmp_path / name for name in ("plain.safetensors", "other.safetensors", "alone.zt"))
    for path in (plain, other):
        save_safetensors({"weight": np.arange(64, dtype=np.float32)}, path)
    save_file({"weight": np.arange(3.0)}, alone, checksum="crc32c")
    digests = tmp_path / "digests.txt"
    run("manifest", plain, other, model, "-o", digests)
    lines = run("verify", "--manifest", digests, plain, alone).splitlines()
    assert {Path(line.split(": ")[0]).name: line.split(": ")[1] for line in lines} == {
        "other.safetensors": "good; sha256 as listed",
        "model.safetensors": "good; sha256 as listed",
        "plain.safetensors": "good; 1 tensor; sha256 as listed",
        "alone.zt": "good; 1 tensor, 1 checksum",
    }
    assert len(lines) == 4
    documents = json.loads(run("verify", "--json", "--manifest", digests, plain))["result"]
    assert [Path(entry["path"]).name for entry in documents] == ["other.safetensors", model.name, "plain.safetensors"]
    assert documents[2]["good"] and documents[2]["tensors"] == 1 and len(documents[2]["sha256"]) == 64
    # What is wrong is said once, too.
    changed = bytearray(plain.read_bytes())
    changed[-1] ^= 1
    plain.write_bytes(changed)
    text = run("verify", "--manifest", digests, plain, code=1)
    assert text.count("plain.safetensors") == 1 and "changed: its sha256 is" in text


def test_the_lineage_of_a_folder_goes_on_elsewhere(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    random = np.random.default_rng(0)
    weights = random.standard_normal((64, 64)).astype(np.float32)
    for number, name in enumerate(("base", "stranger", "tuned")):
        save_safetensors({"weight": weights + np.float32(1e-4 * number)}, elsewhere / f"{name}.safetensors")
    tuned = elsewhere / "tuned.safetensors"
    run("delta", "make", tuned, "--base", elsewhere / "base.safetensors", "-o", here / "tuned.z4dm")
    tuned.unlink()
    assert "missing: base.safetensors" in run("delta", "log", here)
    for base in (elsewhere, elsewhere / "base.safetensors"):
        text = run("delta", "log", here, "--base", base)
        first, second, *_ = text.splitlines()
        assert first.startswith(str(elsewhere / "base.safetensors")) and second.startswith("└─ tuned")
        assert "stranger" not in text and "missing" not in text and "1 model," in text
    [delta, found] = json.loads(run("delta", "log", here, "--base", elsewhere, "--json"))["result"]
    assert (delta["elsewhere"], found["elsewhere"]) == (False, True)
    assert delta["base"]["path"] == found["path"] == str(elsewhere / "base.safetensors")


def test_cat_says_that_it_writes_blocks(tmp_path: Path) -> None:
    blocks = {"data": np.zeros(18 * 4, np.uint8)}
    tensor = ztensor.Tensor(blocks, shape=[4, 32], dtype="uint8", format="gguf.q4_0/1")
    path = tmp_path / "model.zt"
    save_file({"weight": tensor}, path)

    def cat(*options: object) -> str:
        command = [sys.executable, "-m", "ztensor", "cat", path, "weight", *options, "-o", tmp_path / "x", "--force"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "stored as Q4_0" in cat() and "--dequantize f32" in cat()
    assert cat("--raw") == cat("--dequantize", "f32") == cat("--component", "data") == ""
