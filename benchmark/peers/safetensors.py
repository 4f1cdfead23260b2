"""The package `safetensors`. Copies come from its NumPy side, views from `safe_open` with torch, its zero-copy path."""

from __future__ import annotations

from pathlib import Path

from harness.peer import Peer


class Safetensors(Peer):
    reads = {"safetensors": ("view", "copy")}
    #: Its torch side hands out views; independent memory takes a clone of each.
    first_loads = {"safetensors": ("copy", "torch copy")}
    writes = ("safetensors",)

    def __init__(self) -> None:
        import safetensors
        import safetensors.numpy
        import safetensors.torch

        self.safetensors = safetensors

    def version(self) -> str:
        return self.safetensors.__version__

    def load(self, path: Path, format: str, mode: str) -> dict:
        if mode == "copy":
            return self.safetensors.numpy.load_file(path)
        if mode == "torch copy":
            return {name: tensor.clone() for name, tensor in self.safetensors.torch.load_file(path).items()}
        with self.safetensors.safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)

    def save(self, tensors: dict, path: Path, format: str, compression: str = "raw") -> None:
        self.safetensors.numpy.save_file(tensors, path)

    def open_one(self, path: Path, format: str, name: str) -> tuple[int, object]:
        with self.safetensors.safe_open(path, framework="np") as file:
            return len(file.keys()), file.get_tensor(name)
