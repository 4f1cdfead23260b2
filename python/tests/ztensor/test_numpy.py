"""`ztensor.numpy`: whole files of arrays."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ztensor
import ztensor.torch
from ztensor.numpy import load, load_file, save, save_file


@pytest.mark.parametrize("compression", [False, True, 10])
@pytest.mark.parametrize("copy", [False, True])
def test_files_round_trip(tmp_path: Path, arrays: dict[str, np.ndarray], compression: bool | int, copy: bool) -> None:
    save_file(arrays, tmp_path / "m.zt", metadata={"author": "me"}, compression=compression)
    loaded = load_file(tmp_path / "m.zt", copy=copy)
    assert list(loaded) == list(arrays)
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)
    assert ztensor.open(tmp_path / "m.zt").file_metadata == {"author": "me"}


def test_bytes_round_trip(arrays: dict[str, np.ndarray]) -> None:
    data = save(arrays, compression=True)
    loaded = load(data)
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
    kept = bytes(data)
    loaded["large"][:] = 0
    assert data == kept
    assert load(bytearray(data)).keys() == arrays.keys()


def test_safetensors_files_go_both_ways(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    arrays.pop("complex128")
    save_file(arrays, tmp_path / "ours.safetensors", metadata={"k": "v"})
    safetensors.numpy.save_file(arrays, tmp_path / "theirs.safetensors", metadata={"k": "v"})
    assert (tmp_path / "ours.safetensors").read_bytes() == (tmp_path / "theirs.safetensors").read_bytes()
    theirs = safetensors.numpy.load_file(tmp_path / "ours.safetensors")
    ours = load_file(tmp_path / "theirs.safetensors")
    for name, array in arrays.items():
        np.testing.assert_array_equal(theirs[name], array)
        np.testing.assert_array_equal(ours[name], array)


def test_what_safetensors_cannot_hold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    with pytest.raises(ValueError, match="compressed"):
        save_file({"x": np.zeros(3)}, path, compression=True)
    with pytest.raises(ztensor.ZTensorError, match="complex128"):
        save_file({"x": np.zeros(3, dtype=np.complex128)}, path)
    with pytest.raises(ValueError, match="text"):
        save_file({"x": np.zeros(3)}, path, metadata={"n": 3})
    assert not path.exists()


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="dict"):
        save([np.zeros(3)])
    with pytest.raises(ValueError, match=r"np\.ndarray"):
        save({"x": [1, 2]})
    with pytest.raises(ValueError, match="str"):
        save({3: np.zeros(3)})
    with pytest.raises(ValueError, match="compression"):
        save({"x": np.zeros(3)}, compression=99)
    with pytest.raises(TypeError):
        load("text")


def test_no_tensors_at_all(tmp_path: Path) -> None:
    save_file({}, tmp_path / "m.zt")
    assert load_file(tmp_path / "m.zt") == {}
    assert load(save({})) == {}


def test_many_small_tensors(tmp_path: Path) -> None:
    arrays = {f"layer.{number}": np.full(25, number, dtype=np.int32) for number in range(10_000)}
    save_file(arrays, tmp_path / "m.zt")
    for copy in (False, True):
        loaded = load_file(tmp_path / "m.zt", copy=copy)
        assert len(loaded) == 10_000
        assert all((loaded[name] == array).all() for name, array in arrays.items())


DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    st.sampled_from([np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)]),
)


@st.composite
def any_array(draw: st.DrawFn) -> np.ndarray:
    """An array of any type, shape and order, with any bits in it."""
    dtype = draw(DTYPES)
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    count = int(np.prod(shape, dtype=np.int64))
    bits = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    if dtype.kind == "b":
        bits = bytes(byte & 1 for byte in bits)
    array = np.frombuffer(bits, dtype=dtype).reshape(shape)
    return array.T if draw(st.booleans()) else array


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    native = right.astype(right.dtype.newbyteorder("=")) if right.dtype.byteorder == ">" else right
    return left.dtype == native.dtype and left.shape == native.shape and left.tobytes() == native.tobytes()


@settings(max_examples=200, deadline=None)
@given(
    arrays=st.dictionaries(st.text(max_size=20), any_array(), max_size=5),
    compression=st.sampled_from([False, True, 19]),
)
def test_whatever_is_saved_comes_back(arrays: dict[str, np.ndarray], compression: bool | int) -> None:
    loaded = load(save(arrays, compression=compression))
    assert list(loaded) == list(arrays)
    for name, array in arrays.items():
        assert same_bits(loaded[name], array)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_are_an_error_or_tensors(data: bytes) -> None:
    for head in (b"", b"ZTEN1000", b"ZTEN0001"):
        try:
            load(head + data)
        except ztensor.ZTensorError as error:
            assert error.kind
        except ztensor.SkippedTensorWarning:
            pass


@pytest.mark.parametrize("backend", ["mmap", "pread", None])
def test_the_backends_of_safetensors(tmp_path: Path, backend: str | None) -> None:
    values = {"x": np.arange(5000, dtype=np.float32)}
    save_file(values, tmp_path / "m.safetensors")
    np.testing.assert_array_equal(load_file(tmp_path / "m.safetensors", backend=backend)["x"], values["x"])
    with pytest.raises(ValueError, match="backend"):
        load_file(tmp_path / "m.safetensors", backend="floppy")  # type: ignore[arg-type]


def test_a_sparse_tensor_is_not_one_array(tmp_path: Path) -> None:
    parts = {"values": np.ones(2, np.float32), "indices": np.array([0, 2]), "indptr": np.array([0, 1, 2])}
    with ztensor.Writer(tmp_path / "m.zt") as writer:
        writer.write("s", ztensor.Tensor(parts, shape=[2, 3], format="sparse_csr"))
        writer.write_numpy("d", np.ones(3, np.float32))
    with pytest.raises(ValueError, match=r"sparse_csr.*not one array.*Reader.read.*ztensor.torch") as caught:
        ztensor.Reader(tmp_path / "m.zt").read_numpy("s")
    assert caught.value.tensor == "s"
    # As it says:
    assert ztensor.Reader(tmp_path / "m.zt").read("s").components["values"].tolist() == [1, 1]
    loaded = ztensor.torch.load_file(tmp_path / "m.zt")
    assert loaded["s"].to_dense().tolist() == [[1, 0, 0], [0, 0, 1]] and loaded["d"].tolist() == [1, 1, 1]
    loaded = ztensor.numpy.load_file(tmp_path / "m.zt")
    assert loaded["s"].to_dense().tolist() == [[1, 0, 0], [0, 0, 1]] and loaded["d"].tolist() == [1, 1, 1]


def test_the_name_that_safetensors_keeps_for_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="__metadata__"):
        save_file({"__metadata__": np.ones(3)}, tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())
    save_file({"__metadata__": np.ones(3)}, tmp_path / "m.zt")
    assert load_file(tmp_path / "m.zt")["__metadata__"].tolist() == [1, 1, 1]
