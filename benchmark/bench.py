"""Benchmarks of ztensor and z4ai against their peers and against the hardware.

    python benchmark/bench.py run --dist llama-1b --runs 5 --warmup 2      reading and writing a model
    python benchmark/bench.py run --size 512 --dist large|mixed|small
    python benchmark/bench.py sweep                                        all of the above, and the scenarios below
    python benchmark/bench.py open                                         10,000 tensors: open, list, read one
    python benchmark/bench.py compression                                  `.zt` files with compressed tensors
    python benchmark/bench.py codec                                        the codec on real weights
    python benchmark/bench.py delta                                        deltas and archives of checkpoints
    python benchmark/bench.py docs                                         tables and plots of docs/benchmarks.md

Run it with the interpreter of the environment that ztensor is installed in. Peers get environments of their own.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness.datasets import DISTRIBUTIONS, LLAMA_MEGABYTES  # noqa: E402
from harness.formats import FORMATS  # noqa: E402
from harness.peer import peer_names  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.session import Sessions  # noqa: E402


def parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--runs", type=int, default=5, help="rounds that count")
    shared.add_argument("--warmup", type=int, default=2, help="rounds before them that do not")
    shared.add_argument("--peers", type=_names(peer_names()), default=peer_names(), help="comma-separated")
    shared.add_argument("--patience", type=float, default=60.0, help="who needs longer for one run (seconds) runs once")
    shared.add_argument("--json", type=Path, help="also write the record to this file")
    shared.add_argument("--no-record", action="store_true", help="write nothing under benchmark/records")

    files = argparse.ArgumentParser(add_help=False)
    files.add_argument("--format", dest="formats", type=_names(list(FORMATS)), default=list(FORMATS), help="comma-separated")

    sizes = argparse.ArgumentParser(add_help=False)
    sizes.add_argument("--only", choices=["read", "write"], help="one of the two")
    temperature = sizes.add_mutually_exclusive_group()
    temperature.add_argument("--cold", dest="temperatures", action="store_const", const=["cold"], help="cold reads only")
    temperature.add_argument("--warm", dest="temperatures", action="store_const", const=["warm"], help="warm reads only")
    sizes.set_defaults(temperatures=["warm", "cold"])

    main = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = main.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", parents=[shared, files, sizes], help="read and write one model")
    run.add_argument("--dist", choices=DISTRIBUTIONS, default="mixed")
    run.add_argument("--size", type=int, metavar="MB", help="default: 512, or the whole model for llama-1b")
    commands.add_parser("sweep", parents=[shared, files, sizes], help="all sizes, distributions and scenarios")
    commands.add_parser("open", parents=[shared, files], help="open 10,000 tensors, list them, read one")
    return main


def _names(known: list[str]):
    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",")]
        unknown = sorted(set(names) - set(known))
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return names

    return parse


def run_model(sessions: Sessions, options: argparse.Namespace, distribution: str, megabytes: int | None):
    from workloads import read, write

    megabytes = megabytes or (LLAMA_MEGABYTES if distribution == "llama-1b" else 512)
    for name, workload in (("read", read), ("write", write)):
        if options.only in (None, name):
            yield workload.run(sessions, options.peers, options.formats, distribution, megabytes, options)


def reports(sessions: Sessions, options: argparse.Namespace):
    """Run what was asked for; each report is finished before the next begins."""
    if options.command == "run":
        yield from run_model(sessions, options, options.dist, options.size)
    elif options.command == "sweep":
        for distribution in DISTRIBUTIONS:
            yield from run_model(sessions, options, distribution, None)
    elif options.command == "open":
        from workloads import open as opening

        yield opening.run(sessions, options.peers, options.formats, options)


def main() -> None:
    options = parser().parse_args()
    with Sessions() as sessions:
        for report in reports(sessions, options):
            publish(report, sessions, options)


def publish(report: Report, sessions: Sessions, options: argparse.Namespace) -> None:
    report.print(sessions)
    if not options.no_record:
        print(f"\nrecord: {report.save(sessions)}")
    if options.json:
        options.json.write_text(report.json(sessions))


if __name__ == "__main__":
    main()
