"""`Writer`: what it accepts, what it refuses, and what is left when something goes wrong."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

import ztensor
import ztensor.numpy
from ztensor import Reader, Tensor, Writer, ZTensorError


@pytest.mark.parametrize("compress", [None, False, 0, True, 1, 22])
@pytest.mark.parametrize("checksum", ["none", "crc32c", "sha256"])
def test_compression_and_checksum_per_tensor(tmp_path: Path, compress: object, checksum: str) -> None:
    path = tmp_path / "m.zt"
    array = np.zeros((100, 100), dtype=np.float32)
    with Writer(path) as writer:
        writer.write_numpy("x", array, compress=compress, checksum=checksum)
    data = Reader(path).metadata("x").components["data"]
    assert data["encoding"] == ("zstd" if compress else "raw")
    assert (data["digest"] or "none").startswith(checksum)
    np.testing.assert_array_equal(Reader(path).read_numpy("x"), array)


@pytest.mark.parametrize("compress", [23, -1, "zip", 1.5, []])
def test_unknown_compression_is_refused(tmp_path: Path, compress: object) -> None:
    with Writer(tmp_path / "m.zt") as writer, pytest.raises(ValueError, match="compress"):
        writer.write_numpy("x", np.zeros(3), compress=compress)


def test_unknown_checksum_is_refused(tmp_path: Path) -> None:
    with Writer(tmp_path / "m.zt") as writer, pytest.raises(ValueError, match="checksum"):
        writer.write_numpy("x", np.zeros(3), checksum="md5")


def test_any_order_of_bytes_and_elements_is_accepted(tmp_path: Path) -> None:
    plain = np.arange(24, dtype=np.int32).reshape(4, 6)
    variants = {
        "fortran": np.asfortranarray(plain),
        "sliced": plain[::2, ::-1],
        "big": plain.astype(">i4"),
        "transposed": plain.T,
        "scalar": np.array(5, dtype=">f8"),
        "read_only": np.broadcast_to(plain[:1], (3, 6)),
        "bfloat16": plain.astype(ml_dtypes.bfloat16)[:, 1::2],
    }
    with Writer(tmp_path / "m.zt") as writer:
        for name, array in variants.items():
            writer.add(name, array)
    loaded = Reader(tmp_path / "m.zt")
    for name, array in variants.items():
        result = loaded.read_numpy(name)
        assert result.dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(result, array)


@pytest.mark.parametrize(
    "array",
    [
        np.array(["text"]),
        np.array([object()]),
        np.zeros(3, dtype=[("a", "f4")]),
        np.array(["2020-01-01"], dtype="M8"),
        np.zeros(2, dtype=np.longdouble),
    ],
)
def test_what_is_not_a_number_is_refused_by_name(tmp_path: Path, array: np.ndarray) -> None:
    with Writer(tmp_path / "m.zt") as writer:
        with pytest.raises(ValueError, match="cannot be stored") as caught:
            writer.write_numpy("odd", array)
        assert caught.value.tensor == "odd"
        with pytest.raises(TypeError):
            writer.write_numpy("list", [1, 2, 3])


def test_torch_tensors_of_every_kind(tmp_path: Path) -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    variants = {
        "transposed": base.t(),
        "expanded": base[:1].expand(3, 6),
        "gradient": base.clone().requires_grad_(),
        "parameter": torch.nn.Parameter(base.clone()),
        "conjugated": torch.randn(3, dtype=torch.complex64).conj(),
        "negated": torch.randn(3, dtype=torch.complex64).conj().imag,
        "bfloat16": base.bfloat16()[:, ::2],
        "float8": base.to(torch.float8_e5m2),
        "uint64": base.to(torch.uint64),
        "scalar": torch.tensor(1.5),
        "empty": torch.empty(0, 3),
    }
    with Writer(tmp_path / "m.zt") as writer:
        for name, tensor in variants.items():
            writer.write_torch(name, tensor)
    reader = Reader(tmp_path / "m.zt")
    for name, tensor in variants.items():
        loaded = reader.read_torch(name)
        assert loaded.dtype == tensor.dtype
        assert loaded.shape == tensor.shape
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
        assert loaded.numpy(force=True).tobytes() == plain.numpy().tobytes() if tensor.dtype.itemsize > 2 else True
        if tensor.dtype.itemsize <= 2:
            assert torch.equal(loaded.view(torch.uint8), plain.view(torch.uint8))


def test_torch_tensors_without_values_are_refused(tmp_path: Path) -> None:
    with Writer(tmp_path / "m.zt") as writer:
        with pytest.raises(ValueError, match="meta"):
            writer.write_torch("x", torch.empty(3, device="meta"))
        with pytest.raises(ValueError, match="sparse"):
            writer.write_torch("x", torch.sparse_coo_tensor([[0, 1]], torch.ones(2, 4), (3, 4)))
        with pytest.raises(TypeError, match=r"torch\.Tensor is needed, not numpy\.ndarray"):
            writer.write_torch("x", np.zeros(3))


def test_sparse_and_quantized_tensors_round_trip(tmp_path: Path) -> None:
    csr = Tensor(
        {
            "values": np.array([1, 2, 3], dtype=np.float32),
            "indices": np.array([0, 2, 1], dtype=np.int32),
            "indptr": np.array([0, 2, 3], dtype=np.int64),
        },
        shape=[2, 3],
        dtype="float32",
        format="sparse_csr",
    )
    coo = Tensor(
        {"values": np.array([1.0, 2.0]), "coords": np.array([[0, 1], [2, 0]], dtype=np.uint64)},
        shape=[2, 3],
        format="sparse_coo",
    )
    quantized = Tensor(
        {
            "packed_weight": np.arange(16, dtype=np.uint8),
            "scales": np.ones(4, dtype=np.float16),
            "zeros": np.zeros(4, dtype=np.float16),
        },
        shape=[4, 8],
        format="quantized_group",
        attributes={"bits": 4, "group_size": 8, "packing": "row"},
    )
    with Writer(tmp_path / "m.zt") as writer:
        writer.write("csr", csr, compress=True)
        writer.write("coo", coo, checksum="sha256")
        writer.write("quantized", quantized)
    reader = Reader(tmp_path / "m.zt")
    for name, written in {"csr": csr, "coo": coo, "quantized": quantized}.items():
        read = reader[name]
        assert (read.shape, read.dtype, read.format, read.attributes) == (
            written.shape, written.dtype, written.format, written.attributes,
        )  # fmt: skip
        assert set(read.components) == set(written.components)
        for role, array in written.components.items():
            # Flat, as other readers of the format have them.
            np.testing.assert_array_equal(read.components[role], array.reshape(-1))
    assert reader["csr"].components["indices"].dtype == np.uint64
    dense = [[1, 0, 2], [0, 3, 0]]
    assert reader.read_torch("csr").to_dense().tolist() == dense
    assert reader.read_torch("coo").to_dense().tolist() == [[0, 0, 1], [2, 0, 0]]
    with pytest.raises(ValueError, match="sparse_csr"):
        reader.read_numpy("csr")
    with pytest.raises(ValueError, match="quantized_group"):
        reader.read_torch("quantized")


def test_hostile_sparse_indices_do_not_reach_torch(tmp_path: Path) -> None:
    with Writer(tmp_path / "m.zt") as writer:
        parts = {"values": np.ones(1), "indices": np.array([2**40]), "indptr": np.array([0, 1, 1])}
        writer.write("x", Tensor(parts, shape=[2, 3], format="sparse_csr"))
        with pytest.raises(ValueError, match="negative"):
            parts["indices"] = np.array([-1])
            writer.write("y", Tensor(parts, shape=[2, 3], format="sparse_csr"))
    with pytest.raises(ZTensorError, match="column 1099511627776 of 3"):
        Reader(tmp_path / "m.zt").read_torch("x")
    with pytest.raises(ZTensorError, match="column 1099511627776 of 3"):
        Reader(tmp_path / "m.zt").read("x")


def test_raw_bits_may_stand_for_types_numpy_lacks(tmp_path: Path) -> None:
    bits = np.array([0x3F80, 0x4000], dtype=np.uint16)
    with Writer(tmp_path / "m.zt") as writer:
        writer.write("bf16", Tensor({"data": bits}, dtype="bfloat16"))
        writer.write("fp8", Tensor({"data": bits.view(np.uint8)}, type="f8_e4m3fn"))
        writer.write("open", Tensor({"data": bits}, type="vendor.q7"))
        with pytest.raises(ValueError, match="float32"):
            writer.write("wrong", Tensor({"data": bits}, dtype="float32"))
    reader = Reader(tmp_path / "m.zt")
    assert reader.read_torch("bf16").tolist() == [1.0, 2.0]
    assert reader.read_torch("fp8").dtype == torch.float8_e4m3fn
    assert (reader["open"].type, reader["open"].dtype) == ("vendor.q7", "uint16")
    np.testing.assert_array_equal(reader["open"].components["data"], bits)
    with pytest.raises(ValueError, match="unknown type"):
        reader.read_numpy("open")


def test_nothing_appears_before_the_file_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "m.zt"
    writer = Writer(path)
    writer.write_numpy("x", np.zeros(1000))
    assert not path.exists()
    size = writer.finish()
    assert path.stat().st_size == size
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="finished"):
        writer.finish()
    with pytest.raises(ValueError, match="finished"):
        writer.write_numpy("y", np.zeros(3))
    assert repr(writer) == "<ztensor.Writer (finished)>"


def test_an_exception_discards_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.zt"
    with Writer(path) as writer:
        writer.write_numpy("old", np.ones(3))
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="stop"), Writer(path) as writer:
        writer.write_numpy("x", np.zeros(100_000))
        raise RuntimeError("stop")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="discarded"):
        writer.finish()
    del writer


def test_a_forgotten_writer_leaves_nothing(tmp_path: Path) -> None:
    Writer(tmp_path / "m.zt").write_numpy("x", np.zeros(100_000))
    assert list(tmp_path.iterdir()) == []


def test_append_keeps_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "m.zt"
    with Writer(path) as writer:
        writer.set_metadata({"step": 1})
        writer.write_numpy("a", np.arange(5), compress=True, checksum="crc32c")
    with Writer.append(path) as writer:
        writer.write_numpy("b", np.arange(3))
        with pytest.raises(ValueError, match="already") as caught:
            writer.write_numpy("a", np.arange(3))
        assert caught.value.kind == "duplicate"
    reader = Reader(path)
    assert reader.keys() == ["a", "b"]
    assert reader.file_metadata == {"step": 1}
    assert reader.read_numpy("a").tolist() == [0, 1, 2, 3, 4]
    before = path.read_bytes()
    with pytest.raises(RuntimeError), Writer.append(path) as writer:
        writer.write_numpy("c", np.arange(3))
        raise RuntimeError
    assert Reader(path).keys() == ["a", "b"]
    assert ztensor.repair(path) in (True, False)
    assert path.read_bytes()[: len(before) - 8] == before[:-8]


def test_metadata_that_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    deep: list[object] = []
    for _ in range(100):
        deep = [deep]
    with Writer(tmp_path / "m.zt") as writer:
        for value in (object(), 2**64, -(2**63) - 1, {1: 2}, deep, {3}):
            with pytest.raises(ValueError, match="metadata"):
                writer.set_metadata({"x": value})


def test_writing_where_one_may_not(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Writer(tmp_path / "missing" / "m.zt")
    with pytest.raises(ValueError, match="directory"):
        Writer(tmp_path)
    with pytest.raises(FileNotFoundError):
        Writer.append(tmp_path / "missing.zt")


def test_links_are_followed_whether_or_not_their_target_is_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.zt").symlink_to("second.zt")
    (tmp_path / "second.zt").symlink_to(tmp_path / "folder" / "target.zt")
    for value in (1, 2):
        ztensor.numpy.save_file({"a": np.full(3, value)}, tmp_path / "link.zt")
        assert (tmp_path / "link.zt").is_symlink() and (tmp_path / "second.zt").is_symlink()
        assert not (tmp_path / "folder" / "target.zt").is_symlink()
        assert ztensor.numpy.load_file(tmp_path / "folder" / "target.zt")["a"].tolist() == [value] * 3


def test_links_that_lead_nowhere_are_errors_and_stay(tmp_path: Path) -> None:
    (tmp_path / "missing.zt").symlink_to("no such folder/target.zt")
    with pytest.raises(FileNotFoundError):
        ztensor.numpy.save_file({"a": np.ones(3)}, tmp_path / "missing.zt")
    (tmp_path / "loop.zt").symlink_to("loop.zt")
    with pytest.raises(OSError, match="symbolic link"):
        ztensor.numpy.save_file({"a": np.ones(3)}, tmp_path / "loop.zt")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_symlink()) == ["loop.zt", "missing.zt"]
    assert len(list(tmp_path.iterdir())) == 2
