"""Files by URL behind a proxy that breaks answers: the right bytes or a clear error, never a mixture, never a hang."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import servers
from proxy import Fault, Proxy

import ztensor
import ztensor.numpy

KEY = "layer.5.weight"
# No read of these tests may take longer, stalls included: a pause of a body is given up after 20 seconds. That is far more than any
# read takes on a busy machine: it tells waiting from hanging.
DEADLINE = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of 24 MB: several requests each, some of them at once."""
    folder = tmp_path_factory.mktemp("faults")
    rng = np.random.default_rng(5)
    tensors = {f"layer.{i}.weight": rng.standard_normal((1000, 600), dtype=np.float32) for i in range(10)}
    ztensor.numpy.save_file(tensors, folder / "m.safetensors")
    ztensor.numpy.save_file(tensors, folder / "small.zt", compression="z4ai")
    return folder


@pytest.fixture(params=["http", "moto", "seaweed"])
def behind(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Proxy, str]]:
    """A proxy before a server, and the prefix by which the files are opened through it."""
    if request.param == "http":
        web: servers.FileServer = request.getfixturevalue("web")
        web.files.update({file.name: file.read_bytes() for file in folder.iterdir()})
        proxy = Proxy(web.server_port)
        prefix = proxy.address
    else:
        endpoint, publish = request.getfixturevalue(request.param)
        proxy = Proxy(urlsplit(endpoint).port or 0)
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
        prefix = publish(folder)
    yield proxy, prefix
    proxy.close()


def _sliced(url: str) -> dict[str, np.ndarray]:
    return {KEY: ztensor.open(url).read_slice(KEY, np.s_[300:600])}


def _loaded(url: str) -> dict[str, np.ndarray]:
    return ztensor.numpy.load_file(url)


def within_deadline(action: Callable[[], object]) -> None:
    start = time.monotonic()
    action()
    assert time.monotonic() - start < DEADLINE


@pytest.mark.parametrize("read", [_sliced, _loaded])
@pytest.mark.parametrize("fault", [429, 500, 503, "drop", "truncate"])
def test_passing_faults_leave_no_trace(
    behind: tuple[Proxy, str], folder: Path, fault: Fault, read: Callable[[str], dict[str, np.ndarray]]
) -> None:
    proxy, prefix = behind
    for name in ("m.safetensors", "small.zt"):
        expected = read(str(folder / name))
        # The first request, and every third one later.
        proxy.faults = [fault, *itertools.chain(*[(None, None, fault)] * 3)]

        def check(name: str = name, expected: dict[str, np.ndarray] = expected) -> None:
            found = read(f"{prefix}/{name}")
            assert found.keys() == expected.keys()
            assert all(np.array_equal(found[key], expected[key]) for key in expected)

        within_deadline(check)
        proxy.faults = []


@pytest.mark.parametrize("fault", [503, "drop", "truncate"])
def test_lasting_faults_are_an_error_that_names_the_file(behind: tuple[Proxy, str], fault: Fault) -> None:
    proxy, prefix = behind
    reader = ztensor.open(f"{prefix}/m.safetensors")
    proxy.faults, proxy.lasting = [fault], True

    def check() -> None:
        with pytest.raises(ztensor.ZTensorError, match=r"m\.safetensors"):
            reader.read_numpy(KEY)
        with pytest.raises(ztensor.ZTensorError, match=r"m\.safetensors"):
            ztensor.numpy.load_file(f"{prefix}/m.safetensors")

    within_deadline(check)


@pytest.mark.parametrize("read", [_sliced, _loaded])
def test_a_changed_etag_is_an_error(behind: tuple[Proxy, str], read: Callable[[str], dict[str, np.ndarray]]) -> None:
    proxy, prefix = behind
    proxy.faults, proxy.lasting = [None, "etag"], True
    with pytest.raises(ztensor.ZTensorError, match="changed while it was open"):
        read(f"{prefix}/m.safetensors")


def test_a_body_that_stalls_is_asked_for_again(behind: tuple[Proxy, str], folder: Path) -> None:
    proxy, prefix = behind
    expected = ztensor.numpy.load_file(folder / "m.safetensors")
    reader = ztensor.open(f"{prefix}/m.safetensors")
    proxy.faults = ["stall"]
    found: dict[str, np.ndarray] = {}
    waiting = threading.Thread(target=lambda: found.update({KEY: reader.read_numpy(KEY)}), daemon=True)
    waiting.start()
    waiting.join(DEADLINE)
    assert not waiting.is_alive(), "the read hangs"
    assert np.array_equal(found[KEY], expected[KEY])
