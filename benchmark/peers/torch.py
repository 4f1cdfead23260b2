"""PyTorch: `torch.load` of `.pt` files, in memory and mapped."""

from __future__ import annotations

from pathlib import Path

from harness.peer import Peer


class Torch(Peer):
    reads = {"pt": ("view", "copy")}
    writes = ("pt",)

    def __init__(self) -> None:
        import torch

        self.torch = torch

    def version(self) -> str:
        return str(self.torch.__version__)

    def load(self, path: Path, format: str, mode: str) -> dict:
        return self.torch.load(path, map_location="cpu", weights_only=True, mmap=mode == "view")

    def tensors_for_saving(self, arrays: dict) -> dict:
        return {name: self.torch.from_numpy(array) for name, array in arrays.items()}

    def save(self, tensors: dict, path: Path, format: str, compression: str = "raw") -> None:
        self.torch.save(tensors, path)

    def open_one(self, path: Path, format: str, name: str) -> tuple[int, object]:
        tensors = self.load(path, format, "view")
        return len(tensors), tensors[name]
