"""The package `gguf`: its reader maps the file, its writer copies tensors behind a header."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from harness.peer import Peer


class Gguf(Peer):
    reads = {"gguf": ("view", "copy")}
    writes = ("gguf",)

    def __init__(self) -> None:
        import gguf
        import numpy

        self.gguf, self.numpy = gguf, numpy

    def version(self) -> str:
        return version("gguf")

    def load(self, path: Path, format: str, mode: str) -> dict:
        tensors = self.gguf.GGUFReader(path).tensors
        if mode == "copy":
            return {tensor.name: self.numpy.array(tensor.data) for tensor in tensors}
        return {tensor.name: tensor.data for tensor in tensors}

    def save(self, tensors: dict, path: Path, format: str, compression: str = "raw") -> None:
        writer = self.gguf.GGUFWriter(path, "llama")
        for name, array in tensors.items():
            writer.add_tensor(name, array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def open_one(self, path: Path, format: str, name: str) -> tuple[int, object]:
        tensors = self.gguf.GGUFReader(path).tensors
        names = [tensor.name for tensor in tensors]
        return len(names), tensors[names.index(name)].data
