"""Loading a whole model: `load_file` (or what the format's own library has) until every page of every tensor was
touched.

Views and copies are measured, from a warm and from a cold page cache. What was loaded is compared between
contestants: a reader that returns other bytes does not get a row.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from harness import page_cache
from harness.clock import now
from harness.datasets import payload_bytes
from harness.formats import FORMATS, file_for, size_for
from harness.memory import fingerprint, touch
from harness.peer import Peer, peer_class
from harness.report import Report, Table, Target, find, number, ratio
from harness.schedule import Contestant, Outcome, interleave
from harness.session import PeerError, Sessions
from workloads import limits

GIGABYTE = 1e9
FAMILY = ("ztensor_here", "ztensor_1_2", "ztensor_2_1")


def measure(peer: Peer, path: str, format: str, mode: str) -> dict:
    start = now()
    tensors = peer.load(Path(path), format, mode)
    loaded = now()
    size = touch(tensors)
    touched = now()
    seconds = {"load": loaded - start, "touch": touched - loaded, "total": touched - start}
    return {"seconds": seconds, "bytes": size, "tensors": len(tensors)}


def contents(peer: Peer, path: str, format: str, mode: str) -> dict:
    return {"fingerprint": fingerprint(peer.load(Path(path), format, mode))}


def run(sessions: Sessions, peers: list[str], formats: list[str], distribution: str, megabytes: int, options) -> Report:
    report = Report(f"read-{distribution}-{megabytes}", vars(options))
    for format in formats:
        path = file_for(format, distribution, megabytes, sessions)
        if path is None:
            report.notes.append(f"{format}: nobody who writes it is available")
            continue
        contestants = _contestants(sessions, peers, format, path, copies=not report.tables)
        if not any(contestant.peer != "hardware" for contestant in contestants):
            continue
        refused = _refuse_other_contents(sessions, contestants)
        contestants = [contestant for contestant in contestants if contestant not in refused]
        for temperature in options.temperatures:
            before = evict if temperature == "cold" else warm
            page_cache.settle(path)
            # Copies of memory have no temperature.
            taking_part = [
                c for c in contestants if temperature == options.temperatures[0] or c.label not in limits.COPIES
            ]
            outcomes = interleave(sessions, taking_part, options.runs, options.warmup, before, options.patience)
            outcomes += [Outcome(contestant, error=reason) for contestant, reason in refused.items()]
            report.outcomes[f"{format}, {temperature}"] = outcomes
        report.tables.append(_table(report, format, path, payload_bytes(distribution, size_for(format, megabytes))))
    report.tables[:0] = [_summary(report, temperature) for temperature in options.temperatures]
    report.targets = _targets(report)
    return report


def _contestants(sessions: Sessions, peers: list[str], format: str, path: Path, copies: bool) -> list[Contestant]:
    found = limits.reading(path, copies) if "hardware" in peers else []
    for peer in peers:
        for mode in peer_class(peer).reads.get(format, ()):
            if sessions.get(peer) is not None:
                found.append(Contestant(mode, peer, "read", {"path": path, "format": format, "mode": mode}))
    return found


def _refuse_other_contents(sessions: Sessions, contestants: list[Contestant]) -> dict[Contestant, str]:
    readers = [contestant for contestant in contestants if contestant.workload == "read"]
    seen, refused = {}, {}
    for reader in readers:
        try:
            seen[reader] = sessions.get(reader.peer).call("read", "contents", **reader.arguments)["fingerprint"]
        except PeerError as error:
            refused[reader] = str(error)
    if seen:
        usual, _ = Counter(seen.values()).most_common(1)[0]
        for reader, found in seen.items():
            if found != usual:
                refused[reader] = f"loaded other contents than most: {found} instead of {usual}"
    return refused


def evict(contestant: Contestant) -> None:
    page_cache.evict(contestant.arguments["path"])


def warm(contestant: Contestant) -> None:
    if page_cache.resident_fraction(contestant.arguments["path"]) < 1.0:
        page_cache.warm(contestant.arguments["path"])


def _table(report: Report, format: str, path: Path, payload: int) -> Table:
    groups = {name.split(", ")[1]: group for name, group in report.outcomes.items() if name.startswith(f"{format}, ")}
    columns = ["reader", "mode"]
    for temperature in groups:
        columns += [f"{temperature} best GB/s", f"{temperature} median GB/s", f"{temperature} × mmap walk"]
    table = Table(f"Reading {format}: {path.name}, {payload / GIGABYTE:.2f} GB of tensors", columns)
    for outcome in next(iter(groups.values())):
        contestant = outcome.contestant
        row = [contestant.peer, contestant.label]
        for group in groups.values():
            own, walk = find(group, contestant.peer, contestant.label), find(group, "hardware", limits.WALK)
            best, median = (own.throughput(kind=kind) if own else None for kind in ("best", "median"))
            row += [_gigabytes(best), _gigabytes(median), number(ratio(best, walk.throughput() if walk else None))]
        table.rows.append(row)
    return table


def _summary(report: Report, temperature: str) -> Table:
    """One line per format: us, the other packages of our name, and the format's own library."""
    columns = ["format", "mmap walk"]
    columns += [f"{peer} {mode}" for peer in FAMILY for mode in ("view", "copy")] + [
        "own library view",
        "own library copy",
    ]
    table = Table(f"Reading, {temperature} page cache, best GB/s", columns)
    for group, outcomes in report.outcomes.items():
        format, measured_at = group.split(", ")
        if measured_at != temperature:
            continue
        own = FORMATS[format].writers[0]
        wanted = [("hardware", limits.WALK)] + [(peer, mode) for peer in FAMILY for mode in ("view", "copy")]
        wanted += [(own if own not in FAMILY else "", mode) for mode in ("view", "copy")]
        found = [find(outcomes, peer, label) for peer, label in wanted]
        table.rows.append([format, *(_gigabytes(outcome.throughput() if outcome else None) for outcome in found)])
    return table


def _gigabytes(bytes_per_second: float | None) -> str:
    return number(bytes_per_second / GIGABYTE if bytes_per_second else None)


def _targets(report: Report) -> list[Target]:
    targets = []
    for group, outcomes in report.outcomes.items():
        format = group.split(", ")[0]
        ours, copied = find(outcomes, "ztensor_here", "view"), find(outcomes, "ztensor_here", "copy")
        if format == "zt":
            walk, old = find(outcomes, "hardware", limits.WALK), find(outcomes, "ztensor_1_2", "copy")
            targets.append(_target(f"{group}: view ÷ mmap walk", 0.95, ours, walk))
            targets.append(_target(f"{group}: copy ÷ ztensor 1.2.3 copy", 2.0, copied, old))
        elif format in ("npz-deflate", "h5-gzip"):
            native = find(outcomes, {"npz-deflate": "numpy", "h5-gzip": "h5py"}[format], "copy")
            targets.append(_target(f"{group}: parallel decoding ÷ the format's own library", 1.5, copied, native))
        else:
            container = find(report.outcomes.get(group.replace(format, "zt", 1), []), "ztensor_here", "view")
            # A file with checksums is compared with one without; checking them has its own row.
            ours = find(outcomes, "ztensor_here", "view, unverified") or ours
            targets.append(_target(f"{group}: view ÷ view of .zt", 0.9, ours, container))
    return targets


def _target(text: str, required: float, ours: Outcome | None, other: Outcome | None) -> Target:
    reached = ratio(ours.throughput(), other.throughput()) if ours and other else None
    return Target(text, required, reached)
