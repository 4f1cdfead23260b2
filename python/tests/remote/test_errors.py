"""What a person is told when a file by URL cannot be had: where it was looked for, what the server said, and what to do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import servers
from servers import FileServer, HubServer

import ztensor
import ztensor.numpy

WEIGHT = np.arange(6000, dtype=np.float32).reshape(60, 100)


@pytest.fixture
def model(tmp_path: Path) -> bytes:
    ztensor.numpy.save_file({"weight": WEIGHT}, tmp_path / "m.safetensors")
    return (tmp_path / "m.safetensors").read_bytes()


@pytest.fixture
def bucket(web: FileServer, model: bytes, monkeypatch: pytest.MonkeyPatch) -> FileServer:
    """A server that speaks as much of S3 as reading needs, and says what it is told to."""
    web.files["models/m.safetensors"] = model
    monkeypatch.setenv("AWS_ENDPOINT_URL", web.address)
    return web


@pytest.mark.parametrize(
    ("status", "kind", "parts"),
    [
        (403, "permission_denied", ["403", "AWS_ACCESS_KEY_ID"]),
        (401, "permission_denied", ["401", "AWS_ACCESS_KEY_ID"]),
        (404, "not_found", ["404", "Check the bucket"]),
        (301, "io", ["region"]),
        (400, "io", ["400"]),
    ],
)
def test_objects_are_named_with_status_and_advice(bucket: FileServer, status: int, kind: str, parts: list[str]) -> None:
    bucket.faults = [status] * 20
    with pytest.raises(ztensor.ZTensorError) as caught:
        ztensor.open("s3://models/m.safetensors")
    said = str(caught.value)
    assert caught.value.kind == kind, said
    for part in ['bucket "models"', 'object "m.safetensors"', "s3://models/m.safetensors", *parts]:
        assert part in said, said


@pytest.mark.parametrize(
    ("status", "kind", "parts"),
    [
        (403, "permission_denied", ["403 Forbidden", "credentials"]),
        (404, "not_found", ["404 Not Found", "Check the address"]),
        (451, "io", ["451"]),
    ],
)
def test_files_behind_http_too(web: FileServer, status: int, kind: str, parts: list[str]) -> None:
    web.faults = [status]
    with pytest.raises(ztensor.ZTensorError) as caught:
        ztensor.open(f"{web.address}/m.safetensors?signature=hush")
    said = str(caught.value)
    assert caught.value.kind == kind, said
    assert "hush" not in said
    for part in [f"{web.address}/m.safetensors", *parts]:
        assert part in said, said


def test_missing_credentials_are_said_to_be_missing(
    bucket: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    # The service that machines of a cloud have: here it refuses.
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(ztensor.ZTensorError, match="AWS_ACCESS_KEY_ID") as caught:
        ztensor.open("s3://models/m.safetensors")
    assert 'bucket "models"' in str(caught.value)
    assert not bucket.requests


def test_profiles_are_asked_of_the_aws_command(
    bucket: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single sign-on and assumed roles are beyond the credentials file; the AWS command line knows them."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    exported = {"Version": 1, "AccessKeyId": "ASIAEXPORTED", "SecretAccessKey": "s", "SessionToken": "token-of-session"}
    command = tmp_path / "bin" / "aws"
    command.parent.mkdir()
    command.write_text(
        f"#!/bin/sh\n[ \"$*\" = 'configure export-credentials --format process --profile sso' ] || exit 9\n"
        f"echo '{json.dumps(exported)}'\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    opened = ztensor.open("s3://models/m.safetensors", storage_options={"profile": "sso"})
    assert np.array_equal(opened.read_numpy("weight"), WEIGHT)
    sent = bucket.requests[-1][2]
    assert "Credential=ASIAEXPORTED/" in sent["authorization"]
    assert sent["x-amz-security-token"] == "token-of-session"


def test_keys_of_the_credentials_file_are_found(
    bucket: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = AKIAFILE\naws_secret_access_key = s\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(ztensor.open("s3://models/m.safetensors").keys()) == 1
    assert "Credential=AKIAFILE/" in bucket.requests[-1][2]["authorization"]


def test_datasets_are_files_of_the_hub_too(hub: HubServer, model: bytes) -> None:
    hub.add("datasets/owner/name", "deep/m.safetensors", model)
    for url in ("hf://datasets/owner/name/deep/m.safetensors", "hf://datasets/owner/name@main/deep/m.safetensors"):
        assert np.array_equal(ztensor.open(url).read_numpy("weight"), WEIGHT)


def test_a_server_that_is_not_there_is_said_not_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    port = servers.free_port()
    with pytest.raises(ztensor.ZTensorError, match="cannot be reached"):
        ztensor.open(f"http://127.0.0.1:{port}/m.safetensors")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    with pytest.raises(ztensor.ZTensorError, match="AWS_ENDPOINT_URL") as caught:
        ztensor.open("s3://models/m.safetensors")
    assert 'bucket "models"' in str(caught.value)
