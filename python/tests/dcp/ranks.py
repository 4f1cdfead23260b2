"""Runs a function on several ranks, each a process with gloo, and gives back what each returned or raised."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import socket
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIMEOUT = 240


def run(world: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What the function returned on each rank, called with its rank and the arguments; an exception where it raised one,
    ``None`` where it died.
    """
    context = multiprocessing.get_context("spawn")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            context.Process(target=_rank, args=(rank, world, port, folder, function, arguments))
            for rank in range(world)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(TIMEOUT)
        stuck = [process for process in processes if process.is_alive()]
        for process in stuck:
            process.kill()
        assert not stuck, f"{len(stuck)} ranks did not end"
        results = []
        for rank in range(world):
            file = Path(folder, str(rank))
            results.append(pickle.loads(file.read_bytes()) if file.exists() else None)
        return results


def _rank(
    rank: int, world: int, port: int, folder: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    from datetime import timedelta

    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=60))
    try:
        result = function(rank, *arguments)
    except BaseException:
        result = RuntimeError(traceback.format_exc())
    Path(folder, str(rank)).write_bytes(pickle.dumps(result))
    # A rank that died leaves the group broken.
    with contextlib.suppress(Exception):
        torch.distributed.destroy_process_group()
