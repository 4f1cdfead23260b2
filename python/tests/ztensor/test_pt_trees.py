"""Trees from and to ``.pt`` files, with ``torch.load(weights_only=True)`` and ``torch.save`` as the measure."""

from __future__ import annotations

import io
import math
import pickle
import random
import subprocess
import sys
import warnings
import zipfile
from argparse import Namespace
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ztensor
import ztensor.numpy
import ztensor.torch
from ztensor import ZTensorError, _native

from .test_trees import same


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ztensor", *map(str, arguments)], capture_output=True, text=True)


def convert(source: Path, target: Path, *options: str) -> str:
    result = command("convert", source, "-o", target, "--force", *options)
    assert result.returncode == 0, result.stderr
    return result.stderr


def trained(device: str = "cpu") -> dict[str, Any]:
    """A checkpoint of a real run: Adam with integer keys, a scheduler, random states, and odd values."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 2))
    model.add_module("tied", torch.nn.Linear(16, 2))
    model.tied.weight = model[2].weight
    groups = [
        {"params": [*model[0].parameters()], "lr": 1e-2},
        {"params": [*model[1].parameters(), *model[2].parameters()]},
    ]
    optimizer = torch.optim.Adam(groups, lr=1e-3, amsgrad=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
    for _ in range(3):
        optimizer.zero_grad()
        model[:3](torch.randn(4, 8)).square().sum().backward()
        optimizer.step()
        scheduler.step()
    state = scheduler.state_dict()
    state = {key: value for key, value in state.items() if not callable(value)}
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": state,
        "rng": {"torch": torch.get_rng_state(), "python": random.Random(3).getstate()},
        "step": 3,
        "best": (None, True, -0.0, math.inf, 2**200, -(2**63), "text é", b"\0\xff", b""),
        "shapes": [torch.Size([2, 3]), torch.float16, torch.device("cpu"), torch.device("cuda:1"), 1 + 2j],
        "sets": [{1, 2}, bytearray(b"x\xff"), bytearray()],
        "parameter": torch.nn.Parameter(torch.ones(3), requires_grad=False),
        1: {"1": 1, 1: 2, 2.5: 3, None: 4, ("a", 1): 6, b"k": 7},
        "a.b": torch.zeros(1),
        "a": {"b": torch.ones(1)},
        "dict": {},
        "empty": [torch.empty(0), torch.empty(0, 3), torch.tensor(5), [], (), OrderedDict()],
    }


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_a_checkpoint_there_and_back(tmp_path: Path, legacy: bool) -> None:
    checkpoint = trained()
    if legacy:
        # The old stream has no such storages.
        checkpoint.pop("shapes")
    original = tmp_path / "checkpoint.pt"
    torch.save(checkpoint, original, _use_new_zipfile_serialization=not legacy)
    expected = checkpoint
    assert same(expected, ztensor.torch.load_tree(original))
    for name in ("c.zt", "c.safetensors"):
        assert convert(original, tmp_path / name) == ""
        loaded = ztensor.torch.load_tree(tmp_path / name)
        assert same(expected, loaded)
        assert loaded["model"]._metadata == checkpoint["model"]._metadata
        convert(tmp_path / name, tmp_path / f"{name}.pt")
        assert same(expected, torch.load(tmp_path / f"{name}.pt", weights_only=True))
    # A .safetensors file has tied tensors twice.
    weights = torch.load(tmp_path / "c.zt.pt", weights_only=True)["model"]
    places = {weights[name].untyped_storage().data_ptr() for name in ("2.weight", "tied.weight")}
    assert len(places) == 1
    # And by way of Python, and mapped.
    ztensor.torch.save_tree(checkpoint, tmp_path / "python.pt")
    assert same(expected, torch.load(tmp_path / "python.pt", weights_only=True))
    assert same(expected, torch.load(tmp_path / "python.pt", weights_only=True, mmap=True))
    assert same(expected, ztensor.torch.load_tree(tmp_path / "python.pt"))
    arrays = ztensor.numpy.load_tree(original)
    assert isinstance(arrays["rng"]["torch"], np.ndarray) and arrays["optimizer"]["state"][0]["step"] == 3
    assert arrays["best"] == checkpoint["best"]


def test_training_goes_on(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "c.pt")
    convert(tmp_path / "c.pt", tmp_path / "c.zt", "--codec", "z4ai")
    loaded = ztensor.torch.load_tree(tmp_path / "c.zt")
    model2 = torch.nn.Linear(4, 4)
    optimizer2 = torch.optim.Adam(model2.parameters())
    model2.load_state_dict(loaded["model"])
    optimizer2.load_state_dict(loaded["optimizer"])
    for m, o in ((model, optimizer), (model2, optimizer2)):
        o.zero_grad()
        m(torch.ones(4)).sum().backward()
        o.step()
    assert torch.equal(model.weight, model2.weight)


DTYPES = sorted(
    {value for value in vars(torch).values() if isinstance(value, torch.dtype)} - {torch.quint4x2, torch.quint2x4},
    key=str,
)


def test_every_dtype(tmp_path: Path) -> None:
    tree, left = {}, []
    for dtype in DTYPES:
        name = str(dtype).removeprefix("torch.")
        try:
            tensor = torch.empty(4, 6, dtype=dtype)
            raw = torch.randint(0, 2, (tensor.untyped_storage().nbytes(),), dtype=torch.uint8)
            tensor.untyped_storage().copy_(raw.untyped_storage())
            ztensor.torch.save_tree({name: tensor}, tmp_path / "one.zt")
            tree[name] = tensor
        except (ZTensorError, RuntimeError, TypeError, NotImplementedError):
            left.append(name)
    assert len(tree) >= 22, left
    for name in ("t.pt", "t.zt"):
        ztensor.torch.save_tree(tree, tmp_path / name)
    assert same(tree, torch.load(tmp_path / "t.pt", weights_only=True))
    convert(tmp_path / "t.zt", tmp_path / "u.pt")
    assert same(tree, torch.load(tmp_path / "u.pt", weights_only=True))
    assert same(tree, ztensor.torch.load_tree(tmp_path / "u.pt"))


def test_the_container_is_that_of_torch(tmp_path: Path) -> None:
    tensor = torch.arange(1000.0)
    torch.save({"w": tensor}, tmp_path / "torch.pt")
    ztensor.torch.save_file({"w": tensor, "x": torch.ones(3)}, tmp_path / "ours.pt")
    with zipfile.ZipFile(tmp_path / "torch.pt") as theirs, zipfile.ZipFile(tmp_path / "ours.pt") as ours:
        names = [{info.filename.split("/", 1)[1] for info in archive.infolist()} for archive in (theirs, ours)]
        assert names[1] - {"data/1"} == names[0]
        assert ours.testzip() is None
        for name in ("version", "byteorder", ".format_version", ".storage_alignment"):
            assert theirs.read(f"torch/{name}") == ours.read(f"archive/{name}")
        data = (tmp_path / "ours.pt").read_bytes()
        for info in ours.infolist():
            at = info.header_offset
            lengths = int.from_bytes(data[at + 26 : at + 28], "little") + int.from_bytes(
                data[at + 28 : at + 30], "little"
            )
            assert (at + 30 + lengths) % 64 == 0
    assert ztensor.scan(tmp_path / "ours.pt")["verdict"] == "safe"


def test_layouts(tmp_path: Path) -> None:
    dense = torch.tensor([[0.0, 2, 0, 0], [3, 0, 0, 4]])
    tree = {
        "coo": dense.to_sparse().coalesce(),
        "csr": dense.to_sparse_csr(),
        "csc": dense.to_sparse_csc(),
        "bsr": dense.to_sparse_bsr((1, 2)),
        "bsc": dense.to_sparse_bsc((1, 2)),
    }
    quantised = {
        "tensor": torch.quantize_per_tensor(dense, 0.5, 3, torch.quint8),
        "channel": torch.quantize_per_channel(dense, torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.qint8),
    }
    torch.save({**tree, **quantised}, tmp_path / "t.pt")
    convert(tmp_path / "t.pt", tmp_path / "t.zt")
    convert(tmp_path / "t.zt", tmp_path / "u.pt")
    again = torch.load(tmp_path / "u.pt", weights_only=True)
    for name, tensor in quantised.items():
        other = again.pop(name)
        assert other.qscheme() == tensor.qscheme() and other.dtype == tensor.dtype
        assert torch.equal(other.dequantize(), tensor.dequantize())
    assert same(tree, again)


def test_flat_files_become_state_dicts(tmp_path: Path) -> None:
    tensors = {"a.weight": torch.randn(3, 4), "b": torch.arange(5)}
    ztensor.torch.save_file(tensors, tmp_path / "m.safetensors", metadata={"format": "pt"})
    complaint = convert(tmp_path / "m.safetensors", tmp_path / "m.pt", "--dtype", "bf16")
    assert "not written: 1 entries of metadata" in complaint
    loaded = torch.load(tmp_path / "m.pt", weights_only=True)
    assert same({"b": tensors["b"], "a.weight": tensors["a.weight"].bfloat16()}, loaded)
    blocks = ztensor.Tensor({"data": np.zeros(34, np.uint8)}, shape=[1, 32], layout="gguf.q8_0/1")
    ztensor.torch.save_file({"w": blocks}, tmp_path / "q.zt")
    result = command("convert", tmp_path / "q.zt", "-o", tmp_path / "q.pt")
    assert result.returncode == 2 and "--dequantize" in result.stderr and not (tmp_path / "q.pt").exists()
    convert(tmp_path / "q.zt", tmp_path / "q.pt", "--dequantize", "f32")
    assert torch.load(tmp_path / "q.pt", weights_only=True)["w"].shape == (1, 32)
    for words in ({"codec": "z4ai"}, {"checksum": "sha256"}, {"metadata": {"a": "b"}}):
        with pytest.raises(ZTensorError, match=r"\.pt"):
            ztensor.torch.save_file(tensors, tmp_path / "x.pt", **words)
    result = command("compress", tmp_path / "m.safetensors", "-o", tmp_path / "x.pt")
    assert result.returncode == 2 and not (tmp_path / "x.pt").exists()


def test_what_is_no_part_of_a_tree_is_named(tmp_path: Path) -> None:
    tree = {"w": torch.ones(2), "x": torch.ones(1), "args": Namespace(a=1), "deep": [5, Namespace]}
    torch.save(tree, tmp_path / "c.pt")
    complaint = convert(tmp_path / "c.pt", tmp_path / "c.zt")
    assert "['args']: argparse.Namespace" in complaint and "['deep'][1]" in complaint
    for path in (tmp_path / "c.pt", tmp_path / "c.zt"):
        with pytest.warns(ztensor.SkippedTensorWarning, match="argparse"):
            tree = ztensor.torch.load_tree(path)
        assert tree["args"] == ztensor.Unread("argparse.Namespace") and torch.equal(tree["w"], torch.ones(2))
    result = command("convert", tmp_path / "c.zt", "-o", tmp_path / "d.pt")
    assert result.returncode == 2 and "args" in result.stderr and not (tmp_path / "d.pt").exists()
    with pytest.raises(ZTensorError, match="args"):
        ztensor.torch.save_tree(tree, tmp_path / "d.pt")
    complaint = convert(tmp_path / "c.pt", tmp_path / "part.zt", "--exclude", "w")
    assert "not kept" in complaint
    with pytest.raises(ZTensorError, match="no tree"):
        ztensor.torch.load_tree(tmp_path / "part.zt")
    convert(tmp_path / "c.pt", tmp_path / "renamed.zt", "--rename", "s/^w$/v/")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(ztensor.torch.load_tree(tmp_path / "renamed.zt")["w"], torch.ones(2))
    assert "v" in ztensor.Reader(tmp_path / "renamed.zt")


def test_numpy_in_pickles(tmp_path: Path) -> None:
    tree = {
        "state": np.random.RandomState(3).get_state(),
        "x": [np.float32(0.5), np.int64(-3), np.bool_(True)],
        "z": np.zeros((0, 2)),
    }
    tree["generator"] = np.random.default_rng(1).bit_generator.state
    torch.save(tree, tmp_path / "n.pt")
    (tmp_path / "n.pkl").write_bytes(pickle.dumps(tree))
    convert(tmp_path / "n.pt", tmp_path / "n.zt")
    for name in ("n.pt", "n.pkl", "n.zt"):
        assert same(tree, ztensor.torch.load_tree(tmp_path / name))
        assert same(tree, ztensor.numpy.load_tree(tmp_path / name))
    convert(tmp_path / "n.zt", tmp_path / "back.pt")
    assert same(tree, torch.load(tmp_path / "back.pt", weights_only=False))
    ztensor.numpy.save_tree(tree, tmp_path / "numpy.pt")


def test_info_shows_trees(tmp_path: Path) -> None:
    torch.save({"model": {"w": torch.ones(2)}, "step": 3}, tmp_path / "c.pt")
    torch.save({"w": torch.ones(2)}, tmp_path / "flat.pt")
    convert(tmp_path / "c.pt", tmp_path / "c.zt")
    for name in ("c.pt", "c.zt"):
        assert "Tree: a dict of 2 (model, step); load_tree loads it." in command("info", tmp_path / name).stdout
    assert "Tree:" not in command("info", tmp_path / "flat.pt").stdout
    assert '"keys"' in command("info", "--json", tmp_path / "c.zt").stdout


KEYS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5), st.binary(max_size=4)
)
TENSORS = st.builds(
    lambda shape, dtype: torch.arange(math.prod(shape)).reshape(shape).to(dtype),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from(
        [torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex64, torch.uint16, torch.float8_e5m2]
    ),
)
LEAVES = st.one_of(
    KEYS, st.floats(), st.complex_numbers(), st.integers(-(2**300), 2**300), TENSORS, st.binary().map(bytearray)
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.lists(st.tuples(KEYS, inner), max_size=3).map(OrderedDict),
        st.sets(KEYS, max_size=3),
    ),
    max_leaves=12,
)


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(tree=TREES)
def test_any_tree(tmp_path: Path, tree: Any) -> None:
    torch.save(tree, tmp_path / "theirs.pt")
    ours = ztensor.torch.load_tree(tmp_path / "theirs.pt")
    assert same(tree, ours)
    ztensor.torch.save_tree(tree, tmp_path / "ours.pt")
    assert same(tree, torch.load(tmp_path / "ours.pt", weights_only=True))
    ztensor.torch.save_tree(tree, tmp_path / "ours.zt")
    arguments = ["ztensor", "convert", tmp_path / "ours.zt", "-o", tmp_path / "c.pt", "--force", "--json"]
    assert _native.run_cli([str(argument) for argument in arguments]) == 0
    assert same(tree, torch.load(tmp_path / "c.pt", weights_only=True))


def archive(data: bytes) -> bytes:
    """A .pt file around a pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("archive/data.pkl", data)
        made.writestr("archive/version", "3\n")
    return out.getvalue()


def bomb() -> bytes:
    """Lists that hold the list before them twice, forty times over."""
    steps = b"".join(b"](h\x00h\x00eq\x00" for _ in range(40))
    return b"\x80\x02]q\x00" + steps + b"."


HOSTILE = {
    "deep": (b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", "levels"),
    "cycle": (b"\x80\x02]q\x00h\x00a.", "contains itself"),
    "dict cycle": (b"\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s.", "contains itself"),
    "bomb": (bomb(), "places"),
    "text bomb": (
        b"\x80\x02X\x00\x00\x10\x00" + b"x" * 0x100000 + b"q\x00](" + b"h\x00" * 200_000 + b"e.",
        "memory",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles(tmp_path: Path, name: str) -> None:
    data, words = HOSTILE[name]
    (tmp_path / "h.pt").write_bytes(archive(data))
    script = f"""
import resource, ztensor.numpy
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
try:
    ztensor.numpy.load_tree({str(tmp_path / "h.pt")!r})
except ztensor.ZTensorError as error:
    print(error.kind, error)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0 and words in result.stdout, (result.stdout, result.stderr[-500:])


def test_slices_of_quantised_tensors(tmp_path: Path) -> None:
    values = torch.linspace(-3, 3, 24).reshape(4, 6)
    tensors = {
        "tensor": torch.quantize_per_tensor(values, 0.1, 3, torch.quint8),
        "channel": torch.quantize_per_channel(values, torch.full((4,), 0.1), torch.arange(4), 0, torch.qint8),
    }
    torch.save(tensors, tmp_path / "q.pt")
    for name, tensor in tensors.items():
        expected = tensor.dequantize()
        with ztensor.safe_open(tmp_path / "q.pt", framework="pt", dequantize=True) as file:
            part = file.get_slice(name)
            assert part.get_dtype() == "F32" and part.get_shape() == [4, 6]
            assert torch.equal(part[1:3, ::2], expected[1:3, ::2]) and torch.equal(part[-1], expected[-1])
            with pytest.raises(IndexError):
                part[9]
        with ztensor.safe_open(tmp_path / "q.pt", framework="np", dequantize="float16") as file:
            np.testing.assert_array_equal(file.get_slice(name)[2], expected[2].half().numpy())
        slice_ = ztensor.Reader(tmp_path / "q.pt").read_slice(name, np.s_[:, 1], dequantize=True)
        np.testing.assert_array_equal(slice_, expected[:, 1].numpy())
