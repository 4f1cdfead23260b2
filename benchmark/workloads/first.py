"""The first load of a process: a program that starts, loads one model into memory of its own, and begins to work.

Every run is a new process, which finds the file in the page cache and no memory to use again; the loads after it in the
same process show what reused memory hides. Time that passes is shown beside CPU time and its part in the kernel, where
fresh pages are cleared.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from harness import page_cache
from harness.datasets import payload_bytes
from harness.formats import file_for, size_for
from harness.memory import touch
from harness.peer import Peer, peer_class
from harness.report import Report, Table, Target, find, number, ratio
from harness.schedule import Contestant, interleave
from harness.session import Sessions
from workloads.read import GIGABYTE, warm

FORMATS = ("safetensors", "zt")
MODES = ("copy", "torch copy")
REPEATED = 2


def measure(peer: Peer, path: str, format: str, mode: str) -> dict:
    peer.prepare(mode)
    first, size, tensors = _load(peer, path, format, mode)
    repeated = min(_load(peer, path, format, mode)[0]["total"] for _ in range(REPEATED))
    return {"seconds": {**first, "repeated": repeated}, "bytes": size, "tensors": tensors}


def _load(peer: Peer, path: str, format: str, mode: str) -> tuple[dict[str, float], int, int]:
    """Seconds, bytes and number of tensors of one load, which is let go before this returns."""
    used, start = os.times(), time.perf_counter()
    tensors = peer.load(Path(path), format, mode)
    size = touch(tensors)
    passed, after = time.perf_counter() - start, os.times()
    system = after.system - used.system
    return {"total": passed, "cpu": after.user - used.user + system, "system": system}, size, len(tensors)


def run(sessions: Sessions, peers: list[str], distribution: str, megabytes: int, options) -> Report:
    report = Report(f"first-{distribution}-{megabytes}", vars(options))
    for format in (format for format in FORMATS if format in options.formats):
        path = file_for(format, distribution, megabytes, sessions)
        if path is None:
            report.notes.append(f"{format}: nobody who writes it is available")
            continue
        page_cache.settle(path)
        contestants = [
            Contestant(mode, peer, "first", {"path": path, "format": format, "mode": mode})
            for mode in MODES
            for peer in peers
            if mode in peer_class(peer).first_loads.get(format, ())
        ]
        outcomes = interleave(sessions, contestants, options.runs, options.warmup, warm, options.patience, fresh=True)
        report.outcomes[format] = outcomes
        report.tables.append(_table(format, path, payload_bytes(distribution, size_for(format, megabytes)), outcomes))
        report.targets += _targets(format, outcomes)
    return report


def _table(format: str, path: Path, payload: int, outcomes: list) -> Table:
    columns = ["reader", "mode", "first median GB/s", "first best GB/s", "CPU s", "of it kernel s", "repeated GB/s"]
    title = f"First load in a fresh process, {format}: {path.name}, {payload / GIGABYTE:.2f} GB of tensors"
    table = Table(title, columns)
    for outcome in (outcome for outcome in outcomes if outcome.seconds):
        speeds = [outcome.throughput(kind=kind) / GIGABYTE for kind in ("median", "best")]
        repeated = outcome.throughput("repeated", "median") / GIGABYTE
        times = [outcome.median(phase) for phase in ("cpu", "system")]
        cells = [number(value) for value in (*speeds, *times, repeated)]
        table.rows.append([outcome.contestant.peer, outcome.contestant.label, *cells])
    return table


def _targets(format: str, outcomes: list) -> list[Target]:
    targets = []
    for mode in MODES:
        ours = find(outcomes, "ztensor_here", mode)
        for peer in ("ztensor_1_2", "safetensors"):
            if other := find(outcomes, peer, mode):
                reached = ratio(ours.throughput(kind="median") if ours else None, other.throughput(kind="median"))
                targets.append(Target(f"{format}, {mode}: first load ÷ {peer}", 1.3, reached))
    return targets
