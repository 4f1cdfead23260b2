"""Version 2 of the container against ztensor 2.1.2: its files open here, ours open there, and what it refuses is refused here.

The other package has the same name, so it has an environment of its own under ``.peers``, made on first use.
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
from ztensor.numpy import load_file

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = ROOT / ".peers" / "test-ztensor-2.1.2"

WRITE = """
import sys, numpy as np, ztensor
folder = sys.argv[1]
values = np.arange(3_000_000, dtype=np.float32).tobytes()
with ztensor.Writer(folder + "/plain.zt") as writer:
    writer.add("a", values, [3000, 1000], "f32")
    writer.add("flags", bytes([0, 1, 1]), [3], "u8", logical="bool")
with ztensor.Writer(folder + "/encoded.zt", canonical=False) as writer:
    writer.add("a", values, [3000, 1000], "f32", encoding="zt.zstd-seekable/1")
    writer.add_object("s", [2, 3], {
        "values": {"data": np.array([1, 2, 3], np.float32).tobytes(), "dtype": "f32"},
        "indices": {"data": np.array([2, 0, 1], np.uint32).tobytes(), "dtype": "u32"},
        "indptr": {"data": np.array([0, 1, 3], np.uint32).tobytes(), "dtype": "u32"},
    }, layout="zt.sparse_csr/1")
"""

READ = """
import hashlib, json, sys, ztensor
found = {}
with ztensor.open(sys.argv[1]) as source:
    for name, tensor in source.items():
        parts = {part: hashlib.sha256(tensor[part].tobytes()).hexdigest() for part in tensor.parts}
        found[name] = [tensor.layout, list(tensor.shape), parts]
checked = list(ztensor.verify(sys.argv[1], deep=True))
print(json.dumps([found, checked]))
"""

JUDGE = """
import json, sys, ztensor
refused = []
for path in sys.stdin.read().splitlines():
    try:
        with ztensor.open(path) as source:
            for tensor in source.values():
                for part in tensor.parts:
                    tensor[part].tobytes()
            source.verify()
    except BaseException:
        refused.append(path)
print(json.dumps(refused))
"""


@pytest.fixture(scope="module")
def peer() -> Path:
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "ztensor==2.1.2", "numpy"]
        subprocess.run(install, check=True)
    return python


def test_their_files_open_here(peer: Path, tmp_path: Path) -> None:
    subprocess.run([peer, "-c", WRITE, tmp_path], check=True)
    values = np.arange(3_000_000, dtype=np.float32).reshape(3000, 1000)
    for name in ("plain.zt", "encoded.zt"):
        reader = ztensor.Reader(tmp_path / name)
        np.testing.assert_array_equal(reader.read_numpy("a"), values)
        np.testing.assert_array_equal(reader.read_slice("a", np.s_[1500:1502, 7:9]), values[1500:1502, 7:9])
    assert load_file(tmp_path / "plain.zt")["flags"].tolist() == [False, True, True]
    sparse = ztensor.Reader(tmp_path / "encoded.zt").read("s")
    assert sparse.format == "sparse_csr" and sparse.components["indices"].tolist() == [2, 0, 1]


@pytest.mark.parametrize("compress", [None, 3], ids=["raw", "zstd"])
def test_our_files_open_there(peer: Path, tmp_path: Path, compress: int | None) -> None:
    arrays = {
        "a": np.tile(np.arange(1000, dtype=np.float32), (3000, 1)),
        "b": np.arange(7, dtype=np.int16),
        "flags": np.array([True, False]),
    }
    with ztensor.Writer(tmp_path / "ours.zt", version=2) as writer:
        for name, array in arrays.items():
            writer.write_numpy(name, array, compress=compress)
    output = subprocess.run([peer, "-c", READ, tmp_path / "ours.zt"], check=True, capture_output=True, text=True).stdout
    found, checked = json.loads(output)
    for name, array in arrays.items():
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        assert found[name] == ["dense", list(array.shape), {"data": digest}]
    assert checked == [3, 0]


def test_what_they_refuse_is_refused_here(peer: Path) -> None:
    corpus = ROOT / "conformance"
    paths = sorted([*(corpus / "valid" / "zt2").glob("*.zt"), *(corpus / "reject" / "zt2").glob("*.zt")])
    output = subprocess.run(
        [peer, "-c", JUDGE], input="\n".join(map(str, paths)), check=True, capture_output=True, text=True
    ).stdout
    refused = {Path(path).relative_to(corpus) for path in json.loads(output)}
    # They refuse to decode what has an encoding they do not know; we list the other tensors of such a file.
    assert refused - {Path("valid/zt2/unknown-encoding.zt")} <= {Path("reject/zt2", path.name) for path in paths}
    assert len(refused) > 80
