"""What ``convert``, ``cat`` and ``info`` do on request: other types, names and selections, values of quantised blocks, summaries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file as load_safetensors
from safetensors.torch import save_file as save_safetensors

import ztensor
from ztensor.torch import load_file


def run(*arguments: object, code: int = 0, stdin: bytes | None = None) -> str:
    done = subprocess.run([sys.executable, "-m", "ztensor", *map(str, arguments)], capture_output=True, input=stdin)
    assert done.returncode == code, done.stdout + done.stderr
    return (done.stdout if code == 0 else done.stderr).decode()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    generator = torch.Generator().manual_seed(3)
    wide = torch.randn(300, 17, generator=generator, dtype=torch.float64)
    wide[0, :4] = torch.tensor([float("nan"), float("inf"), 1e300, 1e-300], dtype=torch.float64)
    tensors = {
        "model.layers.0.weight": torch.randn(64, 33, generator=generator) * 1e-3,
        "model.layers.1.weight": torch.randn(64, 33, generator=generator).half(),
        "model.layers.1.bias": torch.randn(64, generator=generator).bfloat16(),
        "model.wide": wide,
        "steps": torch.tensor([1, 2, 3]),
    }
    save_safetensors(tensors, path, metadata={"format": "pt"})
    return path


@pytest.fixture
def quantised(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    weights = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)
    blocks = gguf.quantize(weights, gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("blk.0.attn_q.weight", blocks, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("blk.1.attn_q.weight", blocks, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("output_norm.weight", np.ones(16, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("suffix", ["zt", "safetensors"])
def test_dtype_rounds_as_torch_does(model: Path, tmp_path: Path, name: str, suffix: str) -> None:
    target = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[name]
    output = tmp_path / f"out.{suffix}"
    run("convert", model, "-o", output, "--dtype", name)
    written = load_file(output)
    for key, tensor in load_safetensors(model).items():
        expected = tensor.to(target) if tensor.is_floating_point() else tensor
        assert written[key].dtype == expected.dtype
        assert torch.equal(written[key].nan_to_num(7), expected.nan_to_num(7)), key


def test_names_and_selections(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.zt"
    said = run(
        "convert",
        model,
        "-o",
        output,
        "--include",
        "model.*",
        "--exclude",
        "*.wide",
        "--rename",
        r"s/^model\.//",
        "--rename",
        r"s/layers\.([0-9]+)/h.\1/",
    )
    assert set(ztensor.open(output).keys()) == {"h.0.weight", "h.1.weight", "h.1.bias"}
    assert "3 of 5 tensors" in said
    original = load_safetensors(model)
    assert torch.equal(load_file(output)["h.1.bias"], original["model.layers.1.bias"])
    assert "two tensors the name" in run("convert", model, "-o", output, "--force", "--rename", "s/.*/x/", code=2)
    assert "none of the 5 tensors" in run("convert", model, "-o", output, "--force", "--include", "nothing", code=2)
    assert "s/REGEX/TEXT/" in run("convert", model, "-o", output, "--force", "--rename", "model", code=2)
    run("convert", model, "-o", tmp_path / "out.safetensors", "--rename", "s/model/encoder/")
    assert "encoder.wide" in load_safetensors(tmp_path / "out.safetensors")


def test_originals_are_deleted_only_where_nothing_is_lost(model: Path, tmp_path: Path) -> None:
    for lossy in (["--dtype", "f16"], ["--include", "model.*"], ["--exclude", "steps"]):
        assert "cannot be used with" in run(
            "convert", model, "-o", tmp_path / "out.zt", "--delete-original", *lossy, code=2
        )
        assert model.exists() and not (tmp_path / "out.zt").exists()
    run("convert", model, "-o", tmp_path / "out.zt", "--delete-original", "--rename", "s/model/encoder/")
    assert not model.exists() and "encoder.wide" in ztensor.open(tmp_path / "out.zt")


def test_standard_input(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.zt"
    run("convert", "-", "-o", output, stdin=model.read_bytes())
    assert set(ztensor.open(output).keys()) == set(load_safetensors(model))
    assert "-o PATH" in run("convert", "-", code=2, stdin=model.read_bytes())
    assert "5 tensors" in run("info", "-", stdin=model.read_bytes())


def test_convert_as_json(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.zt"
    [document] = json.loads(run("convert", model, "-o", output, "--json"))["result"]
    assert document == {
        "path": str(model),
        "output": str(output),
        "bytes": model.stat().st_size,
        "output_bytes": output.stat().st_size,
        "tensors": 5,
        "skipped": [],
    }


@pytest.mark.parametrize(("name", "dtype"), [("f32", np.float32), ("f16", np.float16)])
def test_cat_gives_the_values_of_blocks(quantised: Path, tmp_path: Path, name: str, dtype: type) -> None:
    output = tmp_path / "out.npy"
    run("cat", quantised, "blk.0.attn_q.weight", "--dequantize", name, "-o", output)
    tensor = gguf.GGUFReader(quantised).tensors[0]
    expected = gguf.dequantize(tensor.data, tensor.tensor_type).astype(dtype)
    assert np.array_equal(np.load(output), expected.reshape(8, 256))
    assert "not one of known ggml blocks" in run("cat", quantised, "output_norm.weight", "--dequantize", name, code=2)


def test_info_sums_up(quantised: Path, model: Path, tmp_path: Path) -> None:
    text = run("info", quantised)
    assert "Q8_0" in text and "4,112 parameters" in text and "blocks" in text
    assert "Q8_0: 2 tensors, 4,096 parameters" in text
    document = json.loads(run("info", "--json", quantised))["result"]
    assert document["dtypes"]["Q8_0"]["bits_per_weight"] == 8.5
    assert document["total"]["parameters"] == 4112
    tree = run("info", quantised, "--tree")
    assert "0-1 (2 alike): 4,096 parameters" in tree and "weight: Q8_0 [8, 256]" in tree
    archive = tmp_path / "model.zstn"
    run("archive", model, "-o", archive)
    inside = {tensor["name"]: tensor for tensor in json.loads(run("info", "--json", archive))["result"]["tensors"]}
    assert inside["model.layers.0.weight"]["encoding"] == "z4ai"
    assert inside["model.layers.0.weight"]["stored_bytes"] < inside["model.layers.0.weight"]["bytes"]


def test_info_tells_how_a_delta_is_stored(model: Path, tmp_path: Path) -> None:
    tensors = load_safetensors(model)
    tensors["model.layers.0.weight"] += 1e-6
    tuned = tmp_path / "tuned.safetensors"
    save_safetensors(tensors, tuned)
    run("delta", "make", tuned, "--base", model, "-o", tmp_path / "tuned.z4dm")
    document = json.loads(run("info", "--json", tmp_path / "tuned.z4dm"))["result"]
    encodings = {tensor["name"]: tensor["encoding"] for tensor in document["tensors"]}
    assert encodings["model.layers.0.weight"] == "delta" and encodings["model.wide"] == "in the base"
