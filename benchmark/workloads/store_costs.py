"""What a store costs besides the size of one run: a family of fine-tunes in three formats, throughput on one core beside restic,
any checkpoint of a long run, a tensor out of a bucket, a training step that is saved, and ten thousand checkpoints.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from ztensor import Store

from harness.clock import now
from harness.formats import DATA
from harness.report import Report, Table, Target, number, ratio
from workloads import remote, store, store_many, store_variants

WORK = DATA / "store-work"
TENSORS = 8
DELAY = 0.02
#: What the tables' targets are, in the order of the rows.
FAMILY, ADD, GET, ANY, REQUESTS, HELD, SECONDS = 1.05, 150.0, 400.0, 2.0, 6, 1.2, 1.0


def folder(name: str) -> Path:
    path = WORK / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def disk(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


def best(work: Callable[[], object], times: int) -> float:
    seconds = []
    for _ in range(times):
        start = now()
        work()
        seconds.append(now() - start)
    return min(seconds)


def restoring(place: Store, name: str, target: Path, times: int = 3) -> float:
    """Seconds to restore a checkpoint of one file."""

    def restore() -> None:
        target.unlink(missing_ok=True)
        place.get(name, target)

    return best(restore, times)


def weights(seed: int, megabytes: float, drift: float = 0, steps: int = 0) -> dict[str, np.ndarray]:
    """Normally distributed weights, and the same some steps later."""
    rows = max(int(megabytes * 1e6 / (TENSORS * 1024 * 2)), 1)
    generator, moved = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    found = {
        f"layers.{i}.weight": generator.standard_normal((rows, 1024), dtype=np.float32) * 0.02 for i in range(TENSORS)
    }
    for _ in range(steps):
        for tensor in found.values():
            tensor += drift * moved.standard_normal(tensor.shape, dtype=np.float32)
    return found


def save(tensors: dict[str, np.ndarray], path: Path, dtype: str = "bfloat16") -> None:
    import torch
    from safetensors.torch import save_file

    save_file({name: torch.from_numpy(tensor).to(getattr(torch, dtype)) for name, tensor in tensors.items()}, path)


def family(report: Report, options) -> Table:
    """A base and three fine-tunes, each in three formats."""
    import gguf
    import torch

    place = folder("family")
    table = Table("A base and three fine-tunes in f16", ["files", "plain MB", "stored MB"])
    stored = {}
    for label, kinds in ((".safetensors", 1), (".safetensors, .pt and .gguf", 3)):
        target = Store(place / f"store-{kinds}", create=True)
        plain = 0
        for tune in range(4):
            tensors = weights(1, options.megabytes / 25, 1e-4 * tune, 1)
            path = place / f"{tune}.safetensors"
            save(tensors, path, "float16")
            halves = {name: tensor.astype(np.float16) for name, tensor in tensors.items()}
            torch.save({name: torch.from_numpy(tensor) for name, tensor in halves.items()}, path.with_suffix(".pt"))
            writer = gguf.GGUFWriter(path.with_suffix(".gguf"), "llama")
            for name, tensor in halves.items():
                writer.add_tensor(name, tensor)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            for suffix in (".safetensors", ".pt", ".gguf")[:kinds]:
                target.add(path.with_suffix(suffix), f"{tune}{suffix}")
                plain += path.with_suffix(suffix).stat().st_size
        stored[kinds] = disk(place / f"store-{kinds}")
        table.rows.append([label, number(plain / 1e6, 1), number(stored[kinds] / 1e6, 1)])
    reached = ratio(FAMILY * stored[1], stored[3])
    report.targets.append(Target("1.05 × the .safetensors alone ÷ all three formats", 1.0, reached))
    return table


def throughput(report: Report, options) -> Table:
    """One checkpoint and the next, added and restored by processes that have one core."""
    place = folder("throughput")
    table = Table(
        f"A checkpoint of {options.megabytes} MB in bf16 on one core, MB/s",
        ["tool", "add first", "add next", "get first", "get next"],
    )
    folders = []
    for step in range(2):
        folders.append(place / f"checkpoint-{step}")
        folders[-1].mkdir()
        save(weights(3, options.megabytes, 1e-4, step), folders[-1] / "model.safetensors")
    size = disk(folders[0]) / 1e6
    found: dict[str, list[float]] = {}
    for name, make in store.TOOLS.items():
        if name not in (store.OURS, "restic", "borg"):
            continue
        try:
            with store.one_core():
                tool = make(place / name.split()[0])
                speeds = []
                for step, path in enumerate(folders):
                    start = now()
                    tool.add(step, path)
                    speeds.append(size / (now() - start))
                for step in range(2):
                    start = now()
                    tool.get(step, place / "restored")
                    speeds.append(size / (now() - start))
                    shutil.rmtree(place / "restored")
        except (RuntimeError, StopIteration, FileNotFoundError) as reason:
            report.notes.append(f"{name}, throughput: not available: {reason}")
            continue
        found[name] = speeds
        table.rows.append([name, *(number(speed, 0) for speed in speeds)])
    ours, other = found.get(store.OURS), found.get("restic")
    if ours:
        report.targets.append(Target("add on one core, MB/s", ADD, min(ours[:2])))
        report.targets.append(Target("get on one core, MB/s", GET, min(ours[2:])))
    if ours and other:
        report.targets.append(
            Target("add: MB/s ÷ restic's", 1.0, min(a / b for a, b in zip(ours[:2], other[:2], strict=True)))
        )
        report.targets.append(
            Target("get: MB/s ÷ restic's", 1.0, min(a / b for a, b in zip(ours[2:], other[2:], strict=True)))
        )
    return table


def any_of_many(report: Report, options) -> Table:
    """Every checkpoint of a long run, restored; against one that is stored by itself."""
    place = folder("any")
    table = Table(
        f"A run of {options.checkpoints} checkpoints of 8 MB: restoring any of them",
        ["run", "stored %", "deepest", "by itself ms", "median ms", "slowest ms"],
    )
    for dtype in ("bfloat16", "float32"):
        long, single = Store(place / f"{dtype}-run", create=True), Store(place / f"{dtype}-one", create=True)
        tensors, moved = weights(5, 8 if dtype == "bfloat16" else 4), np.random.default_rng(6)
        path, target = place / "model.safetensors", place / "restored"
        plain = 0
        for step in range(options.checkpoints):
            for tensor in tensors.values():
                tensor += 2e-4 * moved.standard_normal(tensor.shape, dtype=np.float32)
            save(tensors, path, dtype)
            plain += path.stat().st_size
            long.add(path, f"run/step-{step}")
        single.add(path, "one", base=None)
        fresh = restoring(single, "one", target, 5)
        seconds = [restoring(long, name, target) for name in long]
        depth = max(listing["depth"] for listing in long.list())
        times = [number(1000 * time, 1) for time in (fresh, statistics.median(seconds), max(seconds))]
        table.rows.append([dtype, number(100 * disk(place / f"{dtype}-run") / plain, 1), str(depth), *times])
        report.targets.append(
            Target(f"{dtype}: 2 × one by itself ÷ the slowest of the run", 1.0, ANY * fresh / max(seconds))
        )
    return table


def bucket(report: Report, options) -> Table:
    """One tensor of the last checkpoints of a run in a bucket, 20 ms for each request."""
    table = Table("A store in a bucket, 20 ms for each request", ["what", "requests", "KB", "seconds"])
    with remote.server() as (port, reached):
        from proxy import Proxy

        path = folder("bucket") / "model.safetensors"
        place = f"s3://{remote.BUCKET}/store"
        inside = Store(place, create=True, storage_options=reached)
        for step in range(20):
            save(weights(7, 8, 2e-4, step), path)
            inside.add(path, f"run/step-{step}")
        proxy = Proxy(port, DELAY)
        slow = {**reached, "endpoint_url": proxy.address}
        # The first request of a process sets up its client.
        Store(place, storage_options=slow).keys()
        worst = 0
        for step in (0, 10, 19):
            proxy.counted()
            start = now()
            opened = Store(place, storage_options=slow)
            requests, sent = proxy.counted()
            table.rows.append(["open the store", str(requests), number(sent / 1e3, 0), number(now() - start)])
            start = now()
            opened[f"run/step-{step}"].read_numpy("layers.3.weight")
            requests, sent = proxy.counted()
            what = f"open step {step} and read a tensor of 1 MB"
            table.rows.append([what, str(requests), number(sent / 1e3, 0), number(now() - start)])
            worst = max(worst, requests)
        proxy.close()
    report.targets.append(Target("6 requests ÷ requests for a checkpoint and a tensor", 1.0, REQUESTS / worst))
    return table


def saver(report: Report, options) -> Table:
    """How long a training step is held up while its state is saved."""
    place = folder("saver")
    state = {name: tensor for name, tensor in weights(9, options.megabytes / 2).items()}
    size = sum(tensor.nbytes for tensor in state.values()) / 1e6
    copies = {name: np.empty_like(tensor) for name, tensor in state.items()}

    def copy() -> None:
        for name, tensor in state.items():
            np.copyto(copies[name], tensor)

    copy()
    one = best(copy, 5)
    held = []
    with Store(place / "store", create=True).saver("run") as saves:
        for step in range(4):
            start = now()
            saves.save(step, state)
            held.append(now() - start)
            saves.wait()
    table = Table(f"Saving a state of {size:.0f} MB", ["what", "ms"])
    table.rows.append(["one copy in memory", number(1000 * one, 1)])
    table.rows.append(["save, first: takes its memory", number(1000 * held[0], 1)])
    table.rows.append(["save, later", number(1000 * min(held[1:]), 1)])
    report.targets.append(Target("1.2 × one copy ÷ a step held up", 1.0, HELD * one / min(held[1:])))
    return table


#: One operation on a store of many checkpoints, timed in a process of its own.
MANY = """
import sys, time
from ztensor import Store
store, what, model = Store(sys.argv[1]), sys.argv[2], sys.argv[3]
calls = {"list": store.list, "log": store.log, "gc": lambda: store.gc(dry_run=True), "add": lambda: store.add(model, "new/one")}
start = time.perf_counter()
calls[what]()
print(time.perf_counter() - start)
if what == "add":
    store.remove("new/one")
"""


def many(report: Report, options) -> Table:
    counts = (options.many // 4, options.many)
    table = Table(
        "Checkpoints of small models in one store, seconds", ["what", *(f"{count} checkpoints" for count in counts)]
    )
    rows: dict[str, list[float]] = {what: [] for what in ("list", "log", "add", "gc")}
    for count in counts:
        place = folder("many")
        store_many.make(place, count)
        store_many.model(place / "new.safetensors", count)
        for what in rows:
            command = [sys.executable, "-c", MANY, str(place / "store"), what, str(place / "new.safetensors")]
            times = [
                float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(3)
            ]
            rows[what].append(min(times))
    for what, seconds in rows.items():
        table.rows.append([what, *(number(time) for time in seconds)])
        if what != "gc":
            report.targets.append(Target(f"{what} of {counts[1]}: a second ÷ seconds", 1.0, SECONDS / seconds[1]))
        report.targets.append(Target(f"{what}: linear (1.5 × 4 ÷ growth)", 1.0, ratio(6 * seconds[0], seconds[1])))
    return table


def variants(report: Report, options) -> Table:
    """A base and what is usually made of it."""
    return store_variants.run(report, folder("variants"))


PARTS = {
    "family": family,
    "variants": variants,
    "throughput": throughput,
    "any": any_of_many,
    "bucket": bucket,
    "saver": saver,
    "many": many,
}


def run(options) -> Iterator[Report]:
    """A report of each part, which may be run alone."""
    for part in options.part or PARTS:
        report = Report(f"store-{part}", vars(options))
        report.tables.append(PARTS[part](report, options))
        shutil.rmtree(WORK, ignore_errors=True)
        yield report
