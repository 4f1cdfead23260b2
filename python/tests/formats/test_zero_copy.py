"""Arrays that lie plainly in a file are the file's own pages, in every format; strided ones too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import ztensor
import ztensor.numpy

Model = tuple[str, Path, dict[str, np.ndarray]]


def mapped_ranges(path: Path) -> list[tuple[int, int]]:
    """Where this process has mapped a file."""
    ranges = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5] == str(path.resolve()):
            start, end = fields[0].split("-")
            ranges.append((int(start, 16), int(end, 16)))
    return ranges


def lies_in(array: np.ndarray, path: Path) -> bool:
    low, high = np.lib.array_utils.byte_bounds(array)
    return any(start <= low and high <= end for start, end in mapped_ranges(path))


def test_load_file_hands_out_the_map(model_file: Model) -> None:
    format, path, arrays = model_file
    loaded = ztensor.numpy.load_file(path)
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert lies_in(loaded[name], path), f"{name} of {format} was copied"


def test_a_copy_is_not_the_map(model_file: Model) -> None:
    _, path, arrays = model_file
    loaded = ztensor.numpy.load_file(path, copy=True)
    assert not any(lies_in(loaded[name], path) for name in arrays)


def test_writing_to_the_map_leaves_the_file_alone(model_file: Model) -> None:
    _, path, arrays = model_file
    before = path.read_bytes()
    loaded = ztensor.numpy.load_file(path)
    for name in arrays:
        loaded[name][...] = 0
    assert path.read_bytes() == before


def test_torch_gets_the_map_where_elements_are_aligned(model_file: Model) -> None:
    _, path, arrays = model_file
    reader = ztensor.Reader(path)
    for name in arrays:
        array, tensor = reader.read_numpy(name), reader.read_torch(name)
        if array.flags.aligned:
            assert tensor.data_ptr() == array.ctypes.data
        np.testing.assert_array_equal(tensor.numpy(), arrays[name])


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_strided_tensors_are_views_of_the_map(tmp_path: Path, legacy: bool) -> None:
    base = torch.arange(4000, dtype=torch.float32).reshape(40, 100)
    tensors = {
        "transposed": base.t(),
        "sliced": base[3:20:2, 10:90:3],
        "expanded": base[:, :1].expand(40, 50),
        "diagonal": base.diagonal(),
        "later": base[7],
    }
    path = tmp_path / "m.pt"
    torch.save(tensors, path, _use_new_zipfile_serialization=not legacy)
    reader = ztensor.Reader(path)
    for name, tensor in tensors.items():
        array = reader.read_numpy(name)
        np.testing.assert_array_equal(array, tensor.numpy())
        assert lies_in(array, path), name
        assert array.strides == tuple(4 * step for step in tensor.stride()), name


def test_fortran_arrays_are_views_of_the_map(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(600.0).reshape(20, 30))
    np.savez(tmp_path / "m.npz", fortran=array)
    np.save(tmp_path / "fortran.npy", array)
    for path in (tmp_path / "m.npz", tmp_path / "fortran.npy"):
        loaded = ztensor.numpy.load_file(path)["fortran"]
        np.testing.assert_array_equal(loaded, array)
        assert lies_in(loaded, path) and loaded.flags.f_contiguous


def test_external_data_is_a_view_of_its_own_file(tmp_path: Path) -> None:
    import onnx

    array = np.arange(5000, dtype=np.float32)
    tensor = onnx.numpy_helper.from_array(array, "w")
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], [tensor]))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    loaded = ztensor.numpy.load_file(tmp_path / "m.onnx")["w"]
    np.testing.assert_array_equal(loaded, array)
    assert lies_in(loaded, tmp_path / "m.data")
