"""A base in bf16 and eight variants that people make of it, in one store beside the base by itself: wider and narrower casts,
fp8 and int8 with scales, and four types of GGUF. With llama.cpp's quantisers (GGML_LIBRARY) those are the K-quants.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from harness.report import Report, Table, Target, number
from workloads import derived

MOST = 1.25
SCALED = {"fp8, 128x128": ("float8_e4m3fn", 448.0, (128, 128)), "int8, row": ("int8", 127.0, (1, 0))}
ALL = ("Q8_0", "Q6_K", "Q5_K", "Q4_K")
OWN = ("Q8_0", "Q5_1", "Q5_0", "Q4_0")


def files(place: Path) -> dict[str, Path]:
    """The base first."""
    import torch
    from safetensors.torch import save_file

    weights = derived.model()
    tensors = {
        "bf16": {name: tensor.bfloat16() for name, tensor in weights.items()},
        "fp32": {name: tensor.bfloat16().float() for name, tensor in weights.items()},
        "fp16": {name: tensor.bfloat16().half() for name, tensor in weights.items()},
    }
    for name, (dtype, largest, tile) in SCALED.items():
        tensors[name] = derived.scaled(weights, getattr(torch, dtype), largest, tile)
    found = {}
    for name, made in tensors.items():
        found[name] = place / f"{name.replace(', ', '-')}.safetensors"
        save_file(made, found[name])
    for kind in ALL if os.environ.get("GGML_LIBRARY") else OWN:
        found[kind] = place / f"{kind}.gguf"
        derived.write_gguf(found[kind], kind, weights)
    return found


def run(report: Report, place: Path) -> Table:
    from ztensor import Store

    table = Table("A base and eight variants of it", ["file", "plain MB", "added MB", "% of the base"])
    store = Store(place / "store", create=True)
    before = base = 0
    for name, path in files(place).items():
        store.add(path, name)
        store.get(name, place / "restored")
        if (place / "restored").read_bytes() != path.read_bytes():
            raise ValueError(f"{name} was not restored")
        (place / "restored").unlink()
        size = sum(file.stat().st_size for file in (place / "store").rglob("*") if file.is_file())
        base = base or size
        added, plain = (size - before) / 1e6, path.stat().st_size / 1e6
        table.rows.append([name, number(plain, 1), number(added), number(100 * added * 1e6 / base, 1)])
        before = size
    table.rows.append(["all", "–", number(before / 1e6), number(100 * before / base, 1)])
    report.targets.append(Target("1.25 × a base by itself ÷ it and eight variants", 1.0, MOST * base / before))
    shutil.rmtree(place)
    return table
