"""Files computed from a checkpoint of the store: what frameworks and tools make of it takes its scales, if anything."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from ztensor import Store

RANDOM = torch.Generator().manual_seed(17)
WEIGHTS = {
    "model.layers.0.self_attn.q_proj.weight": (torch.randn(256, 512, generator=RANDOM) * 0.02).bfloat16(),
    "model.layers.0.mlp.down_proj.weight": (torch.randn(512, 768, generator=RANDOM) * 0.03).bfloat16(),
}
FP8 = torch.float8_e4m3fn


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store", create=True, grace=0)
    save_file(WEIGHTS, tmp_path / "base.safetensors")
    store.add(tmp_path / "base.safetensors", "base")
    # Of the same names and shapes, and no relative.
    strangers = {name: torch.randn(tensor.shape, generator=RANDOM).bfloat16() for name, tensor in WEIGHTS.items()}
    save_file(strangers, tmp_path / "stranger.safetensors")
    store.add(tmp_path / "stranger.safetensors", "stranger")
    return store


def by_row(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One scale for each row, as compressed-tensors writes them."""
    scale = tensor.float().abs().amax(1, keepdim=True) / 448
    return (tensor.float() / scale).clamp(-448, 448).to(FP8), scale


def by_block(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One scale for each 128 by 128 numbers, as DeepSeek's files have them."""
    rows, columns = tensor.shape
    tiles = tensor.float().reshape(rows // 128, 128, columns // 128, 128)
    scale = tiles.abs().amax((1, 3), keepdim=True) / 448
    return (tiles / scale).clamp(-448, 448).to(FP8).reshape(rows, columns), scale[:, 0, :, 0].contiguous()


@pytest.mark.parametrize(("scaled", "ending"), [(by_row, "_scale"), (by_block, "_scale_inv")])
def test_fp8_with_scales_takes_its_scales(store: Store, tmp_path: Path, scaled, ending: str) -> None:  # type: ignore[no-untyped-def]
    tensors = {}
    for name, tensor in WEIGHTS.items():
        tensors[name], tensors[f"{name}{ending}"] = scaled(tensor)
    path = tmp_path / "fp8.safetensors"
    save_file(tensors, path)
    scales = sum(tensor.nbytes for name, tensor in tensors.items() if name.endswith(ending))
    alone = store.add(path, "alone", base=None, dry_run=True)
    report = store.add(path, "fp8")
    # The levels, and scales where they follow from the largest magnitudes.
    assert report["parent"] == "base"
    assert len(WEIGHTS) <= report["computed"] <= len(tensors)
    assert report["stored_bytes"] < scales + 2500
    assert report["stored_bytes"] < alone["stored_bytes"] / 50
    store.get("fp8", tmp_path / "restored.safetensors")
    assert (tmp_path / "restored.safetensors").read_bytes() == path.read_bytes()
    # One tensor by itself, and a part of it.
    for name, tensor in tensors.items():
        assert torch.equal(store["fp8"].read_torch(name).view(torch.uint8), tensor.view(torch.uint8)), name
    name = next(iter(WEIGHTS))
    part = np.asarray(store["fp8"].read_slice(name, np.s_[17:40])).view(np.uint8)
    np.testing.assert_array_equal(part, tensors[name][17:40].view(torch.uint8).numpy())
    # It needs nobody: the base goes, and it stays.
    store.remove("base")
    store.gc(now=True, force=True)
    assert store.verify(decode=True) == []
    (tmp_path / "restored.safetensors").unlink()
    store.get("fp8", tmp_path / "restored.safetensors")
    assert (tmp_path / "restored.safetensors").read_bytes() == path.read_bytes()


def test_eight_variants_of_a_base_take_a_fraction_of_it(store: Store, tmp_path: Path) -> None:
    """Types that Python's own tools make; `bench.py store --only costs --part variants` has those of llama.cpp."""
    base = store.stats()["stored_bytes"] / 2
    variants: dict[str, Path] = {}

    def path(name: str, suffix: str = "safetensors") -> Path:
        variants[name] = tmp_path / f"{name}.{suffix}"
        return variants[name]

    save_file({name: tensor.float() for name, tensor in WEIGHTS.items()}, path("fp32"))
    save_file({name: tensor.half() for name, tensor in WEIGHTS.items()}, path("fp16"))
    fp8 = {name: by_block(tensor) for name, tensor in WEIGHTS.items()}
    both = {name: pair[0] for name, pair in fp8.items()} | {f"{name}_scale_inv": pair[1] for name, pair in fp8.items()}
    save_file(both, path("fp8"))
    for kind in ("Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0"):
        writer = gguf.GGUFWriter(path(kind, "gguf"), "llama")
        for name, tensor in WEIGHTS.items():
            renamed = "blk.0.attn_q.weight" if "q_proj" in name else "blk.0.ffn_down.weight"
            type_ = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(renamed, gguf.quants.quantize(tensor.float().numpy(), type_), raw_dtype=type_)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    added = sum(store.add(file, f"variants/{name}")["stored_bytes"] for name, file in variants.items())
    assert len(variants) == 8
    assert added < base / 20
    for name, file in variants.items():
        store.get(f"variants/{name}", tmp_path / "restored")
        assert (tmp_path / "restored").read_bytes() == file.read_bytes(), name
        (tmp_path / "restored").unlink()
