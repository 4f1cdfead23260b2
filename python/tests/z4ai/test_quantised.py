"""Quantised, fused and merged files against the weights they were made from, in layouts written out here after the tools'
sources: next to nothing is left to store but their scales, and they come back byte for byte.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save

import ztensor
from z4ai import model_delta
from z4ai.safetensors import compress_bytes

RANDOM = torch.Generator().manual_seed(22)
NAMES = ["model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj"]
SHAPES = [(256, 128), (128, 512)]
WEIGHTS = {
    f"{name}.weight": (torch.randn(shape, generator=RANDOM) * 0.02).bfloat16()
    for name, shape in zip(NAMES, SHAPES, strict=True)
}
BASE = save(WEIGHTS)
ELEMENTS = sum(tensor.numel() for tensor in WEIGHTS.values())
GROUP = 64
Tensors = dict[str, torch.Tensor]


def stored(target: bytes, bases: list[bytes]) -> int:
    """The length of a delta, once it has given back what it was made of."""
    delta = model_delta.compress(target, bases)
    assert model_delta.decompress(delta, bases) == target
    return len(delta)


def words(levels: torch.Tensor, order: tuple[int, ...] = tuple(range(8))) -> torch.Tensor:
    """Eight levels of a row in a word; the order says which number has which slot."""
    eight = levels.numpy().astype(np.uint32).reshape(levels.shape[0], -1, 8)
    shifted = [eight[:, :, number] << np.uint32(4 * slot) for slot, number in enumerate(order)]
    return torch.from_numpy(np.bitwise_or.reduce(shifted).view(np.int32))


def gptq(shift: int = 1) -> Tensors:
    found: Tensors = {}
    for name, tensor in WEIGHTS.items():
        stem, grouped = name.removesuffix("weight"), tensor.float().reshape(tensor.shape[0], -1, GROUP)
        scale = 2 * grouped.abs().amax(-1) / 15
        levels = (torch.round(grouped / scale[..., None]) + 8).clamp(0, 15).reshape(tensor.shape)
        found[f"{stem}qweight"] = words(levels).T.contiguous()
        found[f"{stem}scales"] = scale.T.contiguous().half()
        found[f"{stem}qzeros"] = words(torch.full_like(scale, 8 - shift).T.contiguous())
    return found


def awq() -> Tensors:
    found: Tensors = {}
    for name, tensor in WEIGHTS.items():
        stem, grouped = name.removesuffix("weight"), tensor.half().reshape(-1, GROUP)
        least, most = grouped.amin(1, keepdim=True), grouped.amax(1, keepdim=True)
        scale = (most - least) / 15
        zeros = (-torch.round(least / scale)).clamp(0, 15)
        levels = (torch.round(grouped / scale) + zeros).clamp(0, 15).reshape(tensor.shape)
        order = (0, 2, 4, 6, 1, 3, 5, 7)
        rows = tensor.shape[0]
        found[f"{stem}qweight"] = words(levels.T.contiguous(), order)
        found[f"{stem}scales"] = scale.reshape(rows, -1).T.contiguous()
        found[f"{stem}qzeros"] = words(zeros.reshape(rows, -1).T.contiguous(), order)
    return found


def packed(has_zeros: bool) -> Tensors:
    """As compressed-tensors writes it: levels from -8 to 7, stored from 0 on; zero points in words down the columns."""
    found: Tensors = {}
    for name, tensor in WEIGHTS.items():
        stem, grouped = name.removesuffix("weight"), tensor.reshape(tensor.shape[0], -1, GROUP)
        if has_zeros:
            least, most = grouped.amin(-1, keepdim=True), grouped.amax(-1, keepdim=True)
            scale = (most - least) / 15
            zeros = (-8 - torch.round(least / scale)).clamp(-8, 7)
            found[f"{stem}weight_zero_point"] = words((zeros.squeeze(-1).float() + 8).T.contiguous()).T.contiguous()
        else:
            scale = grouped.abs().amax(-1, keepdim=True) / 7.5
            zeros = torch.zeros_like(scale)
        levels = torch.round(grouped / scale + zeros).clamp(-8, 7).reshape(tensor.shape)
        found[f"{stem}weight_packed"] = words(levels.float() + 8)
        found[f"{stem}weight_scale"] = scale.squeeze(-1).contiguous()
    return found


def pairs(codes: torch.Tensor, high_first: bool) -> torch.Tensor:
    codes = codes.reshape(-1, 2).to(torch.uint8)
    return codes[:, 0] << 4 | codes[:, 1] if high_first else codes[:, 0] | codes[:, 1] << 4


def normal() -> Tensors:
    """As bitsandbytes writes NF4: indices into quantiles, the first of a pair above."""
    from statistics import NormalDist

    spread = np.linspace(0.9677083, 0.5, 9)[:-1]
    above = [NormalDist().inv_cdf(of) for of in spread]
    below = [-NormalDist().inv_cdf(of) for of in np.linspace(0.9677083, 0.5, 8)[:-1]]
    table = torch.tensor(sorted([*below, 0.0, *above])) / max(above)
    found: Tensors = {}
    for name, tensor in WEIGHTS.items():
        blocks = tensor.float().reshape(-1, 64)
        largest = blocks.abs().amax(1)
        scaled = blocks * (1 / largest[:, None])
        codes = torch.bucketize(scaled, (table[1:] + table[:-1]) / 2)
        found[name] = pairs(codes, True).reshape(-1, 1)
        found[f"{name}.absmax"] = largest
        found[f"{name}.quant_map"] = table.clone()
    return found


def exponents() -> Tensors:
    """MXFP4 as compressed-tensors writes it: E2M1 in pairs, powers of two for 32 neighbours."""
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    found: Tensors = {}
    for name, tensor in WEIGHTS.items():
        stem, blocks = name.removesuffix("weight"), tensor.float().reshape(-1, 32)
        exponent = torch.floor(torch.log2(blocks.abs().amax(1))) - 2
        scaled = blocks / 2 ** exponent[:, None]
        codes = (scaled.abs()[..., None] - values).abs().argmin(-1) | (scaled < 0) * 8
        found[f"{stem}weight_packed"] = pairs(codes, False).reshape(tensor.shape[0], -1)
        found[f"{stem}weight_scale"] = (exponent + 127).to(torch.uint8).reshape(tensor.shape[0], -1)
    return found


@pytest.mark.parametrize(
    "make",
    [gptq, lambda: gptq(0), awq, lambda: packed(False), lambda: packed(True), normal, exponents],
    ids=["gptq", "gptq, second format", "awq", "packed", "packed with zeros", "nf4", "mxfp4"],
)
def test_levels_follow_from_weights_and_scales(make) -> None:
    tensors = make()
    scales = {name: tensor for name, tensor in tensors.items() if not name.endswith(("weight", "qweight", "packed"))}
    # Few levels differ: those at a tie of a scale that was rounded once more before it was stored.
    left = stored(save(tensors), [BASE]) - len(compress_bytes(save(scales)))
    assert 8 * left / ELEMENTS < 0.25, left


def test_a_quantised_tensor_is_read_by_itself_and_in_part(tmp_path: Path) -> None:
    tensors, base, delta = gptq(), tmp_path / "base.safetensors", tmp_path / "levels.z4dm"
    base.write_bytes(BASE)
    delta.write_bytes(model_delta.compress(save(tensors), BASE))
    with ztensor.open(delta, base=base) as reader:
        name = f"{NAMES[0]}.qweight"
        assert torch.equal(reader.read_torch(name), tensors[name])
        assert np.array_equal(np.asarray(reader[name][3:5]), tensors[name][3:5].numpy())


def test_a_store_finds_the_weights(tmp_path: Path) -> None:
    store = ztensor.Store(tmp_path / "store", create=True)

    def held() -> int:
        return sum(file.stat().st_size for file in (tmp_path / "store").rglob("*") if file.is_file())

    (tmp_path / "base.safetensors").write_bytes(BASE)
    store.add(tmp_path / "base.safetensors", "base")
    for make in (gptq, normal):
        made, before = save(make()), held()
        (tmp_path / "made.safetensors").write_bytes(made)
        store.add(tmp_path / "made.safetensors", make.__name__)
        assert held() - before < len(compress_bytes(made)) // 3
        store.get(make.__name__, tmp_path / f"{make.__name__}.safetensors")
        assert (tmp_path / f"{make.__name__}.safetensors").read_bytes() == made


def test_fused_tensors_and_their_parts() -> None:
    random = torch.Generator().manual_seed(23)

    def weight(*shape: int) -> torch.Tensor:
        return (torch.randn(shape, generator=random) * 0.02).bfloat16()

    layer = "model.layers.4."
    apart = {
        f"{layer}self_attn.{part}_proj.weight": weight(rows, 96) for part, rows in (("q", 96), ("k", 32), ("v", 32))
    }
    apart |= {f"{layer}mlp.{part}_proj.weight": weight(160, 96) for part in ("gate", "up")}
    matrices = {"gate": (64, 96), "up": (64, 96), "down": (96, 64)}
    for expert in range(3):
        name = f"{layer}mlp.experts.{expert}."
        apart |= {f"{name}{part}_proj.weight": weight(*shape) for part, shape in matrices.items()}
    one = list(apart.values())
    experts = [[apart[f"{layer}mlp.experts.{expert}.{part}_proj.weight"] for part in matrices] for expert in range(3)]
    fused = {
        f"{layer}self_attn.qkv_proj.weight": torch.cat(one[:3]),
        f"{layer}mlp.gate_up_proj.weight": torch.cat(one[3:5]),
        f"{layer}mlp.experts.gate_up_proj": torch.stack([torch.cat([gate, up]) for gate, up, _ in experts]),
        f"{layer}mlp.experts.down_proj": torch.stack([down for _, _, down in experts]),
    }
    elements = sum(tensor.numel() for tensor in apart.values())
    for base, target in ((apart, fused), (fused, apart)):
        for cast in (torch.bfloat16, torch.float16):
            made = save({name: tensor.to(cast) for name, tensor in target.items()})
            assert 8 * stored(made, [save(base)]) / elements < 0.2, cast


def consensus(
    weights: list[float], kept: list[float], normalise: bool, base: torch.Tensor, parents: list[torch.Tensor]
):
    """TIES as mergekit computes it, in the type of the models."""
    changes = torch.stack([parent - base for parent in parents])
    for change, share in zip(changes, kept, strict=True):
        order = torch.argsort(change.abs().float().reshape(-1), descending=True)
        change.reshape(-1)[order[int(share * change.numel()) :]] = 0
    scales = torch.tensor(weights, dtype=base.dtype).reshape(-1, 1, 1)
    changes *= scales
    prevailing = (changes.sum(0) >= 0).to(base.dtype) * 2 - 1
    agree = changes.sign() == prevailing
    merged, divisor = (changes * agree).sum(0), (scales * agree).sum(0)
    divisor[divisor == 0] = 1
    return base + (merged / divisor if normalise else merged)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("count", [2, 3])
def test_merges_by_consensus(normalise: bool, count: int) -> None:
    random = torch.Generator().manual_seed(24)
    base = {name: (torch.randn(256, 384, generator=random) * 0.02).bfloat16() for name in ("a.1.weight", "b.1.weight")}
    parents = [
        {
            name: tensor + (torch.randn(tensor.shape, generator=random) * 0.001).bfloat16()
            for name, tensor in base.items()
        }
        for _ in range(count)
    ]
    weights, kept = [0.6, 0.4, 0.5][:count], [0.5, 0.3, 0.4][:count]
    merged = {
        name: consensus(weights, kept, normalise, base[name], [parent[name] for parent in parents]) for name in base
    }
    elements = sum(tensor.numel() for tensor in base.values())
    bases = [save(base), *map(save, parents)]
    # The rest is which of equal changes the sort left out, and numbers on the edge of two: more with more parents.
    assert 8 * stored(save(merged), bases) / elements < 0.5
