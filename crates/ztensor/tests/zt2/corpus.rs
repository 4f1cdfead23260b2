//! The files of `conformance/` that this format has, as code: each file there must be what its entry here makes. With the environment
//! variable `ZTENSOR_WRITE_CORPUS` set, missing files are written.

use crate::builder::*;
use crate::stored::assert_stored;

pub const MAGIC: [u8; 8] = *b"\x89ZT2\r\n\x1a\n";
/// Where the footer's fields lie, counted from the end of the file.
const FOOTER_OFFSET: usize = 40;
const FOOTER_LENGTH: usize = 32;
const FOOTER_HASH: usize = 24;
const FOOTER_VERSION: usize = 16;

type Files = Vec<(&'static str, Vec<u8>)>;

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// One tensor of four bytes, its part changed.
fn one(change: impl FnOnce(Item) -> Item) -> Vec<u8> {
    let mut builder = Builder::new();
    let part = change(builder.part("u8", &[1, 2, 3, 4]));
    builder.dense("a", &[4], part);
    builder.finish()
}

/// One tensor of some type, shape and bytes.
fn typed(dtype: &str, logical: Option<&str>, shape: &[u64], bytes: &[u8]) -> Vec<u8> {
    let mut builder = Builder::new();
    let part = builder.part(dtype, bytes).with("type", logical.map(text));
    builder.dense("a", shape, part);
    builder.finish()
}

/// A manifest of one page, and a tensor that claims the first bytes of the footer behind it.
fn in_footer() -> Vec<u8> {
    let padded = |length: usize| {
        let mut builder = Builder::new();
        let part = builder.part("u8", &[1, 2, 3, 4]).with("blob", Some(numbers(&[3 * 4096, 4])));
        builder.dense("a", &[4], part);
        builder.root.push(("attributes", map(&[("padding", text(&"p".repeat(length)))])));
        builder.finish()
    };
    let is_page = |file: &Vec<u8>| file[file.len() - FOOTER_LENGTH..][..8] == 4096u64.to_le_bytes();
    (3900..4096).map(padded).find(is_page).unwrap()
}

/// One tensor of four bytes, its object changed.
fn described(change: impl FnOnce(Item) -> Item) -> Vec<u8> {
    let mut builder = Builder::new();
    let part = builder.part("u8", &[1, 2, 3, 4]);
    let object =
        map(&[("shape", numbers(&[4])), ("layout", text("dense")), ("parts", map(&[("data", part)]))]);
    builder.object("a", change(object));
    builder.finish()
}

/// A sparse matrix of two rows and three columns.
fn rows(indptr: &[u64], indices: &[u64], values: usize) -> Vec<u8> {
    let mut builder = Builder::new();
    let parts = map(&[
        ("indptr", builder.part("u64", &words(indptr))),
        ("indices", builder.part("u64", &words(indices))),
        ("values", builder.part("u8", &vec![7; values])),
    ]);
    sparse(builder, "zt.sparse_csr/1", &[2, 3], parts)
}

/// A sparse tensor of two by three.
fn coordinates(coords: &[u64], values: usize) -> Vec<u8> {
    let mut builder = Builder::new();
    let parts = map(&[
        ("coords", builder.part("u64", &words(coords))),
        ("values", builder.part("u8", &vec![7; values])),
    ]);
    sparse(builder, "zt.sparse_coo/1", &[2, 3], parts)
}

fn sparse(mut builder: Builder, layout: &str, shape: &[u64], parts: Item) -> Vec<u8> {
    builder.object("s", map(&[("shape", numbers(shape)), ("layout", text(layout)), ("parts", parts)]));
    builder.finish()
}

/// Indices whose types can be chosen; all of them are zero.
fn indices_of(indices: (&str, Option<&str>, usize), indptr: (&str, usize)) -> Vec<u8> {
    let mut builder = Builder::new();
    let parts = map(&[
        ("indptr", builder.part(indptr.0, &vec![0; indptr.1])),
        ("indices", builder.part(indices.0, &vec![0; indices.2]).with("type", indices.1.map(text))),
        ("values", builder.part("u8", &[])),
    ]);
    sparse(builder, "zt.sparse_csr/1", &[1, 3], parts)
}

/// A tensor in the seekable encoding.
fn encoded(stream: &[u8], length: u64) -> Vec<u8> {
    let mut builder = Builder::new();
    let part = builder.part("u8", stream);
    let part = part
        .with("encoding", Some(text("zt.zstd-seekable/1")))
        .with("decoded_length", Some(Item::Number(length)));
    builder.dense("a", &[length], part);
    builder.finish()
}

/// A file with an attribute of any bytes.
fn attribute(value: Vec<u8>) -> Vec<u8> {
    let mut builder = Builder::new();
    builder.root.push(("attributes", map(&[("k", Item::Raw(value))])));
    builder.finish()
}

/// A good file with some of its footer changed.
fn footer(from_end: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = one(|part| part);
    let at = bytes.len() - from_end;
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes
}

fn valid() -> Files {
    let mut tied = Builder::new();
    let part = tied.part("u8", &[1, 2, 3, 4]);
    tied.dense("a", &[4], part.clone());
    tied.dense("b", &[2, 2], part);
    let mut unknown = Builder::new();
    let odd = unknown.part("u8", &[9; 5]);
    let odd = odd.with("encoding", Some(text("else.where/1"))).with("decoded_length", Some(Item::Number(8)));
    unknown.dense("encoded", &[8], odd);
    let part = unknown.part("u8", &[1, 2, 3, 4]);
    unknown.dense("plain", &[4], part);
    vec![
        ("plain", one(|part| part)),
        ("tied", tied.finish()),
        ("no-tensors", Builder::new().finish()),
        ("boolean", typed("u8", Some("bool"), &[3], &[0, 1, 1])),
        ("four-bits-odd", typed("u8", Some("f4_e2m1"), &[3], &[0x21, 0x03])),
        ("complex", typed("f32", Some("complex64"), &[1], &[0; 8])),
        ("unknown-encoding", unknown.finish()),
        ("unknown-layout", described(|object| object.with("layout", Some(text("else.where/1"))))),
        ("unknown-field", described(|object| object.with("note", Some(text("ignored"))))),
        ("rows", rows(&[0, 1, 3], &[2, 0, 1], 3)),
        ("rows-narrow", indices_of(("u32", None, 0), ("u32", 8))),
        ("coordinates", coordinates(&[0, 1, 2, 0], 2)),
        ("seekable", encoded(&seekable(&[(b"ab", 2, true), (b"cd", 2, true), (b"e", 1, true)]), 5)),
        ("attributes", attribute(map(&[("nested", numbers(&[1, 2]))]).encode())),
    ]
}

fn reject() -> Files {
    let number = |value: u64| Some(Item::Number(value));
    let blob =
        |offset: u64, length: u64| move |part: Item| part.with("blob", Some(numbers(&[offset, length])));
    let mut overlapping = Builder::new();
    overlapping.blob(&[0; 8192]);
    let over = |place: &[u64]| map(&[("dtype", text("u8")), ("blob", numbers(place))]);
    overlapping.dense("a", &[8192], over(&[4096, 8192]));
    overlapping.dense("b", &[4096], over(&[8192, 4096]));
    let mut overflowing = Builder::new();
    overflowing.dense("a", &[8192], over(&[u64::MAX - 4095, 8192]));
    let mut hidden = Builder::new();
    let outside =
        over(&[1 << 40, 8]).with("encoding", Some(text("else.where/1"))).with("decoded_length", number(8));
    hidden.dense("a", &[8], outside);
    let raw = |manifest: &[u8]| finish(MAGIC.to_vec(), manifest);
    let nested = |levels: usize| [vec![0x81; levels], vec![0x80]].concat();
    let frames = seekable(&[(b"ab", 2, true), (b"cd", 2, true)]);
    let damaged = |from_end: usize, byte: u8| {
        let mut stream = frames.clone();
        let at = stream.len() - from_end;
        stream[at] = byte;
        encoded(&stream, 4)
    };
    let mut bit = frames.clone();
    bit[9] ^= 1;
    let shard = |name: &str, entry: &[(&str, Item)]| {
        let mut builder = Builder::new();
        builder.root.push(("shards", map(&[(name, map(entry))])));
        builder.finish()
    };
    let identity = [("size", Item::Number(4096)), ("digest", text("xxh3:0000000000000000"))];
    let named = |name: &str| {
        let mut builder = Builder::new();
        let part = builder.part("u8", &[1]);
        builder.dense(name, &[1], part);
        builder.finish()
    };
    let mut cut = one(|part| part);
    cut.pop();
    vec![
        ("cut-off", cut),
        ("too-short", MAGIC.to_vec()),
        ("version-3", footer(FOOTER_VERSION, &3u32.to_le_bytes())),
        ("manifest-hash-differs", footer(FOOTER_HASH, &[0; 8])),
        ("manifest-outside", footer(FOOTER_OFFSET, &(1u64 << 40).to_le_bytes())),
        ("manifest-offset-overflows", footer(FOOTER_OFFSET, &(u64::MAX - 4095).to_le_bytes())),
        ("manifest-over-magic", footer(FOOTER_OFFSET, &[0; 8])),
        ("manifest-length-huge", footer(FOOTER_LENGTH, &(1u64 << 60).to_le_bytes())),
        ("no-manifest-but-its-place", footer(FOOTER_LENGTH, &[0; 8])),
        ("cbor-list", raw(&[0x80])),
        ("cbor-followed-by-more", raw(b"\xa1\x67objects\xa0\0")),
        ("cbor-indefinite", raw(b"\xbf\x67objects\xa0\xff")),
        ("cbor-number-not-shortest", raw(b"\xa1\x78\x07objects\xa0")),
        ("cbor-keys-unsorted", raw(b"\xa2\x67objects\xa0\x61a\xa0")),
        ("cbor-key-twice", raw(b"\xa2\x67objects\xa0\x67objects\xa0")),
        ("cbor-key-not-text", raw(b"\xa2\x01\xa0\x67objects\xa0")),
        ("cbor-text-not-utf8", raw(b"\xa2\x61\xff\xa0\x67objects\xa0")),
        ("cbor-count-huge", raw(b"\xbb\x0f\xff\xff\xff\xff\xff\xff\xff")),
        ("cbor-text-length-huge", raw(b"\xa1\x7b\x0f\xff\xff\xff\xff\xff\xff\xff")),
        ("cbor-tag", attribute(vec![0xC1, 0x00])),
        ("cbor-undefined", attribute(vec![0xF7])),
        ("cbor-float-not-shortest", attribute(vec![0xFB, 0x3F, 0xF0, 0, 0, 0, 0, 0, 0])),
        ("cbor-nan-not-canonical", attribute(vec![0xF9, 0x7E, 0x01])),
        ("cbor-nested-40-deep", attribute(nested(40))),
        ("cbor-nested-200000-deep", attribute(nested(200_000))),
        ("objects-missing", raw(&[0xA0])),
        ("object-without-shape", described(|object| object.with("shape", None))),
        ("object-without-layout", described(|object| object.with("layout", None))),
        ("object-without-parts", described(|object| object.with("parts", None))),
        ("object-with-no-part", described(|object| object.with("parts", Some(map(&[]))))),
        ("name-empty", named("")),
        ("name-with-zero-byte", named("a\0b")),
        ("name-1025-bytes", named(&"n".repeat(1025))),
        ("attribute-name-empty", described(|object| object.with("attributes", Some(map(&[("", text(""))]))))),
        ("dimensions-65", described(|object| object.with("shape", Some(numbers(&[1; 65]))))),
        ("dimension-negative", described(|object| object.with("shape", Some(Item::Raw(vec![0x81, 0x20]))))),
        ("elements-overflow", typed("u8", None, &[1 << 40, 1 << 40], &[0; 4])),
        ("elements-overflow-beside-zero", typed("u8", None, &[0, 1 << 40, 1 << 40], &[])),
        ("bytes-overflow", typed("f64", None, &[1 << 62], &[0; 8])),
        ("size-differs", typed("f32", None, &[3], &[0; 8])),
        ("dense-with-two-parts", {
            let mut builder = Builder::new();
            let parts = map(&[("data", builder.part("u8", &[1])), ("more", builder.part("u8", &[1]))]);
            sparse(builder, "dense", &[1], parts)
        }),
        ("dense-without-data", {
            let mut builder = Builder::new();
            let parts = map(&[("values", builder.part("u8", &[1]))]);
            sparse(builder, "dense", &[1], parts)
        }),
        ("part-without-type", one(|part| part.with("dtype", None))),
        ("part-without-blob", one(|part| part.with("blob", None))),
        ("storage-type-bool", typed("bool", None, &[1], &[1])),
        ("storage-type-unknown", typed("f128", None, &[1], &[0; 16])),
        ("logical-type-over-another", typed("f32", Some("f8_e5m2"), &[1], &[0; 4])),
        ("blob-of-three", one(|part| part.with("blob", Some(numbers(&[4096, 4, 0]))))),
        ("blob-unaligned", one(blob(4097, 4))),
        ("blob-over-magic", one(blob(0, 4))),
        ("blob-outside", one(blob(1 << 40, 4))),
        ("blob-overflows", overflowing.finish()),
        ("blob-over-manifest", one(|part| part.with("blob", Some(numbers(&[8192, 4]))))),
        ("blob-in-footer", in_footer()),
        ("blobs-overlap", overlapping.finish()),
        ("unknown-encoding-outside", hidden.finish()),
        ("encoding-without-length", one(|part| part.with("encoding", Some(text("zt.zstd-seekable/1"))))),
        ("length-without-encoding", one(|part| part.with("decoded_length", number(4)))),
        ("digest-not-lowercase", one(|part| part.with("digest", Some(text("xxh3:ABCDEF0123456789"))))),
        ("digest-too-short", one(|part| part.with("digest", Some(text("xxh3:00"))))),
        ("digest-without-algorithm", one(|part| part.with("digest", Some(text("0000000000000000"))))),
        ("digest-differs", one(|part| part.with("digest", Some(text("xxh3:0000000000000000"))))),
        ("boolean-two", typed("u8", Some("bool"), &[3], &[0, 1, 2])),
        ("boolean-over-i8", typed("i8", Some("bool"), &[1], &[0])),
        ("four-bits-left-over", typed("u8", Some("f4_e2m1"), &[3], &[0x21, 0x13])),
        ("rows-of-three-dimensions", {
            let mut builder = Builder::new();
            let parts = map(&[
                ("indptr", builder.part("u64", &words(&[0, 0]))),
                ("indices", builder.part("u64", &[])),
                ("values", builder.part("u8", &[])),
            ]);
            sparse(builder, "zt.sparse_csr/1", &[1, 1, 1], parts)
        }),
        ("rows-indices-signed", indices_of(("i64", None, 0), ("i64", 16))),
        ("rows-indices-16-bits", indices_of(("u16", None, 0), ("u16", 4))),
        ("rows-indices-of-a-logical-type", indices_of(("u64", Some("else.where"), 0), ("u64", 16))),
        ("rows-pointers-of-another-type", indices_of(("u64", None, 0), ("u32", 8))),
        ("rows-pointers-too-few", rows(&[0, 1], &[2], 1)),
        ("rows-values-too-few", rows(&[0, 1, 3], &[2, 0, 1], 2)),
        ("rows-begin-at-one", rows(&[1, 1, 3], &[2, 0, 1], 3)),
        ("rows-fall", rows(&[0, 3, 2], &[0, 1, 2], 3)),
        ("rows-end-early", rows(&[0, 1, 2], &[0, 1, 2], 3)),
        ("rows-end-outside", rows(&[0, 1, 1 << 40], &[0, 1, 2], 3)),
        ("rows-column-outside", rows(&[0, 1, 3], &[2, 0, 3], 3)),
        ("rows-column-twice", rows(&[0, 1, 3], &[2, 1, 1], 3)),
        ("rows-columns-fall", rows(&[0, 1, 3], &[2, 1, 0], 3)),
        ("coordinates-outside", coordinates(&[0, 2, 2, 0], 2)),
        ("coordinates-twice", coordinates(&[0, 0, 2, 2], 2)),
        ("coordinates-not-whole", coordinates(&[0, 0, 2], 1)),
        ("coordinates-values-too-few", coordinates(&[0, 1, 2, 0], 1)),
        ("coordinates-without-dimensions", {
            let mut builder = Builder::new();
            let parts = map(&[("coords", builder.part("u64", &[])), ("values", builder.part("u8", &[]))]);
            sparse(builder, "zt.sparse_coo/1", &[], parts)
        }),
        ("seekable-without-table", encoded(&frames[..22], 4)),
        ("seekable-magic-missing", damaged(1, 0)),
        ("seekable-reserved-bits", damaged(5, 0x04)),
        ("seekable-count-huge", damaged(6, 0xFF)),
        ("seekable-table-size-differs", damaged(9 + 16 + 4, 0)),
        ("seekable-frame-longer", damaged(9 + 16, 0xFF)),
        ("seekable-frame-damaged", encoded(&bit, 4)),
        ("seekable-without-checksum", encoded(&seekable(&[(b"ab", 2, false)]), 2)),
        (
            "seekable-sizes-differ",
            encoded(&seekable(&[(b"ab", 2, true), (b"c", 1, true), (b"d", 1, true)]), 4),
        ),
        ("seekable-frame-of-another-size", encoded(&seekable(&[(b"ab", 3, true)]), 3)),
        ("seekable-length-differs", encoded(&frames, 5)),
        ("seekable-frame-over-16-mib", encoded(&seekable(&[(b"ab", (16 << 20) + 1, true)]), (16 << 20) + 1)),
        ("seekable-announces-4-gib", encoded(&seekable(&[(b"ab", 2, true)]), 1 << 32)),
        ("shard-missing", shard("00001", &identity)),
        ("shard-name-is-a-path", shard("../00001", &identity)),
        ("shard-name-begins-with-dot", shard(".hidden", &identity)),
        ("shard-name-65-bytes", shard(&"n".repeat(65), &identity)),
        ("shard-without-size", shard("00001", &identity[1..])),
        ("shard-without-digest", shard("00001", &identity[..1])),
        ("shard-not-in-table", one(|part| part.with("shard", Some(text("00001"))))),
    ]
}

#[test]
fn the_corpus_is_what_it_is_meant_to_be() {
    for (kind, files) in [("valid", valid()), ("reject", reject())] {
        let files = files.iter().map(|(name, bytes)| (format!("{name}.zt"), bytes.as_slice()));
        assert_stored(&format!("{kind}/zt2"), files);
    }
}
