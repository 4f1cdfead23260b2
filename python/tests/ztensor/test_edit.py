"""Changing existing `.zt` files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ztensor
from ztensor import Reader, Writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "m.zt"
    with Writer(path) as writer:
        writer.set_metadata({"step": 3})
        writer.write_numpy("raw", np.arange(1000, dtype=np.float32), checksum="crc32c")
        writer.write_numpy("packed", np.zeros(1000), compress=True)
        writer.write("noted", ztensor.Tensor({"data": np.ones(3)}, attributes={"origin": "test"}))
    return path


def test_removing_keeps_the_others_as_they_are(path: Path) -> None:
    trimmed = path.with_name("trimmed.zt")
    ztensor.remove_tensors(str(path), str(trimmed), ["raw"])
    reader = Reader(trimmed)
    assert reader.keys() == ["packed", "noted"]
    assert reader.metadata("packed").components["data"]["encoding"] == "zstd"
    assert reader["noted"].attributes == {"origin": "test"}
    assert reader.file_metadata == {"step": 3}
    assert len(Reader(path)) == 3


def test_removing_what_is_not_there(path: Path) -> None:
    with pytest.raises(KeyError):
        ztensor.remove_tensors(path, path.with_name("trimmed.zt"), ["raw", "nothing"])
    assert not path.with_name("trimmed.zt").exists()


def test_replacing(path: Path) -> None:
    size = path.stat().st_size
    ztensor.replace_tensor(path, "raw", np.full(1000, 7, dtype=np.float32))
    assert path.stat().st_size == size
    assert (Reader(path).read_numpy("raw") == 7).all()
    assert Reader(path).metadata("raw").components["data"]["digest"].startswith("crc32c:")


def test_replacing_what_does_not_fit(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(ztensor.ZTensorError):
        ztensor.replace_tensor(path, "raw", np.zeros(999, dtype=np.float32))
    with pytest.raises(ztensor.ZTensorError):
        ztensor.replace_tensor(path, "packed", np.zeros(1000))
    with pytest.raises(KeyError):
        ztensor.replace_tensor(path, "nothing", np.zeros(3))
    assert path.read_bytes() == before


def test_a_complete_file_needs_no_repair(path: Path) -> None:
    before = path.read_bytes()
    assert ztensor.repair(path) is False
    assert path.read_bytes() == before


def test_an_append_to_a_file_that_was_replaced_is_kept_beside_it(path: Path) -> None:
    writer = Writer.append(path)
    writer.write_numpy("new", np.arange(3))
    with Writer(path) as other:
        other.write_numpy("other", np.arange(5))
    with pytest.raises(ztensor.ZTensorError, match=r"taken the place.*m\.appended-1\.zt"):
        writer.finish()
    assert Reader(path).keys() == ["other"]
    assert Reader(path.with_name("m.appended-1.zt")).keys() == ["raw", "packed", "noted", "new"]


def test_a_state_is_chosen_where_a_file_does_not_say_which(path: Path) -> None:
    old = path.read_bytes()
    path.write_bytes(old + bytes(-len(old) % 64) + old + b"cut off")
    with pytest.raises(ztensor.ZTensorError, match=rf"may be {len(old)} \(3 tensors\).*at=offset"):
        ztensor.repair(path)
    assert ztensor.repair(path, at=len(old))
    assert path.read_bytes() == old
