"""What files may cost: bombs are refused before they are decoded, and limits are set by name. Names from files cannot forge
messages, and booleans are 0 or 1.
"""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import z4ai
import ztensor
import ztensor.numpy
import ztensor.torch
from z4ai.safetensors import ZstnReader, compress_bytes, decompress_bytes, decompress_file

GIGABYTE = 1 << 30


def plain(tensors: dict[str, tuple[str, list[int], bytes]], metadata: dict[str, str] | None = None) -> bytes:
    """A ``.safetensors`` file, byte by byte."""
    entries: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, (dtype, shape, content) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    header = json.dumps(entries).encode()
    return len(header).to_bytes(8, "little") + header + data


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of a few kilobytes that stands for more than a gigabyte of zeros."""
    folder = tmp_path_factory.mktemp("bomb")
    header = json.dumps({"zeros": {"dtype": "U8", "shape": [GIGABYTE + 1], "data_offsets": [0, GIGABYTE + 1]}}).encode()
    original = folder / "zeros.safetensors"
    with original.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + GIGABYTE + 1)
    archive = folder / "zeros.safetensors.zstn"
    z4ai.safetensors.compress_file(original, archive, effort="fast")
    original.unlink()
    assert archive.stat().st_size < 1 << 20
    return archive


def test_a_bomb_is_refused_by_every_way_in(bomb: Path, tmp_path: Path) -> None:
    reader = ztensor.open(bomb)
    assert reader.keys() == ["zeros"]
    ways: list[Callable[[], object]] = [
        lambda: reader.read_numpy("zeros"),
        lambda: reader.read_torch("zeros"),
        lambda: reader.read("zeros"),
        lambda: reader.read_slice("zeros", np.s_[:3]),
        lambda: ztensor.numpy.load_file(bomb),
        lambda: ztensor.torch.load_file(bomb),
        lambda: ztensor.numpy.load(bomb.read_bytes()),
        lambda: ztensor.safe_open(bomb, "np").get_tensor("zeros"),
        lambda: ZstnReader.open(bomb).read_numpy("zeros"),
        lambda: z4ai.load_file(bomb),
        lambda: decompress_file(bomb, tmp_path / "out"),
        lambda: decompress_bytes(bomb.read_bytes()),
    ]
    for way in ways:
        with pytest.raises(ztensor.ZTensorError, match=r"limits=ztensor\.Limits\(ratio=") as caught:
            way()
        assert caught.value.kind == "limit"
    assert not (tmp_path / "out").exists()


def test_a_bomb_takes_no_memory(bomb: Path, run_python: Callable[[str], str]) -> None:
    run_python(
        "import resource, ztensor, ztensor.numpy\n"
        "pages = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (pages + (256 << 20), pages + (256 << 20)))\n"
        "try:\n"
        f"    ztensor.numpy.load_file({str(bomb)!r})\n"
        "except ztensor.ZTensorError as error:\n"
        "    assert 'ratio' in str(error), error\n"
        "else:\n"
        "    raise SystemExit('not refused')\n"
    )


def test_who_trusts_a_file_says_so(bomb: Path) -> None:
    trusting = ztensor.Limits(ratio=math.inf)
    part = ztensor.open(bomb, limits=trusting).read_slice("zeros", np.s_[-3:])
    assert part.tolist() == [0, 0, 0]
    assert ztensor.safe_open(bomb, "np", limits=trusting).get_slice("zeros")[5] == 0


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ztensor", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_commands_restore_a_bomb_by_force_only(bomb: Path, tmp_path: Path) -> None:
    (tmp_path / "zeros.safetensors.zstn").symlink_to(bomb)
    for command in (["restore", tmp_path / "zeros.safetensors.zstn"], ["hydrate", tmp_path]):
        done = run(*command)
        assert done.returncode == 2 and "--limit ratio=" in done.stderr, done.stderr
        assert not (tmp_path / "zeros.safetensors").exists()
    done = run("hydrate", tmp_path, "--force")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "zeros.safetensors").stat().st_size > GIGABYTE


def test_limits_have_names_and_defaults() -> None:
    usual = ztensor.Limits()
    assert usual == ztensor.Limits(ratio=200, header=512 << 20)
    assert usual != ztensor.Limits(ratio=100)
    assert ztensor.Limits(decoded=5).decoded == 5
    assert repr(ztensor.Limits(decoded=5)).endswith("decoded=5, ratio=200)")
    for wrong in (-1, 1.5, "8GiB"):
        with pytest.raises((TypeError, ValueError), match="ratio must be"):
            ztensor.Limits(ratio=wrong)  # type: ignore[arg-type]


def test_decoded_bytes_are_limited_and_views_are_not(tmp_path: Path) -> None:
    path = tmp_path / "model.zt"
    with ztensor.Writer(path) as writer:
        writer.write_numpy("plain", np.arange(5000, dtype=np.uint8))
        writer.write_numpy("packed", np.zeros(5000, np.uint8), compress="zstd")
    strict = ztensor.Limits(decoded=9999)
    reader = ztensor.Reader(path, limits=strict)
    assert reader.read_numpy("plain").size == 5000
    with pytest.raises(ztensor.ZTensorError, match=r"Limits\(decoded="):
        reader.read_numpy("packed")
    with pytest.raises(ztensor.ZTensorError, match=r"Limits\(decoded="):
        ztensor.torch.load_file(path, limits=strict)
    assert ztensor.numpy.load_file(path, limits=ztensor.Limits(decoded=10000))["packed"].size == 5000
    with pytest.raises(ztensor.ZTensorError, match=r"Limits\(header="):
        ztensor.open(path, limits=ztensor.Limits(header=10))
    archive = compress_bytes(path.read_bytes())
    with pytest.raises(ztensor.ZTensorError, match=r"Limits\(decoded="):
        decompress_bytes(archive, limits=ztensor.Limits(decoded=100))


def test_frames_decode_to_as_much_as_one_allows() -> None:
    zeros = np.zeros(100_000, np.float32)
    frame, delta = z4ai.compress_array(zeros), z4ai.compress_delta(zeros, zeros)
    ways: list[Callable[[int], object]] = [
        lambda most: z4ai.decompress(frame, max_output=most),
        lambda most: z4ai.decompress(frame, out=bytearray(zeros.nbytes), max_output=most),
        lambda most: z4ai.decompress_array(frame, max_output=most),
        lambda most: z4ai.chunked.decompress(frame, max_output=most),
        lambda most: z4ai.decompress_delta(delta, zeros, max_output=most),
    ]
    for way in ways:
        way(zeros.nbytes)
        with pytest.raises(ValueError, match="max_output=399999"):
            way(zeros.nbytes - 1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are a thing of Unix")
def test_devices_are_refused_and_shards_are_files(tmp_path: Path) -> None:
    with pytest.raises(ztensor.ZTensorError, match="a device"):
        ztensor.open("/dev/zero")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "shard.safetensors"}}')
    os.mkfifo(tmp_path / "shard.safetensors")
    assert stat.S_ISFIFO((tmp_path / "shard.safetensors").stat().st_mode)
    with pytest.raises(ztensor.ZTensorError, match="a pipe"):
        ztensor.open(index)


def test_names_from_files_are_escaped_in_messages(tmp_path: Path) -> None:
    name = "a\nTraceback: forged\u202e\x1b[2J"
    shown = r"a\nTraceback: forged\u{202e}\u{1b}[2J"
    content = plain({name: ("F32", [2], b"\0" * 8)})
    reader = ztensor.Reader.from_bytes(content)
    with pytest.raises(ztensor.ZTensorError) as caught:
        ztensor.Reader.from_bytes(content[:-1])
    assert "\n" not in str(caught.value) and "\u202e" not in str(caught.value)
    with pytest.raises(KeyError) as missing:
        reader.read_numpy("no\u202e\n")
    assert r"no\u{202e}\n" in str(missing.value)
    assert reader.keys() == [name]

    # A dtype that nobody knows makes a tensor that is skipped, and a warning with its name.
    path = tmp_path / "model.safetensors"
    path.write_bytes(plain({name: ("F3", [2], b"\0" * 8), "b": ("U8", [1], b"\1")}))
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        ztensor.numpy.load_file(path)
    assert shown in str(noted[0].message) and "\n" not in str(noted[0].message)


def test_booleans_are_booleans(tmp_path: Path) -> None:
    odd, right = bytes([0, 1, 2, 255, 128, 0]), [False, True, True, True, True, False]
    path = tmp_path / "model.safetensors"
    path.write_bytes(plain({"odd": ("BOOL", [2, 3], odd), "even": ("BOOL", [2], b"\0\1"), "bytes": ("U8", [6], odd)}))
    reader = ztensor.Reader(path)

    def assert_normal(found: np.ndarray) -> None:
        assert found.dtype == np.bool_
        assert found.ravel().tolist() == right
        assert set(found.tobytes()) <= {0, 1}

    for copy in (False, True):
        assert_normal(reader.read_numpy("odd", copy=copy))
        assert_normal(ztensor.numpy.load_file(path, copy=copy)["odd"])
        tensor = reader.read_torch("odd", copy=copy)
        assert tensor.dtype == torch.bool
        assert set(tensor.view(torch.uint8).ravel().tolist()) <= {0, 1}
        assert_normal(tensor.numpy())
        assert_normal(reader.read("odd", copy=copy).components["data"])
    assert set(reader.read_slice("odd", np.s_[1:]).tobytes()) <= {0, 1}
    assert reader.read_slice("odd", np.s_[1:]).ravel().tolist() == right[3:]
    assert_normal(ztensor.safe_open(path, "np").get_slice("odd")[:])
    target = np.zeros((2, 3), bool)
    reader.read_into("odd", target)
    assert_normal(target)
    assert_normal(ztensor.numpy.load(path.read_bytes())["odd"])
    assert_normal(ZstnReader.from_bytes(compress_bytes(path.read_bytes())).read_numpy("odd"))
    # What is a boolean already is lent from the map, and bytes are bytes.
    assert type(reader.read_numpy("even").base).__name__ == "Memory"
    view = reader.read_numpy("even")
    view[0] = True
    assert reader.read_numpy("even")[0]
    assert reader.read_numpy("bytes").tobytes() == odd

    frame = z4ai.compress(odd, dtype="bool", shape=[2, 3])
    assert_normal(z4ai.decompress_array(frame))
    assert z4ai.decompress(frame) == odd
    assert_normal(z4ai.decompress(frame, out=np.zeros((2, 3), bool)))
    filled = z4ai.decompress(frame, out=torch.zeros(2, 3, dtype=torch.bool))
    assert set(filled.view(torch.uint8).ravel().tolist()) <= {0, 1}

    npz = tmp_path / "odd.npz"
    np.savez(npz, odd=np.frombuffer(odd, np.bool_).reshape(2, 3))
    assert_normal(ztensor.Reader(npz).read_numpy("odd"))
