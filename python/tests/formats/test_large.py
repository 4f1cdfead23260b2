"""Files beyond 4 GiB, made of holes: offsets need more than 32 bits, and opening costs memory for the index, not for the data."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ztensor

GAP = 5 << 30
#: What opening may add to the memory that is not the file's own.
MOST = 8 << 20
LAST = np.arange(1000, dtype=np.float32)


def anonymous() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("the kernel does not report RssAnon")


def strew(path: Path, *pieces: tuple[int, bytes]) -> None:
    with path.open("wb") as file:
        for offset, piece in pieces:
            file.seek(offset)
            file.write(piece)


def write_zt(path: Path) -> None:
    def item(value: object) -> bytes:
        if isinstance(value, dict):
            return bytes([0xA0 + len(value)]) + b"".join(item(part) for pair in value.items() for part in pair)
        if isinstance(value, list):
            return bytes([0x80 + len(value)]) + b"".join(map(item, value))
        if isinstance(value, str):
            return bytes([0x78, len(value)]) + value.encode()
        assert isinstance(value, int)
        return b"\x1b" + value.to_bytes(8, "big")

    def tensor(dtype: str, count: int, offset: int, length: int) -> dict[str, object]:
        component = {"dtype": dtype, "offset": offset, "length": length}
        return {"shape": [count], "format": "dense", "components": {"data": component}}

    objects = {"first": tensor("u8", GAP, 64, GAP), "last": tensor("f32", 1000, 64 + GAP, 4000)}
    manifest = item({"version": "1.2.0", "objects": objects})
    tail = LAST.tobytes() + manifest + struct.pack("<Q", len(manifest)) + b"ZTEN1000"
    strew(path, (0, b"ZTEN1000"), (64 + GAP, tail))


def write_safetensors(path: Path) -> None:
    header = {
        "first": {"dtype": "U8", "shape": [GAP], "data_offsets": [0, GAP]},
        "last": {"dtype": "F32", "shape": [1000], "data_offsets": [GAP, GAP + 4000]},
    }
    text = json.dumps(header).encode()
    strew(path, (0, struct.pack("<Q", len(text)) + text), (8 + len(text) + GAP, LAST.tobytes()))


def write_gguf(path: Path) -> None:
    def tensor(name: bytes, count: int, kind: int, offset: int) -> bytes:
        return struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, count, kind, offset)

    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 0) + tensor(b"first", GAP, 24, 0) + tensor(b"last", 1000, 0, GAP)
    start = -(-len(head) // 32) * 32
    strew(path, (0, head), (start + GAP, LAST.tobytes()))


def npy_header(dtype: str, count: int) -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({count},), }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def strew_zip(path: Path, members: list[tuple[str, bytes, int]]) -> None:
    """A zip archive of stored members: name, the bytes that are not zero, and the whole length."""
    pieces, directory, position = [], b"", 0
    for name, head, length in members:
        # A checksum is checked by nobody who maps the member; only the small ones have theirs.
        crc = zlib.crc32(head) if len(head) == length else 0
        sizes = struct.pack("<HHQQ", 1, 16, length, length)
        local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 0x21, crc, 2**32 - 1, 2**32 - 1, len(name), 20)
        pieces.append((position, local + name.encode() + sizes + head))
        entry = struct.pack("<HHQQQ", 1, 24, length, length, position)
        directory += struct.pack(
            "<IHHHHHHIIIHHHHHII",
            0x02014B50, 45, 45, 0, 0, 0, 0x21, crc, 2**32 - 1, 2**32 - 1, len(name), 28, 0, 0, 0, 0, 2**32 - 1,
        )  # fmt: skip
        directory += name.encode() + entry
        position += len(local) + len(name) + 20 + length
    count = len(members)
    end64 = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count, len(directory), position)
    locator = struct.pack("<IIQI", 0x07064B50, 0, position + len(directory), 1)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 2**16 - 1, 2**16 - 1, 2**32 - 1, 2**32 - 1, 0)
    strew(path, *pieces, (position, directory + end64 + locator + end))


def write_npz(path: Path) -> None:
    first, last = npy_header("|u1", GAP), npy_header("<f4", 1000) + LAST.tobytes()
    strew_zip(path, [("first.npy", first, len(first) + GAP), ("last.npy", last, len(last))])


def write_pytorch(path: Path) -> None:
    def tensor(kind: bytes, key: bytes, count: bytes) -> bytes:
        storage = b"(X\x07\x00\x00\x00storagectorch\n" + kind + b"\nX\x01\x00\x00\x00" + key + b"X\x03\x00\x00\x00cpu"
        return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + count + b"tQK\x00(" + count + b"t(K\x01t\x89}tR"

    long = b"\x8a\x05" + GAP.to_bytes(5, "little")
    program = b"\x80\x02}(X\x05\x00\x00\x00first" + tensor(b"ByteStorage", b"0", long)
    program += b"X\x04\x00\x00\x00last" + tensor(b"FloatStorage", b"1", b"M\xe8\x03") + b"u."
    members = [("m/data.pkl", program, len(program)), ("m/byteorder", b"little", 6)]
    members += [("m/data/0", b"", GAP), ("m/data/1", LAST.tobytes(), 4000), ("m/version", b"3\n", 2)]
    strew_zip(path, members)


def write_hdf5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        first = file.create_dataset("first", (GAP,), dtype=np.uint8)
        first[-1] = 0
        file["last"] = LAST


def write_onnx(path: Path) -> None:
    """Beyond what a protobuf library writes: one message of more than 2 GiB."""

    def varint(value: int) -> bytes:
        data = b""
        while value >= 128:
            data, value = data + bytes([value % 128 + 128]), value // 128
        return data + bytes([value])

    def field(number: int, length: int) -> bytes:
        return varint(number << 3 | 2) + varint(length)

    def tensor(name: bytes, kind: int, count: int, raw: int) -> bytes:
        return b"\x08" + varint(count) + b"\x10" + bytes([kind]) + field(8, len(name)) + name + field(9, raw)

    first, last = tensor(b"first", 2, GAP, GAP), tensor(b"last", 1, 1000, 4000)
    openings = [field(5, len(first) + GAP) + first, field(5, len(last) + 4000) + last]
    graph = len(openings[0]) + GAP + len(openings[1]) + 4000
    head = b"\x08\x08" + field(7, graph) + openings[0]
    strew(path, (0, head), (len(head) + GAP, openings[1] + LAST.tobytes()))


WRITERS: dict[str, Callable[[Path], None]] = {
    "model.zt": write_zt,
    "model.safetensors": write_safetensors,
    "model.gguf": write_gguf,
    "model.npz": write_npz,
    "model.pt": write_pytorch,
    "model.h5": write_hdf5,
    "model.onnx": write_onnx,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("io", ["mmap", "read"])
def test_opening_takes_memory_for_the_index_only(tmp_path: Path, name: str, io: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    assert path.stat().st_size > GAP
    before = anonymous()
    reader = ztensor.Reader(path, io=io)
    assert reader.keys() == ["first", "last"] and not reader.skipped()
    np.testing.assert_array_equal(reader.read_numpy("last"), LAST)
    assert anonymous() - before < MOST
    if io == "mmap":
        # Two pages of five gigabytes.
        first = reader.read_numpy("first")
        assert first.shape == (GAP,) and first[0] == first[-1] == 0
        assert anonymous() - before < MOST
