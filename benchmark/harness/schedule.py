"""Who runs when. Contestants take turns (A B C A B C …), so that a slow minute of the machine hits all alike."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

from harness.session import PeerError, Sessions


@dataclass(frozen=True, eq=False)
class Contestant:
    """One row of a table: a peer, the worker call that is timed for it, and the arguments of that call."""

    label: str
    peer: str
    workload: str
    arguments: dict
    call: str = "measure"


@dataclass
class Outcome:
    """What was measured of a contestant: a list of seconds per phase, and facts (sizes, digests) of the last run."""

    contestant: Contestant
    seconds: dict[str, list[float]] = field(default_factory=dict)
    facts: dict = field(default_factory=dict)
    error: str | None = None

    def best(self, phase: str = "total") -> float | None:
        return min(self.seconds[phase]) if phase in self.seconds else None

    def median(self, phase: str = "total") -> float | None:
        return statistics.median(self.seconds[phase]) if phase in self.seconds else None

    def throughput(self, phase: str = "total", kind: str = "best") -> float | None:
        """Bytes per second."""
        seconds = self.best(phase) if kind == "best" else self.median(phase)
        return self.facts["bytes"] / seconds if seconds else None

    def as_record(self) -> dict:
        return {
            "label": self.contestant.label,
            "peer": self.contestant.peer,
            "arguments": {key: str(value) for key, value in self.contestant.arguments.items()},
            "seconds": self.seconds,
            "best": {phase: min(values) for phase, values in self.seconds.items()},
            "median": {phase: statistics.median(values) for phase, values in self.seconds.items()},
            "facts": self.facts,
            "error": self.error,
        }


def interleave(
    sessions: Sessions,
    contestants: list[Contestant],
    runs: int,
    warmup: int,
    before: Callable[[Contestant], None] = lambda contestant: None,
    patience: float = 60.0,
    fresh: bool = False,
) -> list[Outcome]:
    """Run all contestants in turns: `warmup` rounds that are forgotten, then `runs` rounds that count.

    A contestant whose single run takes longer than `patience` seconds runs once, and that run counts: codecs at
    0.5 MB/s would otherwise set the pace. `before` is called ahead of each run, outside the measured time.
    With `fresh` every run has a process of its own: allocators, page tables and spare memory are as a program finds
    them when it starts.
    """
    outcomes = [Outcome(contestant) for contestant in contestants if sessions.get(contestant.peer) is not None]
    slow: set[int] = set()
    for turn in range(warmup + runs):
        for position, outcome in enumerate(outcomes):
            if outcome.error or position in slow:
                continue
            _progress(f"round {turn + 1}/{warmup + runs}: {outcome.contestant.peer}, {outcome.contestant.label}")
            sample = _run(sessions, outcome, before, fresh)
            if sample is None:
                continue
            seconds = sample.pop("seconds")
            if sum(seconds.values()) > patience:
                slow.add(position)
            if turn >= warmup or position in slow:
                for phase, value in seconds.items():
                    outcome.seconds.setdefault(phase, []).append(value)
            outcome.facts.update(sample)
    _progress("")
    return outcomes


def _run(sessions: Sessions, outcome: Outcome, before: Callable[[Contestant], None], fresh: bool) -> dict | None:
    contestant = outcome.contestant
    try:
        before(contestant)
        with sessions.fresh(contestant.peer) if fresh else nullcontext(sessions.get(contestant.peer)) as session:
            return session.call(contestant.workload, contestant.call, **contestant.arguments)
    except PeerError as error:
        outcome.error = str(error)
        return None


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
