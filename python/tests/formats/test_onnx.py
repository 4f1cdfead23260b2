"""ONNX against the `onnx` package: every data type in every way to store it, constants, subgraphs, functions, and real models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    external_data_helper,
    helper,
    numpy_helper,
)

import ztensor

TYPES = [name for name, _ in TensorProto.DataType.items() if name not in ("UNDEFINED", "STRING")]
SHAPES: list[tuple[int, ...]] = [(), (1,), (0,), (7,), (3, 5), (2, 0, 4), (2, 1, 3, 5), (400, 333)]
REAL = [
    "silero_vad/data/silero_vad.onnx",
    "silero_vad/data/silero_vad_16k_op15.onnx",
    "silero_vad/data/silero_vad_16k_sequence.onnx",
    "silero_vad/data/silero_vad_half.onnx",
    "silero_vad/data/silero_vad_op18_ifless.onnx",
    "silero_vad/data/silero_vad_openvino_16k.onnx",
    "magika/models/standard_v3_3/model.onnx",
    "nudenet/320n.onnx",
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
]

Found = Iterator[tuple[str, np.ndarray]]


def dtype_of(name: str) -> np.dtype:
    return helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(name))


def noise(dtype: np.dtype, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Every bit pattern that the type has."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "V" or dtype.itemsize == 1:
        narrow = {"int4": (-8, 8), "uint4": (0, 16), "float4_e2m1fn": (0, 16), "int2": (-2, 2), "uint2": (0, 4)}
        narrow |= {"float6_e2m3fn": (0, 64), "float6_e3m2fn": (0, 64)}
        if dtype.name in narrow:
            low, high = narrow[dtype.name]
            return rng.integers(low, high, shape).astype(np.int8).view(dtype).reshape(shape)
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(shape).copy()


def typed(array: np.ndarray, name: str, data_type: str) -> TensorProto:
    """A tensor that holds its elements in the typed field."""
    tensor = numpy_helper.from_array(array, name)
    packed = np.frombuffer(tensor.raw_data, np.uint8)
    tensor.ClearField("raw_data")
    number = TensorProto.DataType.Value(data_type)
    field = getattr(tensor, helper.tensor_dtype_to_field(number))
    width = array.dtype.itemsize
    if field is tensor.int32_data:
        if data_type.startswith("FLOAT6"):
            field.extend(array.ravel().view(np.uint8).tolist())
        elif width == 1:
            signed = data_type == "INT8"
            field.extend(packed.view(np.int8 if signed else np.uint8).tolist())
        elif width == 2:
            field.extend(packed.view(np.int16 if data_type == "INT16" else np.uint16).tolist())
        else:
            field.extend(packed.view(np.int32).tolist())
    elif field is tensor.float_data:
        field.extend(packed.view(np.float32).tolist())
    elif field is tensor.double_data:
        field.extend(packed.view(np.float64).tolist())
    else:
        field.extend(array.ravel().tolist())
    return tensor


def save(path: Path, graph: GraphProto, functions: list[FunctionProto] | None = None) -> Path:
    model = helper.make_model(graph, functions=functions or [], producer_name="tests")
    path.write_bytes(model.SerializeToString())
    return path


def graph_of(nodes: list[NodeProto], tensors: list[TensorProto] | None = None, name: str = "main") -> GraphProto:
    return helper.make_graph(nodes, name, [], [], tensors or [])


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    if right.dtype.name in ("int2", "int4"):
        # The bits above the number in its byte mean nothing, and `onnx` leaves them zero below a negative one.
        return left.dtype == right.dtype and same_bits(left.astype(np.int8), right.astype(np.int8))
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def in_graph(graph: GraphProto, path: str, folder: str) -> Found:
    for tensor in graph.initializer:
        if tensor.data_type != TensorProto.STRING:
            yield path + tensor.name, numpy_helper.to_array(tensor, folder)
    yield from in_nodes(graph.node, path, folder)


def in_nodes(nodes: list[NodeProto], path: str, folder: str) -> Found:
    for node in nodes:
        for attribute in node.attribute:
            local = f"{path}{node.output[0]}"
            value = helper.get_attribute_value(attribute) if not attribute.ref_attr_name else None
            if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and value is not None:
                if attribute.type == AttributeProto.TENSOR:
                    if value.data_type != TensorProto.STRING:
                        yield local, numpy_helper.to_array(value, folder)
                elif attribute.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
                    yield local, np.array(value, np.float32)
                elif attribute.type in (AttributeProto.INT, AttributeProto.INTS):
                    yield local, np.array(value, np.int64)
            elif attribute.type == AttributeProto.TENSOR:
                yield f"{local}/{attribute.name}", numpy_helper.to_array(value, folder)
            elif attribute.type == AttributeProto.TENSORS:
                for number, tensor in enumerate(value):
                    yield f"{local}/{attribute.name}[{number}]", numpy_helper.to_array(tensor, folder)
            elif attribute.type == AttributeProto.GRAPH:
                yield from in_graph(value, f"{local}/{attribute.name}/", folder)
            elif attribute.type == AttributeProto.GRAPHS:
                for number, graph in enumerate(value):
                    yield from in_graph(graph, f"{local}/{attribute.name}[{number}]/", folder)


def expected(path: Path) -> dict[str, np.ndarray]:
    """All tensors of a model as the `onnx` package sees them, by the names this library gives them."""
    model = onnx.load(path, load_external_data=False)
    found = list(in_graph(model.graph, "", str(path.parent)))
    for function in model.functions:
        found += in_nodes(function.node, f"{function.domain}:{function.name}/", str(path.parent))
    assert len(dict(found)) == len(found)
    return dict(found)


def assert_same_as_onnx(path: Path) -> ztensor.Reader:
    reader = ztensor.Reader(path)
    assert reader.format == "onnx"
    wanted = expected(path)
    assert set(reader.keys()) == set(wanted)
    loaded = reader.read_numpy(reader.keys())
    for name, array in wanted.items():
        assert same_bits(loaded[name], array), name
        assert tuple(reader.metadata(name).shape) == array.shape
    return reader


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_type_as_raw_bytes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    arrays = {name: noise(dtype_of(name), shape) for name in TYPES}
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    reader = assert_same_as_onnx(save(tmp_path / "raw.onnx", graph_of([], tensors)))
    for name, array in arrays.items():
        assert same_bits(reader.read_numpy(name), array), name


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_type_in_its_typed_field(tmp_path: Path, shape: tuple[int, ...]) -> None:
    arrays = {name: noise(dtype_of(name), shape) for name in TYPES}
    # A list of Python floats cannot carry the bits of every NaN.
    for name in ("FLOAT", "DOUBLE", "COMPLEX64", "COMPLEX128"):
        arrays[name] = np.nan_to_num(arrays[name])
    tensors = [typed(array, name, name) for name, array in arrays.items()]
    reader = assert_same_as_onnx(save(tmp_path / "typed.onnx", graph_of([], tensors)))
    for name, array in arrays.items():
        assert same_bits(reader.read_numpy(name), array), name


def test_raw_bytes_and_packed_floats_are_not_copied(tmp_path: Path) -> None:
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensors = [numpy_helper.from_array(weights, "raw"), typed(weights, "packed", "FLOAT")]
    reader = ztensor.Reader(save(tmp_path / "model.onnx", graph_of([], tensors)), io="mmap")
    for name in reader.keys():  # noqa: SIM118
        first, second = reader.read_numpy(name), reader.read_numpy(name)
        assert np.shares_memory(first, second)
        first[0, 0] = 7
        assert second[0, 0] == 7
    assert ztensor.Reader(tmp_path / "model.onnx").read_numpy("raw")[0, 0] == 0


def test_constants_of_every_kind(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Constant", [], ["tensor"], value=numpy_helper.from_array(rng.random((3, 4)))),
        helper.make_node("Constant", [], ["float"], value_float=2.5),
        helper.make_node("Constant", [], ["zero"], value_float=0.0),
        helper.make_node("Constant", [], ["floats"], value_floats=[1.0, 2.0, 3.0]),
        helper.make_node("Constant", [], ["int"], value_int=-(2**40)),
        helper.make_node("Constant", [], ["ints"], value_ints=[-1, 0, 2**60]),
        helper.make_node("ConstantOfShape", ["x"], ["y"], value=numpy_helper.from_array(np.array([7], np.int8))),
        helper.make_node("Constant", [], ["text"], value_string="hello"),
        helper.make_node("Conv", ["a", "b"], ["c"], kernel_shape=[3, 3]),
    ]
    reader = assert_same_as_onnx(save(tmp_path / "constants.onnx", graph_of(nodes)))
    assert list(reader.skipped()) == ["text"]
    import torch

    assert torch.equal(reader.read_torch("floats"), torch.tensor([1.0, 2.0, 3.0]))
    assert torch.equal(reader.read_torch("ints"), torch.tensor([-1, 0, 2**60]))


def test_subgraphs_and_functions(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "weights")
    inner = helper.make_node("Constant", [], ["c"], value_ints=[1, 2])
    deep = helper.make_node("If", ["x"], ["deep"], then_branch=graph_of([inner], [weights], "then"))
    outer = helper.make_node(
        "If",
        ["x"],
        ["choice"],
        then_branch=graph_of([inner, deep], [weights], "then"),
        else_branch=graph_of([], [weights], "else"),
    )
    function = helper.make_function("local", "Gelu", ["x"], ["y"], [inner, deep], [helper.make_opsetid("", 21)])
    path = save(tmp_path / "nested.onnx", graph_of([outer, inner], [weights]), [function])
    reader = assert_same_as_onnx(path)
    assert "choice/then_branch/deep/then_branch/weights" in reader
    assert "local:Gelu/c" in reader


@pytest.mark.parametrize("linear", [False, True])
def test_sparse_initializers(tmp_path: Path, linear: bool) -> None:
    rng = np.random.default_rng(1)
    dense = np.where(rng.random((5, 7)) < 0.3, rng.random((5, 7)), 0).astype(np.float32)
    places = np.argwhere(dense)
    indices = np.ravel_multi_index(tuple(places.T), dense.shape) if linear else places
    sparse = SparseTensorProto(dims=dense.shape)
    sparse.values.CopyFrom(numpy_helper.from_array(dense[tuple(places.T)], "sparse"))
    sparse.indices.CopyFrom(numpy_helper.from_array(indices.astype(np.int64)))
    graph = graph_of([])
    graph.sparse_initializer.append(sparse)
    reader = ztensor.Reader(save(tmp_path / "sparse.onnx", graph))
    assert reader.metadata("sparse").format == "sparse_coo"
    import torch

    read = reader.read_torch("sparse")
    assert torch.equal(read.to_dense(), torch.from_numpy(dense))


@pytest.mark.parametrize("one_file", [False, True])
def test_external_data(tmp_path: Path, one_file: bool) -> None:
    tensors = [numpy_helper.from_array(noise(np.dtype(np.float64), (40, i + 1), i), f"t{i}") for i in range(5)]
    tensors.append(numpy_helper.from_array(noise(np.dtype(ml_dtypes.bfloat16), (33,)), "half"))
    model = helper.make_model(graph_of([], tensors))
    path = tmp_path / "model.onnx"
    onnx.save_model(
        model, path, save_as_external_data=True, all_tensors_to_one_file=one_file, location="w.bin", size_threshold=0
    )
    assert path.stat().st_size < 2000
    saved = onnx.load(path, load_external_data=False).graph.initializer
    assert all(external_data_helper.uses_external_data(tensor) for tensor in saved)
    assert_same_as_onnx(path)


def test_metadata_is_kept(tmp_path: Path) -> None:
    model = helper.make_model(graph_of([]), producer_name="tests", producer_version="1", doc_string="about")
    helper.set_model_props(model, {"author": "somebody"})
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    metadata = ztensor.Reader(path).file_metadata
    assert metadata["producer_name"] == "tests"
    assert metadata["ir_version"] == model.ir_version
    assert metadata["opset_import"] == {"ai.onnx": model.opset_import[0].version}
    assert metadata["metadata_props"] == {"author": "somebody"}
    assert metadata["graph_name"] == "main"


@pytest.mark.parametrize("name", REAL)
def test_real_models(models: Path, name: str) -> None:
    if not (models / name).exists():
        pytest.skip(f"{name} is not among the model files")
    reader = assert_same_as_onnx(models / name)
    assert len(reader) > 0
    assert not reader.skipped()


def test_the_content_decides_not_the_name(models: Path, tmp_path: Path) -> None:
    for name in REAL:
        if (models / name).exists():
            path = tmp_path / "model"
            path.write_bytes((models / name).read_bytes())
            assert ztensor.Reader(path).format == "onnx"
