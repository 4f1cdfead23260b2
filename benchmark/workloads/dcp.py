"""`torch.distributed.checkpoint` on a store, beside torch's own writer and reader: bytes of a run, speed of saves and loads, and what
many ranks cost the coordinator.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from harness.formats import DATA
from harness.report import Report, Table, Target, number, ratio
from workloads import dcp_job as job
from workloads.dcp_job import ALONE, DENSE, OURS, TORCH, TORCH_ZSTD

#: A folder for each measurement: they may run side by side.
SIZES, SPEED, RANKS = (DATA / f"dcp-{name}" for name in ("sizes", "speed", "ranks"))


def stored(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def sizes(report: Report, options: Any) -> None:
    """What a run of 10 checkpoints of 2 ranks takes."""
    from torch.distributed.checkpoint._extension import ZStandard

    tools = [OURS, DENSE, ALONE, TORCH] + ([TORCH_ZSTD] if ZStandard.is_available() else [])
    if TORCH_ZSTD not in tools:
        report.notes.append("torch's zstd extension needs the package zstandard, which is not installed")
    table = Table("10 checkpoints of 2 ranks under FSDP2, with optimizer", ["run", "tool", "stored MB", "size %"])
    for kind in ("fp32", "bf16"):
        shutil.rmtree(SIZES, ignore_errors=True)
        [about, _] = job.run(2, job.train, tools, SIZES, kind, 10, 10)
        found = {tool: stored(SIZES / tool.replace(" ", "")) for tool in tools}
        for tool, size in found.items():
            table.rows.append([kind, tool, number(size / 1e6, 1), number(100 * size / about["logical"], 1)])
        report.targets.append(
            Target(f"{kind}: smaller than {TORCH_ZSTD}", 2.0, ratio(found.get(TORCH_ZSTD), found[OURS]))
        )
    report.tables.append(table)


def speed(report: Report, options: Any) -> None:
    """Saves of 2 ranks, and loads of 2 ranks of what 4 saved."""
    columns = ["tool", "save MB/s", "held up s", "load 4 → 2 s", "peak MB", "of it code MB"]
    table = Table(f"{options.megabytes} MB in all, fp32; files are synced", columns)
    found: dict[str, dict[str, float]] = {}
    for tool in (OURS, ALONE, TORCH):
        shutil.rmtree(SPEED, ignore_errors=True)
        saved = job.run(2, job.save, tool, SPEED / "two", options.megabytes, 3)
        shutil.rmtree(SPEED, ignore_errors=True)
        job.run(4, job.save, tool, SPEED / "four", options.megabytes, 1)
        loads = [job.run(2, job.load, tool, SPEED / "four", options.megabytes, "step-0") for _ in range(3)]
        best = min(loads, key=lambda ranks: max(rank["seconds"] for rank in ranks))
        # The first step has none before it.
        later = zip(*(rank["save"][1:] for rank in saved), strict=True)
        found[tool] = {
            "save": options.megabytes / min(max(pair) for pair in later),
            "hold": min(max(pair) for pair in zip(*(rank["hold"] for rank in saved), strict=True)),
            "load": max(rank["seconds"] for rank in best),
            "peak": max(rank["peak"] for rank in best),
            "code": max(rank["code"] for rank in best),
        }
        row = found[tool]
        memory = [number(row["peak"], 1), number(row["code"], 1)]
        table.rows.append([tool, number(row["save"], 0), number(row["hold"], 3), number(row["load"], 3), *memory])
    ours, torchs = found[OURS], found[TORCH]
    report.targets.append(Target("save, throughput beside torch's", 0.8, ratio(ours["save"], torchs["save"])))
    alone = found[ALONE]["save"]
    report.targets.append(Target("save with base=None beside torch's", 0.8, ratio(alone, torchs["save"])))
    report.targets.append(Target("async_save, held up no longer", 1.0, ratio(torchs["hold"], ours["hold"])))
    report.targets.append(Target("load on 2 of what 4 saved, speed", 1.0, ratio(torchs["load"], ours["load"])))
    report.targets.append(Target("load, peak memory no higher", 1.0, ratio(torchs["peak"], ours["peak"])))
    report.tables.append(table)


def many_ranks(report: Report, options: Any) -> None:
    """What the coordinator of many ranks does, with small shards: their number is what counts, not their size."""
    import torch
    from torch.distributed.checkpoint.metadata import (
        ChunkStorageMetadata,
        Metadata,
        MetadataIndex,
        TensorProperties,
        TensorStorageMetadata,
    )
    from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType
    from ztensor import Store
    from ztensor.dcp import Reader, Writer

    class Planner:
        def resolve_data(self, item: WriteItem) -> torch.Tensor:
            return torch.full((1, 16), float(hash((item.index.fqn, tuple(item.index.offset))) % 1000003))

    columns = ["ranks", "shards", "manifest KB", "bytes a shard", "boxes.zt KB", "objects put", "finish s", "open s"]
    report.notes.append("finish and open: seconds of CPU time, of all threads")
    table = Table("Many ranks, 300 tensors, shards of 64 bytes", columns)
    tensors = 300
    per_shard = []
    for ranks in (16, 64, 256):
        shutil.rmtree(RANKS, ignore_errors=True)
        size = torch.Size([ranks, 16])
        properties = TensorProperties(dtype=torch.float32)
        state = {}
        for tensor in range(tensors):
            chunks = [ChunkStorageMetadata(torch.Size([rank, 0]), torch.Size([1, 16])) for rank in range(ranks)]
            state[f"layers.{tensor}.weight"] = TensorStorageMetadata(properties, size, chunks)
        plans = []
        for rank in range(ranks):
            items = []
            for name, about in state.items():
                data = TensorWriteData(chunk=about.chunks[rank], properties=properties, size=size)
                index = MetadataIndex(name, about.chunks[rank].offsets, rank)
                items.append(WriteItem(index=index, type=WriteItemType.SHARD, tensor_data=data))
            plans.append(SavePlan(items))
        writer = Writer(RANKS / "store", "run/step-0")
        writer.set_up_storage_writer(True)
        plans = writer.prepare_global_plan(plans)
        results = [writer.write_data(plan, Planner()).value() for plan in plans]
        start = time.process_time()
        writer.finish(Metadata(state, planner_data={}), results)
        finish = time.process_time() - start
        start = time.process_time()
        Reader(RANKS / "store", "run/step-0").read_metadata()
        opened = time.process_time() - start
        manifest = stored(RANKS / "store" / "checkpoints")
        packs = sum(1 for file in (RANKS / "store" / "packs").rglob("*.zt"))
        boxes = next(file for file in Store(RANKS / "store").info("run/step-0")["files"] if file["path"] == "boxes.zt")
        shards = ranks * tensors
        per_shard.append(finish / shards)
        row = [number(manifest / 1e3, 0), number(manifest / shards, 0), number(boxes["bytes"] / 1e3, 0)]
        table.rows.append([str(ranks), str(shards), *row, str(packs + 1), number(finish, 2), number(opened, 2)])
    report.targets.append(
        Target("256 ranks: the coordinator's time a shard, as at 16", 0.5, per_shard[0] / per_shard[-1])
    )
    report.tables.append(table)


def run(options: Any) -> Report:
    report = Report("dcp", vars(options))
    wanted = {"sizes": (sizes, SIZES), "speed": (speed, SPEED), "ranks": (many_ranks, RANKS)}
    for name, (measure, folder) in wanted.items():
        if options.only in (None, name):
            measure(report, options)
            shutil.rmtree(folder, ignore_errors=True)
    return report
