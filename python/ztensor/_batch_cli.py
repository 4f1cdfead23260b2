"""``ztensor batch``: many files from a list, with a line for each. A command of the Python package, because engines are Python's."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import batch
from ._errors import ZTensorError
from ._native import printable


def main(arguments: list[str]) -> int:
    """Runs the command. Exits with 0 if all results are there, 1 if some are not, 2 if nothing was begun."""
    options = _parser().parse_args(arguments)
    try:
        text = sys.stdin.read() if options.list == "-" else Path(options.list).read_text(encoding="utf-8")
        lines = [line.strip() for line in text.splitlines()]
        urls = [line for line in dict.fromkeys(lines) if line and not line.startswith("#")]
        failed = 0
        for report in _reports(options, urls):
            failed += not report
            if options.json:
                print(json.dumps(dataclasses.asdict(report)), flush=True)
            else:
                why = f": {report.error}" if report.error else f" -> {report.result}"
                print(printable(f"{report.status}: {report.url}{why}"), flush=True)
    except (ZTensorError, OSError, ImportError) as error:
        print(f"ztensor: {error}", file=sys.stderr)
        return 2
    print(f"{len(urls) - failed} of {len(urls)} are there", file=sys.stderr)
    return 1 if failed else 0


def _reports(options: argparse.Namespace, urls: list[str]) -> Iterator[batch.Report]:
    engine: Any = batch
    words: dict[str, Any] = {"retries": options.retries}
    if options.engine == "ray":
        from . import ray as engine

        words.update(num_cpus=options.cpus, memory=options.memory)
    if options.action == "add":
        return engine.archive_many(urls, options.store, prefix=options.prefix, **words)  # type: ignore[no-any-return]
    if options.action == "convert":
        return engine.convert_many(urls, options.output, to=options.to, **words)  # type: ignore[no-any-return]
    return engine.verify_many(urls, **words)  # type: ignore[no-any-return]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "ztensor batch", description="Many files at once; what is there already is left alone."
    )
    actions = parser.add_subparsers(dest="action", required=True)
    for name, text in (
        ("add", "add files to a store"),
        ("convert", "convert files into a folder"),
        ("verify", "check every checksum and decode every tensor"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument(
            "--list", required=True, metavar="FILE", help="paths and URLs, one a line; - for standard input"
        )
        action.add_argument("--engine", choices=["local", "ray"], default="local", help="where the work is done")
        action.add_argument("--retries", type=int, default=3, help="how often a failure that may pass is tried again")
        action.add_argument("--cpus", type=float, default=1, help="processors that a task of Ray's takes")
        action.add_argument("--memory", type=int, help="bytes that a task of Ray's takes")
        action.add_argument("--json", action="store_true", help="print a JSON text for each file")
        if name == "add":
            action.add_argument(
                "--store", required=True, help="the store's directory or URL; it is made if there is none"
            )
            action.add_argument("--prefix", default="", help="what stands before the names of the checkpoints")
        if name == "convert":
            action.add_argument("--output", "-o", required=True, metavar="FOLDER", help="where the results go")
            action.add_argument("--to", choices=["zt", "safetensors", "pt"], default="zt", help="what is written")
    return parser
