"""`ztensor.torch`: whole files of tensors, and models."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch

import ztensor
from ztensor.torch import load, load_file, load_model, save, save_file, save_model

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
    torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
]  # fmt: skip


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    values = {str(dtype): (torch.rand(4, 5) * 50).to(dtype) for dtype in DTYPES}
    return values | {"scalar": torch.tensor(2.5), "empty": torch.empty(3, 0), "large": torch.randn(600, 700)}


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return torch.equal(left.reshape(-1).clone().view(torch.uint8), right.reshape(-1).clone().view(torch.uint8))


@pytest.mark.parametrize("compression", [False, True, 10])
@pytest.mark.parametrize("copy", [False, True])
def test_files_round_trip(
    tmp_path: Path, tensors: dict[str, torch.Tensor], compression: bool | int, copy: bool
) -> None:
    save_file(tensors, tmp_path / "m.zt", metadata={"format": "pt"}, compression=compression)
    loaded = load_file(tmp_path / "m.zt", copy=copy)
    assert list(loaded) == list(tensors)
    assert all(same(loaded[name], tensor) for name, tensor in tensors.items())
    assert ztensor.open(tmp_path / "m.zt").file_metadata == {"format": "pt"}
    loaded["large"].zero_()
    assert same(load_file(tmp_path / "m.zt")["large"], tensors["large"])


def test_bytes_round_trip(tensors: dict[str, torch.Tensor]) -> None:
    loaded = load(save(tensors))
    assert all(same(loaded[name], tensor) for name, tensor in tensors.items())


def test_safetensors_files_go_both_ways(tmp_path: Path, tensors: dict[str, torch.Tensor]) -> None:
    save_file(tensors, tmp_path / "ours.safetensors")
    safetensors.torch.save_file(tensors, tmp_path / "theirs.safetensors")
    assert (tmp_path / "ours.safetensors").read_bytes() == (tmp_path / "theirs.safetensors").read_bytes()
    for path in tmp_path.iterdir():
        theirs = safetensors.torch.load_file(path)
        ours = load_file(path)
        assert ours.keys() == theirs.keys()
        assert all(same(ours[name], theirs[name]) for name in theirs)


def test_devices(tmp_path: Path) -> None:
    save_file({"x": torch.ones(3)}, tmp_path / "m.zt")
    assert load_file(tmp_path / "m.zt", device="cpu")["x"].device.type == "cpu"
    assert load_file(tmp_path / "m.zt", device=torch.device("cpu"))["x"].device.type == "cpu"
    assert load_file(tmp_path / "m.zt", device="meta")["x"].device.type == "meta"
    with pytest.raises((RuntimeError, AssertionError)):
        load_file(tmp_path / "m.zt", device="no-such-device")
    if not torch.cuda.is_available():
        with pytest.raises((RuntimeError, AssertionError), match=r"CUDA|NVIDIA"):
            load_file(tmp_path / "m.zt", device=0)


def test_shared_memory_is_an_error_as_in_safetensors(tmp_path: Path) -> None:
    base = torch.randn(10)
    for save_ in (save_file, safetensors.torch.save_file):
        with pytest.raises(RuntimeError, match="share memory"):
            save_({"a": base, "b": base}, tmp_path / "m.safetensors")
        with pytest.raises(RuntimeError, match="share memory"):
            save_({"a": base[:6], "b": base[4:]}, tmp_path / "m.safetensors")
        # Parts of one storage that do not touch are separate tensors.
        save_({"a": base[:5], "b": base[5:]}, tmp_path / "m.safetensors")
    loaded = load_file(tmp_path / "m.safetensors")
    assert same(loaded["b"], base[5:])


def test_what_safetensors_refuses_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    for save_ in (save_file, safetensors.torch.save_file):
        with pytest.raises(ValueError, match="contiguous"):
            save_({"x": torch.randn(3, 4).t()}, path)
        with pytest.raises(ValueError, match="sparse"):
            save_({"x": torch.eye(3).to_sparse()}, path)
        with pytest.raises(ValueError, match=r"torch\.Tensor"):
            save_({"x": [1, 2]}, path)
        with pytest.raises(ValueError, match="dict"):
            save_([torch.zeros(3)], path)
    assert not path.exists()


class Tied(torch.nn.Module):
    """Two layers with one weight, as language models have."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("mask", torch.ones(3, 3).tril().t())


@pytest.mark.parametrize("name", ["m.zt", "m.safetensors"])
def test_models_with_shared_tensors(tmp_path: Path, name: str) -> None:
    model, other = Tied(), Tied()
    save_model(model, tmp_path / name, metadata={"note": "x"})
    reader = ztensor.open(tmp_path / name)
    assert sorted(reader.keys()) == ["embedding.weight", "mask"]
    assert reader.file_metadata == {"note": "x", "head.weight": "embedding.weight"}
    assert load_model(other, tmp_path / name) == ([], [])
    assert same(other.head.weight.data, model.head.weight.data)
    assert other.head.weight is other.embedding.weight
    assert same(other.mask, model.mask)
    # The reference implementation agrees on what the file means.
    if name.endswith(".safetensors"):
        assert safetensors.torch.load_model(Tied(), tmp_path / name) == (set(), [])


def test_a_file_that_kept_the_other_name_loads(tmp_path: Path) -> None:
    weight = torch.randn(7, 4)
    save_file({"head.weight": weight, "mask": torch.zeros(3, 3)}, tmp_path / "m.zt")
    model = Tied()
    assert load_model(model, tmp_path / "m.zt") == ([], [])
    assert same(model.embedding.weight.data, weight)


def test_missing_and_unexpected_names(tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(5, 10), "extra": torch.zeros(1)}, tmp_path / "m.zt")
    with pytest.raises(
        RuntimeError, match=r'Missing key\(s\) in state_dict: "bias"\n.*Unexpected key\(s\) in state_dict: "extra"'
    ):
        load_model(torch.nn.Linear(10, 5), tmp_path / "m.zt")
    assert load_model(torch.nn.Linear(10, 5), tmp_path / "m.zt", strict=False) == (["bias"], ["extra"])


def test_models_that_are_not_contiguous(tmp_path: Path) -> None:
    model = torch.nn.Linear(10, 5)
    model.weight = torch.nn.Parameter(torch.randn(10, 5).t())
    with pytest.raises(ValueError, match="force_contiguous=True"):
        save_model(model, tmp_path / "m.zt", force_contiguous=False)
    save_model(model, tmp_path / "m.zt")
    assert same(load_file(tmp_path / "m.zt")["weight"], model.weight.data.contiguous())


def test_shared_parts_without_a_whole_are_refused(tmp_path: Path) -> None:
    model = torch.nn.Module()
    base = torch.randn(10)
    model.register_buffer("a", base[:6])
    model.register_buffer("b", base[4:])
    with pytest.raises(RuntimeError, match="share memory"):
        save_model(model, tmp_path / "m.zt")


@pytest.mark.parametrize("backend", ["mmap", "pread", None])
def test_the_backends_of_safetensors(tmp_path: Path, backend: str | None) -> None:
    layer = torch.nn.Linear(30, 20)
    save_model(layer, tmp_path / "m.safetensors")
    loaded = load_file(tmp_path / "m.safetensors", backend=backend)
    assert all(torch.equal(loaded[name], value) for name, value in layer.state_dict().items())
    other = torch.nn.Linear(30, 20)
    assert load_model(other, tmp_path / "m.safetensors", backend=backend) == ([], [])
    assert torch.equal(other.weight, layer.weight)


def test_pairs_of_4_bit_floats_are_copied_beside_other_tensors(tmp_path: Path) -> None:
    pairs = torch.arange(8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    tensors = {"a": pairs, "b": torch.full((8,), 7, dtype=torch.uint8)}
    for path in (tmp_path / "m.zt", tmp_path / "m.safetensors"):
        save_file(tensors, path)
        for copy in (False, True):
            loaded = load_file(path, copy=copy)
            assert loaded["a"].dtype == torch.float4_e2m1fn_x2
            assert loaded["a"].view(torch.uint8).tolist() == list(range(8)) and loaded["b"].tolist() == [7] * 8
