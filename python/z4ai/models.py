"""Models saved compressed: a module's parameters in one file, or a folder that transformers loads."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ztensor import _native as native
from ztensor._errors import invalid
from ztensor._types import Effort, Progress

from ._stats import Stats, stats
from .integrations import save_file

if TYPE_CHECKING:
    import os

    import torch

__all__ = ["save_model", "save_pretrained"]


def save_model(
    model: torch.nn.Module,
    path: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    level: int | None = None,
    threads: int = 0,
    effort: Effort = None,
    progress: Progress = None,
) -> Stats:
    """Saves all parameters and buffers of a model compressed. Those that share memory are stored once and come back under every name.

    :func:`z4ai.load_file` and :func:`ztensor.torch.load_model` load them.
    """
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    return save_file(state, path, metadata, level=level, threads=threads, effort=effort, progress=progress)


def save_pretrained(
    model: Any,
    folder: str | os.PathLike[str],
    *,
    variant: str = "z4ai",
    level: int | None = None,
    threads: int = 0,
    effort: Effort = None,
    progress: Progress = None,
    **options: Any,
) -> Stats:
    """Saves a model of transformers compressed, with its configuration, into a folder.

    ``z4ai.enable_hf()`` and ``from_pretrained(folder, variant="z4ai")`` load it. Shards, their index and its name are as transformers
    makes them.

    :param variant: the part of the files' names that tells them from plain ones.
    :param options: what the model's own ``save_pretrained`` takes, such as ``max_shard_size="2GB"``.
    """
    if not hasattr(model, "save_pretrained"):
        raise invalid(f"{type(model).__name__} has no save_pretrained; z4ai.save_model saves any torch.nn.Module")
    start = time.perf_counter()
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    total = {"original_bytes": 0, "compressed_bytes": 0, "tensors": 0}
    # Plain files first, beside their place: transformers knows which names are tied, and how shards are cut and listed.
    with tempfile.TemporaryDirectory(dir=target, prefix=".saving-") as plain:
        model.save_pretrained(plain, variant=variant, **options)
        files = sorted(Path(plain).rglob("*"))
        weights = [file for file in files if file.suffix == ".safetensors"]
        every = sum(file.stat().st_size for file in weights)
        for file in weights:
            done = total["original_bytes"]

            def report(bytes_done: int, _bytes: int, done: int = done) -> None:
                if progress is not None:
                    progress(done + bytes_done, every)

            place = target / file.relative_to(plain)
            place.parent.mkdir(parents=True, exist_ok=True)
            found = native.archive_file(file, place, effort=effort, level=level, threads=threads, progress=report)
            for name in total:
                total[name] += found[name]
            file.unlink()
        for file in files:
            if file.is_file():
                place = target / file.relative_to(plain)
                place.parent.mkdir(parents=True, exist_ok=True)
                file.replace(place)
    original, compressed = total["original_bytes"], total["compressed_bytes"]
    ratios = {"ratio": original / max(1, compressed), "saved_pct": 100 * (1 - compressed / max(1, original))}
    return stats({**total, **ratios, "seconds": time.perf_counter() - start})


def __dir__() -> list[str]:
    return __all__
