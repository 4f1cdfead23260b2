"""Fixtures that several test files share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def models() -> Path:
    """A folder of packages that carry real weights. `make test-python` fills it."""
    folder = Path(os.environ.get("ZTENSOR_MODELS", PROJECT / ".models"))
    if not folder.is_dir():
        pytest.skip(f"no real model files: {folder} does not exist; `make test-python` creates it")
    return folder


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    """One array of every NumPy type and edge of shapes."""
    random = np.random.default_rng(0)
    values = {
        name: random.integers(0, 100, size=(3, 5)).astype(name)
        for name in [
            "float64",
            "float32",
            "float16",
            "int64",
            "int32",
            "int16",
            "int8",
            "uint64",
            "uint32",
            "uint16",
            "uint8",
        ]
    }
    return values | {
        "bool": random.integers(0, 2, size=7).astype(bool),
        "complex64": (random.standard_normal(4) + 1j * random.standard_normal(4)).astype(np.complex64),
        "complex128": random.standard_normal((2, 2)) + 1j,
        "scalar": np.array(3.5),
        "empty": np.zeros((0, 4), dtype=np.float32),
        "large": random.standard_normal((700, 900)).astype(np.float32),
    }


@pytest.fixture
def run_python() -> Callable[[str], str]:
    """Runs a program in a process of its own and returns what it prints."""

    def run(program: str) -> str:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def _items(value: object) -> bytes:
    """CBOR of numbers, texts, lists and maps."""

    def head(major: int, count: int) -> bytes:
        return bytes([major << 5 | 27]) + count.to_bytes(8, "big")

    if isinstance(value, int):
        return head(0, value)
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, dict):
        return head(5, len(value)) + b"".join(_items(key) + _items(item) for key, item in value.items())
    assert isinstance(value, list)
    return head(4, len(value)) + b"".join(map(_items, value))


def _write_first_zt(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Version 0.1 of the container, which nobody writes any more."""
    data, tensors = b"ZTEN0001", []
    for name, array in arrays.items():
        data += bytes(-len(data) % 64)
        tensor = {"name": name, "offset": len(data), "size": array.nbytes, "dtype": str(array.dtype)}
        tensors.append(tensor | {"shape": list(array.shape), "encoding": "raw", "layout": "dense"})
        data += array.tobytes()
    listing = _items(tensors)
    path.write_bytes(data + listing + len(listing).to_bytes(8, "little"))


def _write_gguf(path: Path, arrays: dict[str, np.ndarray]) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, "test")
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_onnx(path: Path, arrays: dict[str, np.ndarray]) -> None:
    import onnx

    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], tensors)), path)


def _write_h5(path: Path, arrays: dict[str, np.ndarray]) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


def _write_keras(path: Path, arrays: dict[str, np.ndarray]) -> None:
    import zipfile

    weights = path.with_suffix(".h5")
    _write_h5(weights, arrays)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", '{"keras_version": "3.0.0"}')
        archive.writestr("config.json", "{}")
        archive.write(weights, "model.weights.h5")


def _write_pytorch(path: Path, arrays: dict[str, np.ndarray], zipped: bool) -> None:
    import torch

    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    torch.save(tensors, path, _use_new_zipfile_serialization=zipped)


def _write_safetensors(path: Path, arrays: dict[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    save_file(arrays, path)


def _write_zt(path: Path, arrays: dict[str, np.ndarray], version: int) -> None:
    import ztensor

    with ztensor.Writer(path, version=version) as writer:
        for name in sorted(arrays):
            writer.write_numpy(name, arrays[name])


#: format → (suffix, what writes arrays of that format with its own library)
WRITERS: dict[str, tuple[str, Callable[[Path, dict[str, np.ndarray]], None]]] = {
    "zt-0.1": (".zt", _write_first_zt),
    "zt-1.2": (".zt", lambda path, arrays: _write_zt(path, arrays, 1)),
    "zt-2": (".zt", lambda path, arrays: _write_zt(path, arrays, 2)),
    "safetensors": (".safetensors", _write_safetensors),
    "pytorch": (".pt", lambda path, arrays: _write_pytorch(path, arrays, zipped=True)),
    "pytorch-legacy": (".pt", lambda path, arrays: _write_pytorch(path, arrays, zipped=False)),
    "gguf": (".gguf", _write_gguf),
    "npz": (".npz", lambda path, arrays: np.savez(path, **arrays)),
    "onnx": (".onnx", _write_onnx),
    "hdf5": (".h5", _write_h5),
    "keras": (".keras", _write_keras),
}


@pytest.fixture(params=WRITERS)
def model_file(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, dict[str, np.ndarray]]:
    """A format, a file of it written by the format's own library, and the arrays in it."""
    random = np.random.default_rng(11)
    arrays = {
        "matrix": random.standard_normal((600, 40)).astype(np.float32),
        "half": random.standard_normal(2000).astype(np.float16),
        "wide": random.standard_normal((30, 20)),
        "steps": random.integers(-(2**60), 2**60, (7, 3)),
        "bytes": random.integers(-128, 127, (200, 9), dtype=np.int8),
    }
    suffix, write = WRITERS[request.param]
    path = tmp_path / f"model{suffix}"
    write(path, arrays)
    return request.param, path, arrays


@pytest.fixture
def is_writing() -> Callable[[subprocess.Popen[bytes], Path], bool]:
    """Whether a process has begun a file in a folder. Until it is complete it has no name, or a temporary one."""

    def check(process: subprocess.Popen[bytes], folder: Path) -> bool:
        try:
            opened = [str(link.readlink()) for link in Path(f"/proc/{process.pid}/fd").iterdir()]
        except OSError:
            opened = []
        return any(name.startswith(f"{folder}/#") for name in opened) or any(folder.glob(".*.partial"))

    return check
