"""Saving a whole model that is in memory, uncompressed, until the call returns.

Some writers flush to the disk before they return (ours does, so that a crash leaves the old file or the new one),
most do not; the plain system calls are measured both ways, so that each writer has a row to be held against.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from harness.clock import now
from harness.datasets import arrays, payload_bytes
from harness.formats import DATA, FORMATS, size_for
from harness.peer import Peer, peer_class
from harness.report import Report, Table, Target, find, number, ratio
from harness.schedule import Contestant, interleave
from harness.session import Sessions
from workloads import limits

GIGABYTE = 1e9


def make(peer: Peer, path: str, format: str, distribution: str, megabytes: int) -> dict:
    """Write a file for others to read."""
    peer.save(peer.tensors_for_saving(arrays(distribution, megabytes)), Path(path), format)
    return {"bytes": Path(path).stat().st_size}


@functools.lru_cache(maxsize=1)
def _model(peer: Peer, distribution: str, megabytes: int) -> dict:
    return peer.tensors_for_saving(arrays(distribution, megabytes))


def measure(peer: Peer, path: str, format: str, distribution: str, megabytes: int) -> dict:
    tensors = _model(peer, distribution, megabytes)
    Path(path).unlink(missing_ok=True)
    start = now()
    peer.save(tensors, Path(path), format)
    seconds = now() - start
    size = Path(path).stat().st_size
    Path(path).unlink()
    return {
        "seconds": {"total": seconds},
        "bytes": sum(tensor.nbytes for tensor in tensors.values()),
        "file_bytes": size,
    }


def forget(peer: Peer) -> dict:
    """Free the model that is kept between the runs."""
    _model.cache_clear()
    return {}


def run(sessions: Sessions, peers: list[str], formats: list[str], distribution: str, megabytes: int, options) -> Report:
    report = Report(f"write-{distribution}-{megabytes}", vars(options))
    # ONNX and the deflated formats have an upper limit; everybody writes the same model, so it holds for all.
    DATA.mkdir(exist_ok=True)
    payload = payload_bytes(distribution, megabytes)
    contestants = limits.writing(DATA / "written.raw", payload) if "hardware" in peers else []
    for peer in peers:
        for format in peer_class(peer).writes:
            if format in formats and size_for(format, megabytes) == megabytes and sessions.get(peer) is not None:
                arguments = {"format": format, "distribution": distribution, "megabytes": megabytes}
                path = DATA / f"written-by-{peer}{FORMATS[format].suffix}"
                contestants.append(Contestant(format, peer, "write", {"path": path, **arguments}))
    outcomes = interleave(sessions, contestants, options.runs, options.warmup, _flush, options.patience)
    for peer in {contestant.peer for contestant in contestants}:
        sessions.get(peer).call("write", "forget")
    report.outcomes["write"] = outcomes
    report.tables.append(_table(outcomes, distribution, payload))
    report.targets = _targets(outcomes, distribution)
    return report


def _flush(contestant: Contestant) -> None:
    """What others left to be written must not be paid by whoever comes next."""
    os.sync()


def _table(outcomes, distribution: str, payload: int) -> Table:
    title = f"Writing {distribution}: {payload / GIGABYTE:.2f} GB of tensors"
    table = Table(title, ["writer", "format", "best GB/s", "median GB/s", "× write()", "× write() + fsync()"])
    plain, flushed = (find(outcomes, "hardware", kind) for kind in limits.WRITES)
    for outcome in outcomes:
        best, median = outcome.throughput(), outcome.throughput(kind="median")
        table.rows.append(
            [
                outcome.contestant.peer,
                outcome.contestant.label,
                number(best / GIGABYTE if best else None),
                number(median / GIGABYTE if median else None),
                number(ratio(best, plain.throughput() if plain else None)),
                number(ratio(best, flushed.throughput() if flushed else None)),
            ]
        )
    return table


def _targets(outcomes, distribution: str) -> list[Target]:
    ours, plain = find(outcomes, "ztensor_here", "zt"), find(outcomes, "hardware", limits.WRITES[0])
    targets = [
        Target("write .zt ÷ write()", 0.9, ratio(ours.throughput(), plain.throughput()) if ours and plain else None)
    ]
    if distribution == "small":
        peer = find(outcomes, "safetensors", "safetensors")
        reached = ratio(ours.throughput(), peer.throughput()) if ours and peer else None
        targets.append(Target("write .zt of 10 KB tensors ÷ safetensors", 1.5, reached))
    return targets
