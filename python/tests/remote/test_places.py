"""One behaviour for files from everywhere: what a local path gives, a URL gives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from proxy import Proxy
from servers import FileServer, Publish, program

import z4ai.model_delta
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


def behaves(reader: ztensor.Reader, expected: dict[str, np.ndarray]) -> None:
    """What every reader of the tensors does, wherever their bytes come from."""
    assert list(reader.keys()) == list(expected)
    key = "layer.7.weight"
    assert np.array_equal(reader.read_numpy(key), expected[key])
    assert np.array_equal(reader.read_slice(key, np.s_[3:5, ::2]), expected[key][3:5, ::2])
    assert reader.read_slice(key, np.s_[5:5]).shape == (0, 96)
    out = np.empty((64, 96), np.float32)
    reader.read_into(key, out)
    assert np.array_equal(out, expected[key])
    read = reader.read_numpy(list(expected), copy=True)
    assert all(np.array_equal(read[name], expected[name]) for name in expected)
    view = reader.read_numpy(key)
    view[:] = 7  # an array of the program's own: neither the file nor later reads change
    assert np.array_equal(reader.read_numpy(key, copy=True), expected[key])
    with pytest.raises(ztensor.ZTensorError) as caught:
        reader.read_numpy("none")
    assert caught.value.kind == "no_such_tensor"


def _archived(path: Path, scratch: Path) -> ztensor.Reader:
    z4ai.safetensors.compress_file(path, scratch / "m.zstn")
    return ztensor.open(scratch / "m.zstn")


def _delta(path: Path, scratch: Path) -> ztensor.Reader:
    changed = {name: value * np.float32(1.01) for name, value in ztensor.numpy.load_file(path).items()}
    ztensor.numpy.save_file(changed, scratch / "base.safetensors")
    z4ai.model_delta.compress_file(path, scratch / "base.safetensors", scratch / "m.z4dm")
    return ztensor.Reader(scratch / "m.z4dm", base=scratch / "base.safetensors")


Opener = Callable[[Path, Path], ztensor.Reader]

SOURCES: dict[str, Opener] = {
    "map": lambda path, _: ztensor.Reader(path, io="mmap"),
    "read": lambda path, _: ztensor.Reader(path, io="read"),
    "memory": lambda path, _: ztensor.Reader.from_bytes(path.read_bytes()),
    "archive": _archived,
    "delta": _delta,
}
# An index in memory has no shards beside it, and an archive is not archived again.
NOT_THERE = {("memory", "s.safetensors.index.json"), ("archive", "m.safetensors.zstn"), ("delta", "m.safetensors.zstn")}


@pytest.mark.parametrize(
    ("source", "name"), [(source, name) for source in SOURCES for name in FILES if (source, name) not in NOT_THERE]
)
def test_what_a_map_gives_every_local_source_gives(source: str, folder: Path, tmp_path: Path, name: str) -> None:
    expected = ztensor.numpy.load_file(folder / name, copy=True)
    behaves(SOURCES[source](folder / name, tmp_path), expected)


@pytest.mark.parametrize("name", FILES)
def test_what_a_path_gives_a_url_gives(place: Publish, folder: Path, name: str) -> None:
    url = f"{place(folder)}/{name}"
    expected = ztensor.numpy.load_file(folder / name)
    behaves(ztensor.open(url), expected)
    key = "layer.7.weight"
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


class _Tensors(torch.utils.data.Dataset[torch.Tensor]):
    """A data set that opens its file in whatever process asks for an item."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.names = list(ztensor.open(url).keys())

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> torch.Tensor:
        return ztensor.torch.load_file(self.url, copy=True)[self.names[number]]


def test_workers_of_a_data_loader_read_too(place: Publish, folder: Path) -> None:
    expected = ztensor.torch.load_file(folder / "small.zt")
    tensors = _Tensors(f"{place(folder)}/small.zt")
    loader = torch.utils.data.DataLoader(tensors, batch_size=4, num_workers=2, multiprocessing_context="fork")
    for batch, names in zip(loader, np.array_split(tensors.names, 3), strict=True):
        assert torch.equal(batch, torch.stack([expected[name] for name in names]))


def test_other_threads_run_while_a_read_waits(web: FileServer, folder: Path) -> None:
    web.files["m"] = (folder / "m.safetensors").read_bytes()
    proxy = Proxy(web.server_port, delay=1)
    ran, ended = 0, threading.Event()

    def run() -> None:
        nonlocal ran
        while not ended.is_set():
            ran += 1
            time.sleep(0.01)

    other = threading.Thread(target=run)
    other.start()
    ztensor.numpy.load_file(f"{proxy.address}/m")
    ended.set()
    other.join()
    proxy.close()
    # It had a second, and would have had none with the lock held. A busy machine may leave it little of that.
    assert ran >= 5


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("after", [0, 1], ids=["open", "load"])
def test_an_interrupt_ends_waiting_at_once(web: FileServer, folder: Path, after: int) -> None:
    web.files["m"] = (folder / "m.safetensors").read_bytes()
    proxy = Proxy(web.server_port)
    proxy.faults, proxy.lasting = [*[None] * after, "stall"], True
    script = "import sys, ztensor.numpy; print('ready', flush=True); ztensor.numpy.load_file(sys.argv[1])"
    child = subprocess.Popen([sys.executable, "-c", script, f"{proxy.address}/m"], stdout=-1, stderr=-1, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    while proxy.waiting == 0:
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=300)
    # A stalled body is given up after 20 seconds, and asked for again.
    requests, _ = proxy.counted()
    proxy.close()
    assert "KeyboardInterrupt" in said
    assert requests == after + 1


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
