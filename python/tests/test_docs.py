"""The Python on the pages for users runs as it stands, from top to bottom."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import z4ai
import ztensor

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / name for name in ("tutorial.md", "checkpoints.md", "store.md")]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def disabled_afterwards() -> Iterator[None]:
    yield
    z4ai.disable_hf()


def run(page: Path, names: dict[str, Any]) -> None:
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(page, {})


def test_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its samples take what somebody downloaded."""
    monkeypatch.chdir(tmp_path)
    Path("downloads").mkdir()
    for number in range(3):
        weight = np.full((64, 48), number, dtype=np.float32)
        ztensor.numpy.save_file({"weight": weight}, f"downloads/{number}.{'zt' if number else 'safetensors'}")
    run(ROOT / "docs" / "batch.md", {})
    assert len(list(Path("converted").rglob("*.safetensors"))) == 3


@pytest.mark.usefixtures("disabled_afterwards")
def test_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its samples run on what a reader has: a model, a fine-tune of it, and a model of transformers with a folder for it."""
    import torch
    import transformers
    from safetensors.torch import save_file

    monkeypatch.chdir(tmp_path)
    weight = torch.randn(64, 48, generator=torch.Generator().manual_seed(1))
    save_file({"layer.weight": weight}, "model.safetensors")
    save_file({"layer.weight": weight + 1e-3}, "tuned.safetensors")
    config = transformers.LlamaConfig(
        vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4
    )
    model = transformers.LlamaForCausalLM(config)
    names = {"model": model, "folder": "pretrained", "AutoModelForCausalLM": transformers.AutoModelForCausalLM}
    run(ROOT / "README.md", names)
    assert Path("restored.safetensors").read_bytes() == Path("model.safetensors").read_bytes()
    assert names["model"] is not model
    for name, tensor in model.state_dict().items():
        assert torch.equal(names["model"].state_dict()[name], tensor), name
