"""A training run in a store: 20 checkpoints with their optimizer, added one after the other and all restored, beside what
else one would do with them. Every tool gets the same files in the same order, and has to give each back byte for byte.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.clock import now
from harness.environments import PEERS, Environment
from harness.formats import DATA
from harness.report import Report, Table, Target, number, ratio
from peers.z4ai_0_2 import Z4ai02
from peers.zstd import Zstd

RUNS = DATA / "store"
OURS = "ztensor store"
#: What Debian's borg needs besides Python.
BORG_NEEDS = ("python3-msgpack", "python3-packaging", "python3-pkg-resources", "libxxhash0", "liblz4-1", "libacl1")
COUNT = 20
STEPS = 10


@dataclass
class Tool:
    """How a tool keeps checkpoints: `add` takes one folder after the other, `get` restores one to a folder."""

    name: str
    add: Callable[[int, Path], None]
    get: Callable[[int, Path], None]
    place: Path


def train() -> None:
    """Trains a small language model, and keeps a checkpoint every ten steps: weights and optimizer, fp32 and bf16."""
    import torch
    from safetensors.torch import save_file

    from delta import train as trainer

    if (RUNS / "done").exists():
        return
    shutil.rmtree(RUNS, ignore_errors=True)
    trainer.VOCABULARY, trainer.WIDTH = 4096, 128
    torch.set_num_threads(1)
    torch.manual_seed(5)
    random = torch.Generator().manual_seed(6)
    model, text = trainer.LanguageModel(), trainer.corpus()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    trainer.train(model, optimizer, text, 50, random)
    for number_ in range(COUNT):
        trainer.train(model, optimizer, text, STEPS, random)
        parts = trainer.parts(model, optimizer)
        for dtype, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            folder = RUNS / dtype / f"checkpoint-{number_:02}"
            folder.mkdir(parents=True)
            for name, part in (("model", "weights"), ("optimizer", "optimizer")):
                tensors = {key: tensor.to(kind).contiguous() for key, tensor in parts[part].items()}
                save_file(tensors, folder / f"{name}.safetensors")
    (RUNS / "done").touch()


def files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file())


def call(*command: str | Path, **variables: str) -> None:
    finished = subprocess.run([*map(str, command)], capture_output=True, text=True, env={**os.environ, **variables})
    if finished.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {finished.stderr.strip()[-500:]}")


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Processes that are started meanwhile run on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def ours(place: Path) -> Tool:
    program = (sys.executable, "-m", "ztensor")
    call(*program, "store", "init", place)
    return Tool(
        OURS,
        lambda step, folder: call(*program, "store", "add", folder, "-n", f"run/step-{step}", "--store", place),
        lambda step, target: call(*program, "store", "get", f"run/step-{step}", "-o", target, "--store", place),
        place,
    )


def restic(place: Path) -> Tool:
    program = shutil.which("restic") or str(_unpacked("restic") / "usr" / "bin" / "restic")
    environment = {
        "RESTIC_PASSWORD": "benchmark",
        "RESTIC_REPOSITORY": str(place),
        "RESTIC_CACHE_DIR": f"{place}.cache",
    }
    call(program, "init", "--repository-version", "2", **environment)
    snapshots: dict[int, Path] = {}

    def add(step: int, folder: Path) -> None:
        snapshots[step] = folder
        call(program, "backup", "--tag", str(step), folder, **environment)

    def get(step: int, target: Path) -> None:
        call(program, "restore", "latest", "--tag", str(step), "--target", f"{target}.all", **environment)
        shutil.move(f"{target}.all{snapshots[step]}", target)
        shutil.rmtree(f"{target}.all")

    return Tool("restic", add, get, place)


def borg(place: Path) -> Tool:
    program, environment = shutil.which("borg"), {}
    if program is None:
        home = _unpacked("borgbackup", *BORG_NEEDS)
        program = str(home / "usr" / "bin" / "borg")
        environment = {
            "PYTHONPATH": str(home / "usr/lib/python3/dist-packages"),
            "LD_LIBRARY_PATH": ":".join(str(folder.parent) for folder in home.rglob("lib*.so.*")),
        }
    environment |= {
        "BORG_REPO": str(place),
        "BORG_BASE_DIR": f"{place}.base",
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
    }
    call(program, "init", "--encryption", "none", **environment)
    snapshots: dict[int, Path] = {}

    def add(step: int, folder: Path) -> None:
        snapshots[step] = folder
        call(program, "create", "--compression", "zstd", f"::step-{step}", folder, **environment)

    def get(step: int, target: Path) -> None:
        inside = Path(f"{target}.all")
        inside.mkdir(parents=True)
        call("sh", "-c", f'cd "$0" && "$1" extract "::step-{step}"', inside, program, **environment)
        shutil.move(f"{inside}{snapshots[step]}", target)
        shutil.rmtree(inside)

    return Tool("borg", add, get, place)


def _unpacked(package: str, *needs: str) -> Path:
    """A package of Debian with what it needs, without being installed."""
    home = PEERS / package
    if not home.is_dir():
        part = home.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        wanted = ["apt-get", "download", package, *needs]
        finished = subprocess.run(wanted, cwd=part, capture_output=True, text=True)
        if finished.returncode != 0:
            raise RuntimeError(f"apt-get download {package}: {finished.stderr.strip()[-300:]}")
        for file in part.glob("*.deb"):
            call("dpkg", "-x", file, part)
        part.rename(home)
    return home


def _scripted(name: str, environment: Environment, place: Path, pack: str, unpack: str) -> Tool:
    """A tool that packs each file against the one of the checkpoint before: `pack` and `unpack` are calls in Python."""
    python = environment.python()
    place.mkdir(parents=True)
    folders: dict[int, Path] = {}

    def add(step: int, folder: Path) -> None:
        folders[step] = folder
        for file in files(folder):
            base = folders[step - 1] / file.name if step else ""
            call(python, "-c", pack, file, base, place / f"{step}.{file.name}")

    def get(step: int, target: Path) -> None:
        target.mkdir(parents=True)
        for file in files(folders[step]):
            # The whole chain, as there is nothing but the packed files to restore from.
            for link in range(step + 1):
                out = target / (file.name if link == step else f".{link}.{file.name}")
                base = target / f".{link - 1}.{file.name}" if link else ""
                call(python, "-c", unpack, place / f"{link}.{file.name}", base, out)
                if base:
                    Path(base).unlink()

    return Tool(name, add, get, place)


def z4ai_0_2(place: Path) -> Tool:
    start = "import sys; from z4ai import safetensors, model_delta; a, base, out = sys.argv[1:]; "
    pack = "model_delta.compress_file(a, base, out) if base else safetensors.compress_file(a, out)"
    unpack = "model_delta.decompress_file(a, base, out) if base else safetensors.decompress_file(a, out)"
    return _scripted("z4ai 0.2, chained by hand", Z4ai02.environment, place, start + pack, start + unpack)


def xor_zstd(place: Path) -> Tool:
    start = (
        "import sys, numpy, zstandard; a, base, out = sys.argv[1:]; data = open(a, 'rb').read(); "
        "flip = lambda x: (numpy.frombuffer(x, 'u1') ^ numpy.fromfile(base, 'u1')).tobytes() if base else x; "
    )
    pack = "open(out, 'wb').write(zstandard.ZstdCompressor(level=19, threads=-1).compress(flip(data)))"
    unpack = "open(out, 'wb').write(flip(zstandard.ZstdDecompressor().decompress(data)))"
    return _scripted("XOR + zstd-19, chained", Zstd.environment, place, start + pack, start + unpack)


TOOLS = {
    OURS: ours,
    "restic": restic,
    "borg": borg,
    "z4ai 0.2, chained by hand": z4ai_0_2,
    "XOR + zstd-19, chained": xor_zstd,
}


def measure(tool: Tool, folders: list[Path], target: Path) -> dict:
    """Adds all, restores the first, the middle and the last, and compares."""
    start = now()
    for step, folder in enumerate(folders):
        tool.add(step, folder)
    added = now() - start
    seconds = {}
    for step in (0, len(folders) // 2, len(folders) - 1):
        start = now()
        tool.get(step, target)
        seconds[step] = now() - start
        for file in files(folders[step]):
            if file.read_bytes() != (target / file.name).read_bytes():
                raise ValueError(f"{tool.name} did not restore {file}")
        shutil.rmtree(target)
    stored = sum(file.stat().st_size for file in tool.place.rglob("*") if file.is_file())
    return {"stored": stored, "add": added, "get": seconds}


def run(options) -> Report:
    train()
    report = Report("store", vars(options))
    columns = ["run", "tool", "stored MB", "size %", "add MB/s", "get first s", "get middle s", "get last s"]
    table = Table(f"A training run of {COUNT} checkpoints with optimizer", columns)
    work = DATA / "store-work"
    for dtype in ("fp32", "bf16"):
        folders = sorted((RUNS / dtype).iterdir())
        plain = sum(file.stat().st_size for folder in folders for file in files(folder))
        table.rows.append([dtype, "plain files", number(plain / 1e6, 1), "100.0", "–", "–", "–", "–"])
        sizes: dict[str, int] = {}
        for name, make in TOOLS.items():
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            try:
                found = measure(make(work / "place"), folders, work / "restored")
            except (RuntimeError, StopIteration, FileNotFoundError) as reason:
                report.notes.append(f"{name}, {dtype}: not available: {reason}")
                continue
            sizes[name] = found["stored"]
            row = [number(found["stored"] / 1e6, 1), number(100 * found["stored"] / plain, 1)]
            row += [number(plain / found["add"] / 1e6, 0), *(number(time, 2) for time in found["get"].values())]
            table.rows.append([dtype, name, *row])
        for name, required in (("z4ai 0.2, chained by hand", 2.0), ("XOR + zstd-19, chained", 1 / 0.7)):
            reached = ratio(sizes.get(name), sizes.get(OURS))
            report.targets.append(Target(f"{dtype}: smaller than {name}", required, reached))
    shutil.rmtree(work, ignore_errors=True)
    report.tables.append(table)
    return report
