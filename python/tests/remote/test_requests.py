"""What remote files cost in requests and bytes, and what happens when servers are in trouble."""

from __future__ import annotations

from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from servers import FileServer, HubServer

import z4ai.safetensors
import ztensor
import ztensor.numpy


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of 300 tensors, 64 KB each."""
    folder = tmp_path_factory.mktemp("model")
    rng = np.random.default_rng(0)
    tensors = {
        f"model.layers.{i}.self_attn.q_proj.weight": rng.standard_normal((128, 128)).astype(np.float32)
        for i in range(300)
    }
    ztensor.numpy.save_file(tensors, folder / "model.safetensors")
    ztensor.numpy.save_file(tensors, folder / "model.zt")
    ztensor.numpy.save_file(tensors, folder / "small.zt", compression="z4ai")
    z4ai.safetensors.compress_file(folder / "model.safetensors", folder / "model.zstn")
    return folder


@pytest.mark.parametrize(
    ("name", "most"), [("model.safetensors", 2), ("model.zt", 2), ("small.zt", 2), ("model.zstn", 3)]
)
def test_an_index_takes_few_requests(web: FileServer, model: Path, name: str, most: int) -> None:
    web.files[name] = (model / name).read_bytes()
    reader = ztensor.open(f"{web.address}/{name}")
    requests, sent = web.counted()
    assert len(reader.keys()) == 300
    assert requests <= most
    assert sent <= 256 << 10
    reader.read_slice("model.layers.150.self_attn.q_proj.weight", np.s_[7, 8:16])
    requests, sent = web.counted()
    assert requests <= 2
    assert sent <= 512 << 10


@pytest.mark.parametrize("name", ["model.safetensors", "small.zt", "model.zstn"])
def test_a_load_takes_few_requests_and_no_byte_twice(web: FileServer, model: Path, name: str) -> None:
    web.files[name] = (model / name).read_bytes()
    ztensor.numpy.load_file(f"{web.address}/{name}")
    requests, sent = web.counted()
    assert requests <= 8
    assert sent <= len(web.files[name]) * 1.05


@pytest.mark.parametrize("fault", [503, 500, 429, "drop", "truncate"])
def test_passing_troubles_are_waited_out(web: FileServer, model: Path, fault: int | str) -> None:
    web.files["m"] = (model / "small.zt").read_bytes()
    web.faults = [fault, fault]
    reader = ztensor.open(f"{web.address}/m")
    web.faults = [fault, fault]
    key = "model.layers.42.self_attn.q_proj.weight"
    assert np.array_equal(reader.read_numpy(key), ztensor.open(model / "small.zt").read_numpy(key))


def test_lasting_troubles_are_an_error(web: FileServer, model: Path) -> None:
    web.files["m"] = (model / "small.zt").read_bytes()
    web.faults = ["drop"] * 100
    with pytest.raises(ztensor.ZTensorError, match="gave up after"):
        ztensor.open(f"{web.address}/m")


def test_a_changed_file_is_an_error_not_a_mixture(web: FileServer, model: Path) -> None:
    web.files["m"] = (model / "model.safetensors").read_bytes()
    reader = ztensor.open(f"{web.address}/m")
    web.files["m"] = web.files["m"][:-1] + b"\x01"
    with pytest.raises(ztensor.ZTensorError, match="changed while it was open"):
        reader.read_numpy("model.layers.299.self_attn.q_proj.weight")


def test_the_hub_server_answers_as_the_real_client_expects(hub: HubServer, model: Path, tmp_path: Path) -> None:
    hub.add("owner/name", "model.safetensors", (model / "model.safetensors").read_bytes())
    path = huggingface_hub.hf_hub_download(
        "owner/name", "model.safetensors", cache_dir=tmp_path, endpoint=hub.address, token=False
    )
    assert Path(path).read_bytes() == (model / "model.safetensors").read_bytes()


def test_a_file_of_the_hub_is_pinned_to_its_commit_and_outlives_signatures(hub: HubServer, model: Path) -> None:
    hub.add("owner/name", "model.safetensors", (model / "model.safetensors").read_bytes())
    reader = ztensor.open("hf://owner/name/model.safetensors")
    assert hub.storage.counted()[0] <= 2
    hub.signature += 1
    key = "model.layers.299.self_attn.q_proj.weight"
    assert np.array_equal(reader.read_numpy(key), ztensor.open(model / "model.safetensors").read_numpy(key))
    assert f"/resolve/{hub.commit}/" in hub.requests[-1][1]


def test_a_token_goes_to_the_hub_only(hub: HubServer, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("owner/name", "model.safetensors", (model / "model.safetensors").read_bytes())
    hub.token = "hf_secret"
    with pytest.raises(ztensor.ZTensorError, match="HF_TOKEN"):
        ztensor.open("hf://owner/name/model.safetensors")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert len(ztensor.open("hf://owner/name/model.safetensors").keys()) == 300
    assert all("authorization" not in headers for _, _, headers in hub.storage.requests)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("hf://owner/none/x.safetensors", "no repository"),
        ("hf://owner/name@v9/model.safetensors", "no revision"),
        ("hf://owner/name/none.safetensors", "no file"),
        ("hf://owner/name", "hf://owner/name/file"),
    ],
)
def test_what_the_hub_does_not_have_is_named(hub: HubServer, model: Path, url: str, said: str) -> None:
    hub.add("owner/name", "model.safetensors", b"x")
    with pytest.raises(ztensor.ZTensorError, match=said):
        ztensor.open(url)
