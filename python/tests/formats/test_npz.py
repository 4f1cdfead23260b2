"""NPY and NPZ against NumPy: every type, order, version and way to store an array."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import ztensor

CODES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
SHAPES: list[tuple[int, ...]] = [(), (1,), (0,), (7,), (3, 5), (2, 0, 4), (2, 1, 3, 5), (1, 9), (400, 333)]
SAVE = {"stored": np.savez, "deflated": np.savez_compressed}


def noise(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(dtype.num)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape).copy()


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Equality of bits in native byte order."""
    right = right.astype(right.dtype.newbyteorder("="))
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


@pytest.mark.parametrize("way", SAVE)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_type_order_and_shape(tmp_path: Path, way: str, shape: tuple[int, ...]) -> None:
    arrays = {}
    for code in CODES:
        for order in "<>":
            array = noise(np.dtype(code), shape).astype(np.dtype(code).newbyteorder(order))
            arrays[f"{order}{code}/c"] = array
            arrays[f"{order}{code}/fortran"] = np.asfortranarray(array)
    path = tmp_path / "arrays.npz"
    SAVE[way](path, **arrays)
    reader = ztensor.Reader(path)
    assert reader.format == "npz"
    assert reader.keys() == list(arrays)
    for copy in (False, True):
        loaded = reader.read_numpy(reader.keys(), copy=copy)
        with np.load(path) as numpy_file:
            for name in arrays:
                assert same_bits(loaded[name], numpy_file[name]), name
                assert tuple(reader.metadata(name).shape) == numpy_file[name].shape


def test_plain_arrays_are_not_copied(tmp_path: Path) -> None:
    array = np.arange(12.0).reshape(3, 4)
    np.savez(tmp_path / "a.npz", c=array, fortran=np.asfortranarray(array))
    np.save(tmp_path / "a.npy", np.asfortranarray(array))
    for path, names in ((tmp_path / "a.npz", ["c", "fortran"]), (tmp_path / "a.npy", ["a"])):
        reader = ztensor.Reader(path, io="mmap")
        assert reader.keys() == names
        for name in names:
            first, second = reader.read_numpy(name), reader.read_numpy(name)
            np.testing.assert_array_equal(first, array)
            assert np.shares_memory(first, second)
            assert first.flags.c_contiguous == (name == "c")
            first[0, 0] = -1
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), array)


def test_fortran_order_in_torch(tmp_path: Path) -> None:
    import torch

    array = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    np.save(tmp_path / "a.npy", array)
    tensor = ztensor.Reader(tmp_path / "a.npy").read_torch("a")
    assert torch.equal(tensor, torch.from_numpy(array))
    assert tensor.stride() == (1, 3)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version(tmp_path: Path, version: tuple[int, int]) -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    with (tmp_path / "a.npy").open("wb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.lib.format.write_array(file, array, version=version)
    np.testing.assert_array_equal(ztensor.Reader(tmp_path / "a.npy").read_numpy("a"), array)


def test_types_of_ml_dtypes(tmp_path: Path) -> None:
    bits = np.arange(256, dtype=np.uint8)
    bf16 = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16).reshape(256, 256)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.savez(
            tmp_path / "a.npz",
            bf16=bf16,
            fortran=np.asfortranarray(bf16),
            e5m2=bits.view(ml_dtypes.float8_e5m2),
            e4m3=bits.view(ml_dtypes.float8_e4m3fn),
            void=bf16.view("V2"),
        )
    reader = ztensor.Reader(tmp_path / "a.npz")
    assert reader.keys() == ["bf16", "fortran", "e5m2"]
    assert same_bits(reader.read_numpy("bf16"), bf16)
    assert reader.read_numpy("fortran").tobytes() == bf16.tobytes()
    assert reader.read_numpy("e5m2").view(np.uint8).tobytes() == bits.tobytes()
    assert list(reader.skipped()) == ["e4m3", "void"]


@pytest.mark.parametrize("way", SAVE)
def test_strings_objects_and_records_are_skipped(tmp_path: Path, way: str) -> None:
    path = tmp_path / "mixed.npz"
    SAVE[way](
        path,
        weights=np.ones(3, np.float32),
        texts=np.array(["a", "bc"]),
        octets=np.array([b"a"]),
        objects=np.array([1, None], dtype=object),
        records=np.zeros(2, dtype=[("x", "<f4"), ("y", "<i2", (3,))]),
        dates=np.zeros(2, dtype="M8[s]"),
    )
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("readme.txt", "hello")
    reader = ztensor.Reader(path)
    assert reader.keys() == ["weights"]
    reasons = reader.skipped()
    assert list(reasons) == ["texts", "octets", "objects", "records", "dates", "readme.txt"]
    assert "Python objects" in reasons["objects"]
    with pytest.raises(ztensor.ZTensorError, match="strings"):
        reader.read_numpy("texts")


def test_members_of_64_bit_archives(tmp_path: Path) -> None:
    path = tmp_path / "large.npz"
    array = np.arange(10.0)
    with zipfile.ZipFile(path, "w") as archive, archive.open("a.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array)
    np.testing.assert_array_equal(ztensor.Reader(path).read_numpy("a"), array)


@settings(max_examples=100, deadline=None)
@given(
    array=npst.arrays(
        dtype=st.sampled_from([np.dtype(order + code) for code in CODES if code != "?" for order in "<>"]),
        shape=npst.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=6),
    ),
    fortran=st.booleans(),
    compressed=st.booleans(),
)
def test_any_array(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, fortran: bool, compressed: bool
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.npz"
    stored = np.asfortranarray(array) if fortran and array.ndim else array
    SAVE["deflated" if compressed else "stored"](path, a=stored)
    assert same_bits(ztensor.Reader(path).read_numpy("a"), array)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=["bzip2", "lzma"])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (400, 333)], ids=str)
def test_members_of_other_compressors(tmp_path: Path, method: int, shape: tuple[int, ...]) -> None:
    path = tmp_path / "arrays.npz"
    arrays = {code: noise(np.dtype(code), shape) for code in ("f4", "i8", "?")}
    arrays["fortran"] = np.asfortranarray(noise(np.dtype("f8"), shape))
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.save(member, array)
    reader = ztensor.Reader(path)
    assert reader.skipped() == {}
    with np.load(path) as expected:
        assert reader.keys() == list(expected)
        for name in expected:
            assert same_bits(reader.read_numpy(name), expected[name])


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=["bzip2", "lzma"])
def test_damaged_members_of_other_compressors(tmp_path: Path, method: int) -> None:
    path = tmp_path / "arrays.npz"
    with zipfile.ZipFile(path, "w", method) as archive, archive.open("a.npy", "w") as member:
        np.save(member, np.arange(300, dtype=np.uint16))
    good = path.read_bytes()
    directory = good.rindex(b"PK\x01\x02")
    for position in range(35, directory):
        changed = bytearray(good)
        changed[position] ^= 0x55
        path.write_bytes(changed)
        # Wherever the damage is, it is an error; of what is read nothing is wrong.
        try:
            array = ztensor.Reader(path).read_numpy("a")
        except (ztensor.ZTensorError, KeyError):
            continue
        assert array.tolist() == list(range(300)), position
    path.write_bytes(good)
    assert ztensor.Reader(path).read_numpy("a").tolist() == list(range(300))
