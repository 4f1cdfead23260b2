"""What the ranks of the benchmark of distributed checkpoints do: a process each, with gloo."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OURS, TORCH, TORCH_ZSTD = "ztensor.dcp", "torch", "torch + zstd"
#: The knobs of ours.
DENSE, ALONE = "ztensor.dcp, effort default", "ztensor.dcp, base=None"
OPTIONS: dict[str, dict[str, Any]] = {OURS: {}, DENSE: {"effort": "default"}, ALONE: {"base": None}}


def run(world: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What a function returned on each rank."""
    context = multiprocessing.get_context("spawn")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        start = [
            context.Process(target=_rank, args=(rank, world, port, folder, function, arguments))
            for rank in range(world)
        ]
        for process in start:
            process.start()
        for process in start:
            process.join()
        if any(process.exitcode for process in start):
            raise RuntimeError("a rank failed")
        return [pickle.loads((Path(folder) / str(rank)).read_bytes()) for rank in range(world)]


def _rank(
    rank: int, world: int, port: int, folder: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    result = function(rank, *arguments)
    (Path(folder) / str(rank)).write_bytes(pickle.dumps(result))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def writer(tool: str, place: Path, name: str) -> tuple[Any, Any]:
    """A tool's writer, and the id that it saves under."""
    if tool in OPTIONS:
        from ztensor.dcp import Writer

        return Writer(place, **OPTIONS[tool]), name
    from torch.distributed.checkpoint import FileSystemWriter

    path = place / name
    if tool == TORCH:
        return FileSystemWriter(path, sync_files=True), path
    from torch.distributed.checkpoint._extension import ZStandard

    return FileSystemWriter(path, sync_files=True, _extensions=[ZStandard()]), path


def reader(tool: str, place: Path, name: str) -> tuple[Any, Any]:
    """A tool's reader, and the id that it loads."""
    if tool in OPTIONS:
        from ztensor.dcp import Reader

        return Reader(place), name
    from torch.distributed.checkpoint import FileSystemReader

    return FileSystemReader(place / name), place / name


def train(rank: int, tools: list[str], place: Path, kind: str, count: int, steps: int) -> dict[str, int]:
    """Trains a small language model under FSDP2, and saves its weights and optimizer every few steps by each tool."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from delta import train as trainer

    trainer.VOCABULARY, trainer.WIDTH = 4096, 128
    torch.manual_seed(5)
    random = torch.Generator().manual_seed(6 + rank)
    dtype = torch.float32 if kind == "fp32" else torch.bfloat16
    model, text = trainer.LanguageModel().to(dtype), trainer.corpus()
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for layer in model.layers.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    trainer.train(model, optimizer, text, 50, random)
    logical = 0
    for number in range(count):
        trainer.train(model, optimizer, text, steps, random)
        weights, moments = get_state_dict(model, optimizer)
        for tool in tools:
            storage, name = writer(tool, place / tool.replace(" ", ""), f"step-{number:02}")
            dcp.save({"model": weights, "optimizer": moments}, storage_writer=storage, checkpoint_id=name)
    for tensor in (*weights.values(), *(m for s in moments["state"].values() for m in s.values())):
        logical += tensor.numel() * tensor.element_size()
    return {"logical": logical * count}


def _state(rank: int, megabytes: int, shift: float, world: int) -> dict[str, Any]:
    """Weights like those of a model, a shard of each on every rank."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    mesh = init_device_mesh("cpu", (world,))
    rows = 1024 // world
    random = torch.Generator().manual_seed(rank)
    state = {}
    for number in range(megabytes // 4):
        local = torch.randn(rows, 1024, generator=random) * 0.02
        if shift:
            local += torch.randn(rows, 1024, generator=random) * 1e-5 * shift
        state[f"layer.{number}.weight"] = DTensor.from_local(local, mesh, [Shard(0)])
    return state


def save(rank: int, tool: str, place: Path, megabytes: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of a save, and how long a save in the background holds the training up."""
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp

    seconds: dict[str, list[float]] = {"save": [], "hold": []}
    # Modules are imported before: torch's own were with torch.
    writer(tool, place, "none")
    for number in range(rounds):
        state = _state(rank, megabytes, float(number), dist.get_world_size())
        storage, name = writer(tool, place, f"step-{number}")
        dist.barrier()
        start = time.perf_counter()
        dcp.save(state, storage_writer=storage, checkpoint_id=name)
        seconds["save"].append(time.perf_counter() - start)
    for number in range(rounds, 2 * rounds):
        state = _state(rank, megabytes, float(number), dist.get_world_size())
        storage, name = writer(tool, place, f"step-{number}")
        dist.barrier()
        start = time.perf_counter()
        future = dcp.async_save(state, storage_writer=storage, checkpoint_id=name)
        seconds["hold"].append(time.perf_counter() - start)
        future.result()
    return seconds


def load(rank: int, tool: str, place: Path, megabytes: int, name: str) -> dict[str, float]:
    """Seconds of a load."""
    import torch.distributed as dist

    state = _state(rank, megabytes, 0.0, dist.get_world_size())
    # Modules are imported before: torch's own were with torch.
    reader(tool, place, name)
    dist.barrier()
    start = time.perf_counter()
    _load(state, tool, place, name)
    seconds = time.perf_counter() - start
    dist.barrier()
    return {"seconds": seconds}


def load_memory(rank: int, tool: str, place: Path, megabytes: int, name: str) -> dict[str, float]:
    """Megabytes that a load takes beyond the tensors themselves: anonymous at its peak; code, which is what a load of one tensor
    before it touches; and what is file-backed beyond that, such as mapped files.
    """
    import torch.distributed as dist

    from harness.memory import Peaks, resident

    state = _state(rank, megabytes, 0.0, dist.get_world_size())
    first = dict([next(iter(state.items()))])
    for each in (OURS, TORCH):
        reader(each, place, name)
    anonymous, untouched = resident()
    with Peaks() as touching:
        _load(first, tool, place, name)
    touched = resident()[1]
    dist.barrier()
    with Peaks() as loading:
        _load(state, tool, place, name)
    dist.barrier()
    found = {
        "anonymous": max(touching.anonymous, loading.anonymous) - anonymous,
        "code": touched - untouched,
        "mapped": max(loading.file_backed - touched, 0),
    }
    return {kind: amount / 1e6 for kind, amount in found.items()}


def _load(state: dict[str, Any], tool: str, place: Path, name: str) -> None:
    import torch.distributed.checkpoint as dcp

    storage, checkpoint = reader(tool, place, name)
    dcp.load(state, storage_reader=storage, checkpoint_id=checkpoint)


if __name__ == "__main__":
    sys.exit("this is a part of `bench.py dcp`")
