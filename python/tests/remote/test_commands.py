"""Every command takes URLs; what it makes of them is named after the file and lies in the current folder."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from servers import FileServer, Publish, program

import z4ai.safetensors
import ztensor
import ztensor.numpy
from z4ai import model_delta

RNG = np.random.default_rng(5)
BASE = {f"layer.{i}": RNG.standard_normal((40, 50)).astype(np.float32) for i in range(6)}
TUNED = {name: value + np.float32(0.25) for name, value in BASE.items()}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    ztensor.numpy.save_file(BASE, folder / "base.safetensors")
    ztensor.numpy.save_file(TUNED, folder / "tuned.safetensors")
    z4ai.safetensors.compress_file(folder / "base.safetensors", folder / "base.safetensors.zstn")
    model_delta.compress_file(folder / "tuned.safetensors", folder / "base.safetensors", folder / "tuned.z4dm")
    weight_map = {}
    for number in range(2):
        shard = f"s-{number + 1:05}-of-00002.safetensors"
        part = {name: value for name, value in BASE.items() if int(name[-1]) % 2 == number}
        ztensor.numpy.save_file(part, folder / shard)
        weight_map.update(dict.fromkeys(part, shard))
    (folder / "s.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def run(words: str, cwd: Path, code: int = 0) -> str:
    ran = subprocess.run([program("ztensor"), *words.split()], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert ran.returncode == code, ran.stderr
    return ran.stdout + ran.stderr


def same(path: Path, expected: dict[str, np.ndarray]) -> bool:
    loaded = ztensor.numpy.load_file(path)
    return loaded.keys() == expected.keys() and all(np.array_equal(loaded[key], expected[key]) for key in expected)


def test_outputs_are_named_after_the_file_and_lie_here(place: Publish, folder: Path, tmp_path: Path) -> None:
    prefix = place(folder)
    run(f"convert {prefix}/base.safetensors", tmp_path)
    assert same(tmp_path / "base.zt", BASE)
    run(f"convert {prefix}/s.safetensors.index.json --to safetensors", tmp_path)
    assert same(tmp_path / "s.safetensors", BASE)
    run(f"archive {prefix}/base.safetensors", tmp_path)
    run("restore base.safetensors.zstn", tmp_path)
    assert (tmp_path / "base.safetensors").read_bytes() == (folder / "base.safetensors").read_bytes()
    run(f"archive {prefix}/s.safetensors.index.json", tmp_path)
    assert same(tmp_path / "s.safetensors.zstn", BASE)
    run(f"restore {prefix}/base.safetensors.zstn -o again", tmp_path)
    assert (tmp_path / "again").read_bytes() == (folder / "base.safetensors").read_bytes()


def test_deltas_have_models_and_bases_by_url(place: Publish, folder: Path, tmp_path: Path) -> None:
    prefix = place(folder)
    run(f"delta make {prefix}/tuned.safetensors --base {prefix}/base.safetensors", tmp_path)
    run(f"delta apply tuned.z4dm --base {prefix}/base.safetensors -o one", tmp_path)
    run(f"delta apply {prefix}/tuned.z4dm --base {prefix}/base.safetensors -o two", tmp_path)
    # The base beside a delta has the name that it had; an archive of it serves as well.
    run(f"delta apply {prefix}/tuned.z4dm -o three", tmp_path)
    run(f"delta apply tuned.z4dm --base {prefix}/base.safetensors.zstn -o four", tmp_path)
    for name in ("one", "two", "three", "four"):
        assert (tmp_path / name).read_bytes() == (folder / "tuned.safetensors").read_bytes()
    run(f"info {prefix}/tuned.z4dm", tmp_path)
    run(f"verify {prefix}/tuned.z4dm --base {prefix}/base.safetensors", tmp_path)
    run(f"diff {prefix}/tuned.z4dm {prefix}/tuned.safetensors --base {prefix}/base.safetensors", tmp_path)
    run(f"cat {prefix}/tuned.z4dm layer.3 -o w.npy", tmp_path)
    assert np.array_equal(np.load(tmp_path / "w.npy"), TUNED["layer.3"])
    said = run(f"delta apply tuned.z4dm --base {prefix}/tuned.safetensors -o five", tmp_path, code=2)
    assert "base" in said
    assert not (tmp_path / "five").exists()


def test_buffers_stores_and_lists_of_digests_are_read_by_url(place: Publish, folder: Path, tmp_path: Path) -> None:
    prefix = place(folder)
    original = (folder / "base.safetensors").read_bytes()
    for words in (
        f"compress {prefix}/base.safetensors --dtype f32 -o one.z4ai",
        f"delta {prefix}/tuned.safetensors --reference {prefix}/base.safetensors --dtype f32 -o two.z4ai",
        "decompress one.z4ai -o one",
        f"apply two.z4ai --reference {prefix}/base.safetensors -o two",
    ):
        ran = subprocess.run([program("z4ai"), *words.split()], cwd=tmp_path, capture_output=True, timeout=120)
        assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "one").read_bytes() == original
    assert (tmp_path / "two").read_bytes() == (folder / "tuned.safetensors").read_bytes()
    run("store init store", tmp_path)
    run(f"store add {prefix}/base.safetensors -n base --store store", tmp_path)
    run("store get base -o restored --store store", tmp_path)
    assert (tmp_path / "restored").read_bytes() == original
    # A list names files beside it; here it lies elsewhere and names them by URL.
    digest = hashlib.sha256(original).hexdigest()
    (tmp_path / "list").write_text(f"{digest}  {prefix}/base.safetensors\n")
    assert "base.safetensors" in run(f"verify --manifest {(tmp_path / 'list').as_uri()} --json", tmp_path)
    run(f"verify {prefix}/base.safetensors --sha256 {digest}", tmp_path)


def test_a_file_is_not_changed_by_url(web: FileServer, folder: Path, tmp_path: Path) -> None:
    ztensor.numpy.save_file(BASE, tmp_path / "base.zt")
    web.files["base.zt"] = (tmp_path / "base.zt").read_bytes()
    for words in (f"meta set {web.address}/base.zt a=b", f"repair {web.address}/base.zt"):
        assert "changed in folders only" in run(words, tmp_path, code=2)


def test_a_base_that_is_not_there_is_named(web: FileServer, folder: Path, tmp_path: Path) -> None:
    said = run(f"delta apply {folder}/tuned.z4dm --base {web.address}/none.safetensors -o x", tmp_path, code=2)
    assert "none.safetensors" in said and "404" in said


def test_nothing_is_written_to_a_url(web: FileServer, folder: Path, tmp_path: Path) -> None:
    for words in (
        f"convert {folder}/base.safetensors -o s3://bucket/m.zt",
        f"archive {folder}/base.safetensors -o s3://bucket/m.zstn",
        f"restore {folder}/base.safetensors.zstn -o s3://bucket/m.safetensors",
        f"delta make {folder}/tuned.safetensors --base {folder}/base.safetensors -o s3://bucket/m.z4dm",
    ):
        assert "upload" in run(words, tmp_path, code=2)
    assert not list(tmp_path.iterdir())


def test_a_signature_in_a_url_is_not_part_of_the_name(web: FileServer, folder: Path, tmp_path: Path) -> None:
    web.files["base.safetensors"] = (folder / "base.safetensors").read_bytes()
    run(f"convert {web.address}/base.safetensors?X-Signature=a/b", tmp_path)
    assert same(tmp_path / "base.zt", BASE)


def test_an_original_is_not_deleted_by_url(web: FileServer, folder: Path, tmp_path: Path) -> None:
    web.files["base.safetensors"] = (folder / "base.safetensors").read_bytes()
    assert "kept" in run(f"convert {web.address}/base.safetensors --delete-original", tmp_path, code=2)
