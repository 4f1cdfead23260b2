"""``ztensor.dcp`` on buckets: ranks save and load, a rank dies, two jobs have one name."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jobs
import pytest
import ranks
import torch
from proxy import Fault, Proxy

import ztensor
from ztensor import Store


def options(server: tuple[str, Any]) -> dict[str, str]:
    return {"endpoint_url": server[0], "allow_http": "true"}


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    tensors = ["columns", "everywhere", "few", "rng"]
    same = all(torch.equal(one[name], other[name]) for name in tensors)
    weights = all(torch.equal(one["model"][name], tensor) for name, tensor in other["model"].items())
    return same and weights and all(one[name] == other[name] for name in ("step", "note", "nested", "object"))


@pytest.mark.parametrize("server", ["moto", "seaweed"])
def test_ranks_save_to_a_bucket_and_fewer_load(server: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url, storage = f"s3://models/{tmp_path.name}", options(request.getfixturevalue(server))
    results = ranks.run(4, jobs.save_and_load_on_fewer, url, "run", [1, 2], storage)
    assert not isinstance(results[0], BaseException), results[0]
    saved, loaded = results[0]
    assert list(loaded) == [1, 2, 3] and all(equal(state, saved) for state in loaded.values())
    store = Store(url, storage_options=storage)
    assert store.keys() == ["run/step-1", "run/step-2"]
    assert torch.equal(store.load("run/step-2", framework="pt")["columns"], saved["columns"])
    reader = ztensor.Reader(f"{url}//run/step-2", storage_options=storage)
    assert (reader.read_slice("columns", (slice(2, 5), 3)) == saved["columns"][2:5, 3].numpy()).all()
    # A writer that was given a store knows the URL again.
    assert jobs.Writer(store)._place.location == url


def test_a_bucket_on_disk_has_steps_whole_or_not_at_all(seaweed: tuple[str, Any], tmp_path: Path) -> None:
    url, storage = f"s3://models/{tmp_path.name}", options(seaweed)
    store = Store(url, create=True, storage_options=storage)
    for moment, victim, background, there in [
        ("before", 1, None, []),
        ("written", 1, "thread", []),
        ("finish", 0, None, []),
        ("after", 0, None, ["run/step-0"]),
    ]:
        died = ranks.run(2, jobs.save_and_die, url, "run/step-0", moment, victim, background, storage)
        assert died[victim] is None
        assert isinstance(died[1 - victim], BaseException)
        assert store.keys() == there
    with ThreadPoolExecutor() as pool:
        at_once = [pool.submit(ranks.run, 1, jobs.save, url, "run/step-1", seed, 1, storage) for seed in (1, 2)]
        outcomes = [job.result()[0] for job in at_once]
    [won] = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert torch.equal(store.load("run/step-1", framework="pt")["columns"], won["columns"])
    assert store.verify(decode=True) == []


class Killing(Proxy):
    """A proxy that kills the coordinator at a moment of the commit: when the manifest is about to be created, or once it is."""

    def __init__(self, port: int, manifest: str, moment: str, pid: Path) -> None:
        super().__init__(port)
        self.manifest, self.moment, self.pid = manifest, moment, pid
        self.created = self.killed = False

    def next_fault(self, request: str) -> Fault | None:
        creates = request.startswith("PUT") and self.manifest in request
        if not self.killed and (creates if self.moment == "creates" else self.created):
            self.killed = True
            os.kill(int(self.pid.read_text()), signal.SIGKILL)
            return "drop"
        self.created |= creates
        return super().next_fault(request)


@pytest.mark.parametrize("moment", ["creates", "created"])
def test_a_kill_in_the_commit_leaves_a_step_whole_or_absent(
    moment: str, seaweed: tuple[str, Any], tmp_path: Path
) -> None:
    url, storage = f"s3://models/{tmp_path.name}-{moment}", options(seaweed)
    store = Store(url, create=True, storage_options=storage)
    before = ranks.run(1, jobs.save, url, "run/step-1", 0, 1, storage)[0]
    assert not isinstance(before, BaseException), before
    port = urlsplit(seaweed[0]).port
    assert port is not None
    proxy = Killing(port, "checkpoints/run/step-2/0.m", moment, tmp_path / "pid-0")
    through = {**storage, "endpoint_url": proxy.address}
    died = ranks.run(2, jobs.save_and_tell, url, "run/step-2", str(tmp_path), through)
    proxy.close()
    assert proxy.killed and died[0] is None
    assert isinstance(died[1], BaseException)
    assert store.keys() == (["run/step-1", "run/step-2"] if moment == "created" else ["run/step-1"])
    loaded = ranks.run(1, jobs.load, url, "run/step-1", storage)[0]
    assert not isinstance(loaded, BaseException), loaded
    assert equal(loaded, before)
    if moment == "creates":
        # The next try is in nobody's way.
        assert not isinstance(ranks.run(1, jobs.save, url, "run/step-2", 0, 2, storage)[0], BaseException)
    assert ztensor.Reader(f"{url}//run/step-2", storage_options=storage).file_metadata["step"] == 2
    assert store.verify(decode=True) == []
