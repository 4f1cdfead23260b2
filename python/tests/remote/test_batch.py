"""Batches on Ray, one of whose workers is killed: every file is archived once, and none is lost. And on Dask."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import real_files

import ztensor
from ztensor import Store
from ztensor.batch import Report, ledger


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two workers of this machine, which see what this process sees."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    source = str(Path(ztensor.__file__).parent.parent)
    variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    environment = {"env_vars": {**variables, "PYTHONPATH": source}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def files(models: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Fifty files of real weights, in several formats."""
    return real_files.make(models, tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize("kind", ["directory", "seaweed"])
def test_a_killed_worker_costs_nothing(
    kind: str, cluster: None, files: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    from ztensor.ray import archive_many

    urls = [f"file://{path}" for path in files]
    assert len(urls) == 50
    store, options = str(tmp_path / "store"), None
    if kind == "seaweed":
        endpoint, _ = request.getfixturevalue("seaweed")
        store, options = f"s3://models/{tmp_path.name}", {"endpoint_url": endpoint, "allow_http": "true"}
    killed: list[int] = []

    def watch(report: Report, done: int, total: int | None) -> None:
        if done >= 5 and not killed:
            found = subprocess.run(["pgrep", "-P", _raylet(), "-f", "ray::archive"], capture_output=True, text=True)
            for worker in found.stdout.split()[:1]:
                # One that has ended by itself meanwhile is none; the next report looks again.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(worker), signal.SIGKILL)
                    killed.append(int(worker))

    words: dict[str, Any] = {"num_cpus": 1, "base": None, "storage_options": options}
    reports = list(archive_many(urls, store, in_flight=8, progress=watch, **words))
    assert killed and sorted(report.url for report in reports) == sorted(urls) and all(reports)
    assert sorted(ledger(store, storage_options=options)) == sorted(urls)
    assert Store(store, storage_options=options).verify(decode=True) == []
    # What was archived is what lies there, of whatever format.
    for report in reports[::7]:
        back = tmp_path / "back"
        Store(store, storage_options=options).get(report.result, back)
        assert back.read_bytes() == Path(report.url.removeprefix("file://")).read_bytes()
        back.unlink()
    assert {report.status for report in archive_many(urls, store, **words)} == {"already"}


def test_conversion_and_verification_on_ray(cluster: None, files: list[Path], tmp_path: Path) -> None:
    from ztensor.ray import convert_many, verify_many

    urls = [*map(str, files[:3]), str(tmp_path / "missing.pt")]
    reports = {report.url: report for report in convert_many(urls, tmp_path / "out", to="zt")}
    assert [reports[url].status for url in urls] == ["done", "done", "done", "failed"]
    again = {report.url: report.status for report in convert_many(urls, tmp_path / "out", to="zt")}
    assert [again[url] for url in urls] == ["already", "already", "already", "failed"]
    damaged = tmp_path / "damaged.zt"
    damaged.write_bytes(Path(reports[urls[0]].result).read_bytes()[:-100])
    made = [reports[url].result for url in urls[:3]]
    checked = {report.url: bool(report) for report in verify_many([*made, damaged], memory=1 << 20)}
    assert checked == {**dict.fromkeys(made, True), str(damaged): False}


def test_the_command_on_ray(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("\n".join(map(str, files[:3])))
    command = [sys.executable, "-m", "ztensor", "batch", "add", "--list", tmp_path / "urls.txt"]
    command += ["--store", tmp_path / "store", "--engine", "ray", "--cpus", "1", "--prefix", "all"]
    variables = {"RAY_AUTH_MODE": "disabled", "PYTHONPATH": str(Path(ztensor.__file__).parent.parent)}
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    assert result.returncode == 0 and "3 of 3 are there" in result.stderr, result.stderr
    assert sorted(ledger(tmp_path / "store", "all")) == sorted(map(str, files[:3]))


def _raylet() -> str:
    """The process that has this cluster's workers as children."""
    found = subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "raylet"], capture_output=True, text=True)
    return found.stdout.split()[0]


def test_dask(files: list[Path], tmp_path: Path) -> None:
    """The executor of a Dask client: two workers in processes of their own."""
    from distributed import Client, LocalCluster

    from ztensor.batch import archive_many

    urls = [str(path) for path in files[:10]]
    store = str(tmp_path / "store")
    source = str(Path(ztensor.__file__).parent.parent)
    words: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with LocalCluster(env={"PYTHONPATH": source}, **words) as local, Client(local) as client:
        executor = client.get_executor()
        reports = list(archive_many(urls, store, executor, in_flight=4))
        again = list(archive_many(urls, store, executor))
    assert sorted(report.url for report in reports) == sorted(urls) and all(reports)
    assert {report.status for report in again} == {"already"}
    assert sorted(ledger(store)) == sorted(urls) and Store(store).verify(decode=True) == []
