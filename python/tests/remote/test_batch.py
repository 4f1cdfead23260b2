"""A batch on Ray, one of whose workers is killed: every file is archived once, and none is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

import ztensor
import ztensor.numpy
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


@pytest.mark.parametrize("kind", ["directory", "seaweed"])
def test_a_killed_worker_costs_nothing(
    kind: str, cluster: None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    from ztensor.ray import archive_many

    random = np.random.default_rng(3)
    for number in range(50):
        weight = random.standard_normal((32, 32)).astype(np.float32)
        ztensor.numpy.save_file({"w": weight}, tmp_path / f"m-{number}.safetensors")
    urls = [f"file://{tmp_path}/m-{number}.safetensors" for number in range(50)]
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
    assert {report.status for report in archive_many(urls, store, **words)} == {"already"}


def _raylet() -> str:
    """The process that has this cluster's workers as children."""
    found = subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "raylet"], capture_output=True, text=True)
    return found.stdout.split()[0]
