"""The package `onnx`: a model that is nothing but initializers, read through protobuf."""

from __future__ import annotations

from pathlib import Path

from harness.peer import Peer


class Onnx(Peer):
    reads = {"onnx": ("copy",)}
    writes = ("onnx",)

    def __init__(self) -> None:
        import onnx
        import onnx.numpy_helper

        self.onnx = onnx

    def version(self) -> str:
        return self.onnx.__version__

    def load(self, path: Path, format: str, mode: str) -> dict:
        to_array = self.onnx.numpy_helper.to_array
        return {tensor.name: to_array(tensor) for tensor in self.onnx.load(path).graph.initializer}

    def save(self, tensors: dict, path: Path, format: str, compression: str = "raw") -> None:
        stored = [self.onnx.numpy_helper.from_array(array, name) for name, array in tensors.items()]
        graph = self.onnx.helper.make_graph([], "weights", [], [], initializer=stored)
        self.onnx.save(self.onnx.helper.make_model(graph), path)

    def open_one(self, path: Path, format: str, name: str) -> tuple[int, object]:
        stored = {tensor.name: tensor for tensor in self.onnx.load(path).graph.initializer}
        return len(stored), self.onnx.numpy_helper.to_array(stored[name])
