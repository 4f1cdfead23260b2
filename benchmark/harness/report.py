"""What a benchmark leaves behind: tables for people, targets with what was reached, and a dated JSON record."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from harness.environments import ROOT
from harness.formats import DATA
from harness.machine import describe
from harness.schedule import Outcome
from harness.session import Sessions

RECORDS = Path(__file__).resolve().parents[1] / "records"


@dataclass
class Table:
    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)

    def markdown(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.columns))]
        # Everything right of the labels is a number.
        first_number = next((i for i, cell in enumerate(self.rows[0]) if _is_number(cell)), 1) if self.rows else 1

        def aligned(line: list[str]) -> str:
            cells = [
                cell.ljust(width) if column < first_number else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            return "| " + " | ".join(cells) + " |"

        rule = ["-" * width if i < first_number else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
        return "\n".join([aligned(self.columns), "| " + " | ".join(rule) + " |", *map(aligned, self.rows)])


@dataclass
class Target:
    """One claim: how much better than something a row has to be, and how much better it was."""

    text: str
    required: float
    reached: float | None

    @property
    def verdict(self) -> str:
        if self.reached is None:
            return "not measured"
        return "met" if self.reached >= self.required else "missed"


@dataclass
class Report:
    name: str
    options: dict
    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    #: What the tables were made of, where that are not outcomes.
    data: dict = field(default_factory=dict)

    def print(self, sessions: Sessions) -> None:
        if self.options["clock"] == "cpu":
            print("\nAll times are CPU time of the worker, all threads together.")
        for table in self.tables:
            print(f"\n{table.title}\n\n{table.markdown()}")
        if self.targets:
            print(f"\nTargets\n\n{targets_table(self.targets).markdown()}")
        for outcome in (outcome for group in self.outcomes.values() for outcome in group):
            if outcome.error:
                print(f"{outcome.contestant.peer}, {outcome.contestant.label}: {outcome.error}")
        for peer, reason in sessions.unavailable.items():
            print(f"{peer}: not available: {reason}")
        for note in self.notes:
            print(note)

    def as_record(self, sessions: Sessions) -> dict:
        return {
            "name": self.name,
            "date": date.today().isoformat(),
            "command": " ".join(["python", "benchmark/bench.py", *sys.argv[1:]]),
            "options": self.options,
            "machine": describe(DATA),
            "peers": sessions.versions(),
            "unavailable": sessions.unavailable,
            "tables": [{"title": t.title, "columns": t.columns, "rows": t.rows} for t in self.tables],
            "targets": [
                {"text": t.text, "required": t.required, "reached": t.reached, "verdict": t.verdict}
                for t in self.targets
            ],
            "outcomes": {group: [outcome.as_record() for outcome in found] for group, found in self.outcomes.items()},
            "notes": self.notes,
            **({"data": self.data} if self.data else {}),
        }

    def save(self, sessions: Sessions) -> Path:
        RECORDS.mkdir(exist_ok=True)
        path = RECORDS / f"{date.today().isoformat()}-{self.name}.json"
        path.write_text(self.json(sessions))
        return path

    def json(self, sessions: Sessions) -> str:
        """The record; where the project lies on this machine is nobody's business."""
        return json.dumps(self.as_record(sessions), indent=1, default=str).replace(f"{ROOT}/", "") + "\n"


def targets_table(targets: list[Target]) -> Table:
    rows = [[t.text, f"{t.required:.2f}", number(t.reached), t.verdict] for t in targets]
    return Table("Targets", ["target", "required", "reached", "verdict"], rows)


def latest_record(name: str) -> dict | None:
    """The newest record of that name; the date in front of the name sorts."""
    found = sorted(path for path in RECORDS.glob("*.json") if path.stem[11:] == name)
    return json.loads(found[-1].read_text()) if found else None


def number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator and denominator else None


def find(outcomes: list[Outcome], peer: str, label: str) -> Outcome | None:
    return next((o for o in outcomes if o.contestant.peer == peer and o.contestant.label == label and o.seconds), None)


def _is_number(cell: str) -> bool:
    return cell == "–" or cell.replace(".", "", 1).replace("−", "", 1).isdigit()
