"""Benchmarks of ztensor and z4ai against their peers and against the hardware.

    python benchmark/bench.py run --dist llama-1b --runs 5 --warmup 2      reading and writing a model
    python benchmark/bench.py run --size 512 --dist large|mixed|small
    python benchmark/bench.py sweep                                        all of the above, and the scenarios below
    python benchmark/bench.py first                                        the first load of a fresh process
    python benchmark/bench.py open                                         10,000 tensors: open, list, read one
    python benchmark/bench.py compression                                  `.zt` files with compressed tensors
    python benchmark/bench.py codec                                        the codec on real weights
    python benchmark/bench.py sizes                                        the codec on numbers that were narrower before
    python benchmark/bench.py deployed                                     the codec on what people store and deploy
    python benchmark/bench.py delta                                        deltas and archives of checkpoints
    python benchmark/bench.py remote                                       files by URL, from servers on loopback
    python benchmark/bench.py store                                        a training run in a store
    python benchmark/bench.py dcp                                          the ranks of a training job on a store
    python benchmark/bench.py derived                                      files that were computed from a known one
    python benchmark/bench.py docs                                         tables and plots of docs/benchmarks.md

Run it with the interpreter of the environment that ztensor is installed in. Peers get environments of their own.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness.clock import CLOCKS, VARIABLE
from harness.datasets import DISTRIBUTIONS, LLAMA_MEGABYTES
from harness.environments import ROOT
from harness.formats import FORMATS
from harness.peer import peer_names
from harness.report import Report
from harness.session import Sessions

SWEEP_SIZES = {"llama-1b": (LLAMA_MEGABYTES,), "large": (128, 512), "mixed": (128, 512), "small": (128, 512)}


def parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--runs", type=int, default=5, help="rounds that count")
    shared.add_argument("--warmup", type=int, default=2, help="rounds before them that do not")
    shared.add_argument("--peers", type=_names(peer_names()), default=peer_names(), help="comma-separated")
    shared.add_argument("--patience", type=float, default=60.0, help="who needs longer for one run (seconds) runs once")
    shared.add_argument(
        "--clock", choices=list(CLOCKS), default="wall", help="cpu: CPU time, for a machine that is busy"
    )
    shared.add_argument("--json", type=Path, help="also write the record to this file")
    shared.add_argument("--no-record", action="store_true", help="write nothing under benchmark/records")

    files = argparse.ArgumentParser(add_help=False)
    files.add_argument(
        "--format", dest="formats", type=_names(list(FORMATS)), default=list(FORMATS), help="comma-separated"
    )

    sizes = argparse.ArgumentParser(add_help=False)
    sizes.add_argument("--only", choices=["read", "write"], help="one of the two")
    temperature = sizes.add_mutually_exclusive_group()
    temperature.add_argument(
        "--cold", dest="temperatures", action="store_const", const=["cold"], help="cold reads only"
    )
    temperature.add_argument(
        "--warm", dest="temperatures", action="store_const", const=["warm"], help="warm reads only"
    )
    sizes.set_defaults(temperatures=["warm", "cold"])

    main = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = main.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", parents=[shared, files, sizes], help="read and write one model")
    run.add_argument("--dist", choices=DISTRIBUTIONS, default="mixed")
    run.add_argument("--size", type=int, metavar="MB", help="default: 512, or the whole model for llama-1b")
    first = commands.add_parser("first", parents=[shared, files], help="first loads, each in a fresh process")
    first.add_argument("--dist", choices=DISTRIBUTIONS, default="llama-1b")
    first.add_argument("--size", type=int, metavar="MB", default=LLAMA_MEGABYTES)
    first.set_defaults(warmup=0)
    commands.add_parser("sweep", parents=[shared, files, sizes], help="all sizes, distributions and scenarios")
    commands.add_parser("open", parents=[shared, files], help="open 10,000 tensors, list them, read one")
    threads = argparse.ArgumentParser(add_help=False)
    threads.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    compression = commands.add_parser("compression", parents=[shared], help="compressed tensors in .zt files")
    compression.add_argument("--size", type=int, metavar="MB", default=128)
    codec = commands.add_parser(
        "codec", parents=[shared, threads], help="the codec on real weights and structured cases"
    )
    codec.add_argument(
        "--sets", type=lambda text: text.split(","), help="only these, such as minilm.bf16,int8-row.fp32"
    )
    codec.add_argument("--skip-efforts", type=lambda text: text.split(","), default=[], help="such as max")
    sizes_only = commands.add_parser("sizes", parents=[shared], help="sizes, on numbers of every origin")
    sizes_only.add_argument("--parts", type=lambda text: text.split(","), help="only these, such as minilm,crepe")
    sizes_only.add_argument(
        "--skip-efforts", type=lambda text: text.split(","), default=[], help="of peers, such as max"
    )
    commands.add_parser("deployed", parents=[shared], help="sizes, of what people store and deploy")
    delta = commands.add_parser("delta", parents=[shared, threads], help="deltas, archives, loading from a slow source")
    delta.add_argument("--only", choices=["delta", "archive", "throttled"], help="one of the three")
    remote = commands.add_parser("remote", parents=[shared], help="files by URL, from servers on loopback")
    remote.add_argument("--size", type=int, metavar="MB", default=1000)
    store = commands.add_parser("store", parents=[shared], help="a training run in a store, beside restic and chains")
    store.add_argument("--only", choices=["run", "study", "costs"], help="one of the three")
    store.add_argument("--part", action="append", help="of the costs only this one; may be given more than once")
    store.add_argument(
        "--megabytes", type=int, default=1000, help="of the state that is saved, and where speed is measured"
    )
    store.add_argument("--checkpoints", type=int, default=200, help="of the run of which any is restored")
    store.add_argument("--many", type=int, default=10_000, help="checkpoints of small models")
    dcp = commands.add_parser(
        "dcp", parents=[shared], help="torch.distributed.checkpoint on a store, beside torch's own"
    )
    dcp.add_argument("--only", choices=["sizes", "speed", "ranks"], help="one of the three")
    dcp.add_argument("--megabytes", type=int, default=512, help="bytes of all ranks together where speed is measured")
    commands.add_parser("derived", parents=[shared], help="files that were computed from a known one")
    commands.add_parser("docs", help="write the tables and plots of docs/benchmarks.md from the newest records")
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


def run_compression(sessions: Sessions, options: argparse.Namespace, megabytes: int):
    from workloads import compression

    yield compression.run(sessions, options.peers, megabytes, options)


def run_open(sessions: Sessions, options: argparse.Namespace):
    from workloads import open as opening

    yield opening.run(sessions, options.peers, options.formats, options)


def run_first(sessions: Sessions, options: argparse.Namespace):
    from workloads import first

    yield first.run(sessions, options.peers, options.dist, options.size, options)


def run_codec(sessions: Sessions, options: argparse.Namespace):
    from workloads import codec

    yield codec.run(sessions, options.peers, options)


def run_sizes(sessions: Sessions, options: argparse.Namespace):
    from workloads import sizes

    yield sizes.run(sessions, options)


def run_delta(sessions: Sessions, options: argparse.Namespace):
    from workloads import archive, delta, throttled

    if options.only in (None, "delta"):
        yield delta.run(sessions, options.peers, options)
    if options.only in (None, "archive"):
        yield archive.run(sessions, options.peers, options)
    if options.only in (None, "throttled"):
        yield throttled.run(sessions, options)


def run_remote(sessions: Sessions, options: argparse.Namespace):
    from workloads import remote

    yield remote.run(sessions, options)


def run_store(sessions: Sessions, options: argparse.Namespace):
    from workloads import store, store_costs, store_study

    if options.only in (None, "study"):
        yield store_study.run(options)
    if options.only in (None, "costs"):
        yield from store_costs.run(options)
    if options.only in (None, "run"):
        yield store.run(options)


def run_dcp(sessions: Sessions, options: argparse.Namespace):
    from workloads import dcp

    yield from dcp.run(options)


def run_deployed(sessions: Sessions, options: argparse.Namespace):
    from workloads import deployed

    yield deployed.run(sessions, options)


def run_derived(sessions: Sessions, options: argparse.Namespace):
    from workloads import derived

    yield derived.run(options)


def run_sweep(sessions: Sessions, options: argparse.Namespace):
    for distribution in DISTRIBUTIONS:
        for megabytes in SWEEP_SIZES[distribution]:
            yield from run_model(sessions, options, distribution, megabytes)
    yield from run_open(sessions, options)
    yield from run_compression(sessions, options, 128)


def reports(sessions: Sessions, options: argparse.Namespace):
    """Run what was asked for; each report is finished before the next begins."""
    if options.command == "run":
        return run_model(sessions, options, options.dist, options.size)
    if options.command == "compression":
        return run_compression(sessions, options, options.size)
    workloads = {
        "sweep": run_sweep,
        "open": run_open,
        "first": run_first,
        "codec": run_codec,
        "sizes": run_sizes,
        "deployed": run_deployed,
        "delta": run_delta,
        "remote": run_remote,
        "store": run_store,
        "dcp": run_dcp,
        "derived": run_derived,
    }
    return workloads[options.command](sessions, options)


def main() -> None:
    options = parser().parse_args()
    if options.command == "docs":
        from harness.docs import write_page

        write_page()
        return
    os.environ[VARIABLE] = options.clock
    with Sessions() as sessions:
        for report in reports(sessions, options):
            publish(report, sessions, options)


def publish(report: Report, sessions: Sessions, options: argparse.Namespace) -> None:
    report.print(sessions)
    if not options.no_record:
        print(f"\nrecord: {report.save(sessions).relative_to(ROOT)}")
    if options.json:
        options.json.write_text(report.json(sessions))


if __name__ == "__main__":
    main()
