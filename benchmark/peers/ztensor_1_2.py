"""The package `ztensor` 1.2.3: reads every format, writes `.zt` 1.2."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from harness.environments import Environment
from harness.peer import Peer


class Ztensor12(Peer):
    environment = Environment("ztensor-1.2", ("ztensor==1.2.3", "numpy", "ml_dtypes"), borrowed=("torch",))
    reads = {
        format: ("view", "copy")
        for format in ("zt", "safetensors", "pt", "gguf", "npz", "onnx", "h5", "npz-deflate", "h5-gzip")
    }
    first_loads = {"zt": ("copy", "torch copy"), "safetensors": ("copy", "torch copy")}
    writes = ("zt",)
    compressions = ("raw", "zstd")

    def __init__(self) -> None:
        import ztensor
        import ztensor.numpy

        self.ztensor = ztensor

    def version(self) -> str:
        return version("ztensor")

    def load(self, path: Path, format: str, mode: str) -> dict:
        if mode == "torch copy":
            return self.torch.load_file(path, copy=True)
        return self.ztensor.numpy.load_file(path, copy=mode == "copy")

    def prepare(self, mode: str) -> None:
        if mode == "torch copy":
            import ztensor.torch

            self.torch = ztensor.torch

    def save(self, tensors: dict, path: Path, format: str, compression: str = "raw") -> None:
        self.ztensor.numpy.save_file(tensors, path, compression={"raw": False, "zstd": 3}[compression])

    def open_one(self, path: Path, format: str, name: str) -> tuple[int, object]:
        with self.ztensor.Reader(str(path)) as reader:
            return len(reader.keys()), reader.read_numpy(name)
