//! What right files read as.

use ztensor::index::Data;
use ztensor::{Io, Layout, OpenOptions, Reader, Value};

use crate::builder::*;
use crate::corpus::{arrangements, legacy_root, sparse_archive};

fn open(root: Expression, storages: &[(&str, &[u8])]) -> Reader {
    Reader::from_bytes(archive(root, storages)).unwrap()
}

fn names(reader: &Reader) -> Vec<&str> {
    reader.names().collect()
}

fn skipped(reader: &Reader) -> Vec<&str> {
    reader.skipped().iter().map(|skipped| skipped.name.as_str()).collect()
}

#[test]
fn views_of_a_storage_read_as_their_elements() {
    let reader = open(arrangements(), &[("0", &counting(6)), ("1", b"")]);
    let expected: [(&str, &[u64], &[f32]); 9] = [
        ("plain", &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        ("tied", &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        ("transposed", &[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]),
        ("row", &[3], &[3.0, 4.0, 5.0]),
        ("column", &[2], &[1.0, 4.0]),
        ("expanded", &[2, 2], &[2.0, 3.0, 2.0, 3.0]),
        ("scalar", &[], &[5.0]),
        ("empty", &[0, 3], &[]),
        ("parameter", &[6], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
    ];
    assert_eq!(reader.len(), expected.len());
    for (name, shape, values) in expected {
        assert_eq!(*reader.object(name).unwrap().shape, *shape, "{name}");
        assert_eq!(reader.read_as::<f32>(name).unwrap(), values, "{name}");
        assert!(reader.component_view(name, "data").unwrap().is_some(), "{name} can be borrowed");
    }
    assert_eq!(reader.attributes()["epoch"], Value::Integer(7));
    assert_eq!(reader.index().version, "3");
    assert_eq!(reader.format().name(), "pickle");
}

#[test]
fn a_tensor_under_two_names_is_one_range() {
    let reader = open(arrangements(), &[("0", &counting(6)), ("1", b"")]);
    let span = |name: &str| match reader.object(name).unwrap().components[0].1.data {
        Data::Raw(span) => span,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(span("plain"), span("tied"));
}

#[test]
fn names_are_the_keys_and_positions_joined_by_dots() {
    let weight = || floats("0", &[6]);
    let state = [b"(".to_vec(), integer(0), dict(&[("exp_avg", weight())]), b"d".to_vec()].concat();
    let root = dict(&[
        ("state_dict", dict(&[("layer.weight", weight())])),
        (
            "optimizer",
            dict(&[
                ("state", state),
                ("param_groups", list(&[dict(&[("lr", float(0.5)), ("params", numbers(&[0, 1]))])])),
            ]),
        ),
        ("extra", list(&[weight(), tuple(&[weight()])])),
        ("name", text("run 7")),
        ("best", none()),
    ]);
    let reader = open(root, &[("0", &counting(6))]);
    assert_eq!(
        names(&reader),
        ["state_dict.layer.weight", "optimizer.state.0.exp_avg", "extra.0", "extra.1.0"]
    );
    let attributes = reader.attributes();
    assert_eq!(attributes["optimizer.param_groups.0.lr"], Value::Float(0.5));
    assert_eq!(
        attributes["optimizer.param_groups.0.params"],
        Value::List(vec![Value::Integer(0), Value::Integer(1)])
    );
    assert_eq!(attributes["name"], Value::from("run 7"));
    assert_eq!(attributes["best"], Value::Null);
}

#[test]
fn a_bare_tensor_has_a_name() {
    let reader = open(floats("0", &[6]), &[("0", &counting(6))]);
    assert_eq!(names(&reader), ["tensor"]);
}

#[test]
fn a_pickled_module_gives_the_names_of_its_state_dict() {
    let inner = object(
        "torch.nn.modules.linear",
        "Linear",
        dict(&[
            ("training", boolean(true)),
            ("_parameters", dict(&[("weight", floats("0", &[6])), ("bias", none())])),
            ("_buffers", dict(&[("mask", floats("0", &[3]))])),
            ("_modules", dict(&[])),
        ]),
    );
    let outer = object(
        "my_package",
        "Net",
        dict(&[("_parameters", dict(&[])), ("_modules", dict(&[("fc", inner)]))]),
    );
    let reader = open(outer, &[("0", &counting(6))]);
    assert_eq!(names(&reader), ["fc.weight", "fc.mask"]);
    assert!(reader.attributes().is_empty());
}

#[test]
fn typed_tensors_bring_their_dtype_and_metadata_flips_signs() {
    let untyped = || {
        [
            tuple(&[
                text("storage"),
                global("torch.storage", "UntypedStorage"),
                text("0"),
                text("cpu"),
                integer(16),
            ]),
            b"Q".to_vec(),
        ]
        .concat()
    };
    let typed = |dtype: &str, shape: i64, metadata: &[(&str, Expression)]| {
        let arguments = [
            untyped(),
            integer(0),
            numbers(&[shape]),
            numbers(&[1]),
            boolean(false),
            none(),
            global("torch", dtype),
            dict(metadata),
        ];
        call("torch._utils", "_rebuild_tensor_v3", &arguments)
    };
    let root = dict(&[
        ("fp8", typed("float8_e5m2", 16, &[])),
        ("conjugated", typed("complex64", 2, &[("conj", boolean(true))])),
        ("negated", typed("float32", 4, &[("neg", boolean(true))])),
        ("int3", typed("int3", 16, &[])),
        ("fp4", typed("float4_e2m1fn_x2", 16, &[])),
    ]);
    let reader = open(root, &[("0", &counting(4))]);
    let element = |name: &str| reader.object(name).unwrap().components[0].1.element.to_string();
    assert_eq!(element("fp8"), "f8_e5m2");
    assert_eq!(element("conjugated"), "complex64");
    assert_eq!(*reader.object("fp4").unwrap().shape, [32]);
    assert_eq!(skipped(&reader), ["int3"]);
    let floats = |name: &str| -> Vec<f32> {
        reader.bytes(name).unwrap().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    assert_eq!(floats("conjugated"), [0.0, -1.0, 2.0, -3.0]);
    assert_eq!(floats("negated"), [0.0, -1.0, -2.0, -3.0]);
}

#[test]
fn big_endian_storages_are_turned_round() {
    let bytes: Vec<u8> = (0..6).flat_map(|value| (value as f32).to_be_bytes()).collect();
    let file = archive_in("big", arrangements(), &[("0", &bytes), ("1", b"")]);
    let reader = Reader::from_bytes(file).unwrap();
    assert_eq!(reader.read_as::<f32>("transposed").unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(reader.read_as::<f32>("row").unwrap(), [3.0, 4.0, 5.0]);
}

#[test]
fn sparse_tensors_keep_their_parts() {
    let reader = Reader::from_bytes(sparse_archive()).unwrap();
    let part = |name: &str, role: &str| reader.component_bytes(name, role).unwrap().into_owned();
    let longs = |values: &[u64]| -> Vec<u8> { values.iter().flat_map(|value| value.to_le_bytes()).collect() };
    let coo = reader.object("coo").unwrap();
    assert_eq!((&coo.layout, &*coo.shape), (&Layout::SparseCoo, &[2, 3][..]));
    assert_eq!(part("coo", "coords"), longs(&[0, 1, 2, 0]));
    assert_eq!(part("coo", "values"), counting(2));
    assert_eq!(reader.object("csr").unwrap().layout, Layout::SparseCsr);
    assert_eq!(part("csr", "indptr"), longs(&[0, 1, 2]));
    assert_eq!(part("csr", "indices"), longs(&[2, 0]));
}

#[test]
fn quantised_tensors_are_integers_with_their_scale() {
    let bytes = || storage("QInt8Storage", "0", 4);
    let quantised = |quantizer: Expression| {
        let arguments =
            [bytes(), integer(0), numbers(&[2, 2]), numbers(&[2, 1]), quantizer, boolean(false), none()];
        call("torch._utils", "_rebuild_qtensor", &arguments)
    };
    let whole = tuple(&[global("torch", "per_tensor_affine"), float(0.5), integer(3)]);
    let doubles = tensor(storage("DoubleStorage", "1", 2), 0, &[2], &[1]);
    let longs = tensor(storage("LongStorage", "2", 2), 0, &[2], &[1]);
    let channels = tuple(&[global("torch", "per_channel_affine"), doubles, longs, integer(0)]);
    let root = dict(&[("whole", quantised(whole)), ("channels", quantised(channels))]);
    let reader = open(root, &[("0", &[1, 2, 3, 0xFF]), ("1", &[0; 16]), ("2", &[0; 16])]);
    let object = reader.object("whole").unwrap();
    assert_eq!(object.layout.name(), "torch.quantized/1");
    assert_eq!(object.attributes["scale"], Value::Float(0.5));
    assert_eq!(object.attributes["zero_point"], Value::Integer(3));
    assert_eq!(*reader.component_bytes("whole", "data").unwrap(), [1, 2, 3, 0xFF]);
    let roles: Vec<&str> =
        reader.object("channels").unwrap().components.iter().map(|(role, _)| role.as_ref()).collect();
    assert_eq!(roles, ["data", "scales", "zeros"]);
}

#[test]
fn what_is_not_read_is_listed_and_its_parts_are() {
    let meta = call(
        "torch._utils",
        "_rebuild_meta_tensor_no_storage",
        &[global("torch", "float32"), numbers(&[2]), numbers(&[1]), boolean(false)],
    );
    let function = global("torch._utils", "_rebuild_wrapper_subclass");
    let wrapper = call(
        "torch._tensor",
        "_rebuild_from_type_v2",
        &[
            function,
            global("torchao", "Subclass"),
            tuple(&[global("torchao", "Subclass"), global("torch", "float32")]),
            dict(&[("inner", floats("0", &[6]))]),
        ],
    );
    let reader = open(dict(&[("meta", meta), ("wrapped", wrapper)]), &[("0", &counting(6))]);
    assert_eq!(skipped(&reader), ["meta", "wrapped"]);
    assert_eq!(reader.len(), 1);
    let error = reader.bytes("meta").unwrap_err();
    assert!(error.message().contains("meta tensor"), "{error}");
}

#[test]
fn names_that_collide_are_told_apart() {
    let root = dict(&[("a", dict(&[("b", floats("0", &[6]))])), ("a.b", floats("0", &[3]))]);
    let reader = open(root, &[("0", &counting(6))]);
    assert_eq!(names(&reader), ["a.b", "a.b#2"]);
    assert_eq!(reader.object("a.b#2").unwrap().shape.to_vec(), [3]);
    assert!(skipped(&reader).is_empty());
}

#[test]
fn legacy_streams_and_parts_of_their_storages_are_read() {
    let reader = Reader::from_bytes(legacy(legacy_root(none()), &[("7", 6, &counting(6))])).unwrap();
    assert_eq!(reader.view_as::<f32>("weight").ok().map(<[f32]>::len).unwrap_or(4), 4);
    assert_eq!(reader.read_as::<f32>("weight").unwrap(), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(reader.index().version, "legacy");
    let part = tuple(&[text("8"), integer(2), integer(4)]);
    let reader = Reader::from_bytes(legacy(legacy_root(part), &[("7", 6, &counting(6))])).unwrap();
    assert_eq!(reader.read_as::<f32>("weight").unwrap(), [2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn a_file_that_is_not_mapped_is_read_in_growing_windows() {
    let long = text(&"x".repeat(3 << 20));
    let root = dict(&[
        ("note", long),
        ("weight", tensor(legacy_storage("FloatStorage", "7", 6, none()), 0, &[6], &[1])),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pt");
    std::fs::write(&path, legacy(root, &[("7", 6, &counting(6))])).unwrap();
    let reader = OpenOptions { io: Io::Read, ..OpenOptions::default() }.open(&path).unwrap();
    assert_eq!(reader.read_as::<f32>("weight").unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn torchscript_constants_have_the_names_of_its_code() {
    let pickle = document(object("__torch__", "Model", dict(&[("weight", floats("0", &[6]))])));
    let constants = document(tuple(&[floats("0", &[2])]));
    let file = zip(&[
        ("m/data/0", &counting(6)),
        ("m/data.pkl", &pickle),
        ("m/code/__torch__.py", b"import os"),
        ("m/constants/0", &counting(2)),
        ("m/constants.pkl", &constants),
    ]);
    let reader = Reader::from_bytes(file).unwrap();
    assert_eq!(names(&reader), ["weight", "CONSTANTS.c0"]);
}
