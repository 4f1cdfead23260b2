"""What remote files cost in requests and bytes, and what happens when servers are in trouble."""

from __future__ import annotations

import itertools
from pathlib import Path

import gguf
import huggingface_hub
import numpy as np
import pytest
from proxy import Proxy
from servers import FileServer, HubServer

import z4ai.model_delta
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
    changed = {name: value + np.float32(1e-4) * rng.standard_normal(value.shape) for name, value in tensors.items()}
    changed = {name: value.astype(np.float32) for name, value in changed.items()}
    ztensor.numpy.save_file(changed, folder / "next.safetensors")
    z4ai.model_delta.compress_file(folder / "next.safetensors", folder / "model.safetensors", folder / "next.z4dm")
    writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
    # As long as a tokenizer of today has it.
    writer.add_token_list([f"token-{number}" for number in range(50_000)])
    for name, value in tensors.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder


@pytest.mark.parametrize(
    ("name", "most"),
    [("model.safetensors", 2), ("model.zt", 2), ("small.zt", 2), ("model.zstn", 3), ("next.z4dm", 3)],
)
def test_an_index_takes_few_requests(web: FileServer, model: Path, name: str, most: int) -> None:
    web.files[name] = (model / name).read_bytes()
    reader = ztensor.Reader(f"{web.address}/{name}", base=model / "model.safetensors" if most == 3 else None)
    requests, sent = web.counted()
    assert len(reader.keys()) == 300
    assert requests <= most
    assert sent <= 256 << 10
    reader.read_slice("model.layers.150.self_attn.q_proj.weight", np.s_[7, 8:16])
    requests, sent = web.counted()
    assert requests <= 2
    assert sent <= 512 << 10


def test_a_header_with_a_vocabulary_takes_few_requests_too(web: FileServer, model: Path) -> None:
    web.files["model.gguf"] = (model / "model.gguf").read_bytes()
    reader = ztensor.open(f"{web.address}/model.gguf")
    requests, sent = web.counted()
    assert len(reader.keys()) == 300
    assert requests <= 3
    assert sent <= 4 << 20
    reader.read_slice("model.layers.150.self_attn.q_proj.weight", np.s_[7, 8:16])
    requests, sent = web.counted()
    assert requests <= 1
    assert sent <= 128 << 10


def test_a_base_by_url_costs_what_it_gives(web: FileServer, model: Path) -> None:
    for name in ("next.z4dm", "model.safetensors"):
        web.files[name] = (model / name).read_bytes()
    reader = ztensor.Reader(f"{web.address}/next.z4dm", base=f"{web.address}/model.safetensors")
    name = "model.layers.150.self_attn.q_proj.weight"
    found = reader.read_slice(name, np.s_[7, 8:16])
    requests, sent = web.counted()
    assert np.array_equal(found, ztensor.open(model / "next.safetensors").read_slice(name, np.s_[7, 8:16]))
    assert requests <= 8
    assert sent <= 1 << 20


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


@pytest.mark.parametrize("place", ["http", "moto", "seaweed"])
def test_a_body_that_breaks_off_is_gone_on_with(
    place: str, request: pytest.FixtureRequest, web: FileServer, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, port = web.address, web.server_port
    if place == "http":
        web.files["model.safetensors"] = (model / "model.safetensors").read_bytes()
    else:
        endpoint, publish = request.getfixturevalue(place)
        prefix, port = publish(model), int(endpoint.rpartition(":")[2])
    proxy = Proxy(port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
    expected = ztensor.numpy.load_file(model / "model.safetensors")
    # Of the first answers to a load every second one ends in the middle.
    proxy.faults = [None, *itertools.chain(*[("truncate", None)] * 3)]
    found = ztensor.numpy.load_file(f"{prefix if place != 'http' else proxy.address}/model.safetensors")
    _, sent = proxy.counted()
    proxy.close()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    # What had come was not asked for again.
    assert not proxy.faults
    assert sent <= (model / "model.safetensors").stat().st_size * 1.05


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
