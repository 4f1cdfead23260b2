"""`safe_open`: the same answers as safetensors', for any format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch

import ztensor
import ztensor.numpy
import ztensor.torch


@pytest.fixture(params=["m.zt", "packed.zt", "m.safetensors"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    torch.manual_seed(0)
    tensors = {
        "z": torch.randn(7, 5),
        "a": torch.randn(3, 4).bfloat16(),
        "m": torch.arange(24, dtype=torch.int16).reshape(2, 3, 4),
        "scalar": torch.tensor(4),
    }
    ztensor.torch.save_file(tensors, tmp_path / request.param, {"format": "pt"}, "packed" in request.param)
    safetensors.torch.save_file(tensors, tmp_path / "theirs.safetensors", {"format": "pt"})
    return tmp_path / request.param


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_the_whole_interface(path: Path, backend: str) -> None:
    with (
        safetensors.safe_open(path.with_name("theirs.safetensors"), framework="pt", device="cpu") as theirs,
        ztensor.safe_open(path, framework="pt", device="cpu", backend=backend) as ours,
    ):
        assert ours.keys() == theirs.keys()
        assert sorted(ours.offset_keys()) == ours.keys()
        if path.suffix == ".safetensors":
            assert ours.offset_keys() == theirs.offset_keys()
        assert ours.metadata() == theirs.metadata() == {"format": "pt"}
        for name in ours.keys():  # noqa: SIM118
            assert torch.equal(ours.get_tensor(name), theirs.get_tensor(name))
            assert ours.get_slice(name).get_shape() == theirs.get_slice(name).get_shape()
            assert ours.get_slice(name).get_dtype() == theirs.get_slice(name).get_dtype()
        everything = ours.get_tensors()
        assert everything.keys() == theirs.get_tensors().keys()


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize(
    "key",
    [
        np.s_[1],
        np.s_[-1],
        np.s_[:2],
        np.s_[1:, 2:4],
        np.s_[::2],
        np.s_[:, ::3],
        np.s_[...],
        np.s_[..., 1],
        np.s_[0:1, ..., 2],
    ],
)
def test_slices_equal_theirs(path: Path, key: object, backend: str) -> None:
    with (
        safetensors.safe_open(path.with_name("theirs.safetensors"), framework="pt") as theirs,
        ztensor.safe_open(path, framework="pt", backend=backend) as ours,
    ):
        for name in ("z", "a", "m"):
            expected = theirs.get_slice(name)[key]
            part = ours.get_slice(name)[key]
            assert part.dtype == expected.dtype
            assert torch.equal(part, expected)


def test_slices_beyond_theirs(path: Path) -> None:
    with ztensor.safe_open(path, framework="pt") as file:
        whole = file.get_tensor("z")
        assert torch.equal(file.get_slice("z")[::-1], whole.flip(0))
        assert torch.equal(file.get_slice("z")[2:100], whole[2:])
        assert torch.equal(file.get_slice("z")[1, 2], whole[1, 2])
        assert file.get_slice("z")[3:1].shape == (0, 5)
        assert file.get_slice("scalar")[()].item() == 4


def test_numpy(path: Path) -> None:
    with ztensor.safe_open(path, "np") as file:
        assert isinstance(file.get_tensor("m"), np.ndarray)
        assert file.get_slice("m")[1, :, 2].tolist() == [14, 18, 22]


def test_no_metadata_is_none(tmp_path: Path) -> None:
    for name in ("m.zt", "m.safetensors"):
        ztensor.torch.save_file({"x": torch.zeros(1)}, tmp_path / name)
        assert ztensor.safe_open(tmp_path / name, "pt").metadata() is None


def test_errors(path: Path) -> None:
    with pytest.raises(ValueError, match="framework"):
        ztensor.safe_open(path, "abacus")
    with pytest.raises(ValueError, match="backend"):
        ztensor.safe_open(path, "pt", backend="carrier pigeon")
    with pytest.raises(FileNotFoundError):
        ztensor.safe_open(path.with_name("missing"), "pt")
    with ztensor.safe_open(path, "pt") as file:
        with pytest.raises(KeyError):
            file.get_tensor("nothing")
        with pytest.raises(KeyError):
            file.get_slice("nothing")
        with pytest.raises(IndexError):
            file.get_slice("z")[7]
        part = file.get_slice("z")
    assert part[0].shape == (5,)
    with pytest.raises(ztensor.ZTensorError, match="closed"):
        file.keys()


@pytest.mark.parametrize("metadata", [None, {}, {"a": "b"}])
def test_metadata_that_is_empty_is_not_the_same_as_none(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    arrays = {"x": np.ones(3, np.float32)}
    theirs, ours, again = (tmp_path / f"{name}.safetensors" for name in ("theirs", "ours", "again"))
    safetensors.numpy.save_file(arrays, theirs, metadata=metadata)
    ztensor.numpy.save_file(arrays, ours, metadata=metadata)
    ztensor.torch.save_file({"x": torch.ones(3)}, again, metadata=metadata)
    assert ours.read_bytes() == again.read_bytes() == theirs.read_bytes()
    for path in (theirs, ours):
        with safetensors.safe_open(path, "np") as one, ztensor.safe_open(path, "np") as other:
            assert one.metadata() == other.metadata() == metadata
