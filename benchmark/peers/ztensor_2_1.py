"""The package `ztensor` 2.1.2: reads every format, writes `.zt` 2."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from harness.environments import Environment
from harness.peer import Peer


class Ztensor21(Peer):
    environment = Environment("ztensor-2.1", ("ztensor==2.1.2", "numpy", "ml_dtypes"))
    reads = {
        format: ("view", "copy")
        for format in ("zt-2", "safetensors", "pt", "gguf", "npz", "onnx", "h5", "npz-deflate", "h5-gzip")
    }
    writes = ("zt-2",)
    compressions = ("raw", "zstd")

    def __init__(self) -> None:
        import numpy
        import ztensor
        import ztensor.numpy

        self.numpy, self.ztensor = numpy, ztensor

    def version(self) -> str:
        return version("ztensor")

    def load(self, path: Path, format: str, mode: str) -> dict:
        return self.ztensor.numpy.load_file(path, copy=mode == "copy")

    def save(self, tensors: dict, path: Path, format: str, compression: str = "raw") -> None:
        self.ztensor.numpy.save_file(tensors, path, compression=compression == "zstd")

    def open_one(self, path: Path, format: str, name: str) -> tuple[int, object]:
        with self.ztensor.open(str(path)) as source:
            return len(source.keys()), self.numpy.from_dlpack(source[name])
