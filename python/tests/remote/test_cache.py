"""The cache of ranges: what is there is not asked for again, and nothing but the right bytes ever comes out of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from servers import FileServer, HubServer, Publish

import ztensor
import ztensor.numpy


@pytest.fixture(scope="module")
def tensors() -> dict[str, np.ndarray]:
    """20 MB."""
    rng = np.random.default_rng(8)
    return {f"layer.{i}.weight": rng.standard_normal((1000, 500), dtype=np.float32) for i in range(10)}


@pytest.fixture
def file(web: FileServer, tensors: dict[str, np.ndarray], tmp_path: Path) -> str:
    ztensor.numpy.save_file(tensors, tmp_path / "m.zt", compression="z4ai")
    web.files["m.zt"] = (tmp_path / "m.zt").read_bytes()
    return f"{web.address}/m.zt"


def entries(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file())


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    return found.keys() == expected.keys() and all(np.array_equal(found[key], expected[key]) for key in expected)


def test_there_is_no_cache_unless_one_is_asked_for(web: FileServer, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZTENSOR_CACHE", raising=False)
    ztensor.numpy.load_file(file)
    first = web.counted()
    ztensor.numpy.load_file(file)
    assert web.counted() == first


def test_a_warm_cache_costs_one_request(
    web: FileServer, file: str, tensors: dict[str, np.ndarray], tmp_path: Path
) -> None:
    options = {"cache": tmp_path / "cache"}
    assert same(ztensor.numpy.load_file(file, storage_options=options), tensors)
    _, sent = web.counted()
    # The head is fetched when the file is opened, and once more as a part of the first block.
    assert len(web.files["m.zt"]) <= sent <= len(web.files["m.zt"]) + (64 << 10)
    assert same(ztensor.numpy.load_file(file, storage_options=options), tensors)
    # Which state of the file is the present one only the server knows.
    assert web.counted() == (1, 64 << 10)
    part = ztensor.open(file, storage_options=options).read_slice("layer.4.weight", np.s_[10:20])
    assert np.array_equal(part, tensors["layer.4.weight"][10:20])
    assert web.counted() == (1, 64 << 10)


def test_slices_fill_the_cache_block_by_block(
    web: FileServer, file: str, tensors: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZTENSOR_CACHE", str(tmp_path / "cache"))
    for times in range(2):
        reader = ztensor.open(file)
        web.counted()
        for name, tensor in tensors.items():
            assert np.array_equal(reader.read_slice(name, np.s_[500, 10:20]), tensor[500, 10:20])
        if times:
            assert web.counted() == (0, 0)
    # The environment's wish is not everybody's.
    ztensor.open(file, storage_options={"cache": False}).read_numpy("layer.3.weight")
    assert web.counted()[0] > 1


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "swap"])
def test_damaged_entries_are_fetched_again(
    web: FileServer, file: str, tensors: dict[str, np.ndarray], tmp_path: Path, damage: str
) -> None:
    options = {"cache": tmp_path / "cache"}
    ztensor.numpy.load_file(file, storage_options=options)
    found = entries(tmp_path / "cache")
    assert len(found) > 10
    contents = [path.read_bytes() for path in found]
    for number, path in enumerate(found):
        whole = contents[number]
        middle = len(whole) // 2
        damaged = {
            "flip": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "cut": whole[:middle],
            "empty": b"",
            "swap": contents[number - 1],
        }
        path.write_bytes(damaged[damage])
    assert same(ztensor.numpy.load_file(file, storage_options=options), tensors)
    assert web.counted()[1] > len(web.files["m.zt"])
    # They were put right.
    assert [path.read_bytes() for path in found] == contents


def test_a_changed_file_is_read_anew(
    web: FileServer, file: str, tensors: dict[str, np.ndarray], tmp_path: Path
) -> None:
    options = {"cache": tmp_path / "cache"}
    old = ztensor.open(file, storage_options=options)
    ztensor.numpy.load_file(file, storage_options=options)
    changed = {name: tensor + 1 for name, tensor in tensors.items()}
    ztensor.numpy.save_file(changed, tmp_path / "n.zt", compression="z4ai")
    before, web.files["m.zt"] = web.files["m.zt"], (tmp_path / "n.zt").read_bytes()
    assert same(ztensor.numpy.load_file(file, storage_options=options), changed)
    # Who opened the former state reads that, whole, out of the cache.
    assert np.array_equal(old.read_numpy("layer.2.weight"), tensors["layer.2.weight"])
    web.files["m.zt"] = before
    web.counted()
    assert same(ztensor.numpy.load_file(file, storage_options=options), tensors)
    assert web.counted()[0] == 1


def test_the_bound_is_kept(web: FileServer, file: str, tensors: dict[str, np.ndarray], tmp_path: Path) -> None:
    options = {"cache": tmp_path / "cache", "cache_size": "8 MiB"}
    for _ in range(2):
        assert same(ztensor.numpy.load_file(file, storage_options=options), tensors)
        assert 4 << 20 < sum(path.stat().st_size for path in entries(tmp_path / "cache")) <= 8 << 20


@pytest.mark.parametrize("size", ["1 MB", "lots"])
def test_sizes_that_are_none_are_refused(file: str, tmp_path: Path, size: str) -> None:
    with pytest.raises(ztensor.ZTensorError, match="ZTENSOR_CACHE_SIZE"):
        ztensor.open(file, storage_options={"cache": tmp_path, "cache_size": size})


def test_a_folder_that_cannot_be_is_named(file: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(ztensor.ZTensorError, match="taken"):
        ztensor.open(file, storage_options={"cache": tmp_path / "taken"})


LOAD = """
import sys, zlib, ztensor.numpy
for _ in range(3):
    found = ztensor.numpy.load_file(sys.argv[1], storage_options={"cache": sys.argv[2], "cache_size": sys.argv[3]})
    print(zlib.crc32(b"".join(found[name].tobytes() for name in sorted(found))))
"""


@pytest.mark.parametrize("size", ["1 GB", "8 MiB"])
def test_processes_share_a_cache(file: str, tensors: dict[str, np.ndarray], tmp_path: Path, size: str) -> None:
    import zlib

    command = [sys.executable, "-c", LOAD, file, str(tmp_path / "cache"), size]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) for _ in range(3)]
    expected = zlib.crc32(b"".join(tensors[name].tobytes() for name in sorted(tensors)))
    for process in running:
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert said.split() == [str(expected)] * 3
    # Nobody left a file behind that is not an entry.
    assert all(len(path.name.split("-")[0]) == 64 for path in entries(tmp_path / "cache"))


def test_a_forked_child_uses_it_too(file: str, tensors: dict[str, np.ndarray], tmp_path: Path) -> None:
    options = {"cache": tmp_path / "cache"}
    reader = ztensor.open(file, storage_options=options)
    child = os.fork()
    if child == 0:
        good = np.array_equal(reader.read_numpy("layer.1.weight"), tensors["layer.1.weight"])
        good = good and same(ztensor.numpy.load_file(file, storage_options=options), tensors)
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert same(ztensor.numpy.load_file(file, storage_options=options), tensors)


def test_every_place_is_cached(
    place: Publish,
    tensors: dict[str, np.ndarray],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    folder = tmp_path / f"files-{tmp_path.name}"
    folder.mkdir()
    ztensor.numpy.save_file(tensors, folder / "cached.safetensors")
    url = f"{place(folder)}/cached.safetensors"
    monkeypatch.setenv("ZTENSOR_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        assert same(ztensor.numpy.load_file(url), tensors)
    # A file on this machine needs none, and one that comes whole has no ranges.
    whole = request.node.callspec.params["place"] in ("file", "whole")
    assert len(entries(tmp_path / "cache")) == (0 if whole else 20)


def test_a_server_without_tags_is_not_cached(hub: HubServer, web: FileServer, file: str, tmp_path: Path) -> None:
    web.tags = False
    for _ in range(2):
        ztensor.numpy.load_file(file, storage_options={"cache": tmp_path / "cache"})
        assert web.counted()[1] >= len(web.files["m.zt"])
    assert not (tmp_path / "cache").exists()
