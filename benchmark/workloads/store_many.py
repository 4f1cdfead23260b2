"""Ten thousand checkpoints of small models in one store: how long it takes to list, to draw the lineage, to add one more
and to collect, each in a process of its own.

Adding ten thousand would take longer than all else here together, so the store is made from one checkpoint that was added:
its manifest and its pack are written again and again, with other names, ids, numbers and digests. `verify` finds nothing wrong
with them.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

TENSORS = 12
LENGTH = 1024


def encode(value) -> bytes:
    """CBOR in Core Deterministic Encoding, of what manifests are made of."""

    def head(kind: int, number: int) -> bytes:
        for limit, code, form in ((24, None, ""), (1 << 8, 24, "B"), (1 << 16, 25, "H"), (1 << 32, 26, "I")):
            if number < limit:
                return bytes([kind << 5 | (number if code is None else code)]) + (
                    struct.pack(">" + form, number) if form else b""
                )
        return bytes([kind << 5 | 27]) + struct.pack(">Q", number)

    match value:
        case None | bool():
            return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
        case int():
            return head(0, value)
        case bytes():
            return head(2, len(value)) + value
        case str():
            return head(3, len(value.encode())) + value.encode()
        case list():
            return head(4, len(value)) + b"".join(map(encode, value))
        case dict():
            items = sorted((encode(key), encode(item)) for key, item in value.items())
            return head(5, len(items)) + b"".join(key + item for key, item in items)
    raise TypeError(type(value))


def decode(data: bytes, at: int = 0):
    """The value at a place, and where it ends."""
    kind, number, at = data[at] >> 5, data[at] & 31, at + 1
    if kind == 7:
        return {20: False, 21: True, 22: None}[number], at
    if number >= 24:
        width = 1 << (number - 24)
        number, at = int.from_bytes(data[at : at + width], "big"), at + width
    if kind == 0:
        return number, at
    if kind in (2, 3):
        value = data[at : at + number]
        return (value if kind == 2 else value.decode()), at + number
    items = []
    for _ in range(number * (2 if kind == 5 else 1)):
        item, at = decode(data, at)
        items.append(item)
    return (items if kind == 4 else dict(zip(items[::2], items[1::2], strict=True))), at


def model(path: Path, seed: int) -> None:
    """A small model of numbers that nothing compresses."""
    import numpy as np
    from safetensors.numpy import save_file

    generator = np.random.default_rng(seed)
    save_file({f"layer.{i}.weight": np.frombuffer(generator.bytes(LENGTH), np.uint8) for i in range(TENSORS)}, path)


def make(place: Path, count: int) -> None:
    """A store of so many checkpoints, `run-N/step-M`, a hundred to a run."""
    from ztensor import Store

    from peers.zstd import Zstd

    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    model(place / "model.safetensors", 0)
    Store(place / "store", create=True).add(place / "model.safetensors", "run-0/step-0")
    # Manifests are compressed; the package for that is in the environment of another peer.
    subprocess.run([Zstd.environment.python(), __file__, str(place), str(count)], check=True)


def fill(place: Path, count: int) -> None:
    """Writes all checkpoints but the first."""
    import zstandard

    home = place / "store"
    raw = (home / "checkpoints/run-0/step-0/0.m").read_bytes()
    manifest, _ = decode(zstandard.decompress(raw[4:-32]))
    pack = next(file for file in (home / "packs").rglob("*.zt")).read_bytes()
    numbers = random.Random(0)
    (path, kind, mode, length, _, skeleton, pieces), *_ = manifest["files"]
    whole = (place / "model.safetensors").read_bytes()
    for number in range(1, count):
        name = f"run-{number // 100}/step-{number % 100}"
        data, entries = bytearray(pack), []
        for entry in manifest["entries"]:
            entry = list(entry)
            _, size, _, _, encoding, _, offset, stored = entry
            if encoding == 0 and size == LENGTH:
                fresh = numbers.randbytes(size)
                data[offset : offset + stored] = fresh
                entry[0] = hashlib.sha256(fresh).digest()
            entries.append(entry)
        # The file's bytes: those of the first, with the pieces replaced.
        file, position = bytearray(whole), 0
        for gap, which, *_ in pieces:
            position += gap
            _, size, *_, offset, stored = entries[which]
            file[position : position + size] = data[offset : offset + stored]
            position += size
        ident = numbers.randbytes(16)
        folder = home / "packs" / ident.hex()[:2]
        folder.mkdir(exist_ok=True)
        (folder / f"{ident.hex()}.zt").write_bytes(data)
        write = numbers.randbytes(16)
        record = {
            **manifest,
            "name": name,
            "write": write,
            "origin": write,
            "time": manifest["time"] + number,
            "parent": None if number % 100 == 0 else [f"run-{number // 100}/step-{number % 100 - 1}", bytes(32)],
            "packs": [[ident, len(data), hashlib.sha256(data).digest()]],
            "files": [[path, kind, mode, length, hashlib.sha256(file).digest(), skeleton, pieces]],
            "entries": entries,
        }
        body = b"ZTM\x01" + zstandard.ZstdCompressor(level=3).compress(encode(record))
        target = home / "checkpoints" / name
        target.mkdir(parents=True)
        (target / "0.m").write_bytes(body + hashlib.sha256(body).digest())
    os.sync()


if __name__ == "__main__":
    fill(Path(sys.argv[1]), int(sys.argv[2]))
