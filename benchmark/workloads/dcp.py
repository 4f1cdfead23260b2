"""`torch.distributed.checkpoint` on a store, beside torch's own writer and reader: bytes of a run, speed of saves and loads, and what
many ranks cost the coordinator.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
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
    """Saves of 2 ranks, and loads of 2 ranks of what 4 saved. Tools take turns: what else runs meanwhile meets all of them."""
    saves = Table(
        f"Saves by 2 ranks, {options.megabytes} MB in all, fp32, files are synced", ["tool", "MB/s", "held up s"]
    )
    loads = Table("Loads by 2 ranks of what 4 saved", ["tool", "seconds", "anonymous MB", "code MB", "mapped MB"])
    tools = (OURS, ALONE, TORCH)
    found: dict[str, dict[str, float]] = {tool: {} for tool in tools}

    def least(tool: str, measures: dict[str, float]) -> None:
        for name, value in measures.items():
            found[tool][name] = min(value, found[tool].get(name, value))

    for _ in range(options.runs):
        for tool in tools:
            shutil.rmtree(SPEED, ignore_errors=True)
            saved = job.run(2, job.save, tool, SPEED, options.megabytes, 3)
            # The first step has none before it.
            later = [max(pair) for pair in zip(*(rank["save"][1:] for rank in saved), strict=True)]
            held = [max(pair) for pair in zip(*(rank["hold"] for rank in saved), strict=True)]
            least(tool, {"save": min(later), "hold": min(held)})
    shutil.rmtree(SPEED, ignore_errors=True)
    for tool in tools:
        job.run(4, job.save, tool, SPEED / tool.replace(" ", ""), options.megabytes, 1)
    for _ in range(options.runs):
        for tool in tools:
            arguments = (tool, SPEED / tool.replace(" ", ""), options.megabytes, "step-0")
            least(tool, {"load": max(rank["seconds"] for rank in job.run(2, job.load, *arguments))})
            # Memory is no matter of the fastest: the most of any rank, in the run that took least of it.
            ranks = job.run(2, job.load_memory, *arguments)
            least(tool, {kind: max(rank[kind] for rank in ranks) for kind in ("anonymous", "code", "mapped")})
    for tool, row in found.items():
        saves.rows.append([tool, number(options.megabytes / row["save"], 0), number(row["hold"], 3)])
        memory = [number(row[kind], 1) for kind in ("anonymous", "code", "mapped")]
        loads.rows.append([tool, number(row["load"], 3), *memory])
    ours, alone, torchs = found[OURS], found[ALONE], found[TORCH]
    for text, required, better, worse in (
        ("save, throughput beside torch's", 0.8, torchs["save"], ours["save"]),
        ("save with base=None beside torch's", 0.8, torchs["save"], alone["save"]),
        ("async_save, held up no longer", 1.0, torchs["hold"], ours["hold"]),
        ("load on 2 of what 4 saved, speed", 1.0, torchs["load"], ours["load"]),
        ("load, peak of anonymous memory no higher", 1.0, torchs["anonymous"], ours["anonymous"]),
    ):
        report.targets.append(Target(text, required, ratio(better, worse)))
    report.tables += [saves, loads]


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
    table = Table("Many ranks, 300 tensors, shards of 64 bytes; finish and open: CPU time, all threads", columns)
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


def run(options: Any) -> Iterator[Report]:
    wanted = {"sizes": (sizes, SIZES), "speed": (speed, SPEED), "ranks": (many_ranks, RANKS)}
    for name, (measure, folder) in wanted.items():
        if options.only in (None, name):
            report = Report(f"dcp-{name}", vars(options))
            measure(report, options)
            shutil.rmtree(folder, ignore_errors=True)
            yield report
