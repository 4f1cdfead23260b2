"""Models saved compressed: tied weights once, every name restored; folders that transformers loads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import z4ai
import ztensor
import ztensor.torch


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(500, 64)
        self.head = torch.nn.Linear(64, 500, bias=False)
        self.head.weight = self.embed.weight
        self.wide = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_tied_weights_are_stored_once(tmp_path: Path) -> None:
    model = Tied()
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    told: list[tuple[int, int]] = []
    stats = z4ai.save_file(
        state, tmp_path / "m.z4ai.safetensors", progress=lambda done, total: told.append((done, total))
    )
    assert stats["compressed_bytes"] < 500 * 64 * 4 * 1.2 < stats["original_bytes"] and told[-1][0] == told[-1][1]
    assert same(z4ai.load_file(tmp_path / "m.z4ai.safetensors"), state)
    assert z4ai.save_model(model, tmp_path / "n.zstn", effort="max")["tensors"] == 4
    again = Tied()
    again.load_state_dict(z4ai.load_file(tmp_path / "n.zstn"))
    assert same(dict(again.state_dict()), dict(model.state_dict()))
    assert ztensor.torch.load_model(again, tmp_path / "n.zstn") == ([], [])
    state["head.weight"] = state["head.weight"] + 1
    z4ai.save_file(state, tmp_path / "o.zstn")
    with pytest.raises(RuntimeError, match="Unexpected"):
        ztensor.torch.load_model(again, tmp_path / "o.zstn")


def test_a_prefix_of_the_names(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
    wrapped = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    ztensor.torch.save_file({**wrapped, "optimizer.step": torch.ones(1)}, tmp_path / "lightning.zt")
    again = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match=r'prefix="model\."'):
        ztensor.torch.load_model(again, tmp_path / "lightning.zt")
    assert ztensor.torch.load_model(again, tmp_path / "lightning.zt", prefix="model.") == ([], [])
    assert same(dict(again.state_dict()), dict(model.state_dict()))
    parallel = torch.nn.Module()
    parallel.module = again
    ztensor.torch.save_model(model, tmp_path / "plain.zt", codec="z4ai")
    with pytest.raises(RuntimeError, match=r"model\.module"):
        ztensor.torch.load_model(parallel, tmp_path / "plain.zt")
    with pytest.raises(RuntimeError) as caught:
        ztensor.torch.load_model(torch.nn.Linear(7, 7), tmp_path / "plain.zt")
    assert "prefix" not in str(caught.value)


@pytest.mark.parametrize("shard", ["5GB", "300KB"])
def test_save_pretrained(tmp_path: Path, shard: str) -> None:
    from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=2, n_head=2, n_embd=64, vocab_size=1000, n_positions=64)
    model = GPT2LMHeadModel(config)
    told: list[tuple[int, int]] = []
    stats = z4ai.save_pretrained(
        model, tmp_path / "m", max_shard_size=shard, progress=lambda done, total: told.append((done, total))
    )
    files = {file.name for file in (tmp_path / "m").iterdir()}
    assert "config.json" in files and not any(name.startswith(".") for name in files)
    weights = sorted(name for name in files if name.endswith(".safetensors"))
    if shard == "5GB":
        assert weights == ["model.z4ai.safetensors"]
    else:
        assert weights[0] == f"model.z4ai-00001-of-{len(weights):05}.safetensors" and len(weights) > 1
        assert "model.safetensors.index.z4ai.json" in files
    stored = sum((tmp_path / "m" / name).stat().st_size for name in weights)
    assert stats["compressed_bytes"] == stored < stats["original_bytes"] and told[-1][0] == told[-1][1]
    assert all(ztensor.open(tmp_path / "m" / name).archive for name in weights)
    z4ai.enable_hf()
    try:
        again = AutoModelForCausalLM.from_pretrained(tmp_path / "m", variant="z4ai")
    finally:
        z4ai.disable_hf()
    assert same(dict(again.state_dict()), dict(model.state_dict()))
    with pytest.raises(ValueError, match="save_model"):
        z4ai.save_pretrained(torch.nn.Linear(2, 2), tmp_path / "n")
