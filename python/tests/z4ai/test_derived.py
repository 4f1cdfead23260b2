"""Derived files: what torch, gguf and llama.cpp make of a base is nearly free as a delta, and comes back byte for byte."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import save

import ztensor
from z4ai import model_delta
from z4ai.safetensors import compress_bytes, decompress_bytes

CONFORMANCE = Path(__file__).resolve().parents[3] / "conformance" / "derived"
HEADS = 4
RANDOM = torch.Generator().manual_seed(21)
WEIGHTS = {
    "model.layers.0.self_attn.q_proj.weight": torch.randn(128, 256, generator=RANDOM) * 0.02,
    "model.layers.0.mlp.down_proj.weight": torch.randn(256, 512, generator=RANDOM) * 0.03,
}
ELEMENTS = sum(tensor.numel() for tensor in WEIGHTS.values())


def cast(dtype: torch.dtype, weights: dict[str, torch.Tensor] = WEIGHTS) -> dict[str, torch.Tensor]:
    return {name: tensor.to(dtype) for name, tensor in weights.items()}


def stored(target: bytes, base: bytes) -> int:
    """The length of a delta, once it has given back what it was made of."""
    delta = model_delta.compress(target, base)
    assert model_delta.decompress(delta, base) == target
    return len(delta)


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_casts_of_torch_are_nearly_free(narrow: torch.dtype) -> None:
    base, target = save(WEIGHTS), save(cast(narrow))
    assert stored(target, base) < 2500
    # And back: the bits that the narrow type does not have are stored, the others are not.
    both = stored(base, target)
    assert both < len(compress_bytes(base)) - len(target) // 2
    assert stored(save(cast(torch.float32, cast(narrow))), target) < 2500


def test_scaled_numbers_need_their_scales_only() -> None:
    tensors = {}
    for name, tensor in cast(torch.bfloat16).items():
        values = tensor.float()
        scale = values.abs().amax(1, keepdim=True) / 448
        tensors[name] = (values / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        tensors[f"{name}_scale"] = scale
        scale = values.abs().amax(1, keepdim=True) / 127
        tensors[f"int8.{name}"] = (values / scale).round().to(torch.int8)
        tensors[f"int8.{name}_scale"] = scale
    target = save(tensors)
    scales = sum(tensor.nbytes for name, tensor in tensors.items() if name.endswith("_scale"))
    fp8 = {name: tensor for name, tensor in tensors.items() if not name.startswith("int8.")}
    assert stored(save(fp8), save(cast(torch.bfloat16))) < scales // 2 + 2500
    prefixed = {f"int8.{name}": tensor for name, tensor in cast(torch.bfloat16).items()}
    assert stored(target, save(cast(torch.bfloat16) | prefixed)) < scales + 4000


def written(path: Path, kind: str) -> bytes:
    """The weights as llama.cpp's converter writes them."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_head_count(HEADS)
    for name, tensor in cast(torch.bfloat16).items():
        values = tensor.float().numpy()
        if "q_proj" in name:
            rows, columns = values.shape
            values = values.reshape(HEADS, 2, rows // HEADS // 2, columns).swapaxes(1, 2).reshape(rows, columns)
        renamed = "blk.0.attn_q.weight" if "q_proj" in name else "blk.0.ffn_down.weight"
        quantised = gguf.quants.quantize(np.ascontiguousarray(values), gguf.GGMLQuantizationType[kind])
        writer.add_tensor(renamed, quantised, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "F16", "BF16"])
def test_gguf_of_a_model_under_other_names(tmp_path: Path, kind: str) -> None:
    assert stored(written(tmp_path / "model.gguf", kind), save(cast(torch.bfloat16))) < 4000


def test_blocks_of_llama_cpp() -> None:
    base, blocks = (CONFORMANCE / "base.gguf").read_bytes(), (CONFORMANCE / "blocks.gguf").read_bytes()
    assert stored(blocks, base) < len(compress_bytes(blocks)) // 3


def spherical(t: float, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """As mergekit computes it: in fp32, with coefficients from the angle between the tensors."""
    dot = float((one / one.norm() * (other / other.norm())).sum())
    angle = math.acos(dot)
    scales = [math.sin(angle * (1 - t)) / math.sin(angle), math.sin(angle * t) / math.sin(angle)]
    return scales[0] * one + scales[1] * other


def linear(weights: list[float], tensors: list[torch.Tensor]) -> torch.Tensor:
    """As mergekit computes it: in the type of the models, and divided by what the weights add up to."""
    scales = torch.tensor(weights, dtype=tensors[0].dtype).reshape(-1, 1, 1)
    return (scales * torch.stack(tensors)).sum(0) / scales.sum(0)


def test_merges_of_two_models() -> None:
    parents = []
    for seed in (1, 2):
        random = torch.Generator().manual_seed(seed)
        noise = {name: torch.randn(tensor.shape, generator=random) * 0.002 for name, tensor in WEIGHTS.items()}
        parents.append({name: (tensor + noise[name]).bfloat16() for name, tensor in WEIGHTS.items()})
    bases = [save(parent) for parent in parents]
    one, other = parents
    merges = {
        "linear": lambda name: linear([0.6, 0.4], [one[name], other[name]]),
        "weighted": lambda name: linear([1.0, 0.3], [one[name], other[name]]),
        "spherical": lambda name: spherical(0.3, one[name].float(), other[name].float()).bfloat16(),
        "added": lambda name: one[name] + 0.5 * (other[name] - one[name]),
    }
    for kind, merge in merges.items():
        target = save({name: merge(name).contiguous() for name in WEIGHTS})
        delta = model_delta.compress(target, bases)
        assert model_delta.decompress(delta, bases[::-1]) == target, kind
        assert 8 * len(delta) / ELEMENTS < 0.2, (kind, len(delta))
        with pytest.raises(ztensor.ZTensorError, match="missing"):
            model_delta.decompress(delta, bases[:1])


def test_an_adapter_merged_into_its_base() -> None:
    random = torch.Generator().manual_seed(3)
    base = (torch.randn(512, 768, generator=random) * 0.02).bfloat16()
    change = torch.randn(512, 8, generator=random) @ torch.randn(8, 768, generator=random)
    change *= 0.02 * 0.02 / change.std()
    merged = save({"layer.weight": base + change.bfloat16()})
    size = stored(merged, save({"layer.weight": base}))
    # Two matrices of rank 8 and about ten bits are 0.26 bits per element of so small a tensor.
    assert 8 * size / base.numel() < 1.2


def test_a_master_copy_beside_its_weights() -> None:
    both = {f"master.{name}": tensor for name, tensor in WEIGHTS.items()} | cast(torch.bfloat16)
    packed = compress_bytes(save(both))
    assert decompress_bytes(packed) == save(both)
    assert len(packed) < len(compress_bytes(save(WEIGHTS))) + 2500


def test_one_tensor_by_itself_and_explained(tmp_path: Path) -> None:
    base, target, delta = tmp_path / "base.safetensors", tmp_path / "narrow.safetensors", tmp_path / "narrow.z4dm"
    base.write_bytes(save(WEIGHTS))
    target.write_bytes(save(cast(torch.bfloat16)))
    command = [sys.executable, "-m", "ztensor", "delta", "make", target, "--base", base, "-o", delta]
    command += ["--explain", "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    recipes = told["result"]["recipes"]
    assert {recipe["name"] for recipe in recipes} == set(WEIGHTS)
    for recipe in recipes:
        assert recipe["recipe"] == "bf16 of f32"
        assert recipe["stored_bytes"] < 300 < recipe["alone_bytes"] < recipe["bytes"]
    name = "model.layers.0.mlp.down_proj.weight"
    with ztensor.open(delta, base=base) as reader:
        assert torch.equal(reader.read_torch(name), WEIGHTS[name].bfloat16())
        rows = np.asarray(reader[name][3:5]).view(np.uint16)
        assert np.array_equal(rows, WEIGHTS[name].bfloat16()[3:5].view(torch.uint16).numpy())
    stats = model_delta.compress_file(target, base, delta)
    assert (stats["derived"], stats["deltas"], stats["copied"]) == (2, 0, 0)
