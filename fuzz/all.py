"""Runs every fuzz target for its time, one process each, and prints what came of it.

`make fuzz-all SECONDS=1200 JOBS=2` calls this. A target stops at its first finding, which it leaves in
`fuzz/artifacts/<target>/`; the exit status is then 1. The log of each is in `fuzz/artifacts/<target>.log`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FUZZ = ROOT / "fuzz"
#: How many models the codec has; the structure-aware target must meet all of them.
MODELS = 12
#: What a model's first meeting looks like in the log of that target: `met 17: float bf16 max`.
MEETING = re.compile(rb"^met \d+: (\w+) \w+ (?:fast|default|max)$", re.MULTILINE)
#: libFuzzer's last line of progress.
PROGRESS = re.compile(rb"cov: (\d+) ft: (\d+) corp: (\d+)/")


@dataclass
class Outcome:
    """What a target did in its time."""

    target: str
    runs: int
    per_second: int
    corpus: int
    coverage: int
    features: int
    models: int
    findings: list[str]


def targets() -> list[str]:
    """Every target, by name."""
    return sorted(path.stem for path in (FUZZ / "fuzz_targets").glob("*.rs"))


def seeds(target: str) -> list[Path]:
    """Folders to start from: the committed seeds and the files of the format."""
    name = "z4ai" if target == "z4ai_decode" else target
    folders = [FUZZ / "seeds" / target, *(ROOT / "conformance").glob(f"**/{name}")]
    return [folder for folder in folders if folder.is_dir()]


def options(seconds: int) -> list[str]:
    """What libFuzzer is told."""
    return [f"-max_total_time={seconds}", "-max_len=32768", "-timeout=20", "-print_final_stats=1"]


def run(target: str, folder: Path, seconds: int) -> Outcome:
    """Fuzzes one target."""
    corpus, artifacts = FUZZ / "corpus" / target, FUZZ / "artifacts" / target
    corpus.mkdir(parents=True, exist_ok=True)
    artifacts.mkdir(parents=True, exist_ok=True)
    known = set(artifacts.iterdir())
    command = [folder / target, f"-artifact_prefix={artifacts}/", *options(seconds), corpus, *seeds(target)]
    log = FUZZ / "artifacts" / f"{target}.log"
    print(f"{target}: {seconds} s, log in {log.relative_to(ROOT)}", file=sys.stderr)
    with log.open("wb") as output:
        environment = os.environ | {"ASAN_OPTIONS": "detect_odr_violation=0"}
        status = subprocess.run(command, stdout=output, stderr=output, env=environment).returncode
    text = log.read_bytes()

    def stat(name: bytes) -> int:
        found = re.search(rb"stat::" + name + rb":\s+(\d+)", text)
        return int(found[1]) if found else 0

    coverage, features, size = map(int, (PROGRESS.findall(text) or [(0, 0, 0)])[-1])
    findings = [path.name for path in sorted(set(artifacts.iterdir()) - known)]
    if status != 0 and not findings:
        findings = [f"exit status {status}, see {log.relative_to(ROOT)}"]
    models = len({model for model in MEETING.findall(text)})
    return Outcome(
        target,
        stat(b"number_of_executed_units"),
        stat(b"average_exec_per_sec"),
        size,
        coverage,
        features,
        models,
        findings,
    )


def main() -> int:
    """Fuzzes all targets, or those that were named, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the targets were built")
    parser.add_argument("--seconds", type=int, default=1200, help="for each target")
    parser.add_argument("--jobs", type=int, default=1, help="targets that run at the same time")
    parser.add_argument("--target", action="append", help="only this one; may be given more than once")
    arguments = parser.parse_args()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        names = arguments.target or targets()
        outcomes = list(pool.map(lambda target: run(target, arguments.folder, arguments.seconds), names))
    print(f"| {'target':15} |      runs | runs/s | corpus | coverage | features | models | findings |")
    print(f"| {'-' * 15} | --------: | -----: | -----: | -------: | -------: | -----: | :------- |")
    for o in outcomes:
        models = f"{o.models}/{MODELS}" if o.target == "z4ai_structure" else ""
        print(
            f"| {o.target:15} | {o.runs:9} | {o.per_second:6} | {o.corpus:6} | {o.coverage:8} | {o.features:8} "
            f"| {models:>6} | {', '.join(o.findings) or 'none':8} |"
        )
    missing = any(o.target == "z4ai_structure" and o.models < MODELS for o in outcomes)
    if missing:
        print("z4ai_structure has not met every model: give it more time, or look at what its cases have become.")
    return int(missing or any(o.findings for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
