"""Every format through the command: → `.zt` → `.safetensors`, with the values that the format's own library wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file as load_safetensors

import ztensor
from ztensor.numpy import load_file

Model = tuple[str, Path, dict[str, np.ndarray]]


def run(*arguments: object) -> str:
    done = subprocess.run([sys.executable, "-m", "ztensor", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype
        and left[name].shape == right[name].shape
        and left[name].tobytes() == right[name].tobytes()
        for name in left
    )


def test_there_and_back(model_file: Model, tmp_path: Path) -> None:
    _, path, arrays = model_file
    there, back = tmp_path / "there.zt", tmp_path / "back.safetensors"
    run("convert", path, "-o", there)
    assert same(load_file(there), arrays)
    run("verify", path, there)
    run("diff", path, there)
    run("convert", there, "-o", back)
    assert same(load_safetensors(back), arrays)


@pytest.mark.parametrize("options", [["--codec", "z4ai"], ["--zt-version", "2", "-c"]], ids=["z4ai", "version-2-zstd"])
def test_there_compressed(model_file: Model, tmp_path: Path, options: list[str]) -> None:
    _, path, arrays = model_file
    there = tmp_path / "there.zt"
    run("convert", path, "-o", there, *options)
    assert same(load_file(there), arrays)
    run("verify", there)


def test_one_array(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    np.save(tmp_path / "one.npy", np.asfortranarray(array))
    run("convert", tmp_path / "one.npy", "-o", tmp_path / "one.zt")
    run("convert", tmp_path / "one.zt", "-o", tmp_path / "one.safetensors")
    assert same(load_safetensors(tmp_path / "one.safetensors"), {"one": array})


@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_quantized_gguf_is_dequantized_on_request(tmp_path: Path, precision: str) -> None:
    import gguf

    kinds = [gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q5_1]
    values = np.random.default_rng(3).standard_normal((6, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "test")
    expected = {}
    for kind in kinds:
        blocks = gguf.quants.quantize(values, kind)
        writer.add_tensor(kind.name, blocks, raw_dtype=kind)
        expected[kind.name] = gguf.quants.dequantize(blocks, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    expected = {name: array.astype({"f32": "f4", "f16": "f2"}[precision]) for name, array in expected.items()}

    kept, back = tmp_path / "kept.zt", tmp_path / "back.safetensors"
    run("convert", tmp_path / "m.gguf", "-o", kept)
    assert ztensor.Reader(kept).metadata("Q4_0").format == "gguf.q4_0/1"
    run("convert", tmp_path / "m.gguf", "-o", tmp_path / "plain.zt", "--dequantize", precision)
    assert same(load_file(tmp_path / "plain.zt"), expected)
    for source, options in ((tmp_path / "plain.zt", []), (kept, ["--dequantize", precision])):
        run("convert", source, "-o", back, "--force", *options)
        assert same(load_safetensors(back), expected)
