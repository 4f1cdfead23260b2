"""Our own `ztensor`, from the environment that runs the benchmark."""

from __future__ import annotations

from pathlib import Path

from harness.peer import Peer

#: The other formats store no checksums here, and ztensor 2.1 does not check those of its own files unless it is told to.
UNVERIFIED = "view, unverified"


class ZtensorHere(Peer):
    reads = {
        format: ("view", "copy")
        for format in ("zt", "safetensors", "pt", "gguf", "npz", "onnx", "h5", "npz-deflate", "h5-gzip")
    } | {"zt-2": ("view", UNVERIFIED, "copy")}
    first_loads = {"zt": ("copy", "torch copy"), "safetensors": ("copy", "torch copy")}
    writes = ("zt", "zt-2", "safetensors")
    compressions = ("raw", "zstd", "z4ai", "fast", "max")

    def __init__(self) -> None:
        import ztensor
        import ztensor.numpy

        self.ztensor = ztensor

    def version(self) -> str:
        return self.ztensor.__version__

    def load(self, path: Path, format: str, mode: str) -> dict:
        if mode == "torch copy":
            return self.torch.load_file(path, copy=True)
        if mode == "read":
            # Plain read calls into memory instead of a map, for sources that a map cannot slow down.
            with self.ztensor.Reader(path, io="read") as reader:
                return reader.read_numpy(reader.keys(), copy=True)
        return self.ztensor.numpy.load_file(path, copy=mode == "copy", verify=mode != UNVERIFIED)

    def prepare(self, mode: str) -> None:
        if mode == "torch copy":
            import ztensor.torch

            self.torch = ztensor.torch

    def save(self, tensors: dict, path: Path, format: str, compression: str = "raw") -> None:
        if format == "zt":
            setting = {"raw": False, "zstd": 3}.get(compression, compression)
            self.ztensor.numpy.save_file(tensors, path, compression=setting)
        elif format == "zt-2":
            with self.ztensor.Writer(path, version=2) as writer:
                for name in sorted(tensors):
                    writer.write_numpy(name, tensors[name])
        else:
            self.ztensor.numpy.save_file(tensors, path)

    def open_one(self, path: Path, format: str, name: str, io: str = "auto") -> tuple[int, object]:
        with self.ztensor.Reader(path, io=io) as reader:
            return len(reader.keys()), reader.read_numpy(name)
