//! What right models give: names, shapes, types, bytes, and borrowed memory where the bytes lie plainly.

use ztensor::{Error, Kind, Layout, Reader, Value};

use crate::builder::*;

fn open(bytes: Vec<u8>) -> Reader {
    Reader::from_bytes(bytes).unwrap()
}

fn floats(reader: &Reader, name: &str) -> Vec<f32> {
    reader.read_as(name).unwrap()
}

#[test]
fn raw_data_is_borrowed() {
    let reader = open(model_of(&[three_floats("weight")]));
    let view = reader.component_view("weight", "data").unwrap().unwrap();
    assert!(view.strides.is_none());
    assert_eq!(floats(&reader, "weight"), [1.0, 2.0, 3.0]);
    assert_eq!(reader.format().name(), "onnx");
}

#[test]
fn floats_are_read_packed_unpacked_and_mixed() {
    let packed: Vec<u8> = [1f32, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let reader = open(model_of(&[
        tensor("packed", 1, &[2]).bytes(4, &packed),
        tensor("unpacked", 1, &[3, 2])
            .float(4, 1.0)
            .float(4, 2.0)
            .float(4, 3.0)
            .float(4, 4.0)
            .float(4, 5.0)
            .float(4, 6.0),
        tensor("mixed", 1, &[5]).float(4, 1.0).float(4, 2.0).bytes(4, &packed).float(4, 7.0),
        tensor("pieces", 1, &[4]).bytes(4, &packed).bytes(4, &packed),
        tensor("one", 1, &[]).float(4, 9.0),
        tensor("complex", 14, &[1]).float(4, 1.0).float(4, 2.0),
        tensor("double", 11, &[2]).double(10, 1.5).double(10, 2.5),
        tensor("empty", 1, &[0, 3]),
    ]));
    assert!(reader.component_view("packed", "data").unwrap().unwrap().strides.is_none());
    assert_eq!(reader.object("unpacked").unwrap().components[0].1.data.encoding_name(), "strided");
    assert_eq!(floats(&reader, "packed"), [1.0, 2.0]);
    assert_eq!(floats(&reader, "unpacked"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(floats(&reader, "mixed"), [1.0, 2.0, 1.0, 2.0, 7.0]);
    assert_eq!(floats(&reader, "pieces"), [1.0, 2.0, 1.0, 2.0]);
    assert_eq!(floats(&reader, "one"), [9.0]);
    assert_eq!(*reader.bytes("complex").unwrap(), [0, 0, 128, 63, 0, 0, 0, 64]);
    assert_eq!(reader.read_as::<f64>("double").unwrap(), [1.5, 2.5]);
    assert!(floats(&reader, "empty").is_empty());
}

#[test]
fn integers_are_narrowed_to_their_type() {
    let reader = open(model_of(&[
        tensor("int8", 3, &[3]).packed(5, &[-1, 2, -128]),
        tensor("int64", 7, &[2]).varint(7, -5).varint(7, 1 << 40),
        tensor("uint32", 12, &[2]).packed(11, &[7, 0xFFFF_FFFF]),
        tensor("float16", 10, &[2]).packed(5, &[0x3C00, 0xC000]),
        tensor("bool", 9, &[3]).packed(5, &[0, 1, 1]),
        tensor("int4", 22, &[3]).packed(5, &[0x21, 0x03]),
        tensor("uint2", 25, &[5]).varint(5, 0b11_10_01_00).varint(5, 1),
        tensor("mixed", 6, &[4]).varint(5, 1).packed(5, &[2, 3]).varint(5, 4),
    ]));
    assert_eq!(reader.read_as::<i8>("int8").unwrap(), [-1, 2, -128]);
    assert_eq!(reader.read_as::<i64>("int64").unwrap(), [-5, 1 << 40]);
    assert_eq!(reader.read_as::<u32>("uint32").unwrap(), [7, u32::MAX]);
    assert_eq!(*reader.bytes("float16").unwrap(), [0, 0x3C, 0, 0xC0]);
    assert_eq!(*reader.bytes("bool").unwrap(), [0, 1, 1]);
    assert_eq!(*reader.bytes("int4").unwrap(), [0x21, 0x03]);
    assert_eq!(*reader.bytes("uint2").unwrap(), [0b11_10_01_00, 1]);
    assert_eq!(reader.read_as::<i32>("mixed").unwrap(), [1, 2, 3, 4]);
    assert_eq!(reader.object("uint2").unwrap().components[0].1.element.to_string(), "u2");
}

#[test]
fn constants_are_named_by_their_output() {
    let attribute = |name: &str| Message::new().bytes(1, name);
    let nodes = [
        node("Constant", "tensor", &attribute("value").message(5, &three_floats("ignored"))),
        node("Constant", "float", &attribute("value_float").float(2, 2.5)),
        node("Constant", "zero", &attribute("value_float").varint(20, 1)),
        node("Constant", "floats", &attribute("value_floats").float(7, 1.0).float(7, 2.0)),
        node("Constant", "int", &attribute("value_int").varint(3, -7)),
        node("Constant", "ints", &attribute("value_ints").varint(8, 1).varint(8, 300)),
        node("Constant", "none", &attribute("value_ints").varint(20, 7)),
        node("Constant", "text", &attribute("value_string").bytes(4, "hello")),
        node("ConstantOfShape", "filled", &attribute("value").message(5, &raw("", 2, &[1], &[7]))),
    ];
    let graph = nodes.iter().fold(Message::new(), |graph, node| graph.message(1, node));
    let reader = open(model(&graph).build());
    assert_eq!(floats(&reader, "tensor"), [1.0, 2.0, 3.0]);
    assert_eq!(floats(&reader, "float"), [2.5]);
    assert_eq!(floats(&reader, "zero"), [0.0]);
    assert!(reader.object("float").unwrap().shape.is_empty());
    assert_eq!(floats(&reader, "floats"), [1.0, 2.0]);
    assert_eq!(reader.read_as::<i64>("int").unwrap(), [-7]);
    assert_eq!(reader.read_as::<i64>("ints").unwrap(), [1, 300]);
    assert!(reader.read_as::<i64>("none").unwrap().is_empty());
    assert_eq!(reader.read_as::<u8>("filled/value").unwrap(), [7]);
    assert_eq!(reader.skipped().len(), 1);
    assert_eq!(reader.skipped()[0].name, "text");
    assert_eq!(reader.object("text").map(drop).map_err(|error| error.kind()), Err(Kind::Unsupported));
}

#[test]
fn subgraphs_and_functions_are_named_by_their_path() {
    let branch = |name: &str| Message::new().bytes(1, name).message(6, &graph(&[three_floats("weight")]));
    let choice = node("If", "choice", &branch("then_branch")).message(5, &branch("else_branch"));
    let inside = node("Constant", "c", &Message::new().bytes(1, "value_int").varint(3, 1));
    let function = Message::new().bytes(1, "Gelu").message(7, &inside).bytes(10, "local");
    let training = Message::new().message(2, &graph(&[three_floats("weight")]));
    let bytes = model(&graph(&[three_floats("weight")]).message(1, &choice))
        .message(25, &function)
        .message(20, &training)
        .build();
    let reader = open(bytes);
    let names: Vec<&str> = reader.names().collect();
    let expected = [
        "weight",
        "choice/then_branch/weight",
        "choice/else_branch/weight",
        "local:Gelu/c",
        "training_info[0]/algorithm/weight",
    ];
    assert_eq!(names, expected);
}

#[test]
fn sparse_tensors_become_coordinates() {
    let values = raw("sparse", 2, &[2], &[5, 6]);
    let rows = tensor("", 7, &[2, 2]).packed(7, &[0, 3, 2, 1]);
    let positions = tensor("", 7, &[2]).packed(7, &[3, 9]);
    let sparse = |name: &str, indices: &Message| {
        let values = values.clone().bytes(8, name);
        Message::new().message(1, &values).message(2, indices).varint(3, 3).varint(3, 4)
    };
    let graph =
        Message::new().message(15, &sparse("rows", &rows)).message(15, &sparse("positions", &positions));
    let reader = open(model(&graph).build());
    for name in ["rows", "positions"] {
        let object = reader.object(name).unwrap();
        assert_eq!(object.layout, Layout::SparseCoo);
        assert_eq!(*object.shape, [3, 4]);
        let tensor = reader.read_object(name).unwrap();
        assert_eq!(tensor.component("values").unwrap().to_vec::<u8>().unwrap(), [5, 6]);
        assert_eq!(tensor.component("coords").unwrap().to_vec::<u64>().unwrap(), [0, 2, 3, 1], "{name}");
    }
}

#[test]
fn metadata_is_kept() {
    let described = three_floats("weight").bytes(12, "the weight").message(16, &pair("role", "kernel"));
    let bytes = model(&graph(&[described]).bytes(2, "main"))
        .varint(5, -3)
        .message(14, &pair("author", "somebody"))
        .build();
    let reader = open(bytes);
    let attributes = reader.attributes();
    assert_eq!(attributes["ir_version"], Value::Integer(10));
    assert_eq!(attributes["model_version"], Value::Integer(-3));
    assert_eq!(attributes["producer_name"], Value::from("tests"));
    assert_eq!(attributes["graph_name"], Value::from("main"));
    let Value::Map(operators) = &attributes["opset_import"] else { panic!() };
    assert_eq!(operators["ai.onnx"], Value::Integer(21));
    let Value::Map(properties) = &attributes["metadata_props"] else { panic!() };
    assert_eq!(properties["author"], Value::from("somebody"));
    let own = &reader.object("weight").unwrap().attributes;
    assert_eq!(own["doc_string"], Value::from("the weight"));
    assert_eq!(own["role"], Value::from("kernel"));
}

#[test]
fn external_data_is_mapped_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = [0f32, 1.0, 2.0, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/weights.bin"), &bytes).unwrap();
    let location = ("location", "data/weights.bin");
    let model = model_of(&[
        external("all", &[4], &[location]),
        external("part", &[2], &[location, ("offset", "4"), ("length", "8"), ("checksum", "ab")]),
    ]);
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, &model).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(floats(&reader, "all"), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(floats(&reader, "part"), [1.0, 2.0]);
    assert!(reader.component_view("part", "data").unwrap().is_some());
    assert_eq!(reader.sources().len(), 2, "the file is opened once");

    let from_memory = open(model);
    assert_eq!(from_memory.skipped().len(), 2, "memory has no folder");

    std::fs::remove_file(folder.path().join("data/weights.bin")).unwrap();
    assert_eq!(Reader::open(&path).map(drop).map_err(|error: Error| error.kind()), Err(Kind::NotFound));
}

#[test]
fn a_file_that_is_read_in_pieces_gives_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    let large: Vec<u8> = (0..300_000u32).map(|value| value as u8).collect();
    let tensors: Vec<Message> = (0..40)
        .map(|i| raw(&format!("t{i}"), 2, &[300_000 - i], &large[i as usize..]))
        .chain(
            [tensor("integers", 7, &[100_000]).packed(7, &(0..100_000).map(|i| i * i).collect::<Vec<_>>())],
        )
        .collect();
    std::fs::write(&path, model_of(&tensors)).unwrap();
    let options = ztensor::OpenOptions { io: ztensor::Io::Read, ..Default::default() };
    let (mapped, read) = (Reader::open(&path).unwrap(), options.open(&path).unwrap());
    assert_eq!(mapped.len(), 41);
    assert!(mapped.names().eq(read.names()));
    for name in mapped.names() {
        assert!(mapped.bytes(name).unwrap() == read.bytes(name).unwrap(), "{name}");
    }
}

#[test]
fn other_content_is_not_taken_for_a_model() {
    let head = Message::new().varint(1, 10).bytes(2, "tests");
    let notes: &[&[u8]] =
        &[b"\x08", b"\x08\x01", b"\n\n\n\n", b"\x12\x02hi\x12\x02hi", &[0x08; 64], &[0x3A; 64]];
    for bytes in notes.iter().map(|bytes| bytes.to_vec()).chain([head.build()]) {
        let error = Reader::from_bytes(bytes.clone()).map(drop).unwrap_err();
        assert_eq!(error.kind(), Kind::UnknownFormat, "{bytes:?}");
    }
}
