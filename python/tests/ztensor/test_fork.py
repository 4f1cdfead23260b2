"""Forked processes, as `multiprocessing` and PyTorch's data loaders make them, read and write like any other."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import z4ai.model_delta
import z4ai.safetensors
import ztensor.numpy
import ztensor.torch

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# Large enough for work to be shared out among threads.
ARRAYS = {
    name: np.random.default_rng(number).normal(size=3 << 20).astype(np.float32) for number, name in enumerate("ab")
}
PATIENCE = 60


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    folder = tmp_path_factory.mktemp("fork")
    paths = []
    for compression in (False, True, "z4ai"):
        ztensor.numpy.save_file(ARRAYS, path := folder / f"{compression}.zt", compression=compression)
        paths.append(path)
        # The parent's threads are at work before the fork.
        ztensor.numpy.load_file(path, copy=True)
    yield paths
    shutil.rmtree(folder)


def work(files: list[Path], depth: int) -> None:
    for path in files:
        for name, array in ztensor.numpy.load_file(path, copy=True).items():
            np.testing.assert_array_equal(array, ARRAYS[name])
    frame = z4ai.compress_array(ARRAYS["a"])
    np.testing.assert_array_equal(z4ai.decompress_array(frame), ARRAYS["a"])
    ztensor.numpy.save_file(ARRAYS, files[0].parent / f"from-{os.getpid()}.zt", compression="fast")
    mine = files[0].parent / f"restored-{os.getpid()}.zt"
    z4ai.safetensors.compress_file(files[0], mine.with_suffix(".zstn"))
    z4ai.safetensors.decompress_file(mine.with_suffix(".zstn"), mine)
    assert mine.read_bytes() == files[0].read_bytes()
    z4ai.model_delta.compress_file(files[0], files[1], mine.with_suffix(".z4dm"))
    z4ai.model_delta.decompress_file(mine.with_suffix(".z4dm"), files[1], mine)
    assert mine.read_bytes() == files[0].read_bytes()
    if depth:
        run(files, depth - 1)


def run(files: list[Path], depth: int) -> None:
    child = multiprocessing.get_context("fork").Process(target=work, args=(files, depth))
    child.start()
    child.join(PATIENCE)
    if child.is_alive():
        child.kill()
        pytest.fail("the forked process hangs")
    assert child.exitcode == 0


@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_process_and_its_own_forks_work_on_threads_of_their_own(files: list[Path]) -> None:
    run(files, depth=2)
    work(files, depth=0)


class Shards(torch.utils.data.Dataset[float]):
    def __init__(self, files: list[Path]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> float:
        return float(ztensor.torch.load_file(self.files[number], copy=True)["b"].sum())


def test_workers_of_a_data_loader_load(files: list[Path]) -> None:
    loader = torch.utils.data.DataLoader(Shards(files), batch_size=None, num_workers=2, timeout=PATIENCE)
    expected = float(torch.from_numpy(ARRAYS["b"]).sum())
    assert [float(value) for value in loader] == pytest.approx([expected] * len(files))


@pytest.mark.filterwarnings("ignore:This process")
@pytest.mark.parametrize("leave", ["exit", "discard", "finish", "write"])
@pytest.mark.parametrize("existing", [True, False])
def test_a_forked_process_leaves_what_its_parent_writes_alone(tmp_path: Path, existing: bool, leave: str) -> None:
    path = tmp_path / "model.zt"
    if existing:
        ztensor.numpy.save_file({"old": np.arange(4)}, path)
    writer = ztensor.Writer.append(path) if existing else ztensor.Writer(path)
    # Larger than the buffer, so that it is in the file before the fork.
    writer.write_numpy("first", ARRAYS["a"])

    def child() -> None:
        if leave == "discard":
            writer.discard()
        elif leave == "finish":
            with pytest.raises(ztensor.ZTensorError, match="is a fork"):
                writer.finish()
        elif leave == "write":
            with pytest.raises(ztensor.ZTensorError, match="is a fork"):
                writer.write_numpy("mine", np.arange(3))
        gc.collect()

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0
    writer.write_numpy("second", ARRAYS["b"])
    writer.finish()
    loaded = ztensor.numpy.load_file(path, copy=True)
    assert list(loaded) == (["old"] if existing else []) + ["first", "second"]
    np.testing.assert_array_equal(loaded["first"], ARRAYS["a"])
    np.testing.assert_array_equal(loaded["second"], ARRAYS["b"])
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.zt"]


@pytest.mark.filterwarnings("ignore:This process")
def test_a_child_that_lives_on_does_not_keep_the_file_locked(tmp_path: Path) -> None:
    path = tmp_path / "model.zt"
    ztensor.numpy.save_file({"old": np.arange(4)}, path)
    writer = ztensor.Writer.append(path)
    done = multiprocessing.get_context("fork").Event()
    process = multiprocessing.get_context("fork").Process(target=done.wait, args=(PATIENCE,))
    process.start()
    writer.write_numpy("new", np.arange(3))
    writer.finish()
    with ztensor.Writer.append(path) as another:
        another.write_numpy("newer", np.arange(3))
    done.set()
    process.join(PATIENCE)
    assert ztensor.Reader(path).keys() == ["old", "new", "newer"]
