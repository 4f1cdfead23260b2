"""`Reader`: names, metadata, and every way to read a tensor."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import torch

import ztensor
import ztensor.numpy
import ztensor.torch
from z4ai import model_delta
from ztensor import Reader, Tensor, Writer

TEXT = "naïve/层.weight"


@pytest.fixture(params=["raw.zt", "zstd.zt", "checked.zt", "plain.safetensors"])
def path(request: pytest.FixtureRequest, arrays: dict[str, np.ndarray], tmp_path: Path) -> Path:
    """The same tensors in several kinds of files."""
    path = tmp_path / request.param
    if path.suffix == ".safetensors":
        arrays.pop("complex128")  # safetensors has no such type
        safetensors.numpy.save_file(arrays, path)
        return path
    options = {"zstd.zt": {"compress": True}, "checked.zt": {"checksum": "sha256"}}.get(request.param, {})
    with Writer(path) as writer:
        for name, array in arrays.items():
            writer.write_numpy(name, array, **options)
    return path


@pytest.mark.parametrize("io", ["auto", "mmap", "read"])
@pytest.mark.parametrize("copy", [False, True])
def test_arrays_are_what_was_saved(path: Path, arrays: dict[str, np.ndarray], io: str, copy: bool) -> None:
    reader = Reader(path, io=io)
    loaded = reader.read_numpy(reader.keys(), copy=copy)
    assert set(loaded) == set(arrays)
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        assert loaded[name].shape == array.shape
        assert loaded[name].flags.writeable
        np.testing.assert_array_equal(loaded[name], array)
        np.testing.assert_array_equal(reader.read_numpy(name, copy=copy), array)


@pytest.mark.parametrize("io", ["mmap", "read"])
@pytest.mark.parametrize("copy", [False, True])
def test_tensors_equal_what_torch_makes_of_the_arrays(
    path: Path, arrays: dict[str, np.ndarray], io: str, copy: bool
) -> None:
    reader = Reader(path, io=io)
    loaded = reader.read_torch(list(arrays), copy=copy)
    assert list(loaded) == list(arrays)
    for name, array in arrays.items():
        expected = torch.from_numpy(array)
        assert loaded[name].dtype == expected.dtype
        assert loaded[name].shape == expected.shape
        assert torch.equal(loaded[name], expected)


def test_the_reader_is_like_a_dict(path: Path, arrays: dict[str, np.ndarray]) -> None:
    reader = Reader(path)
    assert sorted(reader.keys()) == sorted(arrays)
    assert list(reader) == reader.keys()
    assert len(reader) == len(arrays)
    assert "float32" in reader
    assert "nothing" not in reader
    assert 3 not in reader
    tensor = reader["float32"]
    assert isinstance(tensor, Tensor)
    np.testing.assert_array_equal(tensor.numpy(), arrays["float32"])
    assert repr(reader) == f"<ztensor.Reader [{reader.format}, {len(arrays)} tensor(s)]>"
    assert reader.format == ("safetensors" if path.suffix == ".safetensors" else "zt")


def test_metadata_says_what_a_tensor_is_without_reading_it(path: Path) -> None:
    reader = Reader(path)
    metadata = reader.metadata("float32")
    assert (metadata.name, metadata.shape, metadata.dtype, metadata.type) == ("float32", [3, 5], "float32", None)
    assert (metadata.format, metadata.attributes, metadata.nbytes) == ("dense", None, 60)
    data = metadata.components["data"]
    assert data["length"] == 60
    assert data["stored_length"] <= 60
    assert data["dtype"] == "float32"
    complex64 = reader.metadata("complex64")
    assert (complex64.dtype, complex64.type) == ("float32", "complex64")
    both = reader.metadata(["float32", "bool"])
    assert [each.name for each in both] == ["float32", "bool"]


def test_copies_are_independent(path: Path, arrays: dict[str, np.ndarray]) -> None:
    reader = Reader(path)
    first = reader.read_numpy("large", copy=True)
    first[:] = 0
    np.testing.assert_array_equal(reader.read_numpy("large", copy=True), arrays["large"])


def test_writing_to_a_view_never_reaches_the_file(path: Path, arrays: dict[str, np.ndarray]) -> None:
    before = path.read_bytes()
    view = Reader(path).read_numpy("large")
    view[:] = 0
    torch_view = Reader(path).read_torch("large")
    torch_view.zero_()
    assert path.read_bytes() == before
    np.testing.assert_array_equal(Reader(path).read_numpy("large"), arrays["large"])


def test_a_raw_tensor_is_a_view_of_the_map(tmp_path: Path) -> None:
    path = tmp_path / "m.zt"
    with Writer(path) as writer:
        writer.write_numpy("x", np.arange(10.0))
    reader = Reader(path)
    first, second = reader.read_numpy("x"), reader.read_numpy("x")
    assert not first.flags.owndata
    assert np.shares_memory(first, second)
    assert not np.shares_memory(first, reader.read_numpy("x", copy=True))
    assert reader.read_torch("x").data_ptr() == first.ctypes.data


def test_reading_into_arrays_and_tensors(path: Path, arrays: dict[str, np.ndarray]) -> None:
    reader = Reader(path)
    target = np.empty_like(arrays["large"])
    reader.read_into("large", target)
    np.testing.assert_array_equal(target, arrays["large"])

    tensor = torch.empty(arrays["large"].shape)
    strided = torch.empty(5, 3, dtype=torch.int32).t()
    wider = np.empty((3, 5), dtype=np.float64)
    reader.read_into({"large": tensor, "int32": strided, "float32": wider, "scalar": (scalar := np.zeros(()))})
    assert torch.equal(tensor, torch.from_numpy(arrays["large"]))
    assert torch.equal(strided, torch.from_numpy(arrays["int32"]))
    np.testing.assert_array_equal(wider, arrays["float32"])
    assert scalar == 3.5


def test_reading_into_checks_shape_and_type(path: Path) -> None:
    reader = Reader(path)
    for shape in ((5, 3), (2, 3, 5), (1, 3, 5), (15,)):
        # NumPy and PyTorch would fill the second of these twice.
        for destination in (np.empty(shape, dtype=np.float32), torch.empty(shape)):
            for cast in (False, True):
                with pytest.raises(ztensor.ZTensorError, match=r"shape \[3, 5\], but the destination has") as caught:
                    reader.read_into("float32", destination, cast=cast)
                assert caught.value.kind == "mismatch" and isinstance(caught.value, ValueError)
    with pytest.raises(TypeError, match="the destination holds int32"):
        reader.read_into("float32", np.empty((3, 5), dtype=np.int32))
    with pytest.raises(TypeError, match="single name"):
        reader.read_into({"w": np.empty(3)}, np.empty(3))
    with pytest.raises(TypeError, match="not bytearray"):
        reader.read_into("float32", bytearray(60))
    with pytest.raises(TypeError, match="dst"):
        reader.read_into("float32")
    read_only = np.empty((3, 5), dtype=np.float32)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        reader.read_into("float32", read_only)
    with pytest.raises(KeyError):
        reader.read_into("nothing", np.empty(3))


def test_reading_two_tensors_into_the_same_memory_keeps_the_last(tmp_path: Path) -> None:
    path = tmp_path / "m.zt"
    with Writer(path) as writer:
        writer.write_numpy("a", np.full(1000, 1.0))
        writer.write_numpy("b", np.full(1000, 2.0))
    target = np.zeros(1000)
    Reader(path).read_into({"b": target, "a": target})
    assert (target == 1.0).all()


@pytest.mark.parametrize("io", ["mmap", "read"])
@pytest.mark.parametrize(
    "key",
    [
        np.s_[3],
        np.s_[-1],
        np.s_[10:20],
        np.s_[-4:, ::2],
        np.s_[::-3, 5],
        np.s_[600:2:-7],
        np.s_[..., 1],
        np.s_[3, 4],
        np.s_[10:5],
        np.s_[:, None],
        np.s_[5:1000],
        (),
        np.s_[[1, 2, 5]],
    ],
)
def test_slices_are_numpys(path: Path, arrays: dict[str, np.ndarray], io: str, key: object) -> None:
    part = Reader(path, io=io).read_slice("large", key)
    expected = arrays["large"][key]
    assert part.shape == expected.shape
    np.testing.assert_array_equal(part, expected)


def test_a_slice_outside_is_numpys_error(path: Path) -> None:
    for io in ("mmap", "read"):
        with pytest.raises(IndexError):
            Reader(path, io=io).read_slice("large", 700)
        with pytest.raises(IndexError):
            Reader(path, io=io).read_slice("scalar", 0)


def test_names_may_be_any_text(tmp_path: Path) -> None:
    path = tmp_path / "m.zt"
    with Writer(path) as writer:
        writer.write_numpy(TEXT, np.zeros(3))
        writer.write_numpy("", np.ones(3))
    reader = Reader(path)
    assert reader.keys() == [TEXT, ""]
    assert reader[TEXT].shape == [3]


def test_several_names_come_back_in_the_order_they_were_asked_for(path: Path) -> None:
    reader = Reader(path)
    names = ["uint8", "large", "bool"]
    assert list(reader.read(names)) == names
    assert list(reader.read_numpy(tuple(names))) == names
    assert list(reader.read_torch(iter(names))) == names
    with pytest.raises(TypeError):
        reader.read_numpy(3)
    with pytest.raises(TypeError):
        reader.read_numpy([3])


def test_file_metadata_of_every_kind(tmp_path: Path) -> None:
    metadata = {
        "text": "ä", "yes": True, "no": None, "many": [1, 2.5, "x"], "deep": {"a": {"b": -1}}, "raw": b"\0\xff", "big": 2**64 - 1,
    }  # fmt: skip
    with Writer(tmp_path / "m.zt") as writer:
        writer.set_metadata(metadata)
        writer.write_numpy("x", np.zeros(1))
    assert Reader(tmp_path / "m.zt").file_metadata == metadata


def test_a_closed_reader_says_so_and_its_tensors_live(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with Reader(path) as reader:
        view = reader.read_numpy("large")
    with pytest.raises(ztensor.ZTensorError, match="closed"):
        reader.keys()
    assert repr(reader) == "<ztensor.Reader [closed]>"
    np.testing.assert_array_equal(view, arrays["large"])


def test_extension_types_in_numpy_and_torch(tmp_path: Path) -> None:
    names = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
    values = np.linspace(0.5, 8, 24).reshape(4, 6)
    arrays = {name: values.astype(getattr(ml_dtypes, name)) for name in names}
    with Writer(tmp_path / "m.zt") as writer:
        for name, array in arrays.items():
            writer.write_numpy(name, array)
    reader = Reader(tmp_path / "m.zt")
    for name, array in arrays.items():
        loaded = reader.read_numpy(name)
        assert loaded.dtype == array.dtype
        assert loaded.tobytes() == array.tobytes()
        tensor = reader.read_torch(name)
        assert tensor.dtype == getattr(torch, name)
        assert tensor.view(torch.uint8).numpy().tobytes() == array.tobytes()
        assert reader[name].numpy().dtype == array.dtype
        assert reader[name].torch().dtype == tensor.dtype


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 8, 33])
def test_packed_types_round_trip(tmp_path: Path, name: str, count: int) -> None:
    dtype = getattr(ml_dtypes, name)
    bits = int("".join(c for c in name.split("_")[0] if c.isdigit()))
    array = np.random.default_rng(0).integers(0, 2**bits, size=count).astype(np.uint8)
    array = array.view(dtype)
    with Writer(tmp_path / "m.zt") as writer:
        writer.write_numpy("x", array)
    reader = Reader(tmp_path / "m.zt")
    assert reader.metadata("x").nbytes == -(-count * bits // 8)
    loaded = reader.read_numpy("x")
    assert loaded.dtype == array.dtype
    assert loaded.tobytes() == array.tobytes()
    assert reader["x"].numpy().tobytes() == array.tobytes()
    np.testing.assert_array_equal(reader.read_slice("x", np.s_[1:]), array[1:])


def test_four_bit_floats_are_pairs_in_torch(tmp_path: Path) -> None:
    array = np.arange(16, dtype=np.uint8).reshape(2, 8).view(ml_dtypes.float4_e2m1fn)
    with Writer(tmp_path / "m.zt") as writer:
        writer.write_numpy("x", array)
        writer.write_numpy("odd", array[:, :3])
    reader = Reader(tmp_path / "m.zt")
    tensor = reader.read_torch("x")
    assert tensor.dtype == torch.float4_e2m1fn_x2
    assert tensor.shape == (2, 4)
    assert tensor.view(torch.uint8)[0].tolist() == [0x10, 0x32, 0x54, 0x76]
    with Writer(tmp_path / "n.zt") as writer:
        writer.write_torch("x", tensor)
    assert Reader(tmp_path / "n.zt").read_numpy("x").tobytes() == array.tobytes()
    with pytest.raises(ztensor.ZTensorError, match="odd"):
        reader.read_torch("odd")


def test_misaligned_tensors_are_views_in_numpy_and_copies_in_torch(tmp_path: Path) -> None:
    # A header of odd length puts every tensor at an odd offset.
    array = np.arange(100, dtype=np.float32)
    header = b'{"x":{"dtype":"F32","shape":[100],"data_offsets":[0,400]}} '
    header += b" " * (1 - len(header) % 2)
    assert len(header) % 2 == 1
    path = tmp_path / "odd.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + array.tobytes())
    view = Reader(path).read_numpy("x")
    assert not view.flags.aligned
    np.testing.assert_array_equal(view, array)
    tensor = Reader(path).read_torch("x")
    assert tensor.data_ptr() % 4 == 0
    assert torch.equal(tensor, torch.from_numpy(array))
    assert torch.equal(Reader(path)["x"].torch(), torch.from_numpy(array))


def test_checksums_are_checked_unless_switched_off(tmp_path: Path) -> None:
    path = tmp_path / "m.zt"
    with Writer(path) as writer:
        writer.write_numpy("x", np.arange(1000.0), checksum="crc32c")
    offset = Reader(path).metadata("x").components["data"]["offset"]
    with path.open("r+b") as file:
        file.seek(offset + 5)
        file.write(b"!")
    for copy in (False, True):
        for io in ("mmap", "read"):
            with pytest.raises(ztensor.ZTensorError) as caught:
                Reader(path, io=io).read_numpy("x", copy=copy)
            assert (caught.value.kind, caught.value.tensor) == ("checksum", "x")
    assert Reader(path, verify=False).read_numpy("x").shape == (1000,)
    for load_file in (ztensor.numpy.load_file, ztensor.torch.load_file):
        with pytest.raises(ztensor.ZTensorError, match="checksum"):
            load_file(path)
        assert load_file(path, verify=False)["x"].shape == (1000,)


@pytest.mark.parametrize("keep_open", [False, True])
def test_what_is_written_into_a_view_shows_in_views_and_not_in_copies(tmp_path: Path, keep_open: bool) -> None:
    stored = np.arange(6, dtype=np.float32).reshape(2, 3)
    ztensor.numpy.save_file({"a": stored}, tmp_path / "m.zt")
    reader = ztensor.Reader(tmp_path / "m.zt", keep_open=keep_open)
    reader.read_numpy("a")[:] = 7
    assert (reader.read_numpy("a") == 7).all() and (reader.read_slice("a", 0) == 7).all()

    np.testing.assert_array_equal(reader.read_numpy("a", copy=True), stored)
    np.testing.assert_array_equal(reader.read_torch("a", copy=True).numpy(), stored)
    np.testing.assert_array_equal(reader.read("a", copy=True).numpy(), stored)
    plain, strided, wider = np.empty((2, 3), np.float32), np.empty((2, 6), np.float32)[:, ::2], np.empty((2, 3))
    for target in (plain, strided, wider):
        reader.read_into("a", target)
        np.testing.assert_array_equal(target, stored)


def test_a_base_whose_views_were_written_to_is_still_the_base(tmp_path: Path) -> None:
    stored = np.random.default_rng(0).standard_normal(1 << 14).astype(np.float32)
    ztensor.numpy.save_file({"a": stored}, tmp_path / "base.safetensors")
    changed = stored.copy()
    changed[::50] += 1
    ztensor.numpy.save_file({"a": changed}, tmp_path / "tuned.safetensors")
    base = ztensor.Reader(tmp_path / "base.safetensors")
    base.read_numpy("a")[:] = 0
    model_delta.compress_file(tmp_path / "tuned.safetensors", base, tmp_path / "tuned.z4dm")
    opened = ztensor.open(tmp_path / "tuned.z4dm", base=base)
    np.testing.assert_array_equal(opened.read_numpy("a"), changed)
    again = ztensor.open(tmp_path / "tuned.z4dm", base=tmp_path / "base.safetensors")
    np.testing.assert_array_equal(again.read_numpy("a"), changed)
