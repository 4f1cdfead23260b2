"""Archives through ``z4ai.safetensors``: byte for byte, tensor by tensor, and nothing half-written."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import torch

import z4ai
import ztensor
import ztensor.numpy
from z4ai.safetensors import ZstnReader, compress_bytes, compress_file, decompress_bytes, decompress_file


def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    embedding = (random.standard_normal((300, 64)) * 0.02).astype(np.float32)
    return {
        "embed.weight": embedding,
        "head.weight": embedding.copy(),
        "half": random.standard_normal(500).astype(np.float16),
        "steps": np.arange(7),
        "empty": np.zeros((0, 4), np.float32),
        "scalar": np.array(3.5, np.float32),
    }


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(arrays(), path, metadata={"format": "pt", "note": "größe"})
    return path


def test_a_file_comes_back_byte_for_byte(model: Path, tmp_path: Path) -> None:
    packed, restored = tmp_path / "model.zstn", tmp_path / "restored"
    stats = compress_file(model, packed)
    original, stored = model.stat().st_size, packed.stat().st_size
    assert (stats["original_bytes"], stats["compressed_bytes"], stats["tensors"]) == (original, stored, 6)
    assert stats["ratio"] == pytest.approx(original / stored)
    assert stats["saved_pct"] == pytest.approx(100 * (1 - stored / original))
    assert stats["seconds"] > 0
    assert decompress_file(packed, restored)["bytes"] == original
    assert restored.read_bytes() == model.read_bytes()


def test_tied_weights_are_stored_once(model: Path) -> None:
    blob = compress_bytes(model.read_bytes())
    assert len(blob) < 300 * 64 * 4
    with ZstnReader.from_bytes(blob) as reader:
        assert reader.frame_size("embed.weight") == reader.frame_size("head.weight")


@pytest.mark.parametrize("effort", ["fast", None, "max"])
@pytest.mark.parametrize("container", [bytes, bytearray, memoryview])
def test_bytes_of_every_kind(model: Path, effort: str | None, container: type) -> None:
    original = model.read_bytes()
    blob = compress_bytes(container(original), effort=effort, threads=2)
    assert decompress_bytes(container(blob)) == original


def test_the_reader_shows_what_safetensors_shows(model: Path, tmp_path: Path) -> None:
    packed = tmp_path / "model.zstn"
    compress_file(model, packed)
    raw = model.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    with ZstnReader.open(packed) as reader:
        assert reader.header() == header
        assert reader.metadata() == header["__metadata__"]
        assert sorted(reader.names()) == sorted(arrays()) and len(reader) == 6
        assert "half" in reader and "nothing" not in reader
        for name, array in arrays().items():
            np.testing.assert_array_equal(reader.read_numpy(name), array)
            start, end = header[name]["data_offsets"]
            assert reader.read_raw(name) == raw[8 + length :][start:end]
            assert reader.frame_size(name) <= array.nbytes
        with pytest.raises(KeyError):
            reader.read_raw("nothing")
    with pytest.raises(ValueError, match="not an archive"):
        ZstnReader.open(model)


def test_an_archive_opens_like_its_original(model: Path, tmp_path: Path) -> None:
    packed = tmp_path / "model.zstn"
    compress_file(model, packed)
    with safetensors.safe_open(model, "pt") as theirs, ztensor.safe_open(packed, "pt") as ours:
        assert sorted(ours.keys()) == sorted(theirs.keys())
        assert ours.metadata() == theirs.metadata()
        for name in theirs.keys():  # noqa: SIM118
            assert torch.equal(ours.get_tensor(name), theirs.get_tensor(name))
        assert torch.equal(ours.get_slice("embed.weight")[10:20, ::3], theirs.get_tensor("embed.weight")[10:20, ::3])


def test_other_formats(tmp_path: Path) -> None:
    checkpoint, packed, restored = tmp_path / "c.pt", tmp_path / "c.pt.zstn", tmp_path / "r.pt"
    torch.save({"model": {"w": torch.randn(200, 100)}, "step": 3}, checkpoint)
    assert compress_file(checkpoint, packed)["ratio"] > 1.1
    decompress_file(packed, restored)
    assert restored.read_bytes() == checkpoint.read_bytes()


def bytes_read() -> int:
    """What this process has read from files so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def test_one_tensor_costs_its_own_bytes_and_the_index(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    names = [f"layer.{number}" for number in range(24)]
    matrix = {name: (random.standard_normal((512, 512)) * 0.02).astype(np.float32) for name in names}
    model, packed = tmp_path / "m.safetensors", tmp_path / "m.zstn"
    safetensors.numpy.save_file(matrix, model)
    compress_file(model, packed)
    before = bytes_read()
    reader = ztensor.Reader(packed, io="read")
    array = reader.read_numpy("layer.7")
    cost = bytes_read() - before
    np.testing.assert_array_equal(array, matrix["layer.7"])
    assert cost < reader.stored_length("layer.7") + 64 * 1024


@pytest.mark.parametrize("kind", ["archive", "container"])
def test_a_slice_costs_its_own_blocks(tmp_path: Path, kind: str) -> None:
    matrix = (np.random.default_rng(3).standard_normal((4096, 1024)) * 0.02).astype(np.float32)
    model, packed = tmp_path / "m.safetensors", tmp_path / "m.packed"
    if kind == "archive":
        safetensors.numpy.save_file({"matrix": matrix}, model)
        compress_file(model, packed)
    else:
        ztensor.numpy.save_file({"matrix": matrix}, packed, compression="z4ai")
    before = bytes_read()
    reader = ztensor.Reader(packed, io="read")
    part = reader.read_slice("matrix", np.s_[1000:1010])
    cost = bytes_read() - before
    np.testing.assert_array_equal(part, matrix[1000:1010])
    assert cost < packed.stat().st_size / 8


@pytest.mark.parametrize("what", ["truncated", "not an archive", "missing"])
def test_bad_input_leaves_what_was_there(model: Path, tmp_path: Path, what: str) -> None:
    packed, target = tmp_path / "model.zstn", tmp_path / "precious"
    target.write_bytes(b"precious")
    if what == "truncated":
        packed.write_bytes(compress_bytes(model.read_bytes())[:-9])
    elif what == "not an archive":
        packed.write_bytes(model.read_bytes())
    with pytest.raises(ztensor.ZTensorError):
        decompress_file(packed, target)
    assert target.read_bytes() == b"precious"
    assert {path.name for path in tmp_path.iterdir()} <= {"model.safetensors", "model.zstn", "precious"}


@pytest.mark.parametrize("wrong", ["text", 5, None, [1, 2]])
def test_what_is_no_bytes_is_refused(wrong: Any) -> None:
    for call in (compress_bytes, decompress_bytes, ZstnReader.from_bytes, z4ai.model_delta.peek_is_model_delta):
        with pytest.raises(TypeError):
            call(wrong)


def test_a_skeleton_that_does_not_rebuild_the_digest_is_refused(model: Path) -> None:
    blob = bytearray(compress_bytes(model.read_bytes()))
    digest = ztensor.Reader.from_bytes(bytes(blob)).archive["sha256"]
    place = blob.find(bytes.fromhex(digest))
    blob[place] ^= 1
    with pytest.raises(ztensor.ZTensorError, match="not the original's") as error:
        decompress_bytes(blob)
    assert error.value.kind == "checksum"


@pytest.mark.parametrize("action", ["compress_file", "decompress_file"])
def test_a_killed_process_leaves_no_half_written_file(
    tmp_path: Path, action: str, is_writing: Callable[[subprocess.Popen[bytes], Path], bool]
) -> None:
    random = np.random.default_rng(2)
    model, packed = tmp_path / "m.safetensors", tmp_path / "m.zstn"
    safetensors.numpy.save_file({"w": random.standard_normal((8 << 20,)).astype(np.float32)}, model)
    source, target = (model, tmp_path / "new.zstn") if action == "compress_file" else (packed, tmp_path / "new")
    if action == "decompress_file":
        compress_file(model, packed, effort="fast")
    digest = hash(source.read_bytes())
    command = f"from z4ai.safetensors import {action}; {action}({str(source)!r}, {str(target)!r})"
    process = subprocess.Popen([sys.executable, "-c", command])
    deadline = time.monotonic() + 60
    while not is_writing(process, tmp_path) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert hash(source.read_bytes()) == digest
    if target.exists():
        # It was quicker than the signal: then all of it is there.
        assert ztensor.open(target).keys() == ["w"]


def test_ctrl_c_ends_the_work_and_leaves_nothing(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    model, target = tmp_path / "m.safetensors", tmp_path / "m.zstn"
    # Several times what is compressed at once.
    weights = {f"w{index}": random.standard_normal((1 << 20,)).astype(np.float32) for index in range(48)}
    safetensors.numpy.save_file(weights, model)
    code = f"""
import signal, threading
from z4ai.safetensors import compress_file
# Processes in the background of a shell begin with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.02, signal.raise_signal, [signal.SIGINT]).start()
try:
    compress_file({str(model)!r}, {str(target)!r}, effort='max')
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors"]
