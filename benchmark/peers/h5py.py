"""The package `h5py`: one dataset per tensor, contiguous or gzipped in chunks."""

from __future__ import annotations

from pathlib import Path

from harness.peer import Peer


class H5py(Peer):
    reads = {"h5": ("copy",), "h5-gzip": ("copy",)}
    writes = ("h5", "h5-gzip")

    def __init__(self) -> None:
        import h5py

        self.h5py = h5py

    def version(self) -> str:
        return self.h5py.__version__

    def load(self, path: Path, format: str, mode: str) -> dict:
        with self.h5py.File(path, "r") as file:
            return {name: dataset[()] for name, dataset in file.items()}

    def save(self, tensors: dict, path: Path, format: str, compression: str = "raw") -> None:
        with self.h5py.File(path, "w") as file:
            for name, array in tensors.items():
                file.create_dataset(name, data=array, compression="gzip" if format == "h5-gzip" else None)

    def open_one(self, path: Path, format: str, name: str) -> tuple[int, object]:
        with self.h5py.File(path, "r") as file:
            return len(list(file.keys())), file[name][()]
