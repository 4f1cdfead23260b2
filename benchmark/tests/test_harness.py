"""The parts of the harness that decide whether a number can be believed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from codec import structured
from harness import datasets, memory, page_cache
from harness.peer import peer_class, peer_names
from harness.report import Table, Target
from harness.schedule import Contestant, interleave


def test_touch_counts_every_byte_of_near_and_far_tensors():
    block = np.arange(100_000, dtype=np.uint8)
    tensors = {"a": block[:10], "b": block[20:5000], "c": block[60_000:], "empty": block[:0], "far": np.ones(9000)}
    assert memory.touch(tensors) == 10 + 4980 + 40_000 + 72_000


def test_fingerprint_sees_names_and_bytes_but_not_order():
    one, two = np.arange(5.0), np.arange(5.0) + 1
    assert memory.fingerprint({"a": one, "b": two}) == memory.fingerprint({"b": two, "a": one})
    assert memory.fingerprint({"a": one, "b": two}) != memory.fingerprint({"a": two, "b": one})
    assert memory.fingerprint({"a": one}) != memory.fingerprint({"c": one})


def test_eviction_is_checked(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1 << 22))
    page_cache.warm(path)
    if page_cache.resident_fraction(path) < 1:
        pytest.skip("this file system does not keep files in the page cache")
    page_cache.evict(path)
    assert page_cache.resident_fraction(path) < 0.01


def test_a_mapped_file_cannot_be_evicted_unnoticed(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1 << 22))
    page_cache.warm(path)
    mapped = np.memmap(path, mode="r")
    memory.touch({"file": mapped})
    with pytest.raises(page_cache.StillCachedError):
        page_cache.evict(path)


def test_peaks_tell_anonymous_memory_from_mapped_files(tmp_path):
    size = 64 << 20
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    before = memory.resident()
    with memory.Peaks() as peaks:
        held = np.ones(size, dtype=np.uint8)
        time.sleep(0.5)
        del held
        mapped = np.memmap(path, mode="r")
        memory.touch({"file": mapped})
        time.sleep(0.5)
        del mapped
    # Both are gone by the end, and not counted twice.
    for found, start in zip((peaks.anonymous, peaks.file_backed), before, strict=True):
        assert 0.9 * size < found - start < 1.5 * size
    assert all(after - start < size / 2 for after, start in zip(memory.resident(), before, strict=True))


@pytest.mark.parametrize("distribution", datasets.DISTRIBUTIONS)
def test_models_have_the_announced_size(distribution):
    arrays = datasets.arrays(distribution, 300)
    size = sum(array.nbytes for array in arrays.values())
    assert size == datasets.payload_bytes(distribution, 300)
    assert 200e6 < size < 420e6
    assert len({array.tobytes()[:64] for array in arrays.values()}) > len(arrays) / 2


def test_every_peer_file_has_a_peer():
    assert all(peer_class(name).version is not None for name in peer_names())


def test_quantised_cases_have_as_many_levels_as_their_bits():
    rows = np.random.default_rng(1).standard_normal((8, 128), dtype=np.float32)
    for row in structured.symmetric(rows, 4):
        assert len(np.unique(row)) <= 15
    for row in structured.asymmetric(rows, 4):
        assert len(np.unique(row)) <= 16
    assert (structured.cast_to_bf16(rows).view(np.uint32) & 0xFFFF == 0).all()


class _Recorded:
    """Sessions whose workers answer at once with a scripted time."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds, self.calls = seconds, []

    def get(self, peer: str):
        return _RecordedSession(self, peer)


class _RecordedSession:
    def __init__(self, owner: _Recorded, peer: str) -> None:
        self.owner, self.peer = owner, peer

    def call(self, workload: str, call: str, **arguments):
        self.owner.calls.append(self.peer)
        return {"seconds": {"total": self.owner.seconds[self.peer]}, "bytes": 100}


def test_runs_take_turns_and_slow_ones_run_once():
    sessions = _Recorded({"a": 0.5, "b": 0.25, "slow": 99.0})
    contestants = [Contestant("row", peer, "read", {}) for peer in ("a", "b", "slow")]
    outcomes = interleave(sessions, contestants, runs=2, warmup=1, patience=10)
    assert sessions.calls == ["a", "b", "slow", "a", "b", "a", "b"]
    assert [len(outcome.seconds["total"]) for outcome in outcomes] == [2, 2, 1]
    assert outcomes[1].throughput() == 400


def test_tables_and_verdicts():
    table = Table("t", ["name", "GB/s"], [["a", "1.00"], ["longer", "–"]])
    assert table.markdown().splitlines()[1] == "| ------ | ---: |"
    assert [Target("x", 2.0, value).verdict for value in (2.0, 1.99, None)] == ["met", "missed", "not measured"]
