"""The z4ai command: files, pipes and failures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import z4ai.model_delta
import z4ai.safetensors
import ztensor
import ztensor.numpy


def run(*arguments: object, code: int = 0, stdin: bytes | None = None) -> bytes:
    result = subprocess.run([sys.executable, "-m", "z4ai", *map(str, arguments)], capture_output=True, input=stdin)
    assert result.returncode == code, result.stderr
    return result.stdout if code == 0 else result.stderr


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights.bin"
    path.write_bytes((np.random.default_rng(1).standard_normal((256, 128)) * 0.02).astype(np.float16).tobytes())
    return path


@pytest.mark.parametrize("effort", ["fast", "balanced", "max"])
def test_round_trip(weights: Path, tmp_path: Path, effort: str) -> None:
    packed, restored = tmp_path / "weights.z4ai", tmp_path / "restored.bin"
    run("compress", weights, "-o", packed, "--dtype", "fp16", "--shape", "256x128", "--effort", effort)
    assert packed.stat().st_size < weights.stat().st_size
    run("decompress", packed, "-o", restored)
    assert restored.read_bytes() == weights.read_bytes()


def test_default_names(weights: Path, tmp_path: Path) -> None:
    original = weights.read_bytes()
    run("compress", weights)
    weights.unlink()
    run("decompress", tmp_path / "weights.bin.z4ai")
    assert weights.read_bytes() == original


def test_pipes(weights: Path) -> None:
    original = weights.read_bytes()
    packed = run("compress", "-", "--dtype", "fp16", stdin=original)
    assert run("decompress", "-", stdin=packed) == original


def test_errors_name_what_they_are_about(weights: Path, tmp_path: Path) -> None:
    for command in (["decompress", "-"], ["info", "-"], ["apply", "-", "--reference", weights]):
        assert b"standard input: not a z4ai frame" in run(*command, stdin=b"nothing", code=2)
    for command in ("compress", "info", "estimate"):
        assert b"is a directory" in run(command, tmp_path, code=2)
    packed = tmp_path / "weights.z4ai"
    run("compress", weights, "-o", packed)
    packed.write_bytes(packed.read_bytes()[:-9])
    assert packed.name.encode() in run("decompress", packed, "-o", tmp_path / "restored", code=2)
    assert not (tmp_path / "restored").exists()
    for start in (b"Z4AI\x01", b"Z4AIMF01", b"ZARA\x01", b"Z4DL"):
        packed.write_bytes(start + bytes(40))
        for command in (
            ["decompress", packed, "-o", "-"],
            ["info", packed],
            ["apply", packed, "-r", weights, "-o", "-"],
        ):
            assert b"z4ai 0.2" in run(*command, code=2)


def test_info(weights: Path, tmp_path: Path) -> None:
    packed = tmp_path / "weights.z4ai"
    run("compress", weights, "-o", packed, "--dtype", "fp16")
    document = json.loads(run("info", "--json", packed))["result"]
    assert document["dtype"] == "fp16" and document["bytes"] == weights.stat().st_size
    assert document["stored_bytes"] == packed.stat().st_size
    assert b"bits per element" in run("info", packed)


def test_estimate(weights: Path) -> None:
    assert json.loads(run("estimate", weights, "--dtype", "fp16", "--json"))["result"]["ratio"] > 1.05


def test_failures(weights: Path, tmp_path: Path) -> None:
    assert b"not a z4ai frame" in run("decompress", weights, "-o", tmp_path / "x", code=2)
    assert not (tmp_path / "x").exists()
    packed = tmp_path / "weights.z4ai"
    run("compress", weights, "-o", packed)
    run("compress", weights, "-o", packed)  # the same bytes
    assert b"--force" in run("compress", weights, "--dtype", "fp16", "-o", packed, code=2)
    packed.write_bytes(packed.read_bytes()[:-5])
    assert b"ends" in run("decompress", packed, "-o", tmp_path / "y", code=2)
    assert not (tmp_path / "y").exists()
    assert b"unknown dtype" in run("compress", weights, "--dtype", "fp7", code=2)


@pytest.fixture
def tuned(weights: Path, tmp_path: Path) -> Path:
    values = np.frombuffer(weights.read_bytes(), np.float16)
    path = tmp_path / "tuned.bin"
    path.write_bytes((values * np.float16(0.999)).tobytes() + b"more")
    return path


def test_delta(weights: Path, tuned: Path, tmp_path: Path) -> None:
    delta, restored = tmp_path / "tuned.z4ai", tmp_path / "restored.bin"
    run("delta", tuned, "--reference", weights, "-o", delta, "--dtype", "fp16", "--threads", "2")
    assert delta.stat().st_size < tuned.stat().st_size / 4
    run("apply", delta, "--reference", weights, "-o", restored)
    assert restored.read_bytes() == tuned.read_bytes()
    document = json.loads(run("info", "--json", delta))["result"]
    assert document["reference"]["bytes"] == weights.stat().st_size and len(document["reference"]["digest"]) == 32
    assert b"a delta against" in run("info", delta)


def test_delta_names_and_pipes(weights: Path, tuned: Path) -> None:
    original = tuned.read_bytes()
    run("delta", tuned, "-r", weights)
    tuned.unlink()
    run("apply", tuned.with_name("tuned.bin.z4ai"), "-r", weights)
    assert tuned.read_bytes() == original
    packed = run("delta", "-", "-r", weights, stdin=original)
    assert run("apply", "-", "-r", weights, stdin=packed) == original


def test_delta_failures(weights: Path, tuned: Path, tmp_path: Path) -> None:
    delta, output = tmp_path / "tuned.z4ai", tmp_path / "output.bin"
    run("delta", tuned, "-r", weights, "-o", delta)
    assert b"wrong reference" in run("apply", delta, "-r", tuned, "-o", output, code=2)
    assert b"missing.bin" in run("apply", delta, "-r", tmp_path / "missing.bin", "-o", output, code=2)
    assert b"not a delta" in run("apply", tmp_path / packed(weights), "-r", weights, "-o", output, code=2)
    assert b"delta" in run("decompress", delta, "-o", output, code=2)
    assert b"twice" in run("apply", delta, "-r", "-", "-o", output, code=2)
    run("delta", tuned, "-r", weights, "-o", delta)  # the same bytes
    assert b"--force" in run("delta", tuned, "-r", weights, "--dtype", "fp16", "-o", delta, code=2)
    delta.write_bytes(delta.read_bytes()[:-3])
    assert b"ends" in run("apply", delta, "-r", weights, "-o", output, code=2)
    assert not output.exists()


def packed(path: Path) -> str:
    run("compress", path)
    return f"{path.name}.z4ai"


def test_a_file_of_the_wrong_kind_is_told_apart(weights: Path, tmp_path: Path) -> None:
    plain, delta, model = tmp_path / "plain.z4ai", tmp_path / "delta.z4ai", tmp_path / "model.safetensors"
    archive, model_delta = tmp_path / "model.zstn", tmp_path / "model.z4dm"
    run("compress", weights, "-o", plain)
    run("delta", weights, "-r", weights, "-o", delta)
    ztensor.numpy.save_file({"a": np.random.default_rng(0).standard_normal(5000).astype(np.float32)}, model)
    z4ai.safetensors.compress_file(model, archive)
    z4ai.model_delta.compress_file(model, model, model_delta)
    (tmp_path / "noise").write_bytes(b"noise" * 1000)

    def complaint(command: str, path: Path) -> str:
        reference = ["-r", weights] if command == "apply" else []
        output = ["-o", tmp_path / "out"] if command != "info" else []
        text = run(command, path, *reference, *output, code=2).decode()
        assert f'"{path}"' in text and str(weights) not in text
        assert not (tmp_path / "out").exists()
        return text

    assert "is not a delta" in (text := complaint("apply", plain)) and "`z4ai decompress`" in text
    assert "is a delta" in (text := complaint("decompress", delta)) and "`z4ai apply`" in text
    for command in ("apply", "decompress", "info"):
        assert "is not a z4ai frame but the delta of a whole model file" in complaint(command, model_delta)
        assert "is not a z4ai frame but an archive of a safetensors file" in complaint(command, archive)
        assert "is not a z4ai frame but a safetensors file" in complaint(command, model)
        assert "not a z4ai frame" in complaint(command, tmp_path / "noise")


def test_frames_are_named_where_model_files_are_expected(weights: Path, tmp_path: Path) -> None:
    run("compress", weights, "-o", tmp_path / "plain.z4ai")
    with pytest.raises(ztensor.ZTensorError, match=r"z4ai frame.*z4ai\.decompress"):
        ztensor.open(tmp_path / "plain.z4ai")
