//! The models of `conformance/` as code: each file there must be what its entry here makes. With the environment variable
//! `ZTENSOR_WRITE_CORPUS` set, missing files are written.

use crate::builder::*;
use crate::stored::assert_stored;

/// Every data type but strings, with bits and the typed field that may hold it.
pub const TYPES: &[(i64, u64, u64)] = &[
    (1, 32, 4),
    (2, 8, 5),
    (3, 8, 5),
    (4, 16, 5),
    (5, 16, 5),
    (6, 32, 5),
    (7, 64, 7),
    (9, 8, 5),
    (10, 16, 5),
    (11, 64, 10),
    (12, 32, 11),
    (13, 64, 11),
    (14, 64, 4),
    (15, 128, 10),
    (16, 16, 5),
    (17, 8, 5),
    (18, 8, 5),
    (19, 8, 5),
    (20, 8, 5),
    (21, 4, 5),
    (22, 4, 5),
    (23, 4, 5),
    (24, 8, 5),
    (25, 2, 5),
    (26, 2, 5),
    (27, 6, 5),
    (28, 6, 5),
];

/// Five elements of every type as raw bytes.
pub fn raw_types() -> Vec<u8> {
    let tensors: Vec<Message> = TYPES
        .iter()
        .map(|&(number, bits, _)| {
            let bytes = vec![1; (5 * bits).div_ceil(8) as usize];
            raw(&format!("t{number}"), number, &[5], &bytes)
        })
        .collect();
    model_of(&tensors)
}

/// Three elements of every type in its typed field, packed.
pub fn typed_fields() -> Vec<u8> {
    let tensors: Vec<Message> = TYPES
        .iter()
        .map(|&(number, bits, field)| {
            let empty = tensor(&format!("t{number}"), number, &[3]);
            match field {
                4 | 10 => empty.bytes(field, vec![1; 3 * bits as usize / 8]),
                _ => {
                    let entries = if bits < 6 { (3 * bits).div_ceil(8) } else { 3 };
                    empty.packed(field, &[1, 2, 3][..entries as usize])
                }
            }
        })
        .collect();
    model_of(&tensors)
}

/// One of everything that can hold a tensor.
pub fn everything() -> Vec<u8> {
    let attribute = |name: &str| Message::new().bytes(1, name);
    let indices = tensor("", 7, &[1, 2]).packed(7, &[1, 2]);
    let positions = tensor("", 7, &[2]).packed(7, &[1, 5]);
    let sparse = |name: &str, count: i64, indices: &Message| {
        let values = raw(name, 2, &[count], &vec![9; count as usize]);
        Message::new().message(1, &values).message(2, indices).packed(3, &[2, 3])
    };
    let inner = graph(&[three_floats("w")])
        .message(1, &node("Constant", "c", &attribute("value_floats").float(7, 1.0).float(7, 2.0)));
    let main = graph(&[three_floats("w"), tensor("texts", 8, &[1]).bytes(6, "text")])
        .message(15, &sparse("rows", 1, &indices))
        .message(15, &sparse("positions", 2, &positions))
        .message(1, &node("If", "y", &attribute("then_branch").message(6, &inner)))
        .message(
            1,
            &node(
                "Custom",
                "z",
                &attribute("many").message(10, &three_floats("")).message(10, &three_floats("")),
            ),
        )
        .message(1, &node("Constant", "k", &attribute("sparse_value").message(22, &sparse("", 1, &indices))))
        .bytes(2, "main");
    let function = attribute("f")
        .bytes(10, "d")
        .message(7, &node("Constant", "c", &attribute("value_int").varint(3, 5)));
    model(&main).message(25, &function).message(14, &pair("key", "value")).build()
}

fn valid() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("raw-types", raw_types()),
        ("typed-fields", typed_fields()),
        ("everything", everything()),
        ("no-tensors", model(&graph(&[]).bytes(2, "empty")).build()),
    ]
}

fn reject() -> Vec<(&'static str, Vec<u8>)> {
    let one = |tensor: Message| model_of(&[tensor]);
    let sparse = |values: Message, indices: Message, shape: &[i64]| {
        let sparse = Message::new().message(1, &values).message(2, &indices).packed(3, shape);
        model(&Message::new().message(15, &sparse)).build()
    };
    let bytes = |count: i64| raw("s", 2, &[count], &vec![1; count as usize]);
    let outside = |location: &str| one(external("a", &[1], &[("location", location)]));
    let two = |first: Message, second: Message| model_of(&[first, second]);
    let int64s = |dimensions: &[i64], values: &[i64]| tensor("", 7, dimensions).packed(7, values);
    let constant =
        |attribute: Message| model(&Message::new().message(1, &node("Constant", "c", &attribute))).build();
    vec![
        ("varint-too-long", Message::new().varint(1, 10).garbage(&[0x28]).garbage(&[0xFF; 11]).build()),
        ("field-past-file", Message::new().varint(1, 10).announced(7, 1000, [0x2A, 0x00]).build()),
        ("field-past-message", model(&Message::new().announced(5, 200, [0x08, 0x01])).build()),
        ("length-2-to-64", model(&Message::new().announced(5, u64::MAX, [])).build()),
        ("wire-type-group", model(&Message::new().garbage(&[0x0B, 0x0C])).build()),
        ("field-number-zero", model(&Message::new().garbage(&[0x02, 0x00])).build()),
        ("graph-is-a-number", Message::new().varint(1, 10).varint(7, 1).build()),
        ("name-not-utf8", one(raw("", 2, &[1], &[1]).bytes(8, [0xFF]))),
        ("name-twice", two(three_floats("a"), three_floats("a"))),
        ("dimension-negative", one(raw("a", 2, &[-1], &[1]))),
        ("elements-overflow", one(raw("a", 2, &[1 << 40, 1 << 40], &[1]))),
        ("elements-overflow-beside-zero", one(raw("a", 2, &[0, 1 << 40, 1 << 40], &[]))),
        ("bytes-overflow", one(raw("a", 15, &[1 << 61], &[]))),
        ("raw-too-short", one(raw("a", 1, &[2], &[0; 7]))),
        ("raw-too-long", one(raw("a", 1, &[2], &[0; 9]))),
        ("data-missing", one(tensor("a", 1, &[2]))),
        ("floats-not-whole", one(tensor("a", 1, &[2]).bytes(4, [0; 7]))),
        ("floats-as-varints", one(tensor("a", 1, &[1]).varint(4, 1))),
        ("integers-as-floats", one(tensor("a", 6, &[1]).float(5, 1.0))),
        ("varints-too-few", one(tensor("a", 6, &[3]).packed(5, &[1, 2]))),
        ("varints-too-many", one(tensor("a", 6, &[2]).packed(5, &[1, 2, 3]))),
        ("varints-unfinished", one(tensor("a", 6, &[2]).bytes(5, [0x01, 0x80]))),
        ("varints-for-2-to-40-elements", one(tensor("a", 7, &[1 << 40]).packed(7, &[1]))),
        ("six-bit-code-too-wide", one(tensor("a", 27, &[2]).packed(5, &[200, 1]))),
        ("external-parent", outside("../weights.bin")),
        ("external-parent-inside", outside("data/../../weights.bin")),
        ("external-absolute", outside("/etc/passwd")),
        ("external-nul", outside("weights\0.bin")),
        ("external-backslash", outside("..\\weights.bin")),
        ("external-empty", outside("")),
        ("external-missing", outside("there-is-no-such-file.bin")),
        ("external-directory", outside(".")),
        ("external-without-location", one(external("a", &[1], &[("offset", "0")]))),
        (
            "external-offset-beyond-file",
            one(external("a", &[1], &[("location", "raw-too-short.onnx"), ("offset", "100000")])),
        ),
        (
            "external-offset-overflows",
            one(external(
                "a",
                &[1],
                &[("location", "raw-too-short.onnx"), ("offset", "18446744073709551615")],
            )),
        ),
        (
            "external-offset-not-a-number",
            one(external("a", &[1], &[("location", "raw-too-short.onnx"), ("offset", "-1")])),
        ),
        (
            "external-length-wrong",
            one(external("a", &[1], &[("location", "raw-too-short.onnx"), ("length", "5")])),
        ),
        ("sparse-without-dimensions", sparse(bytes(1), int64s(&[1], &[0]), &[])),
        ("sparse-more-values-than-elements", sparse(bytes(3), int64s(&[3], &[0, 1, 2]), &[2])),
        ("sparse-indices-of-another-count", sparse(bytes(2), int64s(&[3], &[0, 1, 2]), &[9])),
        ("sparse-indices-of-another-rank", sparse(bytes(1), int64s(&[1, 3], &[0, 1, 2]), &[2, 2])),
        ("sparse-indices-not-int64", sparse(bytes(1), raw("", 2, &[1], &[0]), &[2])),
        ("sparse-position-outside", sparse(bytes(1), int64s(&[1], &[4]), &[2, 2])),
        ("sparse-values-not-a-list", sparse(raw("s", 2, &[1, 1], &[1]), int64s(&[1], &[0]), &[2])),
        ("constant-without-value", constant(Message::new().bytes(1, "value"))),
        ("constant-float-as-integer", constant(Message::new().bytes(1, "value_float").varint(2, 1))),
        ("graphs-nested-too-deep", nested(80)),
    ]
}

/// A model with graphs in graphs.
pub fn nested(depth: usize) -> Vec<u8> {
    let deepest = graph(&[three_floats("w")]);
    let graph = (0..depth).fold(deepest, |inner, _| {
        let branch = Message::new().bytes(1, "b").message(6, &inner);
        Message::new().message(1, &node("If", "y", &branch))
    });
    model(&graph).build()
}

#[test]
fn the_corpus_is_what_it_is_meant_to_be() {
    for (kind, files) in [("valid", valid()), ("reject", reject())] {
        let files = files.iter().map(|(name, bytes)| (format!("{name}.onnx"), bytes.as_slice()));
        assert_stored(&format!("{kind}/onnx"), files);
    }
}
