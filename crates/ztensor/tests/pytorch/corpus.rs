//! The files of `conformance/` that this format has, as code: each file there must be what its entry here makes. With the environment
//! variable `ZTENSOR_WRITE_CORPUS` set, missing files are written.

use crate::builder::*;
use crate::stored::assert_stored;

/// Tensors in every usual arrangement over two storages.
pub fn arrangements() -> Expression {
    let matrix = || storage("FloatStorage", "0", 6);
    let parameter = |tensor: Expression| {
        call(
            "torch._utils",
            "_rebuild_parameter",
            &[tensor, boolean(true), call("collections", "OrderedDict", &[])],
        )
    };
    dict(&[
        ("plain", floats("0", &[2, 3])),
        ("tied", floats("0", &[2, 3])),
        ("transposed", tensor(matrix(), 0, &[3, 2], &[1, 3])),
        ("row", tensor(matrix(), 3, &[3], &[1])),
        ("column", tensor(matrix(), 1, &[2], &[3])),
        ("expanded", tensor(matrix(), 2, &[2, 2], &[0, 1])),
        ("scalar", tensor(matrix(), 5, &[], &[])),
        ("empty", tensor(storage("FloatStorage", "1", 0), 0, &[0, 3], &[3, 1])),
        ("parameter", parameter(floats("0", &[6]))),
        ("epoch", integer(7)),
    ])
}

fn one(root: Expression) -> Vec<u8> {
    archive(dict(&[("weight", root)]), &[("0", &counting(6))])
}

/// Two values of a matrix whose coordinates have this shape, instead of [2, 2].
fn coordinates(shape: &[i64]) -> Expression {
    let places = tensor(storage("LongStorage", "1", 4), 0, shape, &[1]);
    let layout = call("torch.serialization", "_get_layout", &[text("torch.sparse_coo")]);
    let size = call("torch", "Size", &[numbers(&[2, 3])]);
    let parts = tuple(&[places, floats("0", &[2]), size, boolean(true)]);
    call("torch._utils", "_rebuild_sparse_tensor", &[layout, parts])
}

pub fn sparse() -> Expression {
    let longs = |key: &str, shape: &[i64], strides: &[i64]| {
        tensor(storage("LongStorage", key, shape.iter().product()), 0, shape, strides)
    };
    let layout = |name: &str| call("torch.serialization", "_get_layout", &[text(name)]);
    let size = call("torch", "Size", &[numbers(&[2, 3])]);
    let coo = tuple(&[longs("1", &[2, 2], &[2, 1]), floats("0", &[2]), size.clone(), boolean(true)]);
    let csr = tuple(&[longs("2", &[3], &[1]), longs("3", &[2], &[1]), floats("0", &[2]), size]);
    dict(&[
        ("coo", call("torch._utils", "_rebuild_sparse_tensor", &[layout("torch.sparse_coo"), coo])),
        ("csr", call("torch._utils", "_rebuild_sparse_tensor", &[layout("torch.sparse_csr"), csr])),
    ])
}

fn longs(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub fn sparse_archive() -> Vec<u8> {
    let storages = [counting(2), longs(&[0, 1, 2, 0]), longs(&[0, 1, 2]), longs(&[2, 0])];
    let keyed: Vec<(&str, &[u8])> =
        ["0", "1", "2", "3"].into_iter().zip(storages.iter().map(Vec::as_slice)).collect();
    archive(sparse(), &keyed)
}

pub fn valid() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("arrangements.pt", archive(arrangements(), &[("0", &counting(6)), ("1", b"")])),
        (
            "big-endian.pt",
            archive_in(
                "big",
                dict(&[("weight", floats("0", &[2]))]),
                &[("0", &[0x3F, 0x80, 0, 0, 0x40, 0, 0, 0])],
            ),
        ),
        ("legacy.pt", legacy(legacy_root(none()), &[("7", 6, &counting(6))])),
        (
            "legacy-part-of-a-storage.pt",
            legacy(legacy_root(tuple(&[text("8"), integer(2), integer(4)])), &[("7", 6, &counting(6))]),
        ),
        ("bare-tensor.pt", archive(floats("0", &[6]), &[("0", &counting(6))])),
        ("sparse.pt", sparse_archive()),
    ]
}

/// Four floats over storage 7 of the legacy stream, or over a part of it.
pub fn legacy_root(part: Expression) -> Expression {
    dict(&[("weight", tensor(legacy_storage("FloatStorage", "7", 6, part), 0, &[2, 2], &[2, 1]))])
}

/// Each list holds the one before it ten times.
fn memo_bomb() -> Vec<u8> {
    let mut root = [floats("0", &[6]), b"q\x00".to_vec()].concat();
    for level in 0..40u8 {
        root =
            [root, b"0(".to_vec(), [b'h', level].repeat(10), b"l".to_vec(), vec![b'q', level + 1]].concat();
    }
    root
}

pub fn reject() -> Vec<(&'static str, Vec<u8>)> {
    let matrix = |count| storage("FloatStorage", "0", count);
    let mut files = vec![
        ("storage-missing.pt", one(tensor(storage("FloatStorage", "9", 6), 0, &[6], &[1]))),
        ("storage-too-short.pt", one(tensor(matrix(7), 0, &[6], &[1]))),
        ("storage-count-negative.pt", one(tensor(matrix(-1), 0, &[6], &[1]))),
        ("storage-count-overflows.pt", one(tensor(matrix(i64::MAX), 0, &[6], &[1]))),
        ("storage-class-unknown.pt", one(tensor(storage("StrangeStorage", "0", 6), 0, &[6], &[1]))),
        ("offset-negative.pt", one(tensor(matrix(6), -1, &[2], &[1]))),
        ("offset-outside.pt", one(tensor(matrix(6), 5, &[2], &[1]))),
        ("shape-negative.pt", one(tensor(matrix(6), 0, &[-2], &[1]))),
        ("shape-outside.pt", one(tensor(matrix(6), 0, &[7], &[1]))),
        ("shape-overflows.pt", one(tensor(matrix(6), 0, &[1 << 40, 1 << 40], &[0, 0]))),
        ("shape-overflows-beside-zero.pt", one(tensor(matrix(6), 0, &[i64::MAX, i64::MAX, 0], &[1, 1, 1]))),
        ("shape-without-strides.pt", one(tensor(matrix(6), 0, &[2, 3], &[1]))),
        ("stride-negative.pt", one(tensor(matrix(6), 5, &[6], &[-1]))),
        ("stride-outside.pt", one(tensor(matrix(6), 0, &[2, 3], &[4, 1]))),
        ("stride-overflows.pt", one(tensor(matrix(6), 0, &[3, 3], &[i64::MAX, i64::MAX]))),
        ("arguments-missing.pt", one(call("torch._utils", "_rebuild_tensor_v2", &[matrix(6)]))),
        (
            "key-twice.pt",
            archive(dict(&[("w", floats("0", &[6])), ("w", floats("0", &[3]))]), &[("0", &counting(6))]),
        ),
        ("byte-order-unknown.pt", archive_in("middle", arrangements(), &[("0", &counting(6)), ("1", b"")])),
        (
            "sparse-coordinates-wrong-shape.pt",
            archive(dict(&[("coo", coordinates(&[4]))]), &[("0", &counting(2)), ("1", &longs(&[0; 4]))]),
        ),
        ("shared-containers-multiply.pt", archive(memo_bomb(), &[("0", &counting(6))])),
        ("stack-underflow.pt", archive(b"R".to_vec(), &[])),
        ("stack-empty-at-end.pt", archive(vec![], &[])),
        ("stack-underflow-at-mark.pt", archive(b"N(0s".to_vec(), &[])),
        ("mark-missing.pt", archive(b"Nt".to_vec(), &[])),
        ("memo-missing.pt", archive(b"h\x05".to_vec(), &[])),
        ("opcode-unknown.pt", archive(b"\xff".to_vec(), &[])),
        ("protocol-6.pt", archive(b"\x80\x06N".to_vec(), &[])),
        ("dict-without-value.pt", archive(b"(Nd".to_vec(), &[])),
        ("append-to-number.pt", archive(b"K\x01K\x02a".to_vec(), &[])),
        ("set-on-list.pt", archive(b"]NNs".to_vec(), &[])),
        ("state-for-number.pt", archive(b"K\x01Nb".to_vec(), &[])),
        ("text-longer-than-pickle.pt", archive(b"X\xff\xff\xff\xffabc".to_vec(), &[])),
        ("text-length-overflows.pt", archive(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc".to_vec(), &[])),
        ("buffer-outside-pickle.pt", archive(b"\x97".to_vec(), &[])),
        ("pickle-without-end.pt", zip(&[("model/data.pkl", b"\x80\x02N")])),
        (
            "legacy-bytes-behind.pt",
            [legacy(legacy_root(none()), &[("7", 6, &counting(6))]), vec![0]].concat(),
        ),
        ("legacy-count-negative.pt", legacy(legacy_root(none()), &[("7", -6, &counting(6))])),
        ("legacy-count-huge.pt", legacy(legacy_root(none()), &[("7", i64::MAX, &counting(6))])),
        ("legacy-storage-twice.pt", legacy(legacy_root(none()), &[("7", 0, b""), ("7", 6, &counting(6))])),
        ("legacy-storage-of-no-tensor.pt", legacy(none(), &[("7", 6, &counting(6))])),
        (
            "legacy-part-outside.pt",
            legacy(legacy_root(tuple(&[text("8"), integer(3), integer(4)])), &[("7", 6, &counting(6))]),
        ),
        ("tar-form.pt", tar()),
    ];
    files.extend(broken_zips());
    files
}

fn tar() -> Vec<u8> {
    let mut file = vec![0; 1024];
    file[..8].copy_from_slice(b"sys_info");
    file[257..262].copy_from_slice(b"ustar");
    file
}

fn broken_zips() -> Vec<(&'static str, Vec<u8>)> {
    let good = archive(arrangements(), &[("0", &counting(6)), ("1", b"")]);
    let entries: Vec<usize> =
        (0..good.len() - 4).filter(|at| good[*at..].starts_with(b"PK\x01\x02")).collect();
    let end = good.len() - 22;
    let changed = |position: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[position..position + bytes.len()].copy_from_slice(bytes);
        file
    };
    let pickle = document(arrangements());
    vec![
        ("zip-members-overlap.pt", {
            // The second member's directory entry points at the first, whose local header is made to agree with it.
            let twice = zip(&[("model/data.pkl", &pickle), ("model/data.pkl", &pickle)]);
            let second =
                (0..twice.len() - 4).filter(|at| twice[*at..].starts_with(b"PK\x01\x02")).nth(1).unwrap();
            [&twice[..second + 42], &[0; 4], &twice[second + 46..]].concat()
        }),
        ("zip-name-twice.pt", zip(&[("model/data.pkl", &pickle), ("model/x", b""), ("model/x", b"")])),
        ("zip-local-name-differs.pt", changed(30, b"m0del")),
        ("zip-local-size-differs.pt", changed(18, &[1, 0, 0, 0])),
        ("zip-local-method-differs.pt", changed(8, &[8, 0])),
        ("zip-member-outside.pt", changed(entries[2] + 42, &[0xFF, 0xFF, 0xFF, 0x7F])),
        ("zip-sizes-differ.pt", changed(entries[2] + 24, &[0xFF, 0, 0, 0])),
        ("zip-count-differs.pt", changed(end + 8, &[9, 0, 9, 0])),
        ("zip-directory-outside.pt", changed(end + 16, &[0xFF, 0xFF, 0xFF, 0x7F])),
        ("zip-without-end.pt", good[..end].to_vec()),
    ]
}

#[test]
fn the_corpus_is_what_it_is_meant_to_be() {
    for (kind, files) in [("valid", valid()), ("reject", reject())] {
        let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.as_slice()));
        assert_stored(&format!("{kind}/pytorch"), files);
    }
}
