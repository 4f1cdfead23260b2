"""HDF5 and Keras against h5py: every type, shape, layout, filter and version of the format."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ztensor
from ztensor import _native

VERSIONS = ["earliest", "v108", "v110", "v112", "latest"]
CODES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
DTYPES = dict.fromkeys(
    [np.dtype(code).newbyteorder(order) for code in CODES for order in "<>"] + [np.dtype(ml_dtypes.bfloat16)]
)
SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (7,), (3, 0, 2), (5, 9), (13, 4, 6), (2, 1, 3, 5), (300, 70)]
FILTERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "shuffle": {"shuffle": True},
    "gzip": {"compression": "gzip"},
    "gzip-shuffle": {"compression": "gzip", "shuffle": True},
    "lzf": {"compression": "lzf"},
    "lzf-shuffle": {"compression": "lzf", "shuffle": True},
    "fletcher32": {"fletcher32": True},
    "everything": {"compression": "gzip", "shuffle": True, "fletcher32": True},
}
GROWTH = ["fixed", "larger", "first", "last", "all"]


def noise(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(dtype.num)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    # Rounded numbers: something for compressors to find.
    return rng.integers(0, 100, shape).astype(dtype)


def maximum(shape: tuple[int, ...], growth: str) -> tuple[int | None, ...] | None:
    endless = {"first": {0}, "last": {len(shape) - 1}, "all": set(range(len(shape)))}.get(growth, set())
    limits = tuple(
        None if axis in endless else size * (3 if growth == "larger" else 1) for axis, size in enumerate(shape)
    )
    return None if growth == "fixed" else limits


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Equality of bits in native byte order; h5py has no name for bfloat16."""
    right = np.asarray(right)
    if right.dtype == "V2":
        right = right.view(ml_dtypes.bfloat16)
    right = right.astype(right.dtype.newbyteorder("="))
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    found: dict[str, h5py.Dataset] = {}
    file.visititems(lambda name, item: found.update({name: item} if isinstance(item, h5py.Dataset) else {}))
    return found


def check(path: Path) -> ztensor.Reader:
    """Every dataset that h5py finds is there with the same bits, in the same order, and nothing else."""
    reader = ztensor.Reader(path)
    assert reader.format == "hdf5"
    with h5py.File(path) as file:
        expected = datasets(file)
        assert reader.keys() == list(expected)
        for name, dataset in expected.items():
            assert same_bits(reader.read_numpy(name), dataset[()]), name
    return reader


@pytest.mark.parametrize("version", VERSIONS)
def test_every_type_and_shape(tmp_path: Path, version: str) -> None:
    path = tmp_path / "types.h5"
    with h5py.File(path, "w", libver=version) as file:
        for dtype in DTYPES:
            for shape in SHAPES:
                file[f"{dtype.name}/{dtype.byteorder}/{shape}"] = noise(dtype, shape)
    check(path)


@pytest.mark.parametrize("version", ["earliest", "v110", "latest"])
@pytest.mark.parametrize("filters", FILTERS)
def test_every_filter_and_list_of_chunks(tmp_path: Path, version: str, filters: str) -> None:
    path = tmp_path / "chunks.h5"
    with h5py.File(path, "w", libver=version) as file:
        for dtype in [np.dtype("<f4"), np.dtype(">i2"), np.dtype("?"), np.dtype("<c16")]:
            for shape in SHAPES[3:]:
                for growth in GROWTH:
                    limits = maximum(shape, growth)
                    if 0 in shape and (limits is None or 0 in limits):
                        continue
                    for parts in (1, 3):
                        file.create_dataset(
                            f"{dtype.str}/{shape}/{growth}/{parts}",
                            data=noise(dtype, shape),
                            chunks=tuple(max(1, -(-size // parts)) for size in shape),
                            maxshape=limits,
                            **FILTERS[filters],
                        )
    check(path)


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_long_lists_of_chunks(tmp_path: Path, version: str) -> None:
    path = tmp_path / "long.h5"
    matrix = np.arange(15_000, dtype="<i4").reshape(5000, 3)
    with h5py.File(path, "w", libver=version) as file:
        for growth in GROWTH:
            for compression in (None, "gzip"):
                limits = maximum(matrix.shape, growth)
                options = {"chunks": (1, 2), "maxshape": limits, "compression": compression}
                file.create_dataset(f"{growth}/{compression}/dense", data=matrix, **options)
                sparse = file.create_dataset(
                    f"{growth}/{compression}/sparse", shape=(5000, 3), fillvalue=7, dtype="i2", **options
                )
                sparse[4321:4330, 2] = 1
        vector = file.create_dataset("pages", shape=(40_000,), dtype="u1", chunks=(1,), maxshape=(None,))
        vector[:] = np.arange(40_000) % 251
    check(path)


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_what_was_never_written_holds_the_fill_value(tmp_path: Path, version: str) -> None:
    path = tmp_path / "fill.h5"
    with h5py.File(path, "w", libver=version) as file:
        for dtype in [np.dtype("<f4"), np.dtype(">f8"), np.dtype("<i2")]:
            for chunks in (None, (2, 3)):
                for value in (None, 3):
                    options = {"chunks": chunks, "fillvalue": value, "dtype": dtype}
                    file.create_dataset(f"{dtype.str}/{chunks}/{value}/never", shape=(5, 7), **options)
                    partly = file.create_dataset(f"{dtype.str}/{chunks}/{value}/partly", shape=(5, 7), **options)
                    partly[4, 6] = 1
        shrunk = file.create_dataset("shrunk", data=np.arange(100.0), chunks=(7,), maxshape=(None,))
        shrunk.resize((45,))
        grown = file.create_dataset("grown", data=np.arange(10.0), chunks=(7,), maxshape=(None,), fillvalue=-1)
        grown.resize((45,))
    check(path)


def test_rare_layouts(tmp_path: Path) -> None:
    path = tmp_path / "rare.h5"
    with h5py.File(path, "w", libver="latest") as file:
        options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        options.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((5,))
        h5py.Dataset(h5py.h5d.create(file.id, b"compact", h5py.h5t.IEEE_F64BE, space, options))[...] = np.arange(5)

        options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        options.set_chunk((2, 3))
        options.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        for name, limits in {b"implicit": None, b"implicit-larger": (9, 12)}.items():
            space = h5py.h5s.create_simple((5, 7), limits)
            h5py.Dataset(h5py.h5d.create(file.id, name, h5py.h5t.STD_I16LE, space, options))[...] = np.arange(
                35
            ).reshape(5, 7)

        vectors = h5py.h5t.array_create(h5py.h5t.IEEE_F32BE, (2, 3))
        options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        options.set_chunk((2,))
        options.set_deflate(3)
        for name, layout in {b"arrays": None, b"arrays-in-chunks": options}.items():
            space = h5py.h5s.create_simple((3,))
            h5py.Dataset(h5py.h5d.create(file.id, name, vectors, space, layout))[...] = np.arange(18).reshape(3, 2, 3)

        masked = file.create_dataset("masked", shape=(8,), dtype="i4", chunks=(4,), compression="gzip", shuffle=True)
        masked.id.write_direct_chunk((0,), np.arange(4, dtype="i4").tobytes(), filter_mask=0b11)
        masked[4:] = 5
        file["names/float"] = np.dtype("<f4")
        file.create_dataset("of-named-type", data=[1.0, 2.0], dtype=file["names/float"])
        file.create_dataset("colours", data=[0, 2], dtype=h5py.enum_dtype({"red": 0, "blue": 2}, basetype="i4"))
        file.create_dataset("switches", data=[0, 1], dtype=h5py.enum_dtype({"off": 0, "on": 1}, basetype="i1"))
    reader = check(path)
    assert reader.skipped() == {"names/float": "a named datatype, not a tensor"}


def test_native_complex_numbers(tmp_path: Path) -> None:
    if not hasattr(h5py.h5t, "COMPLEX_IEEE_F32LE"):
        pytest.skip("this HDF5 library has no complex numbers of its own")
    path = tmp_path / "complex.h5"
    values = np.array([1 + 2j, 3 - 4j], dtype="<c8")
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple((2,))
        identifier = h5py.h5d.create(file.id, b"x", h5py.h5t.COMPLEX_IEEE_F32LE, space)
        identifier.write(h5py.h5s.ALL, h5py.h5s.ALL, values, h5py.h5t.COMPLEX_IEEE_F32LE)
    assert same_bits(ztensor.Reader(path).read_numpy("x"), values)


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_plain_datasets_are_not_copied(tmp_path: Path, version: str) -> None:
    path = tmp_path / "plain.h5"
    with h5py.File(path, "w", libver=version) as file:
        file["contiguous"] = np.arange(12.0).reshape(3, 4)
        file.create_dataset("one-chunk", data=np.arange(12.0).reshape(3, 4), chunks=(3, 4))
    reader = ztensor.Reader(path)
    for name in ["contiguous", "one-chunk"]:
        first, second = reader.read_numpy(name), reader.read_numpy(name)
        assert np.shares_memory(first, second), name


@pytest.mark.parametrize("version", ["earliest", "latest"])
@pytest.mark.parametrize("size", [512, 4096, 65536])
def test_user_blocks(tmp_path: Path, version: str, size: int) -> None:
    path = tmp_path / "user.h5"
    with h5py.File(path, "w", libver=version, userblock_size=size) as file:
        file["weight"] = np.arange(10.0)
        file.create_dataset("chunks", data=np.arange(10.0), chunks=(3,), compression="gzip")
        file.attrs["text"] = "kept"
    assert check(path).file_metadata["text"] == "kept"


@pytest.mark.parametrize("version", ["earliest", "v108", "latest"])
@pytest.mark.parametrize("ordered", [False, True])
def test_large_groups(tmp_path: Path, version: str, ordered: bool) -> None:
    path = tmp_path / "large.h5"
    with h5py.File(path, "w", libver=version, track_order=ordered) as file:
        for number in range(3000):
            file[f"some_long_name_for_a_parameter_{number * 7919 % 3000}"] = np.float32(number)
    reader = ztensor.Reader(path)
    with h5py.File(path) as file:
        assert reader.keys() == list(file.keys())
        for name in list(file.keys())[::97]:
            assert same_bits(reader.read_numpy(name), file[name][()])


@pytest.mark.parametrize("members", [3, 100])
def test_groups_inside_a_large_group(tmp_path: Path, members: int) -> None:
    """Datasets of large groups are read before their turn; groups among them, and second names, keep their places."""
    path = tmp_path / "nested.h5"
    with h5py.File(path, "w") as file:
        for number in range(400):
            if number % 80 == 40:
                for member in range(members):
                    file[f"n{number:03}/m{member:03}"] = np.full(3, number * 1000 + member)
            else:
                file[f"n{number:03}"] = np.full(3, number)
        file["n120/again"] = file["n007"]
        file["n399-again"] = file["n120/m001"]
    expected: dict[str, np.ndarray] = {}

    def note(prefix: str, group: h5py.Group) -> None:
        for name, item in group.items():
            if isinstance(item, h5py.Group):
                note(f"{prefix}{name}/", item)
            else:
                expected[prefix + name] = item[()]

    with h5py.File(path) as file:
        note("", file)
    with ztensor.Reader(path) as reader:
        assert reader.keys() == list(expected)
        assert all(same_bits(reader.read_numpy(name), value) for name, value in expected.items())


def test_damage_in_a_large_group_is_found(tmp_path: Path) -> None:
    path = tmp_path / "large.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        for number in range(3000):
            file[f"parameter_{number}"] = np.full(1000, number, dtype="f4")
    whole = path.read_bytes()
    places = [place for place in range(len(whole)) if whole.startswith(b"SNOD", place)]
    assert len(places) > 300
    for place in (places[0], places[len(places) // 2], places[-1]):
        path.write_bytes(whole[:place] + b"SNOW" + whole[place + 4 :])
        for io in ("mmap", "read"):
            with pytest.raises(ztensor.ZTensorError, match=f"symbol-table node: its signature is missing.*{place + 4}"):
                ztensor.Reader(path, io=io)


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_links(tmp_path: Path, version: str) -> None:
    path = tmp_path / "links.h5"
    with h5py.File(path, "w", libver=version) as file:
        file["group/weight"] = np.arange(3.0)
        file["hard"] = file["group/weight"]
        file["group/up"] = file["/"]
        file["same"] = file["group"]
        file["soft"] = h5py.SoftLink("/group/weight")
        file["group/relative"] = h5py.SoftLink("weight")
        file["folder"] = h5py.SoftLink("/group")
        file["through"] = h5py.SoftLink("/folder/weight")
        file["aliased"] = h5py.SoftLink("/same/weight")
        file["dangling"] = h5py.SoftLink("/nowhere")
        file["round"] = h5py.SoftLink("/trip")
        file["trip"] = h5py.SoftLink("/round")
        file["external"] = h5py.ExternalLink("other.h5", "/weight")
    reader = ztensor.Reader(path)
    names = {"group/weight", "hard", "soft", "group/relative", "through", "aliased"}
    assert set(reader.keys()) == names
    for name in names:
        assert reader.read_numpy(name).tolist() == [0, 1, 2]
    assert set(reader.skipped()) == {"group/up", "same", "folder", "dangling", "round", "trip", "external"}


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_attributes(tmp_path: Path, version: str) -> None:
    path = tmp_path / "attributes.h5"
    values: dict[str, Any] = {
        "text": "zażółć",
        "empty": "",
        "integer": -3,
        "float": 1.5,
        "flag": True,
        "texts": ["x", "yy"],
        "matrix": [[0, 1, 2], [3, 4, 5]],
    }
    with h5py.File(path, "w", libver=version) as file:
        weight = file.create_dataset("layer/weight", data=[1.0])
        for place in (file, file["layer"], weight):
            for name, value in values.items():
                place.attrs[name] = value
            place.attrs["fixed"] = np.array([b"ab", b"c"])
            place.attrs["big-endian"] = np.array(-5, dtype=">i2")
            place.attrs["half"] = np.float16(0.25)
            place.attrs["pair"] = np.zeros(1, dtype=[("a", "i4")])
        if version == "latest":
            file.attrs["huge"] = np.arange(20_000.0)
    values |= {"fixed": ["ab", "c"], "big-endian": -5, "half": 0.25}
    reader = ztensor.Reader(path)
    for name, value in values.items():
        assert reader.file_metadata[name] == value, name
        assert reader.file_metadata[f"layer@{name}"] == value, name
        assert reader.metadata("layer/weight").attributes[name] == value, name
    if version == "latest":
        assert reader.file_metadata["huge"] == list(range(20_000))
    assert set(reader.skipped()) == {"@pair", "layer@pair", "layer/weight@pair"}


def test_what_is_not_a_tensor_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "unread.h5"
    with h5py.File(path, "w") as file:
        file["weight"] = [1.0]
        file["text"] = "text"
        file["texts"] = np.array([b"a", b"bb"])
        file["pairs"] = np.zeros(3, dtype=[("a", "f4"), ("b", "i4")])
        file["nothing"] = h5py.Empty("f4")
        file["wide"] = np.zeros(3, np.longdouble)
        file.create_dataset("ragged", shape=(2,), dtype=h5py.vlen_dtype("i4"))
        file.create_dataset("references", data=[file.ref], dtype=h5py.ref_dtype)
        file.create_dataset("scaled", data=np.arange(100), scaleoffset=0, chunks=(10,))
        file.create_dataset("elsewhere", shape=(4,), dtype="i4", external=[("raw.bin", 0, 16)])
        virtual = h5py.VirtualLayout(shape=(4,), dtype="i4")
        virtual[:] = h5py.VirtualSource("other.h5", "x", shape=(4,))
        file.create_virtual_dataset("virtual", virtual)
        expected = set(file.keys()) - {"weight"}
    reader = ztensor.Reader(path)
    assert reader.keys() == ["weight"]
    assert set(reader.skipped()) == expected
    with pytest.raises(ztensor.ZTensorError, match="compound"):
        reader.read_numpy("pairs")


def test_damaged_chunks_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "damaged.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(1000), chunks=(1000,), fletcher32=True)
        offset = file["x"].id.get_chunk_info(0).byte_offset
    data = bytearray(path.read_bytes())
    data[offset + 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(ztensor.ZTensorError) as caught:
        ztensor.Reader(path).read_numpy("x")
    assert caught.value.kind == "checksum"


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_keras_archives(tmp_path: Path, method: int) -> None:
    weights = tmp_path / "model.weights.h5"
    kernel = np.arange(6, dtype="<f4").reshape(2, 3)
    with h5py.File(weights, "w") as file:
        file["layers/dense/vars/0"] = kernel
        half = file.create_dataset("layers/dense/vars/1", data=kernel.astype(ml_dtypes.bfloat16))
        half.attrs["dtype"] = "bfloat16"
        byte = file.create_dataset("layers/dense/vars/2", data=kernel.astype(ml_dtypes.float8_e4m3fn))
        byte.attrs["dtype"] = "float8_e4m3fn"
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("metadata.json", '{"keras_version": "3.0.0"}')
        archive.writestr("config.json", "{}")
        archive.write(weights, "model.weights.h5")
    reader = ztensor.Reader(path)
    assert reader.format == "hdf5"
    assert reader.keys() == [f"layers/dense/vars/{number}" for number in range(3)]
    for number, dtype in enumerate([np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]):
        assert same_bits(reader.read_numpy(f"layers/dense/vars/{number}"), kernel.astype(dtype))
    assert reader.file_metadata["metadata.json"] == '{"keras_version": "3.0.0"}'


def test_real_keras_models(models: Path) -> None:
    paths = sorted(models.glob("spliceai/models/*.h5"))
    assert paths
    for path in paths:
        reader = check(path)
        assert len(reader.keys()) > 100
        assert "model_config" in reader.file_metadata


@st.composite
def chunked_arrays(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, ...], tuple[int | None, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(st.integers(1, 20), min_size=1, max_size=4)))
    chunks = tuple(draw(st.integers(1, size)) for size in shape)
    limits = tuple(draw(st.sampled_from([None, size, size + 5])) for size in shape)
    dtype = draw(st.sampled_from(["u1", ">i4", "<f8"]))
    array = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    return array, chunks, limits, FILTERS[draw(st.sampled_from(sorted(FILTERS)))]


@settings(deadline=None, max_examples=60)
@given(chunked_arrays(), st.sampled_from(["earliest", "latest"]))
def test_any_grid_of_chunks(tmp_path_factory: pytest.TempPathFactory, case: Any, version: str) -> None:
    array, chunks, limits, options = case
    path = tmp_path_factory.mktemp("grid") / "x.h5"
    with h5py.File(path, "w", libver=version) as file:
        file.create_dataset("x", data=array, chunks=chunks, maxshape=limits, **options)
    check(path)


def external(folder: Path) -> Path:
    """A file whose names lead to others in its folder, and some that lead out of it."""
    (folder / "parts").mkdir()
    with h5py.File(folder / "parts" / "other.h5", "w") as file:
        file["group/weight"] = np.arange(6.0).reshape(2, 3)
        file["group/deep/bias"] = np.arange(4, dtype=np.int32)
        file["group"].attrs["kind"] = "dense"
        file["group/text"] = "not a tensor"
    with h5py.File(folder / "circle.h5", "w") as file:
        file["own"] = np.ones(2)
        file["back"] = h5py.ExternalLink("main.h5", "/plain")
        file["again"] = h5py.ExternalLink("main.h5", "/circle")
    path = folder / "main.h5"
    with h5py.File(path, "w") as file:
        file["plain"] = np.zeros(3)
        file["weight"] = h5py.ExternalLink("parts/other.h5", "/group/weight")
        file["all"] = h5py.ExternalLink("parts/other.h5", "/group")
        file["root"] = h5py.ExternalLink("parts/other.h5", "/")
        file["through"] = h5py.SoftLink("/all/deep/bias")
        file["circle"] = h5py.ExternalLink("circle.h5", "/")
        file["missing"] = h5py.ExternalLink("nowhere.h5", "/x")
        file["nothing"] = h5py.ExternalLink("parts/other.h5", "/nothing")
        file["outside"] = h5py.ExternalLink("../outside.h5", "/x")
        file["absolute"] = h5py.ExternalLink(str(folder / "circle.h5"), "/own")
    with h5py.File(folder.parent / "outside.h5", "w") as file:
        file["x"] = np.ones(1)
    return path


def test_links_to_other_files_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = external(folder)
    reader = ztensor.Reader(path)
    found = ["weight", "all/weight", "all/deep/bias", "root/group/weight", "root/group/deep/bias", "through"]
    found += ["plain", "circle/own", "circle/back"]
    with h5py.File(path) as file:
        for name in found:
            assert same_bits(reader.read_numpy(name), file[name][()]), name
    # Round the circle once more: the file that was asked for, without what its own links lead to.
    assert set(reader.keys()) - set(found) <= {"circle/again/own"}
    assert reader.file_metadata["all@kind"] == reader.file_metadata["root/group@kind"] == "dense"
    skipped = reader.skipped()
    for name in ("missing", "nothing", "outside", "absolute", "all/text"):
        assert name in skipped, skipped
    assert "leads out of" in skipped["outside"] or "beneath the folder" in skipped["outside"]
    assert "nothing has that name" in skipped["nothing"]


def test_links_to_other_files_in_an_archive(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = external(folder)
    plain = ztensor.Reader(path)
    archive = tmp_path / "model.zstn"
    assert cli("archive", path, "-o", archive) == 0
    packed = ztensor.Reader(archive)
    assert packed.keys() == plain.keys()
    for name in plain:
        assert same_bits(packed.read_numpy(name), plain.read_numpy(name)), name
    assert cli("restore", archive, "-o", tmp_path / "restored") == 0
    for name in ("main.h5", "circle.h5", "parts/other.h5"):
        assert (tmp_path / "restored" / name).read_bytes() == (folder / name).read_bytes()


def cli(*words: object) -> int:
    return _native.run_cli(["ztensor", *map(str, words)])


@pytest.mark.parametrize("chunked", [False, True], ids=["contiguous", "chunked"])
@pytest.mark.parametrize("version", [1, 2])
def test_oldest_layouts(tmp_path: Path, chunked: bool, version: int) -> None:
    """Layouts of version 1 and 2, which the library wrote until 1.6.2: a file of today, its layout message rewritten."""
    path = tmp_path / "old.h5"
    data = np.arange(100, dtype=np.float32)
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("x", data=data, chunks=(30,) if chunked else None)
    content = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        address = None if chunked else file["x"].id.get_offset()
    # The message: type 8, 24 bytes, flags; then version 3 and the class of the layout.
    kind = 2 if chunked else 1
    at = content.index(struct.pack("<HHBxxx", 8, 24, 0) + bytes([3, kind])) if chunked else -1
    if not chunked:
        at = next(
            place
            for place in range(len(content))
            if content[place : place + 2] == b"\x08\x00" and content[place + 8 : place + 10] == b"\x03\x01"
        )
    body = at + 8
    if chunked:
        address = struct.unpack_from("<Q", content, body + 3)[0]
        sizes = struct.pack("<II", 30, 4)
    else:
        sizes = struct.pack("<I", 100)
    old = struct.pack("<BBB5xQ", version, 2 if chunked else 1, kind, address) + sizes
    content[body : body + 24] = old.ljust(24, b"\0")
    path.write_bytes(content)
    with h5py.File(path) as file:
        assert same_bits(data, file["x"][()])
    assert same_bits(ztensor.Reader(path).read_numpy("x"), data)


def test_bfloat16_as_h5py_sees_it(tmp_path: Path) -> None:
    """Floats that the file describes as bfloat16 bit by bit: h5py widens them to float32, the same numbers."""
    path = tmp_path / "brain.h5"
    values = np.array([0.0, -0.0, 1.5, -3.25, 1e30, np.inf, 2**-130], np.float32)
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_precision(16)
    kind.set_size(2)
    kind.set_ebias(127)
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple(values.shape)
        dataset = h5py.h5d.create(file.id, b"x", kind, space)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    with h5py.File(path) as file:
        seen = file["x"][()]
    found = ztensor.Reader(path).read_numpy("x")
    assert found.dtype == ml_dtypes.bfloat16
    assert found.astype(np.float32).tobytes() == seen.astype(np.float32).tobytes()
    assert found.astype(np.float32).tobytes() == values.astype(ml_dtypes.bfloat16).astype(np.float32).tobytes()
