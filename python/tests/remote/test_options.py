"""``storage_options``: endpoints and keys by the names that other packages have for them, wherever a URL is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from servers import KEY, SECRET, FileServer, HubServer, Publish

import z4ai.safetensors
import ztensor
import ztensor.jax
import ztensor.numpy
import ztensor.torch
from z4ai import model_delta

WEIGHT = np.arange(6000, dtype=np.float32).reshape(60, 100)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("options")
    ztensor.numpy.save_file({"weight": WEIGHT}, folder / "m.safetensors")
    ztensor.numpy.save_file({"weight": WEIGHT + 1}, folder / "tuned.safetensors")
    ztensor.numpy.save_tree({"a": [WEIGHT, 1]}, folder / "tree.zt")
    z4ai.safetensors.compress_file(folder / "m.safetensors", folder / "m.zstn")
    model_delta.compress_file(folder / "tuned.safetensors", folder / "m.safetensors", folder / "tuned.z4dm")
    return folder


@pytest.fixture
def s3(moto: tuple[str, Publish], folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Any]]:
    """A prefix that opens with options only: the environment has no key and no endpoint."""
    endpoint, publish = moto
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name)
    return publish(folder), {"endpoint_url": endpoint, "key": KEY, "secret": SECRET, "region": "us-east-1"}


def test_every_way_to_a_file_takes_them(s3: tuple[str, dict[str, Any]], folder: Path, tmp_path: Path) -> None:
    prefix, options = s3
    url = f"{prefix}/m.safetensors"
    arrays = [
        ztensor.open(url, storage_options=options).read_numpy("weight"),
        ztensor.Reader(url, storage_options=options).read_numpy("weight"),
        ztensor.safe_open(url, framework="np", storage_options=options).get_tensor("weight"),
        ztensor.numpy.load_file(url, storage_options=options)["weight"],
        ztensor.torch.load_file(url, storage_options=options)["weight"].numpy(),
        np.asarray(ztensor.jax.load_file(url, storage_options=options)["weight"]),
        z4ai.load_file(url, storage_options=options)["weight"].numpy(),
        z4ai.safetensors.ZstnReader.open(f"{prefix}/m.zstn", storage_options=options).read_numpy("weight"),
        ztensor.numpy.load_tree(f"{prefix}/tree.zt", storage_options=options)["a"][0],
    ]
    assert all(np.array_equal(array, WEIGHT) for array in arrays)
    module = torch.nn.Linear(100, 60, bias=False)
    ztensor.torch.load_model(module, url, storage_options=options)
    assert torch.equal(module.weight, torch.from_numpy(WEIGHT))
    assert ztensor.scan(url, storage_options=options)["verdict"] == "safe"


def test_archives_and_deltas_take_them_too(s3: tuple[str, dict[str, Any]], folder: Path, tmp_path: Path) -> None:
    prefix, options = s3
    reports: list[tuple[int, int]] = []
    found = z4ai.safetensors.compress_file(
        f"{prefix}/m.safetensors",
        tmp_path / "m.zstn",
        storage_options=options,
        progress=lambda done, total: reports.append((done, total)),
    )
    length = (folder / "m.safetensors").stat().st_size
    assert found["original_bytes"] == length
    assert reports[-1] == (length, length)
    found = z4ai.safetensors.decompress_file(f"{prefix}/m.zstn", tmp_path / "m.safetensors", storage_options=options)
    assert (tmp_path / "m.safetensors").read_bytes() == (folder / "m.safetensors").read_bytes()
    assert found["compressed_bytes"] == (folder / "m.zstn").stat().st_size
    base = f"{prefix}/m.safetensors"
    model_delta.compress_file(f"{prefix}/tuned.safetensors", base, tmp_path / "d.z4dm", storage_options=options)
    model_delta.decompress_file(f"{prefix}/tuned.z4dm", base, tmp_path / "tuned", storage_options=options)
    assert (tmp_path / "tuned").read_bytes() == (folder / "tuned.safetensors").read_bytes()
    for delta in (f"{prefix}/tuned.z4dm", tmp_path / "d.z4dm"):
        opened = ztensor.open(delta, base=base, storage_options=options)
        assert np.array_equal(opened.read_numpy("weight"), WEIGHT + 1)
    # Beside the delta the base is found by its name, as in a folder.
    beside = ztensor.open(f"{prefix}/tuned.z4dm", storage_options=options)
    assert np.array_equal(beside.read_numpy("weight"), WEIGHT + 1)


@pytest.mark.parametrize(
    "names",
    [
        {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "aws_region": "us-east-1", "endpoint_url": None},
        {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "aws_endpoint_url": None},
        {"access_key_id": KEY, "secret_access_key": SECRET, "region": "us-east-1", "endpoint": None},
        {"key": KEY, "secret": SECRET, "client_kwargs": {"endpoint_url": None, "region_name": "us-east-1"}},
    ],
)
def test_names_of_other_packages_are_understood(s3: tuple[str, dict[str, Any]], names: dict[str, Any]) -> None:
    prefix, options = s3

    def filled(names: dict[str, Any]) -> dict[str, Any]:
        return {
            name: filled(value) if isinstance(value, dict) else options["endpoint_url"] if "endpoint" in name else value
            for name, value in names.items()
        }

    opened = ztensor.open(f"{prefix}/m.safetensors", storage_options=filled(names))
    assert np.array_equal(opened.read_numpy("weight"), WEIGHT)


def test_without_keys_requests_are_not_signed(web: FileServer, folder: Path) -> None:
    web.files["models/m.safetensors"] = (folder / "m.safetensors").read_bytes()
    options = {"anon": True, "endpoint_url": web.address, "token": None}
    opened = ztensor.open("s3://models/m.safetensors", storage_options=options)
    assert np.array_equal(opened.read_numpy("weight"), WEIGHT)
    assert all("authorization" not in headers for _, _, headers in web.requests)


def test_a_name_that_nobody_has_is_an_error_that_lists_those_there_are(folder: Path) -> None:
    with pytest.raises(ztensor.ZTensorError, match="acces_key") as caught:
        ztensor.open("s3://bucket/m.safetensors", storage_options={"acces_key": "x"})
    assert caught.value.kind == "invalid_argument"
    for name in ("endpoint_url", "region", "account_name", "headers"):
        assert name in str(caught.value)
    with pytest.raises(TypeError):
        ztensor.open("s3://bucket/m", storage_options={1: "x"})  # type: ignore[dict-item]


def test_options_of_one_call_do_not_stay(s3: tuple[str, dict[str, Any]], web: FileServer, folder: Path) -> None:
    web.files["m"] = (folder / "m.safetensors").read_bytes()
    ztensor.open(f"{web.address}/m", storage_options={"headers": {"X-Api-Key": "hush"}})
    assert web.requests[-1][2]["x-api-key"] == "hush"
    ztensor.open(f"{web.address}/m")
    assert "x-api-key" not in web.requests[-1][2]


def test_the_hub_takes_a_token_and_an_endpoint(hub: HubServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT")
    hub.add("owner/name", "m.safetensors", (folder / "m.safetensors").read_bytes())
    hub.token = "hf_secret"
    options = {"token": "hf_secret", "endpoint_url": hub.address}
    opened = ztensor.open("hf://owner/name/m.safetensors", storage_options=options)
    assert np.array_equal(opened.read_numpy("weight"), WEIGHT)
    wrong = {"token": "hf_other", "endpoint_url": hub.address}
    with pytest.raises(ztensor.ZTensorError):
        ztensor.open("hf://owner/name/m.safetensors", storage_options=wrong)


def test_secrets_are_in_no_message(s3: tuple[str, dict[str, Any]]) -> None:
    prefix, options = s3
    with pytest.raises(ztensor.ZTensorError) as caught:
        ztensor.open(f"{prefix}/none.safetensors", storage_options={**options, "secret": "hush-hush"})
    assert "hush-hush" not in str(caught.value)
