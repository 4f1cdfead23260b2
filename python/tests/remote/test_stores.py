"""Stores in buckets: one behaviour on a directory and on every server, and servers that die or lie."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
import servers
from botocore.config import Config
from safetensors.numpy import save_file


def store(*words: str | Path, url: str, code: int = 0) -> Any:
    """Runs `ztensor store`; returns what it prints as JSON, or its complaint where it is to fail."""
    command = [servers.program("ztensor"), "store", *map(str, words), "--store", url, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return json.loads(ran.stdout)["result"] if code != 2 else ran.stderr


def init(url: str, *words: str, code: int = 0) -> str:
    command = [servers.program("ztensor"), "store", "init", url, *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stderr


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three checkpoints of a run. The first takes several parts to upload: 24 MB that hardly compress."""
    folder = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((3000, 2000)).astype(np.float32)
    for step in range(3):
        path = folder / f"checkpoint-{step}"
        path.mkdir()
        weight[::7] += np.float32(1e-4)
        save_file({"weight": weight, "frozen": np.arange(10_000, dtype=np.int32)}, path / "model.safetensors")
        (path / "config.json").write_text(json.dumps({"step": step}))
    return folder


def client(endpoint: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=servers.KEY,
        aws_secret_access_key=servers.SECRET,
        region_name="us-east-1",
        config=Config(retries={"max_attempts": 10}, s3={"addressing_style": "path"}),
    )


@pytest.fixture(params=["directory", "moto", "seaweed", "azurite", "google"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Where a store may be: an empty place on each kind of storage."""
    if request.param == "directory":
        return str(tmp_path / "store")
    if request.param in ("azurite", "google"):
        variables, _ = request.getfixturevalue(request.param)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        scheme = "az" if request.param == "azurite" else "gs"
        return f"{scheme}://models/stores/{tmp_path.name}"
    endpoint, _ = request.getfixturevalue(request.param)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    return f"s3://models/stores/{tmp_path.name}"


def test_a_run_is_added_restored_removed_and_collected(place: str, run: Path, tmp_path: Path) -> None:
    assert "there is no store" in store("list", url=place, code=2)
    init(place, "--grace", "0")
    assert "already" in init(place, code=2)
    added = store("add", run, "--each", "checkpoint-*", "-n", "run 7/ä", url=place)
    assert added[1]["stored_bytes"] < added[0]["stored_bytes"] / 2
    names = [listed["name"] for listed in store("list", url=place)]
    assert names == [f"run 7/ä/checkpoint-{step}" for step in range(3)]
    for step in range(3):
        store("get", names[step], "-o", tmp_path / f"restored-{step}", url=place)
        assert contents(tmp_path / f"restored-{step}") == contents(run / f"checkpoint-{step}")
    assert "already" in store("add", run / "checkpoint-0", "-n", names[0], url=place, code=2)
    store("remove", names[0], names[2], url=place)
    collected = store("gc", "--now", "--force", url=place)
    assert collected["deleted"] >= 1
    assert not collected["unknown"]
    store("verify", "--decode", url=place)
    store("get", names[1], "-o", tmp_path / "again", url=place)
    assert contents(tmp_path / "again") == contents(run / "checkpoint-1")
    assert "removed" in store("get", names[0], "-o", tmp_path / "gone", url=place, code=2)


def test_of_several_adds_of_one_name_one_succeeds(place: str, run: Path) -> None:
    init(place)
    words = ["add", str(run / "checkpoint-0" / "config.json"), "-n", "name", "--store", place]
    adding = [
        subprocess.Popen([servers.program("ztensor"), "store", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(6)
    ]
    said = [process.communicate(timeout=300)[1].decode() for process in adding]
    assert sorted(process.returncode for process in adding) == [0, 2, 2, 2, 2, 2], said
    store("verify", "--decode", url=place)


@pytest.mark.parametrize("server", ["moto", "seaweed"])
def test_a_synchronised_copy_is_a_store(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, run: Path, tmp_path: Path, server: str
) -> None:
    endpoint, _ = request.getfixturevalue(server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    init(f"s3://models/copied-{tmp_path.name}")
    store("add", run, "--each", "checkpoint-*", "-n", "run", url=f"s3://models/copied-{tmp_path.name}")
    s3 = client(endpoint)
    for listed in s3.list_objects_v2(Bucket="models", Prefix=f"copied-{tmp_path.name}/")["Contents"]:
        target = tmp_path / listed["Key"]
        target.parent.mkdir(parents=True, exist_ok=True)
        s3.download_file("models", listed["Key"], str(target))
    copy = str(tmp_path / f"copied-{tmp_path.name}")
    store("verify", "--decode", url=copy)
    store("get", "run/checkpoint-2", "-o", tmp_path / "restored", url=copy)
    assert contents(tmp_path / "restored") == contents(run / "checkpoint-2")
    store("remove", "run/checkpoint-2", url=copy)
    assert len(store("list", url=copy)) == 2


def test_a_bucket_that_is_not_there_is_named(moto: tuple[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto[0])
    assert 'no bucket "nowhere"' in init("s3://nowhere/models", code=2)


@pytest.fixture
def rclone(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "served" / "models").mkdir(parents=True)

    def start() -> tuple[list[str], int]:
        port = servers.free_port()
        command = [servers.program("rclone"), "serve", "s3", "--addr", f"127.0.0.1:{port}"]
        return [*command, "--auth-key", f"{servers.KEY},{servers.SECRET}", str(tmp_path / "served")], port

    with servers.started(start, lambda port: True) as port:
        yield f"http://127.0.0.1:{port}"


def test_a_server_that_ignores_conditions_is_refused(rclone: str, monkeypatch: pytest.MonkeyPatch, run: Path) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", rclone)
    said = init("s3://models/store", code=2)
    assert "accepts a conditional create and ignores the condition, so commits could be lost" in said
    assert "--single-writer" in said
    init("s3://models/store", "--single-writer")
    assert store("info", url="s3://models/store")["mode"] == "single-writer"
    store("add", run / "checkpoint-0", "-n", "a", url="s3://models/store")
    assert [listed["name"] for listed in store("list", url="s3://models/store")] == ["a"]


def wait_until_it_works(endpoint: str, create: bool = False) -> None:
    """A server that listens may not have found its own parts yet."""
    s3, end = client(endpoint), time.monotonic() + 120
    while True:
        try:
            if create:
                s3.create_bucket(Bucket="models")
                create = False
            s3.put_object(Bucket="models", Key="ready", Body=b"yes")
            assert s3.get_object(Bucket="models", Key="ready")["Body"].read() == b"yes"
            return
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def test_a_server_killed_at_any_moment_loses_no_checkpoint(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SeaweedFS is killed in the middle of adds, and started again on its files: what was reported as added is there."""
    server = servers.Seaweed(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    url, added = "s3://models/store", []
    with server.running():
        wait_until_it_works(server.endpoint, create=True)
        init(url)
        store("add", run / "checkpoint-0", "-n", "first", url=url)
    for killed in range(1, 3):
        with server.running():
            wait_until_it_works(server.endpoint)
            words = ["add", str(run / f"checkpoint-{killed}"), "-n", f"killed-{killed}", "--store", url]
            command = [servers.program("ztensor"), "store", *words]
            adding = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(0.3 * killed)
        adding.communicate(timeout=300)
        if adding.returncode == 0:
            added.append(f"killed-{killed}")
    with server.running():
        wait_until_it_works(server.endpoint)
        names = [listed["name"] for listed in store("list", url=url)]
        assert {"first", *added} <= set(names)
        for name in ["first", *added]:
            step = 0 if name == "first" else int(name[-1])
            store("get", name, "-o", tmp_path / name, url=url)
            assert contents(tmp_path / name) == contents(run / f"checkpoint-{step}")
        store("add", run / "checkpoint-2", "-n", "last", url=url)
        store("get", "last", "-o", tmp_path / "last", url=url)
        assert contents(tmp_path / "last") == contents(run / "checkpoint-2")
