"""What ranks do in the tests: small models under FSDP2 and plain DTensors, with an optimizer, saved and loaded again."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from ztensor.dcp import Reader, Writer


def model_and_optimizer(
    seed: int, steps: int, mesh: DeviceMesh | None = None
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A sharded model after some steps of training; each number of ranks has the same numbers to start from."""
    from torch.distributed.fsdp import fully_shard

    mesh = mesh or init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(33, 64), nn.ReLU(), nn.Linear(64, 7, dtype=torch.float32), nn.LayerNorm(7))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        torch.manual_seed(step)
        loss = model(torch.randn(8, 33)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def state_of(
    model: nn.Module, optimizer: torch.optim.Optimizer, step: int, mesh: DeviceMesh | None = None
) -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizer)
    mesh = mesh or init_device_mesh("cpu", (dist.get_world_size(),))
    grid = torch.arange(60, dtype=torch.float32).reshape(10, 6) + step
    return {
        "model": weights,
        "optimizer": moments,
        "columns": distribute_tensor(grid, mesh, [Shard(1)]),
        "everywhere": distribute_tensor(grid.to(torch.bfloat16), mesh, [Replicate()]),
        "few": distribute_tensor(torch.arange(3) + step, mesh, [Shard(0)]),
        "step": step,
        "rng": torch.get_rng_state(),
        "note": f"step {step}",
        "nested": [1, {"deep": 2.5}],
        "object": {"any", "thing"},
    }


def whole(state: Any) -> Any:
    """A state with every tensor in one piece."""
    if isinstance(state, DTensor):
        return state.full_tensor().clone()
    if isinstance(state, torch.Tensor):
        return state.clone()
    if isinstance(state, dict):
        return {key: whole(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [whole(value) for value in state]
    return state


def save(rank: int, store: str, name: str, seed: int, steps: int, options: dict[str, Any] | None = None) -> Any:
    """Trains and saves. Returns the whole state."""
    model, optimizer = model_and_optimizer(seed, steps)
    state = state_of(model, optimizer, steps)
    dcp.save(state, storage_writer=Writer(store, storage_options=options), checkpoint_id=name)
    return whole(state)


def save_steps(rank: int, store: str, run: str, steps: list[int], options: dict[str, Any] | None = None) -> Any:
    """Saves several steps of one run: the first at once, the others in the background. Returns the last whole state."""
    writer = Writer(store, storage_options=options)
    state: dict[str, Any] = {}
    for number, step in enumerate(steps):
        model, optimizer = model_and_optimizer(0, step)
        state = state_of(model, optimizer, step)
        name = f"{run}/step-{step}"
        if number == 0:
            dcp.save(state, storage_writer=writer, checkpoint_id=name)
        else:
            dcp.async_save(state, storage_writer=writer, checkpoint_id=name).result()
    return whole(state)


def save_in_a_process(rank: int, store: str, name: str) -> Any:
    """Saves by a process of its own."""
    from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

    model, optimizer = model_and_optimizer(0, 1)
    state = state_of(model, optimizer, 1)
    kind = AsyncCheckpointerType.PROCESS
    dcp.async_save(state, storage_writer=Writer(store), checkpoint_id=name, async_checkpointer_type=kind).result()
    return whole(state)


def load(
    rank: int, store: str, name: str, options: dict[str, Any] | None = None, mesh: DeviceMesh | None = None
) -> Any:
    """Loads into a model of other numbers. Returns the whole state, of the model and of the optimizer as they then are."""
    model, optimizer = model_and_optimizer(99, 1, mesh)
    state = state_of(model, optimizer, 0, mesh)
    group = None if mesh is None else mesh.get_group()
    dcp.load(state, storage_reader=Reader(store, storage_options=options), checkpoint_id=name, process_group=group)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    again = get_state_dict(model, optimizer)
    loaded = whole(state)
    loaded["model"], loaded["optimizer"] = whole(again[0]), whole(again[1])
    return loaded


def save_and_load_on_fewer(
    rank: int, store: str, run: str, steps: list[int], options: dict[str, Any] | None = None
) -> Any:
    """Saves on all ranks, and loads the last step on fewer. Returns what was saved, and what each number of ranks loaded."""
    saved = save_steps(rank, store, run, steps, options)
    loaded = {}
    for count in range(1, dist.get_world_size()):
        mesh = DeviceMesh("cpu", list(range(count)))
        if rank < count:
            loaded[count] = load(rank, store, f"{run}/step-{steps[-1]}", options, mesh)
        dist.barrier()
    return saved, loaded


class Dying(Writer):
    """A writer that kills its process at a given moment on a given rank."""

    moment = ""
    victim = 0

    def _die(self, moment: str) -> None:
        if moment == self.moment and dist.get_rank() == self.victim:
            os.kill(os.getpid(), signal.SIGKILL)

    def write_data(self, plan: Any, planner: Any) -> Any:
        self._die("before")
        result = super().write_data(plan, planner)
        self._die("written")
        return result

    def finish(self, metadata: Any, results: Any) -> None:
        self._die("finish")
        super().finish(metadata, results)
        self._die("after")


class DyingAtSight(Writer):
    """A writer whose coordinator is killed in the middle of the commit: once there are more files of a kind in the store."""

    pattern = ""

    def finish(self, metadata: Any, results: Any) -> None:
        folder = Path(self._place.location)
        before = len(list(folder.glob(self.pattern)))

        def watch() -> None:
            while len(list(folder.glob(self.pattern))) == before:
                pass
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=watch, daemon=True).start()
        super().finish(metadata, results)


def save_and_die(
    rank: int,
    store: str,
    name: str,
    moment: str,
    victim: int,
    background: str | None,
    options: dict[str, Any] | None = None,
) -> Any:
    """Saves with a rank that dies: the rank itself, or where a process of its own saves, that one."""
    from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

    model, optimizer = model_and_optimizer(0, 2)
    writer = Dying(store, storage_options=options)
    writer.moment, writer.victim = moment, victim
    state = state_of(model, optimizer, 2)
    if background is None:
        dcp.save(state, storage_writer=writer, checkpoint_id=name)
    else:
        kind = AsyncCheckpointerType(background)
        dcp.async_save(state, storage_writer=writer, checkpoint_id=name, async_checkpointer_type=kind).result()
    return "saved"


def save_until_seen(rank: int, store: str, name: str, pattern: str) -> Any:
    """Saves with a coordinator that is killed in the middle of the commit."""
    model, optimizer = model_and_optimizer(0, 2)
    writer = DyingAtSight(store)
    writer.pattern = pattern
    dcp.save(state_of(model, optimizer, 2), storage_writer=writer, checkpoint_id=name)
    return "saved"


def save_and_tell(rank: int, store: str, name: str, folder: str, options: dict[str, Any]) -> Any:
    """Saves, and leaves word which process the rank is."""
    Path(folder, f"pid-{rank}").write_text(str(os.getpid()))
    dist.barrier()
    return save(rank, store, name, 0, 2, options)


def save_with_torch(rank: int, folder: str) -> Any:
    """Saves a folder by torch's own writer. Returns the whole state."""
    model, optimizer = model_and_optimizer(0, 2)
    state = state_of(model, optimizer, 2)
    dcp.save(state, checkpoint_id=folder)
    return whole(state)


def save_a_model(rank: int, store: str, names: list[str], folder: str) -> Any:
    """Saves a model of transformers and its configuration under several names. Returns its weights, and what each save stored."""
    from torch.distributed.fsdp import fully_shard
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    stored = []
    for name in names:
        writer = Writer(store, files=folder)
        dcp.save({"model": model.state_dict(), "step": 1}, storage_writer=writer, checkpoint_id=name)
        stored.append(writer.last_report and writer.last_report["stored_bytes"])
    return whole(model.state_dict()), stored
