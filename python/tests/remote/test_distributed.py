"""``ztensor.dcp`` on buckets: ranks save and load, a rank dies, two jobs have one name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jobs
import ranks
import torch

import ztensor
from ztensor import Store


def options(server: tuple[str, Any]) -> dict[str, str]:
    return {"endpoint_url": server[0], "allow_http": "true"}


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    tensors = ["columns", "everywhere", "few", "rng"]
    same = all(torch.equal(one[name], other[name]) for name in tensors)
    weights = all(torch.equal(one["model"][name], tensor) for name, tensor in other["model"].items())
    return same and weights and all(one[name] == other[name] for name in ("step", "note", "nested", "object"))


def test_ranks_save_to_a_bucket_and_fewer_load(moto: tuple[str, Any], tmp_path: Path) -> None:
    url, storage = f"s3://models/{tmp_path.name}", options(moto)
    results = ranks.run(2, jobs.save_and_load_on_fewer, url, "run", [1, 2], storage)
    assert not isinstance(results[0], BaseException), results[0]
    saved, loaded = results[0]
    assert equal(loaded[1], saved)
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
    died = ranks.run(2, jobs.save_and_die, url, "run/step-1", "finish", 0, False, storage)
    assert died[0] is None
    assert isinstance(died[1], BaseException)
    assert store.keys() == []
    with ThreadPoolExecutor() as pool:
        at_once = [pool.submit(ranks.run, 1, jobs.save, url, "run/step-1", seed, 1, storage) for seed in (1, 2)]
        outcomes = [job.result()[0] for job in at_once]
    [won] = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert torch.equal(store.load("run/step-1", framework="pt")["columns"], won["columns"])
    assert store.verify(decode=True) == []
