"""Writes the small files of `conformance/valid/hdf5` with h5py: `python hdf5_corpus.py FOLDER`. Existing files are kept."""

import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import ml_dtypes
import numpy as np

TYPES = ["?", "i1", "<u2", ">i4", "<i8", "<f2", "<f4", ">f8", "<c8", ">c16", ml_dtypes.bfloat16]
MATRIX = np.arange(35, dtype="<i4").reshape(5, 7)


def types(file: h5py.File) -> None:
    for dtype in TYPES:
        dtype = np.dtype(dtype)
        name = f"{dtype.name}-{'big' if dtype.byteorder == '>' else 'little'}"
        file[f"group/{name}"] = np.arange(3).astype(dtype)
    file["scalar"] = np.float32(1.5)
    file["empty"] = np.zeros((2, 0), dtype=np.float32)


def filters(file: h5py.File) -> None:
    options = {"chunks": (2, 3)}
    file.create_dataset("plain", data=MATRIX, **options)
    file.create_dataset("deflate", data=MATRIX, **options, compression="gzip", shuffle=True)
    file.create_dataset("lzf", data=np.zeros_like(MATRIX), **options, compression="lzf", fletcher32=True)
    sparse = file.create_dataset("sparse", shape=(5, 7), dtype="<f4", **options, fillvalue=2.5, compression="gzip")
    sparse[4, 6] = 1


def chunk_lists(file: h5py.File) -> None:
    for name, extra in {"": {}, "-deflate": {"compression": "gzip"}}.items():
        file.create_dataset(f"single{name}", data=MATRIX, chunks=(5, 7), **extra)
        file.create_dataset(f"fixed-array{name}", data=MATRIX, chunks=(2, 3), maxshape=(6, 9), **extra)
        file.create_dataset(f"extensible-array{name}", data=MATRIX, chunks=(2, 3), maxshape=(5, None), **extra)
        file.create_dataset(f"tree{name}", data=MATRIX, chunks=(2, 3), maxshape=(None, None), **extra)
    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    early.set_chunk((2, 3))
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    space = h5py.h5s.create_simple(MATRIX.shape, (6, 9))
    identifier = h5py.h5d.create(file.id, b"implicit", h5py.h5t.STD_I32LE, space, early)
    h5py.Dataset(identifier)[...] = MATRIX


def many_links(file: h5py.File) -> None:
    for number in range(12):
        file[f"weight{number}"] = np.float32(number)


def attributes(file: h5py.File) -> None:
    file.attrs["text"] = "zażółć"
    file.attrs["fixed"] = np.array([b"ab", b"c"])
    file.attrs["numbers"] = np.arange(4, dtype=">i2").reshape(2, 2)
    file.attrs["flag"] = True
    file.attrs["half"] = np.float16(0.5)
    weight = file.create_dataset("layer/weight", data=[1.0])
    for number in range(9):
        weight.attrs[f"note{number}"] = number
    file["layer"].attrs["names"] = ["weight"]


def links(file: h5py.File) -> None:
    file["group/weight"] = [1.0, 2.0]
    file["again"] = file["group/weight"]
    file["group/up"] = file["/"]
    file["soft"] = h5py.SoftLink("/group/weight")
    file["dangling"] = h5py.SoftLink("/nowhere")
    file["external"] = h5py.ExternalLink("other.h5", "/weight")


def unread(file: h5py.File) -> None:
    file["weight"] = [1.0, 2.0]
    file["text"] = "text"
    file["pairs"] = np.zeros(2, dtype=[("a", "f4"), ("b", "i4")])
    file["nothing"] = h5py.Empty("f4")
    file["wide"] = np.zeros(2, dtype=np.longdouble)
    file["type"] = np.dtype("<f4")
    file.create_dataset("of-named-type", data=[1.0], dtype=file["type"])
    file.create_dataset("scaled", data=np.arange(8), chunks=(4,), scaleoffset=0)


def write(path: Path, fill: Callable[[h5py.File], None], **options: object) -> None:
    if not path.exists():
        with h5py.File(path, "w", **options) as file:
            fill(file)


def archive(path: Path, method: int) -> None:
    if not path.exists():
        weights = io.BytesIO()
        with h5py.File(weights, "w", libver="latest") as file:
            file["layers/dense/vars/0"] = np.arange(6, dtype="<f4").reshape(2, 3)
        with zipfile.ZipFile(path, "w", method) as members:
            members.writestr("metadata.json", '{"keras_version": "3.0.0"}')
            members.writestr("config.json", "{}")
            members.writestr("model.weights.h5", weights.getvalue())


def main(folder: Path) -> None:
    for version, library in {"old": "earliest", "new": "latest"}.items():
        for fill in [types, filters, attributes, links, unread]:
            write(folder / f"{fill.__name__}-{version}.h5", fill, libver=library)
    write(folder / "chunk-lists.h5", chunk_lists, libver="latest")
    write(folder / "many-links.h5", many_links, libver="latest")
    write(folder / "creation-order.h5", many_links, libver="v110", track_order=True)
    write(folder / "user-block.h5", many_links, libver="earliest", userblock_size=512)
    archive(folder / "stored.keras", zipfile.ZIP_STORED)
    archive(folder / "deflated.keras", zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
