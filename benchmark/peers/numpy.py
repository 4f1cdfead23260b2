"""NumPy: `.npz`, stored and deflated."""

from __future__ import annotations

from pathlib import Path

from harness.peer import Peer


class Numpy(Peer):
    reads = {"npz": ("copy",), "npz-deflate": ("copy",)}
    writes = ("npz", "npz-deflate")

    def __init__(self) -> None:
        import numpy

        self.numpy = numpy

    def version(self) -> str:
        return self.numpy.__version__

    def load(self, path: Path, format: str, mode: str) -> dict:
        with self.numpy.load(path) as archive:
            return {name: archive[name] for name in archive.files}

    def save(self, tensors: dict, path: Path, format: str, compression: str = "raw") -> None:
        write = self.numpy.savez_compressed if format == "npz-deflate" else self.numpy.savez
        write(path, **tensors)

    def open_one(self, path: Path, format: str, name: str) -> tuple[int, object]:
        with self.numpy.load(path) as archive:
            return len(archive.files), archive[name]
