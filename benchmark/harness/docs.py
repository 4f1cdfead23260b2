"""Fills `docs/benchmarks.md` from the newest records: between `<!-- record NAME -->` and `<!-- end -->` stand that
record's tables, its command, and the machine it ran on. Text outside the marks is written by hand and left alone.
"""

from __future__ import annotations

import re

from harness.environments import ROOT
from harness.plots import draw
from harness.report import Table, Target, latest_record, targets_table

PAGE = ROOT / "docs" / "benchmarks.md"
MARK = re.compile(r"(<!-- record (?P<name>[\w.-]+)(?P<first> first table)? -->\n).*?(<!-- end -->)", re.DOTALL)


def write_page() -> None:
    PAGE.write_text(MARK.sub(_filled, PAGE.read_text()))


def _filled(match: re.Match[str]) -> str:
    record = latest_record(match["name"])
    body = "Not measured yet.\n" if record is None else _body(record, only_first=match["first"] is not None)
    return f"{match[1]}{body}{match[4]}"


def _body(record: dict, only_first: bool) -> str:
    tables = [Table(**table) for table in record["tables"]][: 1 if only_first else None]
    blocks = [f"`{record['command']}`, {record['date']}, {_machine(record['machine'])}."]
    if record["options"]["clock"] == "cpu":
        blocks.append("All times are CPU time, all threads together.")
    image = draw(record)
    if image is not None:
        blocks.append(f"![{record['name']}]({image.relative_to(PAGE.parent)})")
    blocks += [f"**{table.title}**\n\n{table.markdown()}" for table in tables if table.rows]
    measured = [t for t in record["targets"] if t["reached"] is not None]
    if measured:
        targets = [Target(t["text"], t["required"], t["reached"]) for t in measured]
        blocks.append(f"**Targets**\n\n{targets_table(targets).markdown()}")
    return "\n" + "\n\n".join(blocks) + "\n\n"


def _machine(machine: dict) -> str:
    memory = machine["memory_bytes"] / 1e9
    level = "AVX-512" if "avx512f" in machine["vector_extensions"] else "AVX2"
    cpu = f"{machine['cpu']} with {level}, {machine['cores']} cores"
    return f"{cpu}, {memory:.0f} GB, {machine['file_system']}, {machine['kernel']}"
