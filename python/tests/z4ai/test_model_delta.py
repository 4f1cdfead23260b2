"""Model deltas: the target comes back byte for byte, tensors decode one by one, and every wrong base is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

import ztensor
import ztensor.numpy
import ztensor.torch
from z4ai import model_delta
from z4ai.safetensors import ZstnReader, compress_bytes, compress_file

RANDOM = np.random.default_rng(11)
BASE = {f"layer.{i}.weight": (RANDOM.standard_normal((64, 96)) * 0.02).astype(np.float32) for i in range(4)}
TUNED = {
    "new": RANDOM.standard_normal(300).astype(np.float32),
    "layer.0.weight": BASE["layer.0.weight"],
    "layer.1.weight": (BASE["layer.1.weight"] * (1 + 1e-6 * RANDOM.standard_normal((64, 96)))).astype(np.float32),
    "renamed": BASE["layer.2.weight"],
    "layer.3.weight": BASE["layer.3.weight"].T.copy(),
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    base, tuned, delta = tmp_path / "base.safetensors", tmp_path / "ft.safetensors", tmp_path / "ft.z4dm"
    safetensors.numpy.save_file(BASE, base)
    safetensors.numpy.save_file(TUNED, tuned)
    return base, tuned, delta


def test_bytes_come_back() -> None:
    base, tuned = safetensors.numpy.save(BASE), safetensors.numpy.save(TUNED)
    blob = model_delta.compress(tuned, base)
    assert model_delta.decompress(blob, base) == tuned
    assert len(blob) < 0.7 * len(compress_bytes(tuned))
    assert model_delta.peek_is_model_delta(blob)
    assert not model_delta.peek_is_model_delta(base)


def test_files_come_back(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    base, tuned, delta = files
    stats = model_delta.compress_file(tuned, base, delta)
    assert (stats["original"], stats["stored"]) == (tuned.stat().st_size, delta.stat().st_size)
    assert stats["ratio"] == pytest.approx(stats["original"] / stats["stored"])
    assert (stats["copied"], stats["deltas"]) == (2, 1)
    restored = tmp_path / "restored"
    result = model_delta.decompress_file(delta, base, restored)
    assert (result["compressed_bytes"], result["original_bytes"]) == (stats["stored"], stats["original"])
    assert restored.read_bytes() == tuned.read_bytes()


def test_tensors_are_read_through_the_delta(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    base, tuned, delta = files
    model_delta.compress_file(tuned, base, delta)
    elsewhere = tmp_path / "elsewhere" / "moved.safetensors"
    elsewhere.parent.mkdir()
    base.rename(elsewhere)
    np.testing.assert_array_equal(
        ztensor.open(delta, base=elsewhere)["layer.1.weight"].numpy(), TUNED["layer.1.weight"]
    )
    reader = ztensor.Reader(delta, base=ztensor.Reader(elsewhere))
    assert reader.archive["base"]["name"] == "base.safetensors"
    assert reader.stored_length("renamed") == 0
    loaded = ztensor.numpy.load_file(delta, base=elsewhere)
    for name, array in TUNED.items():
        np.testing.assert_array_equal(loaded[name], array)
    assert torch.equal(ztensor.torch.load_file(delta, base=elsewhere)["new"], torch.from_numpy(TUNED["new"]))
    with ztensor.safe_open(delta, "np", base=elsewhere) as file:
        np.testing.assert_array_equal(file.get_slice("layer.1.weight")[3:9, 5:], TUNED["layer.1.weight"][3:9, 5:])
    with ZstnReader.open(delta, base=elsewhere) as archive:
        assert archive.read_raw("layer.0.weight") == BASE["layer.0.weight"].tobytes()


def test_the_base_beside_the_delta_is_found(files: tuple[Path, Path, Path]) -> None:
    base, tuned, delta = files
    model_delta.compress_file(tuned, base, delta)
    np.testing.assert_array_equal(ztensor.open(delta)["layer.1.weight"].numpy(), TUNED["layer.1.weight"])
    base.unlink()
    with pytest.raises(ValueError, match=r"base\.safetensors.*sha256") as error:
        ztensor.open(delta)
    assert isinstance(error.value, ztensor.ZTensorError) and error.value.kind == "wrong_base"


def test_every_wrong_base_is_refused(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    base, tuned, delta = files
    model_delta.compress_file(tuned, base, delta)
    original, out = base.read_bytes(), tmp_path / "out"
    wrong = tmp_path / "wrong.safetensors"
    bytes_of = {
        "modified": original[:-100] + bytes([original[-100] ^ 1]) + original[-99:],
        "truncated": original[:-100],
        "swapped": tuned.read_bytes(),
        "empty": b"",
    }
    for what, content in bytes_of.items():
        wrong.write_bytes(content)
        with pytest.raises(ztensor.ZTensorError):
            model_delta.decompress_file(delta, wrong, out)
        assert not out.exists(), what
    with pytest.raises(ValueError):
        model_delta.decompress(delta.read_bytes(), safetensors.numpy.save(TUNED))


def test_formats_may_differ_and_bases_may_be_compressed(tmp_path: Path) -> None:
    base, tuned, delta = tmp_path / "base.pt", tmp_path / "ft.safetensors", tmp_path / "ft.z4dm"
    torch.save({name: torch.from_numpy(array) for name, array in BASE.items()}, base)
    safetensors.numpy.save_file(TUNED, tuned)
    assert model_delta.compress_file(tuned, base, delta)["copied"] == 2
    packed = tmp_path / "base.zstn"
    compress_file(base, packed)
    for known in (base, packed):
        model_delta.decompress_file(delta, known, tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == tuned.read_bytes()


def test_a_delta_is_never_larger_than_an_archive() -> None:
    other = safetensors.numpy.save({name: array + 1 for name, array in BASE.items()})
    for target in (safetensors.numpy.save(TUNED), safetensors.numpy.save({"a": np.zeros(3)}), other):
        for base in (safetensors.numpy.save(BASE), other):
            assert len(model_delta.compress(target, base)) <= len(compress_bytes(target))


def test_a_training_checkpoint(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 128))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def train(steps: int) -> None:
        for _ in range(steps):
            x = torch.randn(64, 128)
            optimizer.zero_grad()
            (model(x) - x).square().mean().backward()
            optimizer.step()

    paths = [tmp_path / "0.pt", tmp_path / "1.pt"]
    train(200)
    for path in paths:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1}, path)
        train(1)
    delta, out = tmp_path / "1.z4dm", tmp_path / "out.pt"
    stats = model_delta.compress_file(paths[1], paths[0], delta)
    assert stats["deltas"] >= 6
    assert stats["stored"] < 0.95 * len(compress_bytes(paths[1].read_bytes()))
    model_delta.decompress_file(delta, paths[0], out)
    assert out.read_bytes() == paths[1].read_bytes()
