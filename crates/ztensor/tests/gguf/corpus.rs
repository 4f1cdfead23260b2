//! The files of `conformance/` that this format has, as code: each file there must be what its entry here makes. With the environment
//! variable `ZTENSOR_WRITE_CORPUS` set, missing files are written.

use crate::builder::{Builder, Meta, Order, noise};
use crate::stored::assert_stored;

/// ggml's number, bytes and elements of every block type.
pub const BLOCK_TYPES: &[(u32, &str, usize, usize)] = &[
    (2, "q4_0", 18, 32),
    (3, "q4_1", 20, 32),
    (6, "q5_0", 22, 32),
    (7, "q5_1", 24, 32),
    (8, "q8_0", 34, 32),
    (9, "q8_1", 36, 32),
    (10, "q2_k", 84, 256),
    (11, "q3_k", 110, 256),
    (12, "q4_k", 144, 256),
    (13, "q5_k", 176, 256),
    (14, "q6_k", 210, 256),
    (15, "q8_k", 292, 256),
    (16, "iq2_xxs", 66, 256),
    (17, "iq2_xs", 74, 256),
    (18, "iq3_xxs", 98, 256),
    (19, "iq1_s", 50, 256),
    (20, "iq4_nl", 18, 32),
    (21, "iq3_s", 110, 256),
    (22, "iq2_s", 82, 256),
    (23, "iq4_xs", 136, 256),
    (29, "iq1_m", 56, 256),
    (34, "tq1_0", 54, 256),
    (35, "tq2_0", 66, 256),
    (39, "mxfp4", 17, 32),
    (40, "nvfp4", 36, 64),
    (41, "q1_0", 18, 128),
    (42, "q2_0", 18, 64),
];

/// ggml's number, width and name of every plain type.
pub const PLAIN_TYPES: &[(u32, usize, &str)] = &[
    (0, 4, "float32"),
    (1, 2, "float16"),
    (24, 1, "int8"),
    (25, 2, "int16"),
    (26, 4, "int32"),
    (27, 8, "int64"),
    (28, 8, "float64"),
    (30, 2, "bfloat16"),
];

pub fn little() -> Builder {
    Builder::new(Order::Little)
}

/// One tensor of each plain type: a 2 × 3 matrix counting up.
pub fn plain_types(order: Order) -> Builder {
    PLAIN_TYPES.iter().fold(Builder::new(order), |builder, &(number, width, name)| {
        let elements = (1..=6u64).flat_map(|value| {
            let mut element = value.to_le_bytes()[..width].to_vec();
            if order == Order::Big {
                element.reverse();
            }
            element
        });
        builder.tensor(name, &[3, 2], number, &elements.collect::<Vec<u8>>())
    })
}

/// Two rows of one block of each block type.
pub fn block_types(order: Order) -> Builder {
    BLOCK_TYPES.iter().fold(Builder::new(order), |builder, &(number, name, bytes, elements)| {
        builder.tensor(name, &[elements as u64, 2], number, &noise(number.into(), 2 * bytes))
    })
}

/// One value of each type.
pub fn metadata(order: Order) -> Builder {
    let words = || vec![Meta::Text(b"a"), Meta::Text(b""), Meta::Text(b"\xff\xfe")];
    Builder::new(order)
        .pair("u8", Meta::U8(200))
        .pair("i8", Meta::I8(-100))
        .pair("u16", Meta::U16(60_000))
        .pair("i16", Meta::I16(-30_000))
        .pair("u32", Meta::U32(4_000_000_000))
        .pair("i32", Meta::I32(-2_000_000_000))
        .pair("f32", Meta::F32(0.1))
        .pair("bool", Meta::Bool(1))
        .pair("text", Meta::Text("schön".as_bytes()))
        .pair("u64", Meta::U64(u64::MAX))
        .pair("i64", Meta::I64(i64::MIN))
        .pair("f64", Meta::F64(0.1))
        .pair("bytes", Meta::Array(0, 3, vec![Meta::U8(1), Meta::U8(2), Meta::U8(3)]))
        .pair("numbers", Meta::Array(3, 2, vec![Meta::I16(-1), Meta::I16(2)]))
        .pair("words", Meta::Array(8, 3, words()))
        .pair("nested", Meta::Array(9, 2, vec![Meta::Array(8, 3, words()), Meta::Array(6, 0, vec![])]))
        .pair("empty", Meta::Array(8, 0, vec![]))
}

/// One of the parts of a split model.
pub fn part(number: u16, count: u16, tensors: i32) -> Builder {
    little()
        .pair("split.no", Meta::U16(number))
        .pair("split.count", Meta::U16(count))
        .pair("split.tensors.count", Meta::I32(tensors))
        .pair(&format!("only.in.{number}"), Meta::U16(number))
        .tensor(&format!("tensor.{number}"), &[2], 24, &[number as u8, 7])
}

fn valid() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("plain-types-little", plain_types(Order::Little).build()),
        ("plain-types-big", plain_types(Order::Big).build()),
        ("block-types-little", block_types(Order::Little).build()),
        ("block-types-big", block_types(Order::Big).build()),
        ("metadata-little", metadata(Order::Little).build()),
        ("metadata-big", metadata(Order::Big).build()),
        ("version-2", Builder { version: 2, ..plain_types(Order::Little) }.build()),
        ("no-tensors", little().build()),
        ("scalar", little().tensor("scalar", &[], 0, &1f32.to_le_bytes()).build()),
        ("empty", little().tensor("empty", &[0, 3], 0, &[]).tensor("after", &[1], 24, &[1]).build()),
        (
            "no-last-padding",
            Builder { last_padding: false, ..little().tensor("a", &[5], 24, &[1; 5]) }.build(),
        ),
        (
            "alignment-64",
            Builder { alignment: 64, ..little() }
                .pair("general.alignment", Meta::U32(64))
                .tensor("a", &[5], 24, &[1; 5])
                .tensor("b", &[5], 24, &[2; 5])
                .build(),
        ),
        ("unknown-type", little().tensor("a", &[5], 99, &[1; 5]).tensor("b", &[5], 24, &[2; 5]).build()),
        ("split-00001-of-00002", part(0, 2, 2).build()),
        ("split-00002-of-00002", part(1, 2, 2).build()),
    ]
}

fn reject() -> Vec<(&'static str, Vec<u8>)> {
    const HUGE: u64 = 1 << 60;
    let byte = |name: &str| little().tensor(name, &[1], 24, &[1]);
    let aligned = |value: Meta<'_>| byte("a").pair("general.alignment", value).build();
    let at = |offset| byte("a").raw_tensor(b"b", &[1], 24, &[1], Some(offset)).build();
    let shape = |dimensions: &[u64]| little().tensor("a", dimensions, 0, &[0; 4]).build();
    let mut truncated = plain_types(Order::Little).build();
    truncated.truncate(100);
    let mut data_cut = byte("a").tensor("b", &[64], 24, &[1; 64]).build();
    data_cut.truncate(data_cut.len() - 1);
    vec![
        ("version-1", Builder { version: 1, ..byte("a") }.build()),
        ("version-4", Builder { version: 4, ..byte("a") }.build()),
        ("header-truncated", truncated),
        ("data-truncated", data_cut),
        ("metadata-count-huge", Builder { pair_count: HUGE, ..byte("a") }.build()),
        ("tensor-count-huge", Builder { tensor_count: Some(HUGE), ..byte("a") }.build()),
        ("array-count-huge", byte("a").pair("list", Meta::Array(8, HUGE, vec![])).build()),
        ("array-count-overflows", byte("a").pair("list", Meta::Array(10, u64::MAX, vec![])).build()),
        ("key-twice", byte("a").pair("k", Meta::U8(1)).pair("k", Meta::U8(2)).build()),
        ("key-not-utf8", byte("a").raw_key(b"\xff").build()),
        ("value-type-unknown", byte("a").pair("k", Meta::Type(13)).build()),
        ("array-type-unknown", byte("a").pair("k", Meta::Array(13, 0, vec![])).build()),
        ("boolean-neither", byte("a").pair("k", Meta::Bool(2)).build()),
        ("alignment-zero", aligned(Meta::U32(0))),
        ("alignment-not-power-of-two", aligned(Meta::U32(48))),
        ("alignment-text", aligned(Meta::Text(b"32"))),
        ("name-twice", byte("a").tensor("a", &[1], 24, &[2]).build()),
        ("name-too-long", byte(&"n".repeat(64)).build()),
        ("name-not-utf8", little().raw_tensor(b"\xff", &[1], 24, &[1], None).build()),
        ("dimensions-five", shape(&[1, 1, 1, 1, 1])),
        ("dimension-negative", shape(&[u64::MAX, 0])),
        ("elements-overflow", shape(&[1 << 40, 1 << 40])),
        ("elements-overflow-beside-zero", shape(&[0, 1 << 40, 1 << 40])),
        ("bytes-overflow", shape(&[(1 << 62) - 1, 2])),
        ("row-not-whole-blocks", little().tensor("a", &[33], 2, &[0; 18]).build()),
        ("offset-unaligned", at(1)),
        ("offset-overlaps", at(0)),
        ("offset-leaves-hole", at(64)),
        ("offset-overflows", at(u64::MAX)),
        (
            "offset-before-unknown-type",
            byte("a").tensor("b", &[1], 99, &[1]).raw_tensor(b"c", &[1], 24, &[1], Some(0)).build(),
        ),
        (
            "split-number-beyond-count",
            little().pair("split.count", Meta::U16(2)).pair("split.no", Meta::U16(2)).build(),
        ),
        ("split-without-number", little().pair("split.count", Meta::U16(2)).build()),
        ("split-part-missing-00001-of-00002", part(0, 2, 2).build()),
        ("split-name-not-numbered", part(0, 2, 2).build()),
        ("split-mislabelled-00001-of-00002", part(0, 2, 2).build()),
        ("split-mislabelled-00002-of-00002", part(0, 2, 2).build()),
        ("split-tensors-missing-00001-of-00002", part(0, 2, 3).build()),
        ("split-tensors-missing-00002-of-00002", part(1, 2, 3).build()),
    ]
}

#[test]
fn the_corpus_is_what_it_is_meant_to_be() {
    for (kind, files) in [("valid", valid()), ("reject", reject())] {
        let files = files.iter().map(|(name, bytes)| (format!("{name}.gguf"), bytes.as_slice()));
        assert_stored(&format!("{kind}/gguf"), files);
    }
}
