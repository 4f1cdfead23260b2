"""Files of ztensor 1.2.3 open here, and raw and zstd files written here open there. The other package has the same name, so it has an
environment of its own under ``.peers``, made on first use.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ztensor
from ztensor.numpy import load_file, save_file

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = ROOT / ".peers" / "test-ztensor-1.2.3"
DTYPES = [
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
    "bool",
]

WRITE = """
import json, sys, numpy as np, ztensor
from ztensor.numpy import save_file
folder, dtypes = sys.argv[1], json.loads(sys.argv[2])
tensors = {d: (np.arange(24) % 2 if d == "bool" else np.arange(24)).astype(d).reshape(4, 6) for d in dtypes}
save_file(tensors, folder + "/raw.zt")
save_file(tensors, folder + "/zstd.zt", compression=True)
writer = ztensor.Writer(folder + "/sums.zt")
writer.write_numpy("crc", tensors["float32"], checksum="crc32c")
writer.write_numpy("sha", tensors["int64"], compress=True, checksum="sha256")
writer.finish()
"""

READ = """
import hashlib, json, sys, ztensor
reader = ztensor.Reader(sys.argv[1])
found = {}
for name in reader.keys():
    array = reader.read_numpy(name)
    found[name] = [str(array.dtype), list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def peer() -> Path:
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "ztensor==1.2.3", "numpy"]
        subprocess.run(install, check=True)
    return python


def arrays() -> dict[str, np.ndarray]:
    return {d: (np.arange(24) % 2 if d == "bool" else np.arange(24)).astype(d).reshape(4, 6) for d in DTYPES}


def test_their_files_open_here(peer: Path, tmp_path: Path) -> None:
    subprocess.run([peer, "-c", WRITE, tmp_path, json.dumps(DTYPES)], check=True)
    for name in ("raw.zt", "zstd.zt"):
        loaded = load_file(tmp_path / name)
        assert loaded.keys() == set(DTYPES)
        for dtype, expected in arrays().items():
            assert loaded[dtype].dtype == expected.dtype and np.array_equal(loaded[dtype], expected)
    reader = ztensor.Reader(tmp_path / "sums.zt")
    assert np.array_equal(reader.read_numpy("crc"), arrays()["float32"])
    assert np.array_equal(reader.read_numpy("sha"), arrays()["int64"])


@pytest.mark.parametrize("compression", [False, True, 19])
def test_our_files_open_there(peer: Path, tmp_path: Path, compression: bool | int) -> None:
    path = tmp_path / "ours.zt"
    large = np.tile(np.arange(1000, dtype=np.float32), (1500, 1))
    save_file({**arrays(), "large": large}, path, metadata={"note": "kept"}, compression=compression)
    with ztensor.Writer.append(path) as writer:
        writer.write_numpy("appended", np.ones(7, np.float32), checksum="crc32c")
    output = subprocess.run([peer, "-c", READ, path], check=True, capture_output=True, text=True).stdout
    found = json.loads(output)
    for name, array in {**arrays(), "large": large, "appended": np.ones(7, np.float32)}.items():
        assert found[name] == [str(array.dtype), list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]


#: A program for either package: what is read is an array, and a sparse tensor's components are flat.
PROGRAM = """
import json, sys, numpy as np, ztensor
path = sys.argv[1]
with ztensor.Writer(path) as writer:
    writer.write_numpy("w", np.arange(12, dtype=np.float32).reshape(3, 4))
    writer.write("s", ztensor.Tensor(
        {"values": np.array([1, 2], np.float32), "coords": np.array([[0, 1], [2, 0]], np.uint64)},
        shape=[2, 3], dtype="float32", format="sparse_coo"))
reader = ztensor.Reader(path)
w = reader["w"]
found = [
    w.shape == (3, 4), w.dtype == np.float32, w.dtype.itemsize, str(w.dtype), w.ndim, w.size, w.nbytes, len(w),
    w.T.shape, w.mean().item(), (w * 2 + 1).tolist(), (w > 5).sum().item(), w[1:, ::2].tolist(), w[0, 1].item(),
    np.asarray(w).tolist(), np.dot(w, w.T).tolist(), w.reshape(-1).shape, w.astype(np.int64).tolist(), w.flags.writeable,
    np.concatenate([w, w]).shape, np.array_equal(w, w), w.sum(axis=0).tolist(), w.tobytes().hex(), [r.tolist() for r in w],
    sorted(reader.read_tensors(["w"])), reader.read("s").components["coords"].shape, repr(reader), w.max().item(),
]
w[0, 0] = 9
w += 1
found.append([w[0, 0].item(), w.tolist()])
print(json.dumps(found, default=str))
"""


def test_programs_for_it_run_here(peer: Path, tmp_path: Path) -> None:
    theirs, ours = (
        subprocess.run([python, "-c", PROGRAM, tmp_path / "m.zt"], check=True, capture_output=True, text=True).stdout
        for python in (peer, sys.executable)
    )
    assert json.loads(theirs) == json.loads(ours)
