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
    assert 'not written: 1 entry of metadata ("format")' in complaint
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
    said = convert(tmp_path / "n.zt", tmp_path / "back.pt")
    assert "['state'][1] is NumPy's" in said and "add_safe_globals" in said
    assert same(tree, torch.load(tmp_path / "back.pt", weights_only=False))
    for module, place in ((ztensor.numpy, r"tree\['x'\]\[0\]"), (ztensor.torch, r"tree\['state'\]\[1\]")):
        with pytest.warns(UserWarning, match=f"{place} is NumPy's.*add_safe_globals"):
            module.save_tree(tree, tmp_path / "numpy.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ztensor.torch.save_tree(tree, tmp_path / "n.zt")
        ztensor.torch.save_tree({"x": 1.5, "w": torch.ones(1)}, tmp_path / "plain.pt")


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


class Subclass(torch.Tensor):
    """A class of a program."""


def attributed() -> dict[str, Any]:
    """Tensors with what programs give them besides their elements."""
    parameter = torch.nn.Parameter(torch.arange(3.0), requires_grad=False)
    parameter.tag = {"tensor_model_parallel": True, "dims": (1, 2)}
    parameter.main_grad = torch.full((3,), 0.5)
    plain = torch.arange(4.0)
    plain.note = "kept"
    sparse = torch.eye(3).to_sparse().coalesce()
    sparse.note = 1
    return {
        "parameter": parameter,
        "again": parameter,
        "plain": plain,
        "sparse": sparse,
        "trained": torch.ones(2, requires_grad=True),
        "both": torch.nn.Parameter(torch.ones(2)),
    }


def check_attributed(tree: dict[str, Any]) -> None:
    assert tree["parameter"] is tree["again"] and type(tree["parameter"]) is torch.nn.Parameter
    assert tree["parameter"].tag == {"tensor_model_parallel": True, "dims": (1, 2)}
    assert not tree["parameter"].requires_grad and torch.equal(tree["parameter"], torch.arange(3.0))
    assert torch.equal(tree["parameter"].main_grad, torch.full((3,), 0.5))
    assert tree["plain"].note == "kept" and torch.equal(tree["plain"], torch.arange(4.0))
    assert tree["sparse"].note == 1 and torch.equal(tree["sparse"].to_dense(), torch.eye(3))
    assert tree["trained"].requires_grad and tree["trained"].is_leaf and type(tree["trained"]) is torch.Tensor
    assert tree["both"].requires_grad and not vars(tree["both"])


def test_attributes_of_tensors_are_kept(tmp_path: Path) -> None:
    torch.save(attributed(), tmp_path / "theirs.pt")
    check_attributed(torch.load(tmp_path / "theirs.pt", weights_only=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ztensor.SkippedTensorWarning)
        check_attributed(ztensor.torch.load_tree(tmp_path / "theirs.pt"))
        for name in ("c.zt", "c.safetensors"):
            if name == "c.safetensors":
                tree = attributed()
                del tree["sparse"]
                torch.save(tree, tmp_path / "dense.pt")
                assert convert(tmp_path / "dense.pt", tmp_path / name) == ""
                continue
            assert convert(tmp_path / "theirs.pt", tmp_path / name) == ""
            check_attributed(ztensor.torch.load_tree(tmp_path / name))
        assert convert(tmp_path / "c.zt", tmp_path / "back.pt") == ""
        check_attributed(torch.load(tmp_path / "back.pt", weights_only=True))
        for name in ("python.zt", "python.pt"):
            ztensor.torch.save_tree(attributed(), tmp_path / name)
            check_attributed(ztensor.torch.load_tree(tmp_path / name))
        check_attributed(torch.load(tmp_path / "python.pt", weights_only=True))
    # Tensors among attributes are tensors of the file.
    assert "parameter.__dict__.main_grad" in ztensor.Reader(tmp_path / "theirs.pt")
    # An array has nowhere to put them.
    with pytest.warns(ztensor.SkippedTensorWarning, match=r"tree\['parameter'\]\.tag \(an array has no attributes\)"):
        arrays = ztensor.numpy.load_tree(tmp_path / "c.zt")
    np.testing.assert_array_equal(arrays["parameter"], np.arange(3.0))


def test_what_tensors_lose_is_named(tmp_path: Path) -> None:
    hooked = torch.ones(2, requires_grad=True)
    hooked.odd = Namespace(a=1)
    tree = {"w": torch.ones(3).as_subclass(Subclass), "x": hooked, "m": np.matrix([[1.0, 2.0]])}
    torch.save(tree, tmp_path / "c.pt")
    complaint = convert(tmp_path / "c.pt", tmp_path / "c.zt")
    assert f"['w'].__class__: {__name__}.Subclass" in complaint and "['x'].odd: argparse.Namespace" in complaint
    assert "['m'].__class__: numpy.matrix" in complaint
    for path in (tmp_path / "c.pt", tmp_path / "c.zt"):
        with pytest.warns(ztensor.SkippedTensorWarning, match=r"tree\['w'\]\.__class__ .*Subclass\) and 2 more"):
            loaded = ztensor.torch.load_tree(path)
        assert type(loaded["w"]) is torch.Tensor and torch.equal(loaded["w"], torch.ones(3))
        assert loaded["x"].odd == ztensor.Unread("argparse.Namespace") and loaded["x"].requires_grad
    result = command("convert", tmp_path / "c.zt", "-o", tmp_path / "d.pt")
    assert result.returncode == 2 and "__class__" in result.stderr and not (tmp_path / "d.pt").exists()
    with pytest.warns(ztensor.SkippedTensorWarning, match=r"not stored: tree\['w'\]\.__class__ .*Subclass"):
        ztensor.torch.save_tree({"w": tree["w"]}, tmp_path / "e.zt")
    with pytest.raises(ZTensorError, match=r"tree\['x'\]\.odd: a argparse.Namespace cannot be stored"):
        ztensor.torch.save_tree({"x": hooked}, tmp_path / "f.zt")
    for module in (ztensor.numpy, ztensor.torch):
        with pytest.raises(ZTensorError, match="MaskedArray cannot be stored"):
            module.save_tree({"a": np.ma.masked_array([1.0, 2.0], [True, False])}, tmp_path / "g.zt")


def test_attributes_that_contain_their_tensor(tmp_path: Path) -> None:
    tensor = torch.ones(2)
    tensor.itself = [tensor]
    torch.save({"w": tensor}, tmp_path / "c.pt")
    assert set(ztensor.Reader(tmp_path / "c.pt").keys()) == {"w", "w.__dict__.itself.0"}
    with pytest.raises(ZTensorError, match="contains itself"):
        ztensor.torch.load_tree(tmp_path / "c.pt")
    with pytest.raises(ZTensorError, match="contains itself"):
        ztensor.torch.save_tree({"w": tensor}, tmp_path / "c.zt")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_bytearrays_of_every_protocol(tmp_path: Path, protocol: int) -> None:
    tree = {"a": bytearray(b"x\0\xff"), "b": b"x\0\xff", "empty": [bytearray(), b""], "array": np.arange(3.0)}
    torch.save(tree, tmp_path / "c.pt", pickle_protocol=protocol)
    (tmp_path / "c.pkl").write_bytes(pickle.dumps(tree, protocol))
    convert(tmp_path / "c.pt", tmp_path / "c.zt")
    for name in ("c.pt", "c.pkl", "c.zt"):
        loaded = ztensor.torch.load_tree(tmp_path / name)
        assert same(tree, loaded) and type(loaded["a"]) is bytearray and type(loaded["b"]) is bytes


def test_only_what_the_tree_lacks_is_said_to_be_left_out(tmp_path: Path) -> None:
    tree = {
        "w": torch.ones(1),
        "step": 3,
        "lr": [1e-3, float("nan")],
        "args": {"name": "a", 1: None},
        "n": np.float32(2),
    }
    torch.save(tree, tmp_path / "c.pt")
    for name in ("c.zt", "c.safetensors"):
        convert(tmp_path / "c.pt", tmp_path / name)
        assert "not written" not in convert(tmp_path / name, tmp_path / "d.pt")
        ztensor.write_metadata(tmp_path / name, {"license": "mit"})
        complaint = convert(tmp_path / name, tmp_path / "d.pt")
        assert 'not written: 1 entry of metadata ("license"), for which a .pt file has no place' in complaint


def test_hints_say_what_to_do_instead(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(1), "args": Namespace()}, tmp_path / "c.pt")
    convert(tmp_path / "c.pt", tmp_path / "c.zt")
    result = command("convert", tmp_path / "c.zt", "-o", tmp_path / "d.pt")
    assert result.returncode == 2 and result.stderr.strip().endswith("Name the output .zt.")
    blocks = ztensor.Tensor({"data": np.zeros(34, np.uint8)}, shape=[1, 32], layout="gguf.q8_0/1")
    for tree, hint in (
        ({"args": ztensor.Unread("a.B")}, "Replace or remove it in the tree, or name the file .zt."),
        ({"w": blocks}, "Name the file .zt, or read ggml blocks with dequantize=True."),
    ):
        with pytest.raises(ZTensorError) as caught:
            ztensor.torch.save_tree(tree, tmp_path / "x.pt")
        assert caught.value.hint == hint and str(caught.value).endswith(hint)
        assert not (tmp_path / "x.pt").exists()
    import ml_dtypes

    with pytest.raises(ZTensorError) as caught, pytest.warns(UserWarning, match="NumPy's"):
        ztensor.torch.save_tree({"n": np.zeros(2, ml_dtypes.bfloat16)}, tmp_path / "x.pt")
    assert caught.value.hint == "Make it a tensor."
    ztensor.numpy.save_file({"n": np.zeros(2, ml_dtypes.float6_e2m3fn)}, tmp_path / "f6.zt")
    result = command("convert", tmp_path / "f6.zt", "-o", tmp_path / "x.pt")
    assert result.returncode == 2 and result.stderr.strip().endswith("Write a .zt file instead.")
