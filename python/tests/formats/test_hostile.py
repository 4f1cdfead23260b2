"""Files that want to hurt the process: every file under ``conformance/reject`` and bombs that are too large to be committed.

They are opened, listed and read in child processes with limits: a child that dies, hangs or swallows memory fails.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

CORPUS = Path(__file__).resolve().parents[3] / "conformance" / "reject"
#: What one child may take beyond what an interpreter with the library loaded has.
ADDRESS_SPACE = 1 << 30
#: Most anonymous memory that one file may cost; all files here are smaller than a few megabytes.
MEMORY = 256 << 20
CPU_SECONDS = 120

#: Opens, lists, reads and verifies each file; prints its name before, and what happened and the memory it took after.
CHILD = """
import json, resource, sys, warnings
import numpy
import ztensor, ztensor.numpy
warnings.simplefilter("ignore")
limit, seconds = int(sys.argv[1]), int(sys.argv[2])
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + limit, pages + limit))
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

def peak():
    fields = dict(line.split(":") for line in open("/proc/self/status") if ":" in line)
    return int(fields["VmHWM"].split()[0]) * 1024

def forget_peak():
    open("/proc/self/clear_refs", "w").write("5")

def use(path):
    reader = ztensor.Reader(path)
    repr(reader), reader.keys(), reader.skipped(), reader.file_metadata
    for name in reader.keys():
        reader.metadata(name)
        reader.read(name, copy=True)
    reader.close()
    ztensor.numpy.load_file(path, copy=True)

for path in sys.stdin.read().splitlines():
    print(json.dumps({"path": path}), flush=True)
    forget_peak()
    before = peak()
    message = ""
    try:
        use(path)
        outcome = "read"
    except ztensor.ZTensorError as error:
        outcome, message = error.kind, str(error)
    print(json.dumps({"path": path, "outcome": outcome, "message": message, "memory": peak() - before}), flush=True)
"""


def outcomes(paths: list[Path]) -> dict[str, tuple[str, str]]:
    """What reading each file in one child with limits ended in: "read" or the kind of the error, and its message."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(ADDRESS_SPACE), str(CPU_SECONDS)],
        input="\n".join(map(str, paths)),
        capture_output=True,
        text=True,
        timeout=600,
        # One worker: memory must not depend on the number of cores.
        env=os.environ | {"RAYON_NUM_THREADS": "2"},
    )
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    last = Path(lines[-1]["path"]).name if lines else "the first file"
    assert child.returncode == 0, f"the child died at {last} ({child.returncode}): {child.stderr[-2000:]}"
    greedy = [(line["path"], line["memory"]) for line in lines if line.get("memory", 0) > MEMORY]
    assert not greedy, f"memory out of proportion: {greedy}"
    return {Path(line["path"]).name: (line["outcome"], line["message"]) for line in lines if "outcome" in line}


@pytest.mark.parametrize("folder", sorted(path.name for path in CORPUS.iterdir() if path.name != "z4ai"))
def test_every_file_that_breaks_a_rule_is_refused_for_that_reason_within_limits(folder: str) -> None:
    paths = sorted(path for path in (CORPUS / folder).iterdir() if path.name != "expected.tsv")
    rows = (line.split("\t") for line in (CORPUS / folder / "expected.tsv").read_text().splitlines())
    expected = {name: (kind, fragment) for name, kind, fragment in rows}
    found = outcomes(paths)
    assert set(found) == set(expected) == {path.name for path in paths}
    wrong = {
        name: (found[name], expected[name])
        for name, (kind, message) in found.items()
        if kind != expected[name][0] or expected[name][1] not in message
    }
    assert not wrong, f"refused for other reasons than expected: {wrong}"


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def checkpoint(program: bytes) -> bytes:
    """A PyTorch archive with a pickle of our own making."""
    return zipped({"m/data.pkl": program, "m/version": b"3\n", "m/byteorder": b"little", "m/data/0": bytes(24)})


def nested(opening: bytes, closing: bytes) -> bytes:
    return checkpoint(b"\x80\x02" + opening * 200_000 + b"N" + closing * 200_000 + b".")


def memo_bomb() -> bytes:
    """Lists that hold the list before them ten times: 10^40 paths."""
    program = b"\x80\x02]q\x00"
    for level in range(40):
        program += b"](" + (b"h" + bytes([level])) * 10 + b"eq" + bytes([level + 1])
    return checkpoint(program + b".")


def memo_text_bomb() -> bytes:
    """A long text, named a million times as the key of a tensor."""
    key = b"X" + struct.pack("<I", 1 << 20) + b"k" * (1 << 20) + b"q\x00"
    return checkpoint(b"\x80\x02" + key + b"0}(" + b"h\x00N" * 1_000_000 + b"u.")


def tensor_program(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    def integer(value: int) -> bytes:
        return pickle.dumps(value, 2)[2:-1]

    def items(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(integer(value) for value in values) + b"t"

    storage = (
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu" + integer(6) + b"tQ"
    )
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + integer(offset) + items(shape) + items(strides)
    return checkpoint(b"\x80\x02}X\x06\x00\x00\x00weight" + tensor + b"\x89}tRs.")


def zip_bomb() -> bytes:
    """An array of 8 GiB of zeros, announced as such and deflated to 8 MB."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }" % (1 << 30)
    header += b" " * (118 - 1 - len(header)) + b"\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        archive.open("bomb.npy", "w", force_zip64=True) as member,
    ):
        member.write(start)
        for _ in range(64):
            member.write(bytes(1 << 20))
    # 64 MiB of zeros stand for the 8 GiB that the header announces.
    return stream.getvalue()


def pickle_bomb() -> bytes:
    """A deflated ``data.pkl`` of 512 MiB."""
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        archive.open("m/data.pkl", "w", force_zip64=True) as member,
    ):
        for _ in range(512):
            member.write(b"N" * (1 << 20))
    return stream.getvalue()


def overlapping_members() -> bytes:
    """A thousand directory entries for the same megabyte."""
    content = bytes(1 << 20)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("0.npy", content)
    data = stream.getvalue()
    directory = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    entry = bytearray(data[directory:end])
    name = entry.index(b"0.npy")
    entries = b""
    for number in range(1000):
        entry[name : name + 5] = b"%c.npy" % (48 + number % 64)
        entries += bytes(entry)
    tail = bytearray(data[end:])
    struct.pack_into("<HHII", tail, 8, 1000, 1000, len(entries), directory)
    return data[:directory] + entries + bytes(tail)


def cyclic_groups() -> bytes:
    import h5py

    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        group = file.create_group("a").create_group("b")
        group["up"] = file["a"]
        group["root"] = file["/"]
        group["soft"] = h5py.SoftLink("/a/b/soft")
        file["a/b/values"] = np.arange(4.0)
    return stream.getvalue()


def gguf(tensors: int, pairs: int) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs)


def container(manifest: bytes) -> bytes:
    return b"ZTEN1000" + bytes(56) + manifest + struct.pack("<Q", len(manifest)) + b"ZTEN1000"


def header(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def field(number: int, content: bytes) -> bytes:
    length, value = b"", len(content)
    while value >= 128:
        length, value = length + bytes([value % 128 + 128]), value // 128
    return bytes([number << 3 | 2]) + length + bytes([value]) + content


def external(location: bytes) -> bytes:
    entry = field(13, field(1, b"location") + field(2, location))
    tensor = b"\x08\x04\x10\x01" + field(8, b"w") + entry + b"\x70\x01"
    return b"\x08\x08" + field(7, field(5, tensor))


def nested_graphs() -> bytes:
    """A graph in an attribute of a node of a graph, 5,000 times."""
    graph = b""
    for _ in range(5_000):
        graph = field(1, field(4, b"If") + field(5, field(1, b"b") + field(6, graph) + b"\xa0\x01\x05"))
    return b"\x08\x08" + field(7, graph)


BOMBS: dict[str, Callable[[], bytes]] = {
    "lists-200000-deep.pt": lambda: nested(b"]", b"a"),
    "tuples-200000-deep.pt": lambda: nested(b"(", b"t"),
    "calls-200000-deep.pt": lambda: nested(b"cx\ny\n(", b"tR"),
    "states-200000-deep.pt": lambda: nested(b"cx\ny\n)\x81", b"b"),
    "memo-of-lists.pt": memo_bomb,
    "memo-of-texts.pt": memo_text_bomb,
    "memo-number-huge.pt": lambda: checkpoint(b"\x80\x02Nr\xff\xff\xff\xff."),
    "offset-negative.pt": lambda: tensor_program(-1, (2,), (1,)),
    "stride-negative.pt": lambda: tensor_program(5, (2,), (-5,)),
    "shape-2-to-60.pt": lambda: tensor_program(0, (1 << 60,), (1,)),
    "expanded-2-to-40.pt": lambda: tensor_program(0, (1 << 40,), (0,)),
    "text-length-huge.pt": lambda: checkpoint(b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"."),
    "pickle-of-512-mib.pt": pickle_bomb,
    "zip-bomb.npz": zip_bomb,
    "members-overlap.npz": overlapping_members,
    "header-of-4-gib.npy": lambda: b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFF_FFF0) + b"{",
    "groups-in-circles.h5": cyclic_groups,
    "tensor-count-2-to-60.gguf": lambda: gguf(1 << 60, 0),
    "pair-count-2-to-60.gguf": lambda: gguf(0, 1 << 60),
    "array-count-2-to-60.gguf": lambda: gguf(0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 8, 1 << 60),
    "arrays-100000-deep.gguf": lambda: (
        gguf(0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 100_000
    ),
    "location-absolute.onnx": lambda: external(b"/etc/passwd"),
    "location-parent.onnx": lambda: external(b"../../../../../../etc/passwd"),
    "location-device.onnx": lambda: external(b"/dev/zero"),
    "graphs-5000-deep.onnx": nested_graphs,
    "lists-200000-deep.zt": lambda: container(b"\x81" * 200_000),
    "maps-200000-deep.zt": lambda: container(b"\xa1\x61a" * 200_000),
    "indefinite-lists-200000-deep.zt": lambda: container(b"\x9f" * 200_000),
    "map-count-2-to-60.zt": lambda: container(b"\xbb\x10" + bytes(7)),
    "lists-200000-deep.safetensors": lambda: header(b'{"x":' + b"[" * 200_000),
    "length-2-to-60.safetensors": lambda: struct.pack("<Q", 1 << 60) + b"{}",
    "shape-2-to-60.safetensors": lambda: header(
        b'{"x":{"dtype":"U8","shape":[1152921504606846976],"data_offsets":[0,1152921504606846976]}}'
    ),
}


def test_bombs_are_survived_within_limits(tmp_path: Path) -> None:
    paths = []
    for name, build in BOMBS.items():
        path = tmp_path / name
        path.write_bytes(build())
        paths.append(path)
    found = outcomes(paths)
    # Some bombs are legal files with nothing, or little, to read; what counts is that each came to an end.
    assert set(found) == set(BOMBS)
    legal = {name for name, (outcome, _) in found.items() if outcome == "read"}
    assert legal <= {
        "lists-200000-deep.pt",
        "tuples-200000-deep.pt",
        "calls-200000-deep.pt",
        "states-200000-deep.pt",
        "memo-of-lists.pt",
        "memo-of-texts.pt",
        "memo-number-huge.pt",
        "expanded-2-to-40.pt",
        "groups-in-circles.h5",
    }


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_AS"), reason="the limits are those of Linux")
def test_the_limits_work() -> None:
    program = CHILD.replace("        use(path)", "        bytearray(4 << 30)")
    child = subprocess.run(
        [sys.executable, "-c", program, str(ADDRESS_SPACE), "20"], input="x", capture_output=True, text=True
    )
    assert child.returncode != 0 and "MemoryError" in child.stderr
