"""Compare the speed of two revisions of the codec on this machine, in one run, interleaved.

    python benchmark/compare.py OLD [NEW] --sets DIRECTORY [--deltas DIRECTORY] [--rounds 7] [--filter bf16]
    python benchmark/compare.py OLD [NEW] --sets DIRECTORY [--deltas DIRECTORY] --instructions [--efforts fast default]

Both revisions are built from Git, as they are and with AVX-512 left out, so that the AVX2 kernels run. Their examples `table` and
`delta` then take turns on one thread: old, new, and old once more, which tells how noisy the machine is. The table has the best
of all rounds: new over old, and in brackets the old ones of the second turn over those of the first. Sets and deltas are what
`codec/sets.py` and `delta/train.py` make. Wants a quiet machine: where brackets differ from 1 by more than what is looked for,
it was none.

`--instructions` counts instead what compressing and decompressing each set or delta execute, under valgrind, which other programs
cannot disturb. It knows no AVX-512, so these are the AVX2 kernels; and it would count each step of a string instruction, so the C
library is told to do without them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "compare"
DETECTION = re.compile(r'is_x86_feature_detected!\("avx512\w*"\)')
#: How often the example `delta` repeats each direction, and for how long.
REPETITION = re.compile(r"(const RUNS: usize = )\d+(;\nconst LEAST: Duration = Duration::from_millis\()\d+")

#: Sets with their effort, or pairs of checkpoints, and what was measured: two speeds.
Speeds = dict[str, tuple[float, float]]


def build(revision: str, avx512: bool, once: bool = False) -> dict[str, Path]:
    """The programs of a revision, built once. With `once`, the example `delta` does everything one time."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", revision], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    folder = WORK / f"{commit}-{'once' if once else 'avx512' if avx512 else 'avx2'}"
    programs = {name: folder / name for name in ("table", "delta")}
    if all(program.exists() for program in programs.values()):
        return programs
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    files = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "crates"]
    archive = subprocess.run(["git", "archive", commit, *files], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
    if not avx512:
        changed = 0
        for path in (source / "crates" / "z4ai" / "src").rglob("*.rs"):
            text, found = DETECTION.subn("false", path.read_text())
            path.write_text(text)
            changed += found
        assert changed, f"{commit} does not look for AVX-512 where this script expects it"
    if once:
        example = source / "crates" / "z4ai" / "examples" / "delta.rs"
        text, found = REPETITION.subn(r"\g<1>1\g<2>0", example.read_text())
        example.write_text(text)
        assert found, f"the example of {commit} does not repeat as this script expects"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(WORK / "target")}
    command = [
        "cargo",
        "build",
        "--release",
        "--quiet",
        "--package",
        "z4ai",
        "--example",
        "table",
        "--example",
        "delta",
    ]
    subprocess.run(command, cwd=source, env=environment, check=True)
    for name, program in programs.items():
        shutil.copy(WORK / "target" / "release" / "examples" / name, program)
    shutil.rmtree(source)
    return programs


def run_sets(program: Path, sets: Path, pattern: str) -> Speeds:
    command = [str(program), str(sets), pattern, "--threads", "1", "--repeat", "2"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {f"{name} {effort}": (float(c), float(d)) for name, effort, *_, c, d in map(str.split, lines[1:])}


def delta_pairs(deltas: Path | None, pattern: str) -> Iterator[tuple[Path, list[Path]]]:
    """Each base with the checkpoints of its part that come after it."""
    for base in sorted(deltas.glob("*-base-*")) if deltas else []:
        if base.suffix == ".tsv" or pattern not in base.name:
            continue
        phase, part = base.stem.split("-base-")
        yield base, sorted(path for path in deltas.glob(f"{phase}-*-{part}{base.suffix}") if path != base)


def run_deltas(program: Path, deltas: Path, pattern: str) -> Speeds:
    speeds: Speeds = {}
    for base, others in delta_pairs(deltas, pattern):
        command = [str(program), base.suffix[1:], str(base), *map(str, others)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for path, compress, apply in re.findall(
            r"^(.+): .* compress (\d+) MB/s, apply (\d+) MB/s$", output, re.MULTILINE
        ):
            speeds[f"{Path(path).name} delta"] = (float(compress), float(apply))
    return speeds


#: What one pass over a set, or over a delta, calls to compress and to decompress: in each revision some of these.
CALLS = (
    [r"z4ai::compress::compress(?:_into)?", r"z4ai::delta::compress::(?:compress_delta|encode)"],
    [
        r"z4ai::decompress::decompress_into_with",
        r"z4ai::delta::\w+::decompress_delta_into_with",
        r"z4ai::frame::open::Frame<\S*>::open",
        r"z4ai::frame::open::(?:Frame|Delta)<\S*>::read_all_into",
    ],
)
NO_STRINGS = "glibc.cpu.x86_rep_stosb_threshold=1000000000:glibc.cpu.x86_rep_movsb_threshold=1000000000"


def count_instructions(command: list[str]) -> tuple[int, int]:
    """What the calls of a program execute."""
    with tempfile.TemporaryDirectory() as folder:
        profile = f"{folder}/profile"
        tool = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={profile}", *command]
        subprocess.run(tool, check=True, capture_output=True, env={**os.environ, "GLIBC_TUNABLES": NO_STRINGS})
        command = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", profile]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    entries = [re.match(r" *([\d,]+) \(.*?:(z4ai::.*?)(?: \[|$)", line) for line in lines]
    inclusive = [(entry[2], int(entry[1].replace(",", ""))) for entry in entries if entry]

    def executed(call: str) -> int:
        # The largest of the entries that inlining leaves of a function is all of it.
        return max((count for name, count in inclusive if re.fullmatch(call, name)), default=0)

    compress, decompress = (sum(map(executed, calls)) for calls in CALLS)
    assert compress and decompress, f"{command} calls nothing that this script knows"
    return compress, decompress


def compare_instructions(arguments: argparse.Namespace) -> None:
    old, new = (build(revision, True, once=True) for revision in (arguments.old, arguments.new))
    print("| set | compress | | ratio | decompress | | ratio |\n|---|---|---|---|---|---|---|")

    def row(name: str, program: str, *given: str) -> None:
        counts = [count_instructions([str(programs[program]), *given]) for programs in (old, new)]
        cells = [f"{a / 1e6:.1f} M | {b / 1e6:.1f} M | {b / a:.3f}" for a, b in zip(*counts, strict=True)]
        print(f"| {name} | {cells[0]} | {cells[1]} |", flush=True)

    for index in sorted(arguments.sets.glob(f"*{arguments.filter}*.tsv")):
        for effort in arguments.efforts:
            given = ["--effort", effort, "--threads", "1", "--repeat", "1"]
            row(f"{index.stem} {effort}", "table", str(arguments.sets), index.stem, *given)
    for base, others in delta_pairs(arguments.deltas, arguments.filter):
        for path in others:
            row(f"{path.name} delta", "delta", base.suffix[1:], str(base), str(path))


def best(runs: list[Speeds]) -> Speeds:
    """The fastest of all runs, which others on the machine slowed down least."""
    return {name: (max(run[name][0] for run in runs), max(run[name][1] for run in runs)) for name in runs[0]}


def compare(old: dict[str, Path], new: dict[str, Path], arguments: argparse.Namespace) -> list[str]:
    def measure(programs: dict[str, Path]) -> Speeds:
        speeds = run_sets(programs["table"], arguments.sets, arguments.filter)
        if arguments.deltas:
            speeds |= run_deltas(programs["delta"], arguments.deltas, arguments.filter)
        return speeds

    turns: list[list[Speeds]] = [[], [], []]
    for _ in range(arguments.rounds):
        for turn, programs in zip(turns, (old, new, old), strict=True):
            turn.append(measure(programs))
    first, ours, again = (best(turn) for turn in turns)
    lines = []
    for name in first:
        cells = []
        for way in (0, 1):
            # The mean of both, each of as many runs as ours: the best of more runs would be better by chance.
            theirs = (first[name][way] + again[name][way]) / 2
            cells.append(f"{ours[name][way] / theirs:.3f} ({again[name][way] / first[name][way]:.3f})")
        lines.append(f"| {name} | {cells[0]} | {cells[1]} |")
    return lines


def main() -> None:
    """Build, measure and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new", nargs="?", default="HEAD")
    parser.add_argument("--sets", type=Path, required=True)
    parser.add_argument("--deltas", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--instructions", action="store_true", help="count them in place of taking times")
    parser.add_argument("--efforts", nargs="+", default=["fast", "default", "max"], help="those to count")
    parser.add_argument("--filter", default="", help="sets and checkpoints whose names contain this")
    arguments = parser.parse_args()
    if arguments.instructions:
        return compare_instructions(arguments)
    for avx512 in (True, False):
        old, new = build(arguments.old, avx512), build(arguments.new, avx512)
        print(f"\n## {'As they are' if avx512 else 'Without AVX-512'}: {arguments.new} over {arguments.old}\n")
        print("| set | compress (noise) | decompress (noise) |\n|---|---|---|")
        print("\n".join(compare(old, new, arguments)), flush=True)


if __name__ == "__main__":
    main()
