"""`.zt` files whose tensors are compressed: size, writing and reading, for weights of four kinds.

Dense float32, 4-bit values in int8, float32 with 80 % zeros, and ternary weights. Everything is read back with
`copy` and compared with what was written.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from harness.clock import now
from harness.formats import DATA
from harness.peer import Peer, peer_class
from harness.report import Report, Table, find, number
from harness.schedule import Contestant, interleave
from harness.session import Sessions

SCENARIOS = {
    "dense fp32": "random float32 weights",
    "quantized int8": "4-bit values in int8 storage",
    "pruned 80%": "float32 with 80 % zero weights",
    "ternary": "-1, 0 and 1 in int8 storage",
}
ROWS, COLUMNS = 2048, 4096


@functools.lru_cache(maxsize=1)
def model(scenario: str, megabytes: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(11)
    width = 1 if scenario in ("quantized int8", "ternary") else 4
    count = max(1, round(megabytes * 1e6 / (ROWS * COLUMNS * width)))
    return {f"layers.{index}.weight": _matrix(scenario, random) for index in range(count)}


def _matrix(scenario: str, random: np.random.Generator) -> np.ndarray:
    values = random.standard_normal((ROWS, COLUMNS), dtype=np.float32)
    if scenario == "quantized int8":
        return np.clip(np.rint(values * 3), -8, 7).astype(np.int8)
    if scenario == "pruned 80%":
        return np.where(random.random((ROWS, COLUMNS), dtype=np.float32) < 0.8, np.float32(0), values)
    if scenario == "ternary":
        return np.clip(np.rint(values), -1, 1).astype(np.int8)
    return values


def measure(peer: Peer, path: str, scenario: str, megabytes: int, compression: str) -> dict:
    tensors = model(scenario, megabytes)
    target = Path(path)
    format = peer.writes[0]
    target.unlink(missing_ok=True)
    start = now()
    peer.save(tensors, target, format, compression)
    written = now()
    loaded = peer.load(target, format, "copy")
    read = now()
    for name, tensor in tensors.items():
        if not np.array_equal(loaded[name], tensor):
            raise ValueError(f'"{name}" came back changed')
    size = target.stat().st_size
    target.unlink()
    seconds = {"write": written - start, "read": read - written}
    return {"seconds": seconds, "bytes": sum(tensor.nbytes for tensor in tensors.values()), "compressed_bytes": size}


def run(sessions: Sessions, peers: list[str], megabytes: int, options) -> Report:
    report = Report("compression", vars(options))
    DATA.mkdir(exist_ok=True)
    for scenario in SCENARIOS:
        contestants = [
            Contestant(
                compression,
                peer,
                "compression",
                {
                    "path": DATA / f"compressed-by-{peer}.zt",
                    "scenario": scenario,
                    "megabytes": megabytes,
                    "compression": compression,
                },
            )
            for peer in peers
            for compression in peer_class(peer).compressions
        ]
        outcomes = interleave(sessions, contestants, options.runs, options.warmup, patience=options.patience)
        report.outcomes[scenario] = outcomes
        report.tables.append(_table(scenario, outcomes))
    return report


def _table(scenario: str, outcomes) -> Table:
    title = f"{scenario}: {SCENARIOS[scenario]}"
    table = Table(title, ["writer", "compression", "size %", "write GB/s", "read GB/s"])
    for outcome in outcomes:
        found = find(outcomes, outcome.contestant.peer, outcome.contestant.label)
        cells = ["–"] * 3
        if found:
            cells = [
                number(100 * found.facts["compressed_bytes"] / found.facts["bytes"], 1),
                number(found.throughput("write") / 1e9),
                number(found.throughput("read") / 1e9),
            ]
        table.rows.append([outcome.contestant.peer, outcome.contestant.label, *cells])
    return table
