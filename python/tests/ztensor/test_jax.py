"""JAX arrays in and out, with the real package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.flax

import ztensor
import ztensor.jax
from ztensor import ZTensorError


def arrays() -> dict[str, jax.Array]:
    return {
        "float32": jnp.arange(6.0).reshape(2, 3),
        "bfloat16": jnp.ones((4, 2), jnp.bfloat16),
        "int32": jnp.arange(5),
        "bool": jnp.array([True, False]),
        "float8": jnp.ones(3, jnp.float8_e4m3fn),
        "scalar": jnp.float32(2.5),
    }


def same(left: jax.Array, right: jax.Array) -> bool:
    return isinstance(left, jax.Array) and left.dtype == right.dtype and bool(jnp.array_equal(left, right))


@pytest.mark.parametrize("name", ["m.zt", "m.safetensors"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    ztensor.jax.save_file(arrays(), tmp_path / name, {"note": "x"})
    loaded = ztensor.jax.load_file(tmp_path / name)
    assert loaded.keys() == arrays().keys() and all(same(loaded[key], value) for key, value in arrays().items())
    loaded = ztensor.jax.load(ztensor.jax.save(arrays(), codec="z4ai"), device="cpu")
    assert all(same(loaded[key], value) for key, value in arrays().items())
    # Theirs does not know the 8-bit floats in NumPy.
    plain = {key: value for key, value in arrays().items() if key != "float8"}
    ztensor.jax.save_file(plain, tmp_path / "theirs.safetensors")
    theirs = safetensors.flax.load_file(tmp_path / "theirs.safetensors")
    assert all(same(theirs[key], value) for key, value in plain.items())


@pytest.mark.parametrize("framework", ["jax", "flax"])
def test_safe_open(tmp_path: Path, framework: str) -> None:
    ztensor.jax.save_file(arrays(), tmp_path / "m.safetensors")
    with ztensor.safe_open(tmp_path / "m.safetensors", framework=framework) as file:
        assert all(same(file.get_tensor(key), value) for key, value in arrays().items())
        assert all(same(value, arrays()[key]) for key, value in file.get_tensors().items())
        part = file.get_slice("float32")
        assert same(part[:, 1:], arrays()["float32"][:, 1:]) and part.get_shape() == [2, 3]
    device = jax.devices("cpu")[0]
    with ztensor.safe_open(tmp_path / "m.safetensors", framework, device) as file:
        assert file.get_tensor("int32").devices() == {device}


def test_wide_numbers_are_not_rounded_in_silence(tmp_path: Path) -> None:
    ztensor.numpy.save_file({"step": np.array(7), "wide": np.array([0.1])}, tmp_path / "m.zt")
    assert ztensor.jax.load_file(tmp_path / "m.zt", keys=["step"])["step"] == 7
    with pytest.raises(ZTensorError, match="jax_enable_x64"):
        ztensor.jax.load_file(tmp_path / "m.zt")
    assert ztensor.jax.load_file(tmp_path / "m.zt", dtype="float32")["wide"].dtype == jnp.float32


def test_dlpack_and_tensors(tmp_path: Path) -> None:
    ztensor.jax.save_file(arrays(), tmp_path / "m.zt")
    tensor = ztensor.Reader(tmp_path / "m.zt")["float32"]
    assert same(jax.dlpack.from_dlpack(tensor), arrays()["float32"]) and same(jnp.asarray(tensor), arrays()["float32"])
    blocks = ztensor.Tensor({"data": np.zeros(34, np.uint8)}, shape=[1, 32], layout="gguf.q8_0/1")
    ztensor.jax.save_file({"q": blocks}, tmp_path / "q.zt")
    assert isinstance(ztensor.jax.load_file(tmp_path / "q.zt")["q"], ztensor.Tensor)
    assert ztensor.jax.load_file(tmp_path / "q.zt", dequantize=True)["q"].shape == (1, 32)


SHARDED = """
import jax, jax.numpy as jnp, numpy as np, ztensor, ztensor.jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
spread = jax.device_put(jnp.arange(64.0).reshape(8, 8), NamedSharding(mesh, P("x", "y")))
tree = {"w": spread, "b": [jnp.ones(4, jnp.bfloat16), 3], "s": jnp.float32(2)}
ztensor.jax.save_tree(tree, "tree.zt", codec="z4ai")
other = NamedSharding(mesh, P("y", None))
target = {
    "w": jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=other),
    "b": [jax.ShapeDtypeStruct((4,), jnp.bfloat16), 0],
    "s": jnp.float32(0),
}
back = ztensor.jax.restore_tree("tree.zt", target)
assert back["w"].sharding == other and (back["w"] == spread).all()
assert [shard.data.shape for shard in back["w"].addressable_shards] == [(4, 8)] * 4
assert back["b"][1] == 3 and type(back["b"][1]) is int and back["b"][0].dtype == jnp.bfloat16 and back["s"] == 2
for wrong in ({**target, "w": jnp.zeros((8, 4))}, {**target, "s": jnp.int32(0)}):
    try:
        ztensor.jax.restore_tree("tree.zt", wrong)
    except ztensor.ZTensorError as error:
        assert error.kind == "mismatch", error
    else:
        raise AssertionError("nothing was refused")
"""


def test_trees_over_four_devices(tmp_path: Path) -> None:
    """Saved under one sharding and restored under another."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    result = subprocess.run(
        [sys.executable, "-c", SHARDED], cwd=tmp_path, env={**os.environ, **flags}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


ORBAX = """
import jax, jax.numpy as jnp, numpy as np, orbax.checkpoint, os, ztensor, ztensor.jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

mesh = Mesh(np.array(jax.devices()).reshape(4), ("x",))
rows, columns = (NamedSharding(mesh, PartitionSpec(*spec)) for spec in (("x",), (None, "x")))
state = {
    "params": {"w": jax.device_put(jnp.arange(64.0).reshape(8, 8), rows), "b": jnp.ones(4, jnp.bfloat16)},
    "opt": [jnp.zeros((3, 2)), {"mu": jnp.arange(5, dtype=jnp.int32)}],
    "step": jnp.int32(7),
}
target = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), state)
target["params"]["w"] = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=columns)
restored = []
for checkpointer, path in (
    (ztensor.jax.Checkpointer(), os.path.abspath("state.zt")),
    (orbax.checkpoint.StandardCheckpointer(), os.path.abspath("state")),
):
    with checkpointer:
        checkpointer.save(path, state)
        checkpointer.wait_until_finished()
        restored.append(checkpointer.restore(path, target))
        try:
            checkpointer.save(path, state)
        except (ztensor.ZTensorError, ValueError):
            pass
        else:
            raise AssertionError("a checkpoint was overwritten")
        checkpointer.save(path, state, force=True)
        checkpointer.wait_until_finished()
ours, theirs = restored
assert jax.tree.structure(ours) == jax.tree.structure(theirs) == jax.tree.structure(state)
for one, other, saved in zip(*map(jax.tree.leaves, (ours, theirs, state)), strict=True):
    assert one.dtype == other.dtype == saved.dtype and one.sharding == other.sharding
    assert (np.asarray(one) == np.asarray(other)).all() and (np.asarray(one) == np.asarray(saved)).all()
assert ours["params"]["w"].sharding == columns
"""


def test_a_checkpointer_restores_what_that_of_orbax_does(tmp_path: Path) -> None:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    result = subprocess.run(
        [sys.executable, "-c", ORBAX], cwd=tmp_path, env={**os.environ, **flags}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
