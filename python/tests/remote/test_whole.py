"""Servers that serve whole files only: a file is read once, within a bound, and is then a file like any other."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from proxy import Proxy
from servers import FileServer, HubServer, Publish, program

import z4ai.safetensors
import ztensor
import ztensor.numpy
import ztensor.torch


@pytest.fixture(scope="module")
def tensors() -> dict[str, np.ndarray]:
    """40 MB: more than is kept in memory."""
    rng = np.random.default_rng(6)
    return {f"layer.{i}.weight": rng.standard_normal((1000, 500), dtype=np.float32) for i in range(20)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tensors: dict[str, np.ndarray]) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    ztensor.numpy.save_file(tensors, folder / "m.safetensors")
    ztensor.numpy.save_file(tensors, folder / "m.zt", compression="z4ai")
    return folder


@pytest.fixture
def whole(web: FileServer, folder: Path) -> str:
    """A server without ranges, and files on it."""
    web.files.update({file.name: file.read_bytes() for file in folder.iterdir()})
    web.ranges = False
    return web.address


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    return found.keys() == expected.keys() and all(np.array_equal(found[key], expected[key]) for key in expected)


@pytest.mark.parametrize("name", ["m.safetensors", "m.zt"])
def test_python_s_own_server_is_enough(
    python_server: tuple[str, Publish], folder: Path, tensors: dict[str, np.ndarray], name: str
) -> None:
    url = f"{python_server[1](folder)}/{name}"
    assert same(ztensor.numpy.load_file(url), tensors)
    reader = ztensor.open(url)
    assert np.array_equal(reader.read_slice("layer.9.weight", np.s_[5:9, ::3]), tensors["layer.9.weight"][5:9, ::3])
    views = reader.read_numpy(list(tensors))
    del reader
    assert same(views, tensors)


@pytest.mark.parametrize("end", ["length", "chunks"])
@pytest.mark.parametrize("name", ["m.safetensors", "m.zt"])
def test_a_file_is_read_once(web: FileServer, whole: str, tensors: dict[str, np.ndarray], name: str, end: str) -> None:
    web.end = end
    reader = ztensor.open(f"{whole}/{name}")
    for key, value in tensors.items():
        assert np.array_equal(reader.read_numpy(key), value)
    assert web.counted()[0] == 1
    ztensor.torch.load_file(f"{whole}/{name}")
    assert web.counted()[0] == 1


@pytest.mark.parametrize(
    "words",
    ["info FILE", "verify FILE", "cat FILE layer.1.weight", "scan FILE", "convert FILE -o out.zt", "archive FILE"],
)
def test_commands_read_it_once(web: FileServer, whole: str, tmp_path: Path, words: str) -> None:
    command = [program("ztensor"), *words.replace("FILE", f"{whole}/m.safetensors").split()]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert b"reading" not in ran.stderr
    assert web.counted()[0] == 1


def test_what_tells_a_total_reads_it_once_too(web: FileServer, whole: str, folder: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    z4ai.safetensors.compress_file(
        f"{whole}/m.safetensors", tmp_path / "m.zstn", progress=lambda done, total: told.append((done, total))
    )
    assert told[-1][0] == told[-1][1] == (folder / "m.safetensors").stat().st_size
    # One answer is not read: its head tells the length.
    assert web.counted()[0] <= 2


@pytest.mark.parametrize("bound", ["1MB", False, "39 MB"])
@pytest.mark.parametrize("end", ["length", "chunks"])
def test_the_bound_is_an_error_that_names_the_option(
    web: FileServer, whole: str, bound: str | bool, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.end = end
    url = f"{whole}/m.safetensors"
    with pytest.raises(ztensor.ZTensorError, match=r'storage_options=\{"whole": True\}') as caught:
        ztensor.open(url, storage_options={"whole": bound})
    assert caught.value.kind == "limit"
    assert len(ztensor.open(url, storage_options={"whole": True}).keys()) == 20
    assert len(ztensor.open(url, storage_options={"whole": "1 GB"}).keys()) == 20
    monkeypatch.setenv("ZTENSOR_WHOLE", str(bound))
    with pytest.raises(ztensor.ZTensorError):
        ztensor.open(url)
    ran = subprocess.run([program("ztensor"), "info", url], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 2 and "ZTENSOR_WHOLE=true" in ran.stderr
    monkeypatch.setenv("ZTENSOR_WHOLE", "true")
    assert len(ztensor.open(url).keys()) == 20


def test_without_a_word_a_gibibyte_is_read(whole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server says that there is more than it has: nothing of it is wanted."""
    from servers import _Handler

    reply = _Handler.reply

    def long(self: _Handler, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.close_connection = True
        reply(self, status, {**headers, "content-length": str((1 << 30) + 1)}, body)

    monkeypatch.setattr(_Handler, "reply", long)
    with pytest.raises(ztensor.ZTensorError, match="more than the 1073741824 that are read"):
        ztensor.open(f"{whole}/m.safetensors")


@pytest.mark.parametrize("end", ["length", "chunks"])
def test_a_body_that_ends_early_is_read_again_or_an_error(
    web: FileServer, whole: str, tensors: dict[str, np.ndarray], end: str
) -> None:
    web.end = end
    web.faults = ["truncate", 503, "drop"]
    assert same(ztensor.numpy.load_file(f"{whole}/m.safetensors"), tensors)
    assert web.counted()[0] == 4
    web.faults = ["truncate"] * 20
    with pytest.raises(ztensor.ZTensorError, match="gave up after"):
        ztensor.numpy.load_file(f"{whole}/m.safetensors")


def test_a_body_whose_end_nobody_can_tell_is_refused(web: FileServer, whole: str) -> None:
    web.end = "close"
    with pytest.raises(ztensor.ZTensorError, match="nothing tells a part of it from the whole"):
        ztensor.open(f"{whole}/m.safetensors")


@pytest.mark.parametrize("ranges", [True, False])
def test_what_is_compressed_on_its_way_is_refused(web: FileServer, whole: str, ranges: bool) -> None:
    web.ranges, web.encoding = ranges, "gzip"
    with pytest.raises(ztensor.ZTensorError, match="content-encoding gzip"):
        ztensor.open(f"{whole}/m.safetensors")
    assert all(headers["accept-encoding"] == "identity" for _, _, headers in web.requests)


def test_a_hub_without_ranges_is_read_whole(hub: HubServer, folder: Path, tensors: dict[str, np.ndarray]) -> None:
    hub.add("owner/name", "m.safetensors", (folder / "m.safetensors").read_bytes())
    hub.storage.ranges = False
    assert same(ztensor.numpy.load_file("hf://owner/name/m.safetensors"), tensors)


def test_nothing_is_left_behind(whole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    reader = ztensor.open(f"{whole}/m.safetensors")
    assert not list(tmp_path.iterdir())
    assert reader.read_numpy("layer.1.weight").shape == (1000, 500)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    with pytest.raises(ztensor.ZTensorError, match="TMPDIR"):
        ztensor.open(f"{whole}/m.safetensors")


def test_an_interrupt_ends_reading_at_once(web: FileServer, whole: str, tmp_path: Path) -> None:
    proxy = Proxy(web.server_port)
    proxy.faults, proxy.lasting = ["stall"], True
    for command in (
        [sys.executable, "-c", "import sys, ztensor; ztensor.open(sys.argv[1])"],
        [program("ztensor"), "info"],
    ):
        stalled = proxy.waiting
        child = subprocess.Popen(
            [*command, f"{proxy.address}/m.safetensors"], stderr=-1, env=os.environ | {"TMPDIR": str(tmp_path)}
        )
        while proxy.waiting == stalled:
            assert child.poll() is None, child.communicate()
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=300)
        # A stalled body is given up after 20 seconds, and asked for again.
        assert proxy.counted()[0] == 1
        assert child.returncode != 0
    proxy.close()
    assert not list(tmp_path.iterdir())


def test_a_terminal_shows_how_far_it_is(web: FileServer, whole: str) -> None:
    proxy = Proxy(web.server_port, rate=40e6)
    ours, theirs = pty.openpty()
    command = [program("ztensor"), "info", f"{proxy.address}/m.safetensors"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=os.environ | {"TERM": "xterm"})
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    assert child.wait(timeout=300) == 0
    proxy.close()
    assert b"reading all of m.safetensors" in said
