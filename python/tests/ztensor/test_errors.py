"""Errors: each says what is wrong, where, and what to do; and each is of the class Python has for it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import ztensor
import ztensor.torch
from ztensor import Reader, ZTensorError
from ztensor.numpy import load_file, save_file


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ZTensorError) as caught:
        Reader(tmp_path / "missing.zt")
    error = caught.value
    assert isinstance(error, FileNotFoundError)
    assert (error.kind, error.path, error.errno) == ("not_found", str(tmp_path / "missing.zt"), 2)
    assert error.filename == error.path
    assert error.hint in str(error)
    assert str(tmp_path / "missing.zt") in str(error)
    assert type(error).__name__ == "ZTensorError"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "m.zt"
    save_file({"x": np.zeros(3)}, path)
    path.chmod(0)
    with pytest.raises(PermissionError) as caught:
        Reader(path)
    assert caught.value.kind == "permission_denied"


def test_a_missing_tensor(tmp_path: Path) -> None:
    save_file({"x": np.zeros(3)}, tmp_path / "m.zt")
    reader = Reader(tmp_path / "m.zt")
    for ask in (
        lambda: reader["y"],
        lambda: reader.read("y"),
        lambda: reader.read_numpy(["x", "y"]),
        lambda: reader.read_torch("y"),
        lambda: reader.metadata("y"),
        lambda: reader.read_slice("y", 0),
    ):
        with pytest.raises(KeyError) as caught:
            ask()
        assert caught.value.kind == "no_such_tensor"
        assert '"y"' in str(caught.value)


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"", "truncated", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "unknown_format", "git lfs pull"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "unknown_format", "web page"),
        (b'{"error": "not found"}', "unknown_format", "JSON"),
        (b"\x00\x01\x02 what is this", "unknown_format", "no known tensor format"),
        (b"ZTEN1000", "truncated", ""),
        (b"ZSTN\x03\x01G\x00", "unknown_format", "z4ai 0.2"),
        (b"Z4DM\x01G\x00\x00", "unknown_format", "z4ai 0.2"),
        (b"Z4AI\x02\x01\x00\x00", "unknown_format", "z4ai.decompress"),
    ],
)
def test_what_is_not_a_model_file(tmp_path: Path, content: bytes, kind: str, words: str) -> None:
    path = tmp_path / "model.zt"
    path.write_bytes(content)
    with pytest.raises(ZTensorError) as caught:
        load_file(path)
    assert caught.value.kind == kind
    assert words in str(caught.value)
    assert caught.value.path == str(path)


def test_what_a_file_says_wrong_is_a_value_error(tmp_path: Path) -> None:
    path = tmp_path / "m.zt"
    with ztensor.Writer(path) as writer:
        writer.write_numpy("x", np.arange(1000), checksum="crc32c")
    good = path.read_bytes()
    damaged = bytearray(good)
    damaged[100] ^= 1
    for kind, content in (("unknown_format", b"nothing"), ("truncated", b""), ("malformed", good[:-9] + good[-8:])):
        with pytest.raises(ValueError) as caught:
            Reader.from_bytes(content)
        assert caught.value.kind == kind
    with pytest.raises(ValueError, match="checksum"):
        Reader.from_bytes(bytes(damaged)).read_numpy("x")


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ZTensorError, match="directory"):
        Reader(tmp_path)


@pytest.mark.parametrize("name", ["m.zt", "m.safetensors"])
def test_every_truncation_is_an_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    save_file({"x": np.arange(50.0), "y": np.zeros(3, dtype=np.int8)}, path)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ZTensorError):
            load_file(path)


@pytest.mark.parametrize("name", ["m.zt", "m.safetensors"])
def test_every_flipped_byte_is_an_error_or_tensors(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    save_file({"x": np.arange(5.0), "y": np.zeros(3, dtype=np.int8)}, path)
    content = bytearray(path.read_bytes())
    for position in range(len(content)):
        for bits in (0x01, 0x80, 0xFF):
            content[position] ^= bits
            path.write_bytes(content)
            try:
                load_file(path)
            except (ZTensorError, ztensor.SkippedTensorWarning):
                pass
            finally:
                content[position] ^= bits


def test_the_content_decides_not_the_name(tmp_path: Path) -> None:
    save_file({"x": np.arange(5)}, tmp_path / "m.zt")
    for name in ("m.safetensors", "m.pt", "m", "m.gguf"):
        (tmp_path / name).write_bytes((tmp_path / "m.zt").read_bytes())
        assert load_file(tmp_path / name)["x"].tolist() == [0, 1, 2, 3, 4]
        assert Reader(tmp_path / name).format == "zt"


def test_wrong_arguments(tmp_path: Path) -> None:
    save_file({"x": np.arange(5)}, tmp_path / "m.zt")
    with pytest.raises(ValueError, match="io must be") as caught:
        Reader(tmp_path / "m.zt", io="telepathy")
    assert caught.value.kind == "invalid_argument"
    with pytest.raises(TypeError):
        Reader(3)


def test_errors_survive_pickling(tmp_path: Path) -> None:
    with pytest.raises(ZTensorError) as caught:
        Reader(tmp_path / "missing.zt")
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, FileNotFoundError)
    assert (str(again), again.kind, again.path, again.hint) == (
        str(caught.value), caught.value.kind, caught.value.path, caught.value.hint,
    )  # fmt: skip


def test_unreadable_tensors_are_named_not_dropped(tmp_path: Path) -> None:
    header = (
        b'{"odd":{"dtype":"X9","shape":[4],"data_offsets":[0,4]},"x":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}'
    )
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    reader = Reader(path)
    assert reader.keys() == ["x"]
    assert list(reader.skipped()) == ["odd"]
    with pytest.warns(ztensor.SkippedTensorWarning, match='"odd"'):
        assert list(load_file(path)) == ["x"]
    with pytest.raises(ZTensorError, match="X9") as caught:
        reader["odd"]
    assert caught.value.kind == "unsupported"


def test_without_ml_dtypes_the_error_says_what_to_install(tmp_path: Path, run_python: Callable[[str], str]) -> None:
    output = run_python(f"""
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, torch, ztensor
with ztensor.Writer({str(tmp_path / "m.zt")!r}) as writer:
    writer.write_torch("x", torch.ones(3, dtype=torch.bfloat16))
reader = ztensor.Reader({str(tmp_path / "m.zt")!r})
try:
    reader.read_numpy("x")
except ztensor.ZTensorError as error:
    print(error)
print(reader["x"].components["data"].dtype, reader.read_torch("x").tolist())
""")
    assert "pip install ztensor[bfloat16]" in output
    assert "uint16 [1.0, 1.0, 1.0]" in output


def test_without_torch_numpy_works_and_the_error_says_what_to_install(
    tmp_path: Path, run_python: Callable[[str], str]
) -> None:
    output = run_python(f"""
import sys
sys.modules["torch"] = None
import numpy as np, ztensor, ztensor.numpy
ztensor.numpy.save_file({{"x": np.ones(3)}}, {str(tmp_path / "m.zt")!r})
reader = ztensor.Reader({str(tmp_path / "m.zt")!r})
print(reader.read_numpy("x"))
try:
    reader.read_torch("x")
except ztensor.ZTensorError as error:
    print(error)
""")
    assert "pip install ztensor[torch]" in output


def test_errors_are_what_users_of_the_peers_catch(tmp_path: Path, run_python: Callable[[str], str]) -> None:
    bad = tmp_path / "bad.zt"
    bad.write_bytes(b"ZTEN1000" + b"x" * 50)
    path = tmp_path / "m.zt"
    writer = ztensor.Writer(path)
    writer.write_numpy("x", np.zeros((2, 3)))
    with pytest.raises(RuntimeError, match="x") as caught:
        writer.write_numpy("x", np.zeros(3))
    assert caught.value.kind == "duplicate"
    writer.finish()
    sparse = ztensor.Tensor({"values": np.ones(1), "coords": np.array([0])}, shape=[2], layout="sparse_coo")
    with ztensor.Writer.append(path) as more:
        more.write("s", sparse)
    reader = Reader(path)
    shared = torch.zeros(4)
    # What ztensor 1.2.3 raises for each, and what the kind is here.
    for call, theirs, kind in (
        (lambda: Reader(bad), RuntimeError, None),
        (lambda: Reader(tmp_path / "none.zt"), OSError, "not_found"),
        (lambda: writer.finish(), RuntimeError, "invalid_argument"),
        (lambda: writer.write_numpy("y", np.zeros(3)), RuntimeError, "invalid_argument"),
        (lambda: reader["none"], KeyError, "no_such_tensor"),
        (lambda: reader.read_numpy("s"), TypeError, "mismatch"),
        (lambda: reader["s"].numpy(), RuntimeError, "mismatch"),
        (lambda: ztensor.replace_tensor(path, "x", np.zeros(5)), RuntimeError, "mismatch"),
        (lambda: ztensor.torch.save_file({"a": shared, "b": shared}, path), ValueError, "invalid_argument"),
        (lambda: ztensor.torch.save_file({"a": shared, "b": shared}, path), RuntimeError, "invalid_argument"),
        (lambda: reader.read_slice("x", 7), IndexError, "index"),
        (lambda: ztensor.safe_open(path, "np").get_slice("x")[:, 9], IndexError, "index"),
    ):
        with pytest.raises(theirs) as caught:
            call()
        assert isinstance(caught.value, ZTensorError) and kind in (None, caught.value.kind)
    program = f"""
import ztensor
try:
    ztensor.Reader({str(bad)!r})
except ztensor.ZTensorError as error:
    import pickle, safetensors
    assert not isinstance(error, safetensors.SafetensorError)
for use in (
    lambda: ztensor.Reader({str(bad)!r}),
    lambda: ztensor.safe_open({str(path)!r}, "np").get_tensor("none"),
    lambda: ztensor.safe_open({str(path)!r}, "np").get_slice("x")[5],
):
    try:
        use()
    except safetensors.SafetensorError as error:
        again = pickle.loads(pickle.dumps(error))
        assert isinstance(error, ztensor.ZTensorError) and type(again) is type(error) and again.kind == error.kind
        print(type(error).__name__)
"""
    assert run_python(program).split() == ["ZTensorError"] * 3
