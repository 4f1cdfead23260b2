"""Compressed weights in transformers, offline: a tiny model, saved, compressed, loaded, and the same logits."""

from __future__ import annotations

import builtins
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
import transformers

import z4ai
import ztensor
from z4ai.safetensors import compress_file

TOKENS = torch.arange(24).reshape(2, 12)


@pytest.fixture(autouse=True)
def disabled_afterwards() -> Iterator[None]:
    yield
    z4ai.disable_hf()


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    return transformers.LlamaForCausalLM(config).eval()


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(TOKENS).logits


def compress_folder(folder: Path) -> None:
    """Replaces the weights of a saved model by compressed ones under the names of a variant."""
    for path in list(folder.glob("*.safetensors")):
        compress_file(path, path.with_name(path.name.replace("model", "model.z4ai", 1)))
        path.unlink()
    for index in list(folder.glob("*.index.json")):
        text = index.read_text().replace('"model-', '"model.z4ai-')
        index.with_name("model.safetensors.index.z4ai.json").write_text(text)
        index.unlink()


@pytest.mark.parametrize("shards", ["one file", "several"])
def test_from_pretrained_gives_the_same_logits(model: torch.nn.Module, tmp_path: Path, shards: str) -> None:
    model.save_pretrained(tmp_path, max_shard_size="20KB" if shards == "several" else "1GB")
    compress_folder(tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) == (1 if shards == "one file" else 5) or shards == "several"
    before = sorted(path.name for path in tmp_path.iterdir())
    z4ai.enable_hf()
    loaded = type(model).from_pretrained(tmp_path, variant="z4ai").eval()
    assert torch.equal(logits(loaded), logits(model))
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_compressed_shards_open_as_one_model(model: torch.nn.Module, tmp_path: Path) -> None:
    """As the documentation says it: saved as a variant, compressed in place."""
    model.save_pretrained(tmp_path, variant="z4ai", max_shard_size="50KB")
    for path in tmp_path.glob("*.safetensors"):
        compress_file(path, path)
    index = tmp_path / "model.safetensors.index.z4ai.json"
    with ztensor.open(index) as reader:
        assert len(reader) == len(model.state_dict())
        for name, tensor in model.state_dict().items():
            assert torch.equal(reader.read_torch(name), tensor)
    z4ai.enable_hf()
    loaded = type(model).from_pretrained(tmp_path, variant="z4ai").eval()
    assert torch.equal(logits(loaded), logits(model))
    shard = next(tmp_path.glob("*00002*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-9])
    with pytest.raises(ztensor.ZTensorError, match=shard.name):
        ztensor.open(index)


def test_nothing_is_decompressed_to_disk(
    model: torch.nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.save_pretrained(tmp_path)
    compress_folder(tmp_path)
    z4ai.enable_hf()
    opened = []
    plain_open = builtins.open

    def noting(file: object, mode: str = "r", *rest: object, **options: object) -> object:
        if any(letter in mode for letter in "wxa+"):
            opened.append(file)
        return plain_open(file, mode, *rest, **options)

    monkeypatch.setattr(builtins, "open", noting)
    type(model).from_pretrained(tmp_path, variant="z4ai")
    assert not [name for name in opened if str(name).endswith(".safetensors")]


@pytest.mark.parametrize("order", ["before", "after"])
def test_enabled_before_or_after_the_import(model: torch.nn.Module, tmp_path: Path, order: str) -> None:
    model.save_pretrained(tmp_path)
    compress_folder(tmp_path)
    steps = ["import z4ai; z4ai.enable_hf()", "from transformers import LlamaForCausalLM"]
    steps = steps if order == "before" else steps[::-1]
    program = [
        *steps,
        "import torch",
        f"model = LlamaForCausalLM.from_pretrained({str(tmp_path)!r}, variant='z4ai').eval()",
        "with torch.no_grad(): out = model(torch.arange(24).reshape(2, 12)).logits",
        f"torch.save(out, {str(tmp_path / 'logits.pt')!r})",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(program)], check=True, env={"HF_HUB_OFFLINE": "1"})
    assert torch.allclose(torch.load(tmp_path / "logits.pt"), logits(model), atol=1e-6)


def test_switching_on_and_off() -> None:
    modeling = sys.modules["transformers.modeling_utils"]
    originals = (safetensors.safe_open, safetensors.torch.load_file, modeling.safe_open)
    assert not z4ai.is_enabled()
    z4ai.enable_hf()
    z4ai.enable_hf()
    assert z4ai.is_enabled()
    assert modeling.safe_open is safetensors.safe_open is safetensors.torch.safe_open is not originals[0]
    z4ai.disable_hf()
    z4ai.disable_hf()
    assert not z4ai.is_enabled()
    assert (safetensors.safe_open, safetensors.torch.load_file, modeling.safe_open) == originals


def test_plain_files_go_where_they_went(tmp_path: Path) -> None:
    path = tmp_path / "plain.safetensors"
    safetensors.torch.save_file({"a": torch.ones(3)}, path, metadata={"format": "pt"})
    original = safetensors.safe_open
    z4ai.enable_hf()
    with safetensors.safe_open(path, framework="pt", device="cpu") as file:
        assert isinstance(file, original)
        assert torch.equal(file.get_tensor("a"), torch.ones(3))
    assert torch.equal(safetensors.torch.load_file(path)["a"], torch.ones(3))
    assert torch.equal(safetensors.torch.load(path.read_bytes())["a"], torch.ones(3))
    with pytest.raises(FileNotFoundError):
        safetensors.safe_open(tmp_path / "none.safetensors", framework="pt")


def test_compressed_files_serve_every_call(tmp_path: Path) -> None:
    state = {"w": torch.randn(64, 48).bfloat16(), "b": torch.randn(48)}
    path = tmp_path / "model.z4ai.safetensors"
    z4ai.save_file(state, path, metadata={"format": "pt"})
    z4ai.enable_hf()
    with safetensors.safe_open(path, framework="pt", device="cpu", backend="mmap") as file:
        assert isinstance(file, ztensor.safe_open)
        assert file.metadata() == {"format": "pt"}
        assert sorted(file.keys()) == ["b", "w"]
        part = file.get_slice("w")
        assert (part.get_dtype(), part.get_shape()) == ("BF16", [64, 48])
        assert torch.equal(part[3:7, ::5], state["w"][3:7, ::5])
        assert torch.equal(part[...], state["w"])
    for loaded in (safetensors.torch.load_file(path), safetensors.torch.load(path.read_bytes())):
        assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())


def test_save_and_load_a_state_dict(model: torch.nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "model.z4ai.safetensors"
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    stats = z4ai.save_file(state, path, effort="max")
    assert stats["compressed_bytes"] == path.stat().st_size < stats["original_bytes"]
    assert stats["saved_pct"] > 5
    loaded = z4ai.load_file(path, device="cpu")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())
    plain = tmp_path / "plain.safetensors"
    safetensors.torch.save_file(state, plain)
    assert z4ai.load_file(plain).keys() == state.keys()
    assert z4ai.safetensors.decompress_bytes(path.read_bytes()) == plain.read_bytes()


@pytest.mark.parametrize("shards", ["one file", "several"])
def test_dehydrate_makes_what_from_pretrained_loads(model: torch.nn.Module, tmp_path: Path, shards: str) -> None:
    model.save_pretrained(tmp_path, max_shard_size="20KB" if shards == "several" else "1GB")
    plain = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    command = [sys.executable, "-m", "ztensor"]
    subprocess.run([*command, "dehydrate", str(tmp_path), "--delete-originals"], check=True, capture_output=True)
    names = {path.name for path in tmp_path.iterdir()}
    assert names & plain.keys() == {name for name in plain if "safetensors" not in name}
    with ztensor.open(tmp_path) as reader:
        assert len(reader) == len(model.state_dict())
    z4ai.enable_hf()
    loaded = type(model).from_pretrained(tmp_path, variant="z4ai").eval()
    assert torch.equal(logits(loaded), logits(model))
    subprocess.run([*command, "hydrate", str(tmp_path)], check=True, capture_output=True)
    again = subprocess.run([*command, "dehydrate", str(tmp_path)], check=True, capture_output=True, text=True)
    assert "is there already" in again.stdout and "kept as it is" not in again.stdout + again.stderr
    subprocess.run([*command, "hydrate", str(tmp_path), "--delete-archives"], check=True, capture_output=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == plain


def test_hydrate_restores_plain_files(model: torch.nn.Module, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    plain = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    index = json.loads(plain["model.safetensors.index.json"])
    compress_folder(tmp_path)
    command = [sys.executable, "-m", "ztensor", "hydrate", str(tmp_path)]
    packed = sorted(path.name for path in tmp_path.iterdir())
    broken = next(tmp_path.glob("model.z4ai-00002*"))
    content = broken.read_bytes()
    broken.write_bytes(content[:-5])
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
    assert not (tmp_path / "model.safetensors.index.json").exists()
    assert not list(tmp_path.glob(".*.partial"))
    broken.write_bytes(content)
    subprocess.run(command, check=True, capture_output=True)
    assert set(packed) < {path.name for path in tmp_path.iterdir()}
    subprocess.run([*command, "--delete-archives"], check=True, capture_output=True)
    assert {path.name for path in tmp_path.iterdir()} == set(plain)
    for name, bytes_before in plain.items():
        if name.endswith(".index.json"):
            assert json.loads((tmp_path / name).read_text()) == index
        else:
            assert (tmp_path / name).read_bytes() == bytes_before
    assert torch.equal(logits(type(model).from_pretrained(tmp_path).eval()), logits(model))
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2


SAVE_AND_MEASURE = """
import resource
import sys

import torch

import z4ai

tensors = {f"layer.{index}": torch.arange(8 << 20, dtype=torch.float32) % 1009 for index in range(8)}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
z4ai.save_file(tensors, sys.argv[1])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_saving_holds_no_plain_file_in_memory(tmp_path: Path) -> None:
    """256 MiB of tensors; what is compressed side by side is a quarter of that."""
    result = subprocess.run(
        [sys.executable, "-c", SAVE_AND_MEASURE, str(tmp_path / "model.safetensors")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(result.stdout) < 160


def test_what_was_opened_is_an_instance_of_the_class_that_opened_it(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain.safetensors", tmp_path / "packed.safetensors"
    safetensors.torch.save_file({"a": torch.ones(3)}, plain)
    compress_file(plain, packed)
    before = safetensors.safe_open
    z4ai.enable_hf()
    assert safetensors.safe_open is not before
    for path in (plain, packed):
        with safetensors.safe_open(path, framework="pt") as file:
            assert isinstance(file, safetensors.safe_open)
            assert issubclass(type(file), safetensors.safe_open)
    assert not isinstance(plain, safetensors.safe_open)
    assert issubclass(safetensors.safe_open, safetensors.safe_open)
    assert not issubclass(dict, safetensors.safe_open)
    assert pickle.loads(pickle.dumps(safetensors.safe_open)) is safetensors.safe_open
    assert safetensors.safe_open.__name__ == "safe_open"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are a thing of Unix")
def test_a_pipe_is_not_looked_into(tmp_path: Path) -> None:
    z4ai.enable_hf()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not z4ai.integrations._is_ours(pipe)
