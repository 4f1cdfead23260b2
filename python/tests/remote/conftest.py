"""Places that files can be opened from: each fixture puts files somewhere and says by which prefix they are opened."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import clouds
import pytest
import servers
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from servers import Publish

# Fixtures that start a server which somebody else wrote.
_SERVERS = {"moto", "seaweed", "azurite"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests of slow servers: `pytest -m "not servers"` goes without them, CI runs them all."""
    for item in items:
        chosen = getattr(getattr(item, "callspec", None), "params", {}).values()
        asked = {*getattr(item, "fixturenames", ()), *(value for value in chosen if isinstance(value, str))}
        if "remote" in item.path.parts and asked & _SERVERS:
            item.add_marker(pytest.mark.servers)


@pytest.fixture(scope="session", autouse=True)
def _credentials() -> Iterator[None]:
    """Nothing here asks a machine's metadata service, or finds keys of the person who runs the tests."""
    settings = {
        "AWS_ACCESS_KEY_ID": servers.KEY,
        "AWS_SECRET_ACCESS_KEY": servers.SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "HF_", "ZTENSOR_"))]:
            patch.delenv(name)
        for name, value in settings.items():
            patch.setenv(name, value)
        yield


def _client(port: int) -> Any:
    config = Config(retries={"max_attempts": 2}, s3={"addressing_style": "path"})
    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=servers.KEY,
        aws_secret_access_key=servers.SECRET,
        region_name="us-east-1",
        config=config,
    )


def _has_bucket(port: int) -> bool:
    """Whether the server is up, all of it: it may listen before."""
    try:
        _client(port).create_bucket(Bucket="models")
    except (BotoCoreError, ClientError):
        return False
    return True


def _s3(port: int) -> tuple[str, Publish]:
    client = _client(port)

    def publish(folder: Path) -> str:
        for file in sorted(folder.iterdir()):
            client.upload_file(str(file), "models", f"{folder.name}/{file.name}")
        return f"s3://models/{folder.name}"

    return f"http://127.0.0.1:{port}", publish


@pytest.fixture(scope="session")
def moto() -> Iterator[tuple[str, Publish]]:
    def start() -> tuple[list[str], int]:
        port = servers.free_port()
        return [servers.program("moto_server"), "-H", "127.0.0.1", "-p", str(port)], port

    with servers.started(start, _has_bucket) as port:
        yield _s3(port)


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Publish]]:
    server = servers.Seaweed(tmp_path_factory.mktemp("seaweed"))
    with server.running():
        # It listens before all of it is up.
        end = time.monotonic() + 120
        while not _has_bucket(server.ports[0]):
            assert time.monotonic() < end, "SeaweedFS does not come up"
            time.sleep(0.2)
        yield _s3(server.ports[0])


@pytest.fixture(scope="session")
def azurite() -> Iterator[tuple[dict[str, str], Publish]]:
    """Microsoft's emulator of Azure: the variables that lead to it, and how files get there."""
    if not clouds.AZURITE.exists():
        pytest.skip("not checked: Azurite is not installed (make .servers/.ready, which needs npm)")

    def start() -> tuple[list[str], int]:
        port = servers.free_port()
        return clouds.azurite_command(port), port

    def ready(port: int) -> bool:
        return clouds.azure_put(port, "models", query="restype=container") in (201, 409)

    def publish(folder: Path) -> str:
        for file in sorted(folder.iterdir()):
            assert (
                clouds.azure_put(port, f"models/{folder.name}/{file.name}", file.read_bytes(), kind="BlockBlob") == 201
            )
        return f"az://models/{folder.name}"

    with servers.started(start, ready) as port:
        variables = {
            "AZURE_STORAGE_ACCOUNT_NAME": clouds.ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": clouds.ACCOUNT_KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/{clouds.ACCOUNT}",
        }
        yield variables, publish


@pytest.fixture(scope="session")
def google() -> Iterator[tuple[dict[str, str], Publish]]:
    """Our fake of Google's storage."""
    server = clouds.GoogleFake()

    def publish(folder: Path) -> str:
        for file in folder.iterdir():
            server.put(f"models/{folder.name}/{file.name}", file.read_bytes())
        return f"gs://models/{folder.name}"

    yield {"GOOGLE_BASE_URL": server.address, "GOOGLE_BEARER_TOKEN": server.token}, publish
    server.shutdown()


@pytest.fixture(scope="session")
def python_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Publish]]:
    """Python's own server, which serves whole files only."""
    served = tmp_path_factory.mktemp("served")

    def start() -> tuple[list[str], int]:
        port = servers.free_port()
        command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
        return [*command, "--directory", str(served)], port

    with servers.started(start, lambda port: True) as port:

        def publish(folder: Path) -> str:
            (served / folder.name).unlink(missing_ok=True)
            (served / folder.name).symlink_to(folder)
            return f"http://127.0.0.1:{port}/{folder.name}"

        yield f"http://127.0.0.1:{port}", publish


@pytest.fixture
def web() -> Iterator[servers.FileServer]:
    server = servers.FileServer()
    yield server
    server.shutdown()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.HubServer]:
    server = servers.HubServer()
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    yield server
    server.shutdown()
    server.storage.shutdown()


@pytest.fixture(params=["file", "http", "whole", "moto", "seaweed", "azurite", "google", "hub"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Every way to a file, one after the other."""
    if request.param == "file":
        return lambda folder: folder.as_uri()
    if request.param == "http":
        web: servers.FileServer = request.getfixturevalue("web")

        def publish(folder: Path) -> str:
            web.files.update({file.name: file.read_bytes() for file in folder.iterdir()})
            return web.address

        return publish
    if request.param == "whole":
        return request.getfixturevalue("python_server")[1]  # type: ignore[no-any-return]
    if request.param == "hub":
        hub: servers.HubServer = request.getfixturevalue("hub")

        def publish_to_hub(folder: Path) -> str:
            for file in folder.iterdir():
                hub.add("owner/name", file.name, file.read_bytes())
            return "hf://owner/name"

        return publish_to_hub
    if request.param in ("azurite", "google"):
        variables, publish_to_cloud = request.getfixturevalue(request.param)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return publish_to_cloud  # type: ignore[no-any-return]
    endpoint, publish_to_s3 = request.getfixturevalue(request.param)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    return publish_to_s3  # type: ignore[no-any-return]
