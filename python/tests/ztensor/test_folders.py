"""Folders, and bases that are found by what they hold, from Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import ztensor
import ztensor.numpy
from z4ai import model_delta
from z4ai.safetensors import compress_file
from ztensor.numpy import save_file

RANDOM = np.random.default_rng(5)
WEIGHTS = (RANDOM.standard_normal((64, 96)) * 0.02).astype(np.float32)


def run(*arguments: object) -> tuple[int, str, str]:
    words = [sys.executable, "-m", "ztensor", *map(str, arguments)]
    result = subprocess.run(words, capture_output=True, text=True, check=False, errors="replace")
    return result.returncode, result.stdout, result.stderr


def step(number: int) -> dict[str, np.ndarray]:
    return {"w": (WEIGHTS * (1 + np.float32(1e-6) * number)).astype(np.float32)}


def test_a_folder_opens_as_the_model_in_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"metadata": {}}')
    safetensors.numpy.save_file({"w": WEIGHTS}, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(ztensor.open(tmp_path).read_numpy("w"), WEIGHTS)
    np.testing.assert_array_equal(ztensor.numpy.load_file(tmp_path)["w"], WEIGHTS)
    with ztensor.safe_open(tmp_path, "np") as file:
        assert file.keys() == ["w"]
    (tmp_path / "vae").mkdir()
    safetensors.numpy.save_file({"w": WEIGHTS}, tmp_path / "vae" / "other.safetensors")
    with pytest.raises(ztensor.ZTensorError, match=r'2 models.*"model\.safetensors", "vae/other\.safetensors"'):
        ztensor.open(tmp_path)


def test_bases_are_found_by_what_they_hold(tmp_path: Path) -> None:
    steps = [tmp_path / f"step-{number}.safetensors" for number in range(3)]
    for number, path in enumerate(steps):
        safetensors.numpy.save_file(step(number), path)
    links = [tmp_path / "first", tmp_path / "second.z4dm", tmp_path / "third.z4dm"]
    compress_file(steps[0], links[0])
    model_delta.compress_file(steps[1], steps[0], links[1])
    model_delta.compress_file(steps[2], steps[1], links[2])
    for path in steps:
        path.unlink()
    np.testing.assert_array_equal(ztensor.open(links[2]).read_numpy("w"), step(2)["w"])
    apart = tmp_path / "apart" / "third.z4dm"
    apart.parent.mkdir()
    links[2].rename(apart)
    with pytest.raises(ztensor.ZTensorError, match=r"missing.*step-1\.safetensors"):
        ztensor.open(apart)
    for base in (tmp_path, [links[0], links[1]], [str(links[1]), ztensor.open(links[0])], links[1]):
        np.testing.assert_array_equal(ztensor.open(apart, base=base).read_numpy("w"), step(2)["w"])
    with pytest.raises(ValueError, match="neither a path nor a Reader"):
        ztensor.open(apart, base=3)


def test_a_sharded_model_in_one_delta(tmp_path: Path) -> None:
    for number in range(2):
        folder = tmp_path / f"step-{number}"
        folder.mkdir()
        safetensors.numpy.save_file(step(number), folder / "model-00001-of-00002.safetensors")
        safetensors.numpy.save_file({"b": WEIGHTS[0]}, folder / "model-00002-of-00002.safetensors")
        (folder / "model.safetensors.index.json").write_text(
            '{"weight_map": {"w": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}'
        )
    delta = tmp_path / "step-1.z4dm"
    stats = model_delta.compress_file(tmp_path / "step-1", tmp_path / "step-0", delta)
    assert stats["deltas"] == 1
    reader = ztensor.open(delta, base=tmp_path / "step-0")
    assert reader.archive is not None and len(reader.archive["files"]) == 3
    np.testing.assert_array_equal(reader.read_numpy("w"), step(1)["w"])
    model_delta.decompress_file(delta, tmp_path / "step-0", tmp_path / "out")
    for path in (tmp_path / "step-1").iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


def test_commands_on_deltas_say_what_they_need(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    weights = generator.standard_normal((64, 64)).astype(np.float32)
    for folder in ("run", "alone", "bases"):
        (tmp_path / folder).mkdir()
    base, tuned, wrong = (tmp_path / "bases" / f"{name}.safetensors" for name in ("base", "tuned", "wrong"))
    for path, noise in ((base, 0.0), (tuned, 1e-3), (wrong, 1e-2)):
        save_file({"w": (weights + noise).astype(np.float32)}, path, metadata={"license": "mit"})
    delta = tmp_path / "alone" / "tuned.z4dm"
    assert run("delta", "make", tuned, "--base", base, "-o", delta)[0] == 0
    for command in (["scan"], ["meta", "get"]):
        code, _, errors = run(*command, delta)
        assert code == 2 and "--base" in errors
        code, output, _ = run(*command, delta, "--base", tmp_path / "bases")
        assert code == 0 and ("safe" in output or "license: mit" in output)
    code, _, errors = run("archive", delta)
    assert code == 2 and "this is an archive already" in errors
    code, _, errors = run("cat", delta, "w", "--raw", "--base", wrong)
    assert code == 2 and "is not what the delta was made against" in errors and "delta info" in errors
    code, output, _ = run("verify", delta, "--base", wrong)
    assert code == 1 and "the base is not the one that is needed" in output and "damaged" not in output
    code, output, _ = run("delta", "log", tmp_path / "alone")
    lines = output.splitlines()
    assert code == 0 and lines[-2] == "" and lines[-1].startswith("1 model, "), output


def test_one_is_not_many(tmp_path: Path) -> None:
    save_file({"w": np.ones(3000, np.float32)}, tmp_path / "m.zt", checksum="sha256")
    code, output, _ = run("manifest", tmp_path / "m.zt", "-o", tmp_path / "list")
    assert code == 0 and output.startswith("1 file -> ")
    damaged = bytearray((tmp_path / "m.zt").read_bytes())
    damaged[6000] ^= 1
    (tmp_path / "m.zt").write_bytes(damaged)
    code, output, _ = run("verify", tmp_path / "m.zt")
    assert code == 1 and "1 damaged; 1 tensor, 1 checksum" in output and "checksums" not in output
