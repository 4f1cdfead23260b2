"""`ztensor download-hf`: files of a repository in the cache that the Hugging Face tools share, or in a folder."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import HfApi, hf_hub_download
from servers import HubServer, program

# Three of the parts that are fetched and written at once, and a bit.
LARGE = np.random.default_rng(7).bytes((24 << 20) + 12345)
FILES = {
    "config.json": b'{"model_type": "gpt2"}',
    "model.safetensors": LARGE,
    "onnx/model.onnx": b"a graph",
    "empty.json": b"",
    "empty.bin": b"",
}


@pytest.fixture
def repository(hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubServer:
    for name, content in FILES.items():
        hub.add("owner/name", name, content)
        hub.add("datasets/owner/data", name, content[:1000])
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    return hub


def run(*words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [program("ztensor"), "download-hf", *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran


def result(*words: str | Path) -> list[dict[str, Any]]:
    return json.loads(run(*words, "--json").stdout)["result"]  # type: ignore[no-any-return]


def error(*words: str | Path) -> dict[str, Any]:
    return json.loads(run(*words, "--json", code=2).stdout)["error"]  # type: ignore[no-any-return]


def tree(folder: Path) -> dict[str, str]:
    """Every file of a folder with its digest, every link with its target."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_server_is_one_to_the_hub_s_own_library(repository: HubServer) -> None:
    api = HfApi(endpoint=repository.address)
    for described in (api.model_info("owner/name", revision="main"), api.dataset_info("owner/data", revision="main")):
        assert sorted(file.rfilename for file in described.siblings or []) == sorted(FILES)
        assert described.sha == repository.commit


def test_a_folder_gets_plain_files_byte_for_byte(repository: HubServer, tmp_path: Path) -> None:
    said = run("owner/name", "-o", tmp_path / "out").stdout
    assert "sha256 verified" in said
    assert contents(tmp_path / "out") == FILES
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))
    # All of one commit: the one that was listed.
    resolved = [path for _, path, _ in repository.requests if "/resolve/" in path]
    assert resolved and all(repository.commit in path for path in resolved)
    # What is here and right is not fetched again; another file of that name is replaced.
    (again,) = result("owner/name", "model.safetensors", "-o", tmp_path / "out")
    assert (again["fetched"], again["bytes"]) == (0, len(LARGE))
    (tmp_path / "out" / "model.safetensors").write_bytes(bytes(len(LARGE)))
    (tmp_path / "out" / "config.json").write_bytes(b"x" * len(FILES["config.json"]))
    run("owner/name", "-o", tmp_path / "out")
    assert contents(tmp_path / "out") == FILES


def test_the_cache_is_the_one_that_the_hub_s_own_library_makes(repository: HubServer, tmp_path: Path) -> None:
    for name, kind, theirs in [("owner/name", "model", "owner/name"), ("datasets/owner/data", "dataset", "owner/data")]:
        run(name)
        for file in FILES:
            hf_hub_download(theirs, file, repo_type=kind, endpoint=repository.address, cache_dir=tmp_path / "theirs")
        folder = f"{kind}s--{theirs.replace('/', '--')}"
        ours = tree(tmp_path / "home" / "hub" / folder)
        assert ours == tree(tmp_path / "theirs" / folder)
        assert f"snapshots/{repository.commit}/onnx/model.onnx" in ours


def test_the_hub_s_own_library_finds_the_files_offline(repository: HubServer, tmp_path: Path) -> None:
    answers = result("owner/name")
    assert {answer["file"] for answer in answers} == set(FILES)
    script = (
        "from huggingface_hub import hf_hub_download\n"
        f"for name in {sorted(FILES)}:\n"
        "    print(hf_hub_download('owner/name', name, local_files_only=True))\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    found = dict(zip(sorted(FILES), map(Path, ran.stdout.splitlines()), strict=True))
    assert {name: path.read_bytes() for name, path in found.items()} == FILES
    for answer in answers:
        assert Path(answer["path"]).samefile(found[answer["file"]])
        digest = None if answer["file"].endswith(".json") else hashlib.sha256(FILES[answer["file"]]).hexdigest()
        assert (answer["sha256"], answer["commit"]) == (digest, repository.commit)
        assert answer["bytes"] == answer["fetched"] == len(FILES[answer["file"]])
    assert all(answer["fetched"] == 0 for answer in result("owner/name"))


@pytest.mark.parametrize("into_folder", [False, True])
def test_an_interrupted_download_goes_on_where_it_was(repository: HubServer, tmp_path: Path, into_folder: bool) -> None:
    words = ["owner/name", "model.safetensors", *(["-o", str(tmp_path / "out")] if into_folder else [])]
    repository.served_to = 16 << 20
    assert error(*words)["path"] == "hf://owner/name@main/model.safetensors"
    (left,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left.name.endswith(".incomplete")
    assert left.read_bytes() == LARGE[: 16 << 20]
    repository.served_to = None
    repository.storage.counted()
    (done,) = result(*words)
    assert done["fetched"] == len(LARGE) - (16 << 20)
    # Opening a file brings its first bytes.
    assert repository.storage.counted()[1] <= done["fetched"] + (64 << 10)
    assert Path(done["path"]).read_bytes() == LARGE
    assert not list(tmp_path.rglob("*.incomplete"))


@pytest.mark.parametrize("into_folder", [False, True])
def test_a_wrong_digest_is_refused_and_leaves_nothing(repository: HubServer, tmp_path: Path, into_folder: bool) -> None:
    words = ["owner/name", "model.safetensors", *(["-o", str(tmp_path / "out")] if into_folder else [])]
    repository.stated["model.safetensors"] = "0" * 64
    failed = error(*words)
    assert failed["kind"] == "checksum"
    assert hashlib.sha256(LARGE).hexdigest() in failed["message"]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_an_interrupted_download_left_is_checked_too(repository: HubServer, tmp_path: Path) -> None:
    words = ["owner/name", "model.safetensors", "-o", str(tmp_path)]
    repository.served_to = 16 << 20
    error(*words)
    repository.served_to = None
    (left,) = tmp_path.glob(".model.safetensors.*.incomplete")
    with left.open("r+b") as file:
        file.write(b"not these")
    assert error(*words)["kind"] == "checksum"
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    run(*words)
    assert (tmp_path / "model.safetensors").read_bytes() == LARGE


def test_files_are_named_or_matched(repository: HubServer, tmp_path: Path) -> None:
    def names(*words: str) -> list[str]:
        return sorted(answer["file"] for answer in result("owner/name", *words, "-o", tmp_path / "out"))

    assert names("*.json") == ["config.json", "empty.json"]
    assert names("onnx/*", "config.json") == ["config.json", "onnx/model.onnx"]
    assert names("config.json", "--revision", repository.commit) == ["config.json"]
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_what_is_not_there_is_said(repository: HubServer, tmp_path: Path) -> None:
    out = ["-o", str(tmp_path / "out")]
    for words, part in [
        (["owner/other"], "owner/other"),
        (["owner/other", "config.json"], "owner/other"),
        (["owner/name", "none.json"], "none.json"),
        (["owner/name", "*.gguf"], "*.gguf"),
        (["owner/name", "--revision", "v9"], "v9"),
    ]:
        failed = error(*words, *out)
        assert failed["kind"] == "not_found"
        assert part in failed["message"]
        assert failed["hint"]
    for wrong in (["name"], ["owner/name", "../x"], ["owner/name", "--revision", "../x"]):
        assert error(*wrong, *out)["kind"] == "invalid_argument"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside", ".git/config", "a\\..\\outside"])
def test_names_from_the_server_never_lead_out_of_the_folder(repository: HubServer, tmp_path: Path, name: str) -> None:
    repository.listed.append(name)
    for out in ([], ["-o", str(tmp_path / "out" / "deeper")]):
        assert error("owner/name", *out)["kind"] == "malformed"
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_private_repository_needs_the_token(
    repository: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.token = "secret"
    assert "HF_TOKEN" in error("owner/name", "-o", tmp_path / "out")["hint"]
    monkeypatch.setenv("HF_TOKEN", "secret")
    run("owner/name", "-o", tmp_path / "out")
    assert contents(tmp_path / "out") == FILES
    # The storage is another host, and never told.
    assert not any("authorization" in headers for _, _, headers in repository.storage.requests)
