"""Deltas between checkpoints of one training run: a buffer against the same buffer some steps earlier.

Pretraining and fine-tuning, 1, 10 and 50 steps apart, weights, embedding and optimizer state, fp32 and bf16. Every
restored byte is compared.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.clock import fastest
from harness.formats import DATA
from harness.peer import Peer, peer_class
from harness.report import Report, Table, Target, find, number, ratio
from harness.schedule import Contestant, Outcome, interleave
from harness.session import Sessions
from harness.weights import Weights, weights_in

CHECKPOINTS = DATA / "delta"
OURS = "z4ai_here"


def measure(peer: Peer, path: str, reference: str, effort: str, threads: int) -> dict:
    weights = Weights(Path(path))
    current, base = weights.path.read_bytes(), Path(reference).read_bytes()
    seconds = {}
    blob, seconds["compress"] = fastest(lambda _: peer.compress_delta(current, base, weights.dtype, effort, threads))
    restored, seconds["apply"] = fastest(lambda _: peer.decompress_delta(blob, base, effort, threads))
    if memoryview(restored).cast("B") != memoryview(current):
        raise ValueError("the restored bytes differ from the original")
    return {"seconds": seconds, "bytes": len(current), "compressed_bytes": len(blob)}


def prepare() -> list[tuple[Weights, Path]]:
    """Pairs of a checkpoint and its base, trained the first time (some minutes)."""
    finished = CHECKPOINTS / "finished"
    if not finished.exists():
        trainer = Path(__file__).resolve().parents[1] / "delta" / "train.py"
        subprocess.run([sys.executable, str(trainer), str(CHECKPOINTS)], check=True)
        finished.touch()
    pairs = []
    for weights in weights_in(CHECKPOINTS):
        *phase, gap, part = weights.path.stem.split("-")
        if gap != "base":
            base = weights.path.with_name("-".join([*phase, "base", part]) + weights.path.suffix)
            pairs.append((weights, base))
    return sorted(pairs, key=lambda pair: (pair[0].suffix, _gap(pair[0]), pair[0].name))


def _gap(weights: Weights) -> int:
    return int(weights.path.stem.split("-")[-2])


def run(sessions: Sessions, peers: list[str], options) -> Report:
    report = Report("delta", vars(options))
    contestants_by_pair = {}
    for weights, base in prepare():
        contestants_by_pair[weights.name] = [
            Contestant(
                effort,
                peer,
                "delta",
                {"path": weights.path, "reference": base, "effort": effort, "threads": options.threads},
            )
            for peer in peers
            for effort in peer_class(peer).delta_efforts
        ]
    for name, contestants in contestants_by_pair.items():
        outcomes = interleave(sessions, contestants, options.runs, options.warmup, patience=options.patience)
        report.outcomes[name] = outcomes
        report.targets += _targets(name, outcomes)
    report.tables.append(_table(report))
    return report


def _table(report: Report) -> Table:
    rows = list({o.contestant.peer: None for group in report.outcomes.values() for o in group})
    columns = ["pair"]
    for peer in rows:
        columns += [f"{peer} bits/element", f"{peer} compress MB/s", f"{peer} apply MB/s"]
    table = Table("Deltas", columns)
    for name, outcomes in report.outcomes.items():
        cells = [name]
        for peer in rows:
            found = next((o for o in outcomes if o.contestant.peer == peer and o.seconds), None)
            if found is None:
                cells += ["–"] * 3
                continue
            bits = found.facts["compressed_bytes"] * 8 * Weights(Path(name)).width / found.facts["bytes"]
            speeds = (found.throughput(phase) / 1e6 for phase in ("compress", "apply"))
            cells += [number(bits, 3), *(number(speed, 0) for speed in speeds)]
        table.rows.append(cells)
    return table


def _targets(name: str, outcomes: list[Outcome]) -> list[Target]:
    """Sizes compare as peer ÷ ours: 25 % smaller is 1.33."""
    ours, old = find(outcomes, OURS, "default"), find(outcomes, "z4ai_0_2", "default")
    required = 1.0
    if "-weights." in name:
        required = 1 / 0.96 if name.endswith("fp32") else 1 / 0.75 if name.startswith("fine-tuning") else 1 / 0.9
    elif "-embedding." in name and name.endswith("bf16"):
        required = 1 / 0.7
    both = ours and old
    size = ratio(old.facts["compressed_bytes"], ours.facts["compressed_bytes"]) if both else None
    targets = [Target(f"{name}: smaller than z4ai 0.2", required, size)]
    for phase in ("compress", "apply"):
        speed = ratio(ours.throughput(phase), old.throughput(phase)) if both else None
        targets.append(Target(f"{name}: {phase} ÷ z4ai 0.2", 10.0, speed))
    return targets
