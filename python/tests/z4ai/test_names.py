"""Names that code written for z4ai 0.2 uses, one name per thing in what is reported, and nothing but the API in dir()."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import z4ai
import z4ai.chunked
import z4ai.cli
import z4ai.delta
import ztensor
from z4ai import model_delta
from z4ai.safetensors import compress_file, decompress_file
from ztensor.numpy import save_file

WEIGHTS = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)


def test_delta() -> None:
    changed = WEIGHTS.copy()
    changed[::7] += 1
    blob = z4ai.delta.compress(changed.tobytes(), WEIGHTS.tobytes(), dtype="fp32")
    assert z4ai.delta.decompress(blob, WEIGHTS.tobytes()) == changed.tobytes()
    assert z4ai.delta.peek_is_delta(blob) and not z4ai.delta.peek_is_delta(z4ai.compress(b"x" * 100))
    assert not z4ai.delta.peek_is_delta(b"Z4DL") and not z4ai.delta.peek_is_delta(b"")


def test_chunked() -> None:
    blob = z4ai.chunked.compress(WEIGHTS.tobytes(), dtype="fp32", chunk_size=1 << 12)
    assert z4ai.chunked.is_chunked(blob) and not z4ai.chunked.is_chunked(b"no frame")
    assert z4ai.chunked.decompress(blob, threads=1) == WEIGHTS.tobytes()
    with pytest.raises(ValueError, match="chunk_size"):
        z4ai.chunked.compress(b"", chunk_size=0)


def test_main(tmp_path: Path) -> None:
    path = tmp_path / "w.bin"
    path.write_bytes(WEIGHTS.tobytes())
    out = tmp_path / "w.z4ai"
    assert z4ai.cli.main(["compress", str(path), "--dtype", "fp32", "-o", str(out)]) == 0
    assert z4ai.decompress(out.read_bytes()) == WEIGHTS.tobytes()
    assert z4ai.cli.main(["compress", str(tmp_path / "missing"), "-o", str(out)]) != 0


def test_stats_have_one_name_per_thing(tmp_path: Path) -> None:
    save_file({"w": WEIGHTS}, tmp_path / "base.safetensors")
    save_file({"w": WEIGHTS + 1}, tmp_path / "tuned.safetensors")
    told: list[tuple[int, int]] = []

    def tell(done: int, total: int) -> None:
        told.append((done, total))

    found = [
        compress_file(tmp_path / "base.safetensors", tmp_path / "base.zstn", progress=tell),
        decompress_file(tmp_path / "base.zstn", tmp_path / "again.safetensors", progress=tell),
        model_delta.compress_file(
            tmp_path / "tuned.safetensors", tmp_path / "base.safetensors", tmp_path / "t.z4dm", progress=tell
        ),
        model_delta.decompress_file(
            tmp_path / "t.z4dm", tmp_path / "base.safetensors", tmp_path / "t.safetensors", progress=tell
        ),
    ]
    length = (tmp_path / "base.safetensors").stat().st_size
    for stats in found:
        assert stats.keys() <= z4ai.Stats.__annotations__.keys()
        assert stats["original_bytes"] == length and stats["ratio"] > 1 and stats["seconds"] >= 0
        # As z4ai 0.2 calls them:
        assert stats["original"] == stats["restored"] == stats["bytes"] == length
        assert stats["stored"] == stats["compressed_bytes"] and "stored" not in stats
        with pytest.raises(KeyError):
            stats["nothing"]
    assert told.count((length, length)) >= 4 and all(done <= total for done, total in told)


def test_errors_of_both_packages_are_one(tmp_path: Path) -> None:
    frame = z4ai.compress(WEIGHTS)
    for data, kind in ((b"no frame", "unknown_format"), (frame[:-9], "truncated"), (b"", None)):
        with pytest.raises(z4ai.ZTensorError) as caught:
            z4ai.decompress(data)
        assert isinstance(caught.value, ValueError) and kind in (None, caught.value.kind)
    with pytest.raises(z4ai.ZTensorError, match="effort"):
        z4ai.compress(b"", effort="huge")  # type: ignore[arg-type]
    assert z4ai.ZTensorError is ztensor.ZTensorError
    with pytest.raises(z4ai.ZTensorError) as caught:
        z4ai.decompress_delta(z4ai.compress_delta(b"a" * 100, b"b" * 100), b"c" * 100)
    assert caught.value.kind == "wrong_base"


def test_dir_shows_the_api_and_nothing_else(run_python: Callable[[str], str]) -> None:
    for module in (ztensor, z4ai):
        names = dir(module)
        assert set(module.__all__) <= set(names)
        for name in names:
            assert name == "__version__" or not name.startswith("_")
            value = getattr(module, name)
            owner = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", "ztensor")
            assert owner.split(".")[0] in ("ztensor", "z4ai"), name
    assert "np" not in dir(z4ai) and "os" not in dir(ztensor)
    assert {"dcp", "jax", "numpy", "ray", "torch"} <= set(dir(ztensor))
    for module in (ztensor.torch, ztensor.numpy, z4ai.chunked, z4ai.delta, z4ai.model_delta, z4ai.safetensors):
        assert dir(module) == sorted(module.__all__)
    program = "import sys, ztensor; ztensor.numpy.load_file; assert 'torch' not in sys.modules; print(ztensor.torch.load_file)"
    assert "load_file" in run_python(program)
    with pytest.raises(AttributeError, match="nothing"):
        _ = ztensor.nothing
    assert sys.modules["ztensor.numpy"] is ztensor.numpy
