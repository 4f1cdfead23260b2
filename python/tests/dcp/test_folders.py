"""Folders that torch's own writer made: read without running anything, whole tensors from boxes, and hostile metadata refused."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jobs
import pytest
import ranks
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

import ztensor


def in_boxes(folder: Path, tensors: dict[str, tuple[torch.Tensor, list[tuple[slice, ...]]]]) -> Metadata:
    """A folder like torch's, with tensors cut in any way."""
    folder.mkdir()
    state: dict[str, Any] = {}
    storage: dict[MetadataIndex, _StorageInfo] = {}
    with (folder / "__0_0.distcp").open("wb") as file:
        for name, (tensor, boxes) in tensors.items():
            chunks = []
            for number, box in enumerate(boxes):
                offsets = torch.Size([part.start or 0 for part in box])
                piece = tensor[box].clone() if box else tensor.clone()
                chunks.append(ChunkStorageMetadata(offsets, piece.size()))
                start = file.tell()
                torch.save(piece, file)
                place = _StorageInfo("__0_0.distcp", start, file.tell() - start)
                storage[MetadataIndex(name, offsets, number)] = place
            state[name] = TensorStorageMetadata(TensorProperties(dtype=tensor.dtype), tensor.size(), chunks)
    metadata = Metadata(state, planner_data={}, storage_data=storage)
    write(folder, metadata)
    return metadata


def write(folder: Path, metadata: Metadata) -> None:
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))


def quarters(rows: int, columns: int) -> list[tuple[slice, ...]]:
    half = (slice(0, rows // 2), slice(rows // 2, rows)), (slice(0, columns // 2), slice(columns // 2, columns))
    return [(one, other) for one in half[0] for other in half[1]]


def test_a_folder_of_torch_reads_like_any_model(tmp_path: Path) -> None:
    state = {
        "model": {"weight": torch.randn(64, 48), "bias": torch.randn(48).to(torch.bfloat16)},
        "transposed": torch.randn(6, 5).t(),
        "flags": torch.tensor([True, False]),
        "step": 7,
        "betas": [0.9, 0.999],
        "name": "run",
        "set": {"an object"},
        "scalar": torch.tensor(3),
    }
    folder = tmp_path / "checkpoint"
    dcp.save(state, checkpoint_id=folder)
    reader = ztensor.Reader(folder)
    assert reader.format == "dcp"
    for name, expected in {
        "model.weight": state["model"]["weight"],
        "model.bias": state["model"]["bias"],
        "transposed": state["transposed"],
        "flags": state["flags"],
        "scalar": state["scalar"],
    }.items():
        assert torch.equal(reader.read_torch(name), expected), name
    assert reader.file_metadata["step"] == 7
    assert reader.file_metadata["name"] == "run"
    assert reader.file_metadata["betas"] == [0.9, 0.999]
    assert set(reader.skipped()) == {"set"}

    run = [sys.executable, "-m", "ztensor"]
    shown = json.loads(subprocess.run([*run, "info", "--json", folder], check=True, capture_output=True).stdout)
    assert shown["result"]["format"] == "dcp"
    output = tmp_path / "model.safetensors"
    subprocess.run([*run, "convert", folder, "-o", output], check=True, capture_output=True)
    import safetensors.torch

    assert torch.equal(safetensors.torch.load_file(output)["model.weight"], state["model"]["weight"])


def test_what_four_ranks_saved_by_torch_opens_converts_and_is_stored(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    saved = ranks.run(4, jobs.save_with_torch, str(folder))[0]
    assert not isinstance(saved, BaseException), saved
    expected = {"columns": saved["columns"], "everywhere": saved["everywhere"], "few": saved["few"]}
    expected |= {f"model.{name}": tensor for name, tensor in saved["model"].items()}
    for name, moments in saved["optimizer"]["state"].items():
        expected |= {f"optimizer.state.{name}.{key}": moment for key, moment in moments.items()}
    run = [sys.executable, "-m", "ztensor"]
    store, output = tmp_path / "store", tmp_path / "model.zt"
    for command in (
        ["store", "init", store],
        ["store", "add", folder, "-n", "a", "--store", store],
        ["convert", folder, "-o", output],
    ):
        done = subprocess.run([*run, *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    shown = json.loads(subprocess.run([*run, "info", "--json", folder], check=True, capture_output=True).stdout)
    assert {tensor["name"] for tensor in shown["result"]["tensors"]} >= set(expected)
    for path in (folder, output, f"{store}//a"):
        reader = ztensor.Reader(path)
        for name, tensor in expected.items():
            assert torch.equal(reader.read_torch(name), tensor), (path, name)


def test_boxes_of_any_cut_are_assembled_and_sliced(tmp_path: Path) -> None:
    matrix = torch.randn(10, 12)
    cube = torch.arange(4 * 6 * 8, dtype=torch.int16).reshape(4, 6, 8)
    thirds = [(slice(0, 4), slice(0, 6), slice(low, high)) for low, high in ((0, 3), (3, 7), (7, 8))]
    rows = [(slice(low, min(low + 3, 10)), slice(0, 12)) for low in range(0, 10, 3)]
    scalar = torch.tensor(2.5)
    folder = tmp_path / "checkpoint"
    cuts = {"a": (matrix, quarters(10, 12)), "b": (cube, thirds), "c": (matrix, rows[::-1]), "d": (scalar, [()])}
    in_boxes(folder, cuts)
    reader = ztensor.Reader(folder)
    assert torch.equal(reader.read_torch("a"), matrix)
    assert torch.equal(reader.read_torch("b"), cube)
    assert torch.equal(reader.read_torch("c"), matrix)
    assert torch.equal(reader.read_torch("d"), scalar)
    assert (reader.read_slice("a", (slice(3, 8), slice(1, None, 2))) == matrix[3:8, 1::2].numpy()).all()
    assert (reader.read_slice("c", 7) == matrix[7].numpy()).all()
    for starts, lengths in (([0, 0], [10, 12]), ([4, 5], [3, 2]), ([9, 0], [1, 12]), ([2, 11], [8, 1])):
        region = torch.empty(lengths)
        reader.read_regions([("a", starts, lengths, region)])
        (row, column), (height, width) = starts, lengths
        assert torch.equal(region, matrix[row : row + height, column : column + width])
    part = torch.empty(2, 3, 4, dtype=torch.int16)
    reader.read_regions([("b", [1, 2, 2], [2, 3, 4], part)])
    assert torch.equal(part, cube[1:3, 2:5, 2:6])
    with pytest.raises(ztensor.ZTensorError, match="not inside"):
        reader.read_regions([("a", [8, 0], [3, 12], torch.empty(3, 12))])


def test_what_a_store_keeps_of_such_a_folder_opens_the_same_way(tmp_path: Path) -> None:
    state = {"weight": torch.randn(64, 48), "step": 7}
    folder = tmp_path / "checkpoint"
    dcp.save(state, checkpoint_id=folder)
    (folder / "config.json").write_text("{}")
    store = ztensor.Store(tmp_path / "store", create=True)
    store.add(folder, "step-7")
    assert torch.equal(store.load("step-7", framework="pt")["weight"], state["weight"])
    assert ztensor.Reader(f"{tmp_path / 'store'}//step-7").file_metadata["step"] == 7
    store.get("step-7", tmp_path / "restored")
    back = {"weight": torch.zeros(64, 48), "step": 0}
    dcp.load(back, checkpoint_id=tmp_path / "restored")
    assert torch.equal(back["weight"], state["weight"])
    assert back["step"] == 7


def chunk(offsets: list[int], sizes: list[int]) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes))


def test_metadata_that_lies_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    tensor = torch.randn(4, 6)
    good = in_boxes(folder, {"a": (tensor, quarters(4, 6))})
    about = good.state_dict_metadata["a"]
    assert isinstance(about, TensorStorageMetadata)
    [first, second, third, last] = about.chunks
    where = {index.offset: place for index, place in good.storage_data.items()}

    def with_chunks(chunks: list[ChunkStorageMetadata], **changes: Any) -> Metadata:
        places = {MetadataIndex("a", c.offsets, 0): replace(where.get(c.offsets, where[first.offsets])) for c in chunks}
        return replace(good, state_dict_metadata={"a": replace(about, chunks=chunks, **changes)}, storage_data=places)

    def stored_at(**changes: Any) -> Metadata:
        places = dict(good.storage_data)
        key = next(iter(places))
        places[key] = replace(places[key], **changes)
        return replace(good, storage_data=places)

    huge = 1 << 62
    for metadata, part in [
        (with_chunks([first, second, third]), "hold 18 of the 24"),
        (with_chunks([first, second, third, last, chunk([1, 1], [2, 3])]), "overlap"),
        (with_chunks([first, second, third, chunk([3, 3], [2, 3])]), "outside"),
        (with_chunks([first, second, third, chunk([2, 3], [2, 2])]), "should be"),
        (with_chunks(about.chunks, size=torch.Size([huge, huge])), "too large"),
        (with_chunks(about.chunks, size=torch.Size([4, 6, 1])), "dimensions"),
        (stored_at(offset=huge), "announced"),
        (stored_at(length=huge), "announced"),
        (stored_at(relative_path="../../etc/passwd"), "plain file name"),
        (stored_at(relative_path="missing.distcp"), "missing.distcp"),
        (replace(good, storage_data={}), "does not say where"),
        (replace(good, storage_data=[]), "not a dict"),
    ]:
        write(folder, metadata)
        with pytest.raises(ztensor.ZTensorError, match=part):
            ztensor.Reader(folder)

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    write(folder, replace(good, planner_data=Evil()))
    assert torch.equal(ztensor.Reader(folder).read_torch("a"), tensor)
    assert not (tmp_path / "ran").exists()


def test_what_went_through_an_extension_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    good = in_boxes(folder, {"a": (torch.randn(4), [(slice(0, 4),)]), "b": (torch.ones(2), [(slice(0, 2),)])})
    places = {
        index: replace(place, transform_descriptors=["zstd"]) if index.fqn == "a" else place
        for index, place in good.storage_data.items()
    }
    state = {**good.state_dict_metadata, "object": BytesStorageMetadata()}
    places[MetadataIndex("object")] = next(iter(places.values()))
    write(folder, replace(good, storage_data=places, state_dict_metadata=state))
    reader = ztensor.Reader(folder)
    assert reader.keys() == ["b"]
    assert "zstd" in reader.skipped()["a"]


def test_every_flip_and_cut_of_the_metadata_is_an_error_or_harmless(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    in_boxes(folder, {"a": (torch.randn(4, 6), quarters(4, 6))})
    whole = (folder / ".metadata").read_bytes()
    variants = [whole[:cut] for cut in range(0, len(whole), 7)]
    variants += [whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :] for at in range(0, len(whole), 3)]
    for variant in variants:
        (folder / ".metadata").write_bytes(variant)
        try:
            reader = ztensor.Reader(folder / ".metadata")
            for name in reader:
                reader.read_numpy(name)
        except ztensor.ZTensorError:
            pass


def test_boxes_of_ours_are_checked_as_well(tmp_path: Path) -> None:
    tensor = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    (tmp_path / "data.bin").write_bytes(tensor.numpy().tobytes())

    def opened(boxes: list[list[int]], shape: tuple[int, ...] = (4, 6), **changes: Any) -> ztensor.Reader:
        about = {"version": 1, "files": ["data.bin"], "tensors": [["a", "float32", list(shape), boxes]], **changes}
        (tmp_path / "boxes.zt").write_bytes(ztensor.torch.save({}, {"step": 3, "ztensor.boxes": about}))
        return ztensor.Reader(tmp_path / "boxes.zt")

    whole = [[0, 0, 0, 0, 2, 6], [0, 48, 2, 0, 2, 6]]
    reader = opened(whole)
    assert torch.equal(reader.read_torch("a"), tensor)
    assert reader.file_metadata == {"step": 3}
    assert torch.equal(ztensor.Reader(tmp_path).read_torch("a"), tensor)
    huge = 1 << 62
    for boxes, changes, part in [
        (whole[:1], {}, "hold 12 of the 24"),
        ([*whole, [0, 0, 1, 1, 1, 1]], {}, "overlap"),
        ([[0, 0, 1, 0, 4, 6]], {}, "outside"),
        ([[0, 1, 0, 0, 4, 6]], {}, "announced"),
        ([[1, 0, 0, 0, 4, 6]], {}, "damaged"),
        ([[0, 0, 0, 4]], {}, "dimensions"),
        ([[0, 0, 0, 0, huge, huge]], {}, "too large"),
        (whole, {"shape": (huge, huge)}, "too large"),
        (whole, {"version": 2}, "later release"),
        (whole, {"files": ["../data.bin"]}, "plain file name"),
        (whole, {"tensors": [["a", "unheard", [1], []]]}, "unheard"),
        (whole, {"tensors": [["a", "float32", [0], []], ["a", "float32", [0], []]]}, "twice"),
    ]:
        with pytest.raises(ztensor.ZTensorError, match=part):
            opened(boxes, **changes)
    with pytest.raises(ztensor.ZTensorError, match="in place"):
        opened(whole)
        ztensor._native.replace_tensor(tmp_path / "boxes.zt", "a", tensor.numpy())
