"""Opening a file of 10,000 small tensors, listing their names and reading one of them: what a tool or a lazy loader
pays.
"""

from __future__ import annotations

from pathlib import Path

from harness.clock import fastest
from harness.formats import file_for
from harness.memory import touch
from harness.peer import Peer, peer_class
from harness.report import Report, Table, Target, find, number, ratio
from harness.schedule import Contestant, Outcome, interleave
from harness.session import Sessions
from workloads.read import warm

TENSORS = 10_000
#: Tensors of the distribution `small` have 10 KB.
MEGABYTES = 100
NAME = "layers.500.parameter.5"
#: the formats that are opened → (peer, how many times faster we have to be)
TARGETS = {
    "zt": [("ztensor_1_2", 4.0)],
    "zt-2": [],
    "safetensors": [("ztensor_1_2", 4.0), ("safetensors", 4.0)],
    "pt": [("torch", 20.0), ("ztensor_2_1", 4.0)],
    "gguf": [("gguf", 100.0)],
    "onnx": [("onnx", 1.0)],
    "npz": [("numpy", 1.0)],
    "h5": [("h5py", 1.0)],
}


def measure(peer: Peer, path: str, format: str) -> dict:
    def open_and_touch(_) -> tuple[int, int]:
        count, tensor = peer.open_one(Path(path), format, NAME)
        return count, touch({NAME: tensor})

    (count, size), seconds = fastest(open_and_touch)
    if count != TENSORS:
        raise ValueError(f"{count} names instead of {TENSORS}")
    return {"seconds": {"total": seconds}, "bytes": size}


def run(sessions: Sessions, peers: list[str], formats: list[str], options) -> Report:
    report = Report("open", vars(options))
    columns = ["format", "reader", "best ms", "median ms", "memory MB", "× fastest peer"]
    table = Table(f"Opening {TENSORS:,} tensors, listing all names, reading one", columns)
    for format in (format for format in formats if format in TARGETS):
        path = file_for(format, "small", MEGABYTES, sessions)
        if path is None:
            report.notes.append(f"{format}: nobody who writes it is available")
            continue
        contestants = [
            Contestant(format, peer, "open", {"path": path, "format": format})
            for peer in peers
            if format in peer_class(peer).reads
        ]
        outcomes = interleave(sessions, contestants, options.runs, options.warmup, warm, options.patience)
        report.outcomes[format] = outcomes
        table.rows += _rows(format, outcomes)
        report.targets += _targets(format, outcomes)
    report.tables.append(table)
    return report


def _rows(format: str, outcomes: list[Outcome]) -> list[list[str]]:
    peers = [o.best() for o in outcomes if not o.contestant.peer.endswith("_here") and o.seconds]
    rows = []
    for outcome in outcomes:
        best, median = outcome.best(), outcome.median()
        rows.append(
            [
                format,
                outcome.contestant.peer,
                number(best * 1e3 if best else None),
                number(median * 1e3 if median else None),
                number(outcome.facts["memory_bytes"] / 1e6 if outcome.seconds else None, 0),
                number(ratio(min(peers, default=None), best)),
            ]
        )
    return rows


def _targets(format: str, outcomes: list[Outcome]) -> list[Target]:
    ours = find(outcomes, "ztensor_here", format)
    targets = []
    for peer, required in TARGETS[format]:
        other = find(outcomes, peer, format)
        reached = ratio(other.best(), ours.best()) if ours and other else None
        targets.append(Target(f"open {format}: times faster than {peer}", required, reached))
    return targets
