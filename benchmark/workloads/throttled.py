"""Loading from a source of 500 MB/s: the plain file against its archive, and what reading one tensor of it costs.

The limit is put on read() and pread() of the worker by a preloaded library, so decoding can overlap with waiting, as it
would with a slow disk or a network; the page cache is warm, so nothing else is slow.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from codec.structured import bf16
from harness.clock import now
from harness.formats import DATA
from harness.memory import peak_bytes, touch
from harness.peer import Peer
from harness.report import Report, Table, Target, find, number, ratio
from harness.schedule import Contestant, Outcome, interleave
from harness.session import Session, Sessions
from harness.throttle import bytes_passed, variables

RATE = 500e6
MATRICES, ROWS, COLUMNS = 64, 2048, 4096
DIRECTORY = DATA / "throttled"
PLAIN, ARCHIVE = DIRECTORY / "model.safetensors", DIRECTORY / "model.zstn"
# What the process took before it loaded anything: memory that is kept between loads counts.
_START = peak_bytes()


def read_plain(peer: Peer, path: str) -> dict:
    """Read the uncompressed file with plain calls into one buffer."""
    size = Path(path).stat().st_size
    buffer = np.empty(size, dtype=np.uint8)
    start = now()
    done = 0
    with Path(path).open("rb", buffering=0) as file:
        while done < size:
            done += file.readinto(memoryview(buffer)[done : done + (1 << 22)])
    return {"seconds": {"total": now() - start}, "bytes": size}


def load(peer: Peer, path: str, format: str) -> dict:
    start = now()
    size = touch(peer.load(Path(path), format, "read"))
    seconds = now() - start
    return {"seconds": {"total": seconds}, "bytes": size, "memory_bytes": peak_bytes() - _START}


def load_one(peer: Peer, path: str, format: str) -> dict:
    before = bytes_passed()
    start = now()
    _, tensor = peer.open_one(Path(path), format, "layers.7.weight", io="read")
    size = touch({"tensor": tensor})
    return {"seconds": {"total": now() - start}, "bytes": size, "bytes_read": bytes_passed() - before}


def pack(peer: Peer, source: str, target: str) -> dict:
    peer.archive(Path(source), Path(target))
    return {"bytes": Path(target).stat().st_size}


def prepare(sessions: Sessions) -> bool:
    """A bf16 model of 1 GB with normally distributed weights, plain and packed by us; false if we cannot pack yet."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    if not PLAIN.exists():
        _write_plain(PLAIN)
    session = sessions.get("z4ai_here")
    if session is None:
        return False
    session.call("throttled", "pack", source=PLAIN, target=ARCHIVE)
    return True


def _write_plain(path: Path) -> None:
    random = np.random.default_rng(3)
    length = ROWS * COLUMNS * 2
    header = {
        f"layers.{index}.weight": {
            "dtype": "BF16",
            "shape": [ROWS, COLUMNS],
            "data_offsets": [index * length, (index + 1) * length],
        }
        for index in range(MATRICES)
    }
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for _ in range(MATRICES):
            file.write(bf16(random.standard_normal((ROWS, COLUMNS), dtype=np.float32) * 0.02).tobytes())


def run(sessions: Sessions, options) -> Report:
    report = Report("throttled", vars(options))
    packed = prepare(sessions)
    with SlowSessions(variables(DIRECTORY, RATE)) as slow:
        contestants = [
            Contestant("plain read() of the file", "hardware", "throttled", {"path": PLAIN}, call="read_plain"),
            Contestant(
                "load .safetensors", "ztensor_here", "throttled", {"path": PLAIN, "format": "safetensors"}, call="load"
            ),
        ]
        if packed:
            arguments = {"path": ARCHIVE, "format": "zt"}
            contestants += [
                Contestant("load the archive", "ztensor_here", "throttled", arguments, call="load"),
                Contestant("one tensor of the archive", "ztensor_here", "throttled", arguments, call="load_one"),
            ]
        outcomes = interleave(slow, contestants, options.runs, options.warmup, patience=options.patience)
        sessions.unavailable.update(slow.unavailable)
    report.outcomes["throttled"] = outcomes
    report.tables.append(_table(outcomes))
    report.targets = _targets(outcomes)
    return report


def _table(outcomes: list[Outcome]) -> Table:
    columns = ["what", "reader", "tensors GB/s", "seconds", "memory beyond tensors, MB", "bytes read, MB"]
    table = Table(f"From a source of {RATE / 1e6:.0f} MB/s", columns)
    for outcome in outcomes:
        read = outcome.facts.get("bytes_read")
        table.rows.append(
            [
                outcome.contestant.label,
                outcome.contestant.peer,
                number(outcome.throughput() / 1e9 if outcome.seconds else None),
                number(outcome.best()),
                number(_memory_beyond(outcome) / 1e6 if outcome.seconds else None, 1),
                number(read / 1e6 if read is not None else None, 1),
            ]
        )
    return table


def _memory_beyond(outcome: Outcome) -> int:
    """How far the resident size rose above what the tensors themselves need; less than that if kept memory served again."""
    return max(outcome.facts["memory_bytes"] - outcome.facts["bytes"], 0)


def _targets(outcomes: list[Outcome]) -> list[Target]:
    archive = find(outcomes, "ztensor_here", "load the archive")
    plain = [
        find(outcomes, "hardware", "plain read() of the file"),
        find(outcomes, "ztensor_here", "load .safetensors"),
    ]
    # Plain calls also wait for fresh memory; whoever reads the plain file quicker is the measure.
    plain = max((outcome.throughput() for outcome in plain if outcome and outcome.seconds), default=None)
    faster = ratio(archive.throughput(), plain) if archive else None
    # What is below a megabyte is noise of the measurement.
    spare = 64e6 / max(_memory_beyond(archive), 1e6) if archive else None
    return [
        Target("load an archive ÷ the quicker way to read the plain file, 500 MB/s", 1.4, faster),
        Target("64 MB ÷ memory beyond the decoded size", 1.0, spare),
    ]


class SlowSessions(Sessions):
    """Workers for which the throttled directory is slow."""

    def __init__(self, slow: dict[str, str]) -> None:
        super().__init__()
        self._slow = slow

    def _start(self, peer: str) -> Session:
        return Session(peer, self._slow)
