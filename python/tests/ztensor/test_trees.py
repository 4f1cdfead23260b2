"""Training checkpoints without pickle: every value comes back as it was."""

from __future__ import annotations

import json
import math
import random
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ztensor
import ztensor.numpy
import ztensor.torch
from ztensor import ZTensorError


def same(left: Any, right: Any) -> bool:
    """Whether two trees are equal in values and types, and in the attributes that dicts may have."""
    if isinstance(left, torch.Tensor):
        same_type = type(right) is type(left) and left.dtype == right.dtype and left.layout == right.layout
        if not same_type or left.shape != right.shape:
            return False
        if left.layout != torch.strided:
            return torch.equal(left.to_dense(), right.to_dense())
        # Bytes are compared, so that NaN equals NaN and every dtype takes part.
        left, right = left.detach().contiguous(), right.detach().contiguous()
        return left.numel() == 0 or torch.equal(left.view(-1).view(torch.uint8), right.view(-1).view(torch.uint8))
    if isinstance(left, np.ndarray | np.generic):
        return type(left) is type(right) and left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=True)
        if type(right) is not type(left):
            return False
        if isinstance(left, OrderedDict) and not same(vars(left), vars(right)):
            return False
        return all(same(a, b) and same(v, w) for (a, v), (b, w) in pairs)
    if isinstance(left, list | tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and (left == right or (left != left and right != right))


@pytest.mark.parametrize("name", ["checkpoint.zt", "checkpoint.safetensors"])
def test_a_training_checkpoint(tmp_path: Path, name: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().sum().backward()
        optimizer.step()
        scheduler.step()
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "rng": {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": np.random.get_state()},
        "step": 3,
    }
    ztensor.torch.save_tree(checkpoint, tmp_path / name, metadata={"run": "7"})
    loaded = ztensor.torch.load_tree(tmp_path / name)
    assert same(checkpoint, loaded)
    assert ztensor.Reader(tmp_path / name).file_metadata["run"] == "7"
    assert "optimizer.state.0.exp_avg" in ztensor.Reader(tmp_path / name)

    again = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
    other = torch.optim.AdamW(again.parameters(), lr=1.0)
    again.load_state_dict(loaded["model"])
    other.load_state_dict(loaded["optimizer"])
    torch.set_rng_state(loaded["rng"]["torch"])
    random.setstate(loaded["rng"]["python"])
    np.random.set_state(loaded["rng"]["numpy"])
    for pair in zip(optimizer.state_dict()["state"].values(), other.state_dict()["state"].values(), strict=True):
        assert same(*pair)


VALUES: list[Any] = [
    None,
    True,
    0,
    -(2**200),
    1.0,
    0.1,
    -0.0,
    math.inf,
    math.nan,
    "text \u00e9 \0",
    b"\0\xff",
    (),
    [],
    {},
    {"a": {1: 2, (1, "x"): None, None: [], 2.5: (1,), b"k": 4}, "flags": {True: 1}},
    {"1": "text", 1: "number"},
    [[1, (2, [3])]],
    {1, "a", None, (2, 3)},
    frozenset([1]),
    bytearray(b"\0x"),
    1 - 2j,
    complex(math.inf, 0.0),
    OrderedDict([(2, 1), ("a", None)]),
    np.float32(0.1),
    np.int64(7),
]


@pytest.mark.parametrize("module", [ztensor.numpy, ztensor.torch], ids=["numpy", "torch"])
def test_values_keep_their_types(tmp_path: Path, module: Any) -> None:
    tree = {"values": VALUES, "array": np.arange(6.0).reshape(2, 3), "zero": np.zeros(0)}
    module.save_tree(tree, tmp_path / "t.zt", codec="z4ai", checksum="crc32c")
    assert same(tree, module.load_tree(tmp_path / "t.zt")) or module is ztensor.numpy
    loaded = module.load_tree(tmp_path / "t.zt", copy=True)
    assert same(VALUES, loaded["values"]) and math.copysign(1, loaded["values"][6]) == -1
    assert same(tree["array"], loaded["array"])
    for bare in (3, np.arange(3)):
        module.save_tree(bare, tmp_path / "bare.zt")
        assert same(bare, module.load_tree(tmp_path / "bare.zt"))


def test_shared_tensors_are_stored_once(tmp_path: Path) -> None:
    shared = torch.randn(100, 10)
    tree = {"a": shared, "b": [shared, shared[:50]], "view": shared.view(10, 100), "empty": [torch.empty(0)] * 2}
    ztensor.torch.save_tree(tree, tmp_path / "t.zt")
    assert list(ztensor.Reader(tmp_path / "t.zt")) == ["a", "b.1", "view", "empty.0", "empty.1"]
    loaded = ztensor.torch.load_tree(tmp_path / "t.zt")
    assert loaded["a"] is loaded["b"][0] and torch.equal(loaded["b"][1], shared[:50])
    arrays = ztensor.numpy.load_tree(tmp_path / "t.zt")
    assert isinstance(arrays["a"], np.ndarray) and arrays["a"] is arrays["b"][0]
    ztensor.numpy.save_tree({"x": arrays["a"], "y": [arrays["a"]]}, tmp_path / "n.zt")
    assert list(ztensor.Reader(tmp_path / "n.zt")) == ["x"]
    assert same(ztensor.torch.load_tree(tmp_path / "n.zt")["y"], [shared])


def test_names_that_clash(tmp_path: Path) -> None:
    tree = {"a": {"b": torch.zeros(1)}, "a.b": torch.ones(1), 1: torch.ones(2), "1": torch.zeros(2)}
    ztensor.torch.save_tree(tree, tmp_path / "t.zt")
    assert same(tree, ztensor.torch.load_tree(tmp_path / "t.zt"))


def test_tensors_of_every_kind(tmp_path: Path) -> None:
    blocks = ztensor.Tensor({"data": np.zeros(34, np.uint8)}, shape=[1, 32], layout="gguf.q8_0/1")
    tree = {
        "half": torch.ones(3, dtype=torch.bfloat16),
        "strided": torch.arange(6).reshape(2, 3).t(),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "scalar": torch.tensor(3.5),
        "ordered": OrderedDict(z=1, a=2),
        "size": torch.Size([1, 2]),
        "dtype": torch.int8,
        "device": torch.device("cpu"),
        "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
    }
    ztensor.torch.save_tree({**tree, "blocks": blocks, "sparse": torch.eye(3).to_sparse()}, tmp_path / "t.zt")
    loaded = ztensor.torch.load_tree(tmp_path / "t.zt")
    assert loaded.pop("blocks").layout == "gguf.q8_0/1" and loaded.pop("sparse").layout == torch.sparse_coo
    assert same(tree, loaded) and loaded["parameter"].requires_grad
    arrays = ztensor.numpy.load_tree(tmp_path / "t.zt")
    assert arrays["size"] == (1, 2) and arrays["dtype"] == "torch.int8" and arrays["device"] == "cpu"


def test_what_cannot_be_stored_is_named(tmp_path: Path) -> None:
    point = namedtuple("point", "x y")
    deep: Any = []
    deep.append(deep)
    for value, words in (
        (object(), "object"),
        (point(1, 2), "point"),
        (range(3), "range"),
        (np.array([object()]), "object"),
        (deep, "contains itself"),
    ):
        with pytest.raises(ZTensorError, match=words) as caught:
            ztensor.torch.save_tree({"a": [value]}, tmp_path / "t.zt")
        assert "a" in str(caught.value)
    with pytest.raises(ZTensorError, match=r"ztensor\.tree"):
        ztensor.numpy.save_tree({}, tmp_path / "t.zt", metadata={"ztensor.tree": "mine"})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[" * 100_000, "levels"),
        (json.dumps({"dict": [1]}), "expected"),
        (json.dumps({"tuple": [], "bytes": ""}), "tag"),
        (json.dumps({}), "tag"),
        (json.dumps({"bytes": "?"}), "base64"),
        (json.dumps({"float": "1"}), "number"),
        (json.dumps({"tensor": "missing"}), "missing"),
        (json.dumps({"tensor": ["x"]}), "expected"),
        (json.dumps({"call": "os.system"}), "unknown kind"),
        (json.dumps({"pairs": [[1]]}), "expected"),
        (json.dumps({"pairs": [[[1], 2]]}), "key"),
        (json.dumps({"set": [[1]]}), "member"),
        (json.dumps({"ordered": [[], 1]}), "attributes"),
        (json.dumps({"size": [1.5]}), "dimension"),
        (json.dumps({"typed": ["float32", "AA=="]}), "float32"),
        (json.dumps({"typed": ["object", "AA=="]}), "type"),
        (json.dumps({"parameter": "x"}), "expected"),
        ("[" * 300 + "]" * 300, "levels"),
    ],
)
def test_malformed_trees(tmp_path: Path, text: str, words: str) -> None:
    ztensor.numpy.save_file({"x": np.zeros(2)}, tmp_path / "t.zt", metadata={"ztensor.tree": text})
    for module in (ztensor.numpy, ztensor.torch):
        with pytest.raises(ZTensorError, match=words):
            module.load_tree(tmp_path / "t.zt")


def test_a_file_without_a_tree(tmp_path: Path) -> None:
    ztensor.numpy.save_file({"x": np.zeros(2)}, tmp_path / "t.zt")
    with pytest.raises(ZTensorError, match="load_file"):
        ztensor.numpy.load_tree(tmp_path / "t.zt")
