"""Arrays outlive everything they came from, and nothing is kept longer than it is used."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import ztensor.numpy
import ztensor.torch


@pytest.fixture(params=["raw", "zstd"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "m.zt"
    arrays = {f"t{number}": np.full(50_000, number, dtype=np.float32) for number in range(20)}
    ztensor.numpy.save_file(arrays, path, compression=request.param == "zstd")
    return path


@pytest.mark.parametrize("copy", [False, True])
def test_arrays_live_after_reader_dict_and_file_are_gone(path: Path, copy: bool) -> None:
    array = ztensor.numpy.load_file(path, copy=copy)["t7"]
    tensor = ztensor.torch.load_file(path, copy=copy)["t9"]
    view = array[10:20].reshape(2, 5)
    path.unlink()
    gc.collect()
    assert (array == 7).all()
    assert (tensor == 9).all()
    del array
    gc.collect()
    assert (view == 7).all()


def test_arrays_live_when_the_file_is_replaced(path: Path) -> None:
    array = ztensor.numpy.load_file(path)["t7"]
    ztensor.numpy.save_file({"t7": np.zeros(3)}, path)
    assert (array == 7).all()


def test_a_tensor_is_not_kept_alive_by_others(path: Path) -> None:
    reader = ztensor.Reader(path)
    arrays = reader.read_numpy(reader.keys())
    base = arrays["t0"].base
    assert sys.getrefcount(base) > 2
    keep = arrays.pop("t0")
    arrays.clear()
    gc.collect()
    # This variable, the argument of getrefcount and the array.
    assert sys.getrefcount(base) == 3
    del keep


MEASURE = """
import gc, os, sys
import numpy as np, torch
import ztensor, ztensor.numpy, ztensor.torch

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

path = {path!r}

def cycle(number):
    with ztensor.Reader(path, io=("mmap", "read")[number % 2]) as reader:
        reader.read(reader.keys())
        reader.read_numpy(reader.keys(), copy=True)
        reader.read_torch(reader.keys())
        reader.metadata(reader.keys())
        reader.read_slice("t3", slice(5, 50))
        try:
            reader["nothing"]
        except KeyError:
            pass
    ztensor.numpy.load(ztensor.numpy.save({{"x": np.zeros(1000)}}))
    with ztensor.safe_open(path, "pt") as file:
        file.get_slice("t1")[3:9]

for number in range(100):
    cycle(number)
before = resident()
for number in range(1000):
    cycle(number)
print(resident() - before, len(os.listdir("/proc/self/fd")))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_and_files_stay_bounded_over_a_thousand_cycles(path: Path, run_python: Callable[[str], str]) -> None:
    growth, files = map(int, run_python(MEASURE.format(path=os.fspath(path))).split())
    assert growth < 4 << 20
    assert files < 16


def test_threads_may_share_a_reader(path: Path) -> None:
    reader = ztensor.Reader(path)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(50):
                name = f"t{number}"
                assert (reader.read_numpy(name, copy=True) == number).all()
                assert (reader.read_torch(name) == number).all()
                reader.read_into(name, target := np.empty(50_000, dtype=np.float32))
                assert (target == number).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_torch_tensors_may_be_resized_moved_and_trained(path: Path) -> None:
    tensor = ztensor.torch.load_file(path)["t5"]
    parameter = torch.nn.Parameter(tensor)
    (parameter.sum() * 2).backward()
    with torch.no_grad():
        parameter -= parameter.grad
    assert (tensor == 3).all()


def test_memory_of_gone_copies_serves_again_and_shows_nothing_of_them(tmp_path: Path) -> None:
    large = 8 << 20
    for number in range(4):
        arrays = {"a": np.full(large, number, np.uint8), "b": np.full(large // 4, -number, np.float32)}
        ztensor.numpy.save_file(arrays, tmp_path / f"{number}.zt", compression=number % 2 == 1)
    held = ztensor.numpy.load_file(tmp_path / "3.zt", copy=True)
    for number in (1, 2, 0, 1):
        loaded = ztensor.numpy.load_file(tmp_path / f"{number}.zt", copy=True)
        assert (loaded["a"] == number).all() and (loaded["b"] == -number).all()
        loaded["a"][:] = 77
        del loaded
    assert (held["a"] == 3).all() and (held["b"] == -3).all(), "memory in use is never given away"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_kept_for_the_next_copy_is_bounded(tmp_path: Path) -> None:
    ztensor.numpy.save_file({"a": np.zeros(64 << 20, np.uint8)}, tmp_path / "64.zt")
    reader = ztensor.Reader(tmp_path / "64.zt")

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    # 40 copies at once, 2.5 GB, then none.
    copies = [reader.read_numpy(["a"], copy=True) for _ in range(40)]
    del copies
    gc.collect()
    assert resident() - before < (1 << 30) + (256 << 20)


def test_a_copy_of_a_file_that_shrank_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "m.zt"
    ztensor.numpy.save_file({"a": np.ones(1 << 20, np.float32)}, path)
    reader = ztensor.Reader(path, keep_open=True)
    os.truncate(path, 1000)
    with pytest.raises(ztensor.ZTensorError, match="became shorter"):
        reader.read_numpy(["a"], copy=True)


def test_files_are_closed_unless_they_are_to_stay_open(path: Path) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    before = descriptors()
    readers = [ztensor.Reader(path) for _ in range(5)]
    views = ztensor.numpy.load_file(path)
    copies = ztensor.numpy.load_file(path, copy=True)
    assert descriptors() == before
    kept = [ztensor.Reader(path, keep_open=True) for _ in range(5)]
    assert descriptors() == before + 5
    del readers, views, copies, kept
    gc.collect()
    assert descriptors() == before
