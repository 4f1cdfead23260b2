//! The files of `conformance/reject/hdf5` as code: each file there must be what its entry here makes, and must be refused for the reason the
//! entry names. With the environment variable `ZTENSOR_WRITE_CORPUS` set, missing files are written. The files of
//! `conformance/valid/hdf5` come from h5py, through `python/tests/formats/hdf5_corpus.py`.

use ztensor::Reader;

use crate::builder::{
    ATTRIBUTE, Builder, CONTINUATION, DATATYPE, FILL, LAYOUT, LINK, Message, SYMBOL_TABLE, attribute,
    chunk_key, chunked, contiguous, fields, filters, float32, float32_type, link, local_heap, space,
    symbol_node, tree,
};
use crate::stored::assert_stored;

/// Name, bytes, and what the error must say.
type Case = (&'static str, Vec<u8>, &'static str);

/// A file with one dataset of two elements whose layout is given.
fn with_layout(layout: Message) -> Vec<u8> {
    Builder::new().one(&[space(&[2]), float32(), layout])
}

/// A file with one dataset of a shape, without data.
fn with_shape(dimensions: &[u64]) -> Vec<u8> {
    Builder::new().one(&[space(dimensions), float32(), contiguous(u64::MAX, 0)])
}

fn with_type(datatype: &[u8]) -> Vec<u8> {
    Builder::new().one(&[space(&[2]), (DATATYPE, datatype.to_vec()), contiguous(u64::MAX, 0)])
}

/// A file with a root group of these messages, made once the address of an eight-byte dataset is known.
fn with_root(messages: impl Fn(&mut Builder, u64) -> Vec<Message>) -> Vec<u8> {
    let mut builder = Builder::new();
    let dataset = builder.dataset(&[1.0, 2.0]);
    let messages = messages(&mut builder, dataset);
    let root = builder.header(&messages);
    builder.finish(root)
}

/// A file with a root group in the old form: a tree, and a heap with the names `a` (at 8) and `b` (at 16).
fn old_group(node: impl Fn(&mut Builder, u64) -> Vec<u8>) -> Vec<u8> {
    with_root(|builder, dataset| {
        let heap = local_heap(builder, b"\0\0\0\0\0\0\0\0a\0\0\0\0\0\0\0b\0\0\0\0\0\0\0/\0\0\0endless");
        let node = node(builder, dataset);
        let tree = builder.put(&node);
        vec![(SYMBOL_TABLE, fields(&[&tree.to_le_bytes(), &heap.to_le_bytes()]))]
    })
}

fn symbols(entries: impl Fn(u64) -> Vec<(u64, u64)>) -> Vec<u8> {
    old_group(|builder, dataset| {
        let node = builder.put(&symbol_node(&entries(dataset)));
        tree(0, 0, &[(vec![0; 8], node)])
    })
}

/// A file with one dataset of four elements in chunks of two, whose tree has these keys. The chunks' bytes are 1 and 2.
fn chunks(numbers: &[u16], keys: &[Vec<u8>], stored: &[u8]) -> Vec<u8> {
    let mut builder = Builder::new();
    let data = builder.put(stored);
    let entries: Vec<_> = keys.iter().map(|key| (key.clone(), data)).collect();
    let list = builder.put(&tree(1, 0, &entries));
    let mut messages = vec![space(&[4]), float32(), chunked(list, &[2], 4)];
    if !numbers.is_empty() {
        messages.push(filters(numbers));
    }
    builder.one(&messages)
}

fn chunk_at(address: u64) -> Vec<u8> {
    let mut builder = Builder::new();
    let list = builder.put(&tree(1, 0, &[(chunk_key(8, 0, &[0]), address)]));
    builder.one(&[space(&[4]), float32(), chunked(list, &[2], 4)])
}

fn nested(depth: usize) -> Vec<u8> {
    let mut builder = Builder::new();
    let mut address = builder.dataset(&[1.0]);
    for _ in 0..depth {
        address = builder.group(&[("g", address)]);
    }
    builder.finish(address)
}

fn superblock(position: usize, value: u8) -> Vec<u8> {
    let mut file = with_root(|_, dataset| vec![link("x", dataset)]);
    file[position] = value;
    file
}

fn files() -> Vec<Case> {
    let root = |message: Message| with_root(move |_, dataset| vec![link("weight", dataset), message.clone()]);
    let beyond = 1u64 << 60;
    let array =
        |inner: &[u8]| fields(&[&[0x3A, 0, 0, 0], &4u32.to_le_bytes(), &[1], &1u32.to_le_bytes(), inner]);
    let deep = (0..20).fold(float32_type(), |inner, _| array(&inner));
    vec![
        ("superblock-cut-off", b"\x89HDF\r\n\x1a\n\0\0".to_vec(), "superblock"),
        ("superblock-version-9", superblock(8, 9), "version 9"),
        ("address-width-3", superblock(13, 3), "not possible"),
        ("length-width-0", superblock(14, 0), "not possible"),
        ("end-beyond-file", Builder::new().finish_with(96, 1 << 40), "long"),
        ("root-outside", Builder::new().finish(beyond), "announced"),
        ("root-nowhere", Builder::new().finish(u64::MAX), "address that must be set"),
        (
            "root-is-a-dataset",
            {
                let mut b = Builder::new();
                let root = b.header(&[float32()]);
                b.finish(root)
            },
            "not a group",
        ),
        (
            "object-header-missing",
            {
                let mut b = Builder::new();
                let at = b.put(&[7; 64]);
                b.finish(at)
            },
            "none at this address",
        ),
        (
            "message-past-its-block",
            {
                let mut b = Builder::new();
                let at = b.put(&[
                    1, 0, 1, 0, 1, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0,
                    0, 0, 0, 0, 0,
                ]);
                b.finish(at)
            },
            "ends before",
        ),
        (
            "continuation-to-itself",
            with_root(|builder, _| {
                let at = builder.next() + 16;
                vec![(CONTINUATION, fields(&[&at.to_le_bytes(), &24u64.to_le_bytes()]))]
            }),
            "lead back",
        ),
        (
            "continuation-outside",
            root((CONTINUATION, fields(&[&beyond.to_le_bytes(), &64u64.to_le_bytes()]))),
            "announced",
        ),
        (
            "continuation-huge",
            root((CONTINUATION, fields(&[&96u64.to_le_bytes(), &beyond.to_le_bytes()]))),
            "longer than the file",
        ),
        ("link-outside", root(link("x", beyond)), "announced"),
        ("link-without-name", root(link("", 96)), "cannot be the name"),
        ("link-with-separator", root(link("a/b", 96)), "cannot be the name"),
        ("link-name-not-utf8", root((LINK, fields(&[&[1, 0, 1, 0xFF], &96u64.to_le_bytes()]))), "UTF-8"),
        (
            "link-name-longer-than-message",
            root((LINK, vec![1, 3, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF])),
            "ends before",
        ),
        ("link-twice", with_root(|_, dataset| vec![link("x", dataset), link("x", dataset)]), "twice"),
        ("groups-nested-100-deep", nested(100), "nested"),
        ("symbol-name-outside-heap", symbols(|dataset| vec![(4096, dataset)]), "outside the local heap"),
        ("symbol-name-not-terminated", symbols(|dataset| vec![(28, dataset)]), "not terminated"),
        ("symbol-name-empty", symbols(|dataset| vec![(0, dataset)]), "cannot be the name"),
        ("symbol-name-twice", symbols(|dataset| vec![(8, dataset), (8, dataset)]), "twice"),
        ("symbol-nowhere", symbols(|_| vec![(8, u64::MAX)]), "leads nowhere"),
        (
            "tree-to-itself",
            old_group(|builder, _| {
                let at = builder.next();
                tree(0, 1, &[(vec![0; 8], at)])
            }),
            "level",
        ),
        (
            "tree-of-levels-in-a-circle",
            old_group(|builder, _| {
                let at = builder.next();
                let lower = builder.put(&tree(0, 2, &[(vec![0; 8], at)]));
                tree(0, 3, &[(vec![0; 8], lower)])
            }),
            "level",
        ),
        ("tree-of-chunks-in-a-group", old_group(|_, _| tree(1, 0, &[])), "something else"),
        ("tree-node-missing", old_group(|_, dataset| tree(0, 1, &[(vec![0; 8], dataset)])), "signature"),
        ("tree-entries-huge", old_group(|_, _| fields(&[b"TREE\0\0\xFF\xFF", &[0xFF; 16]])), "announced"),
        ("dimensions-33", with_shape(&[1; 33]), "more than 32"),
        ("elements-overflow", with_shape(&[1 << 40, 1 << 40]), "overflows"),
        ("elements-overflow-beside-zero", with_shape(&[1 << 40, 0, 1 << 40]), "overflows"),
        ("bytes-overflow", with_shape(&[1 << 63]), "overflows"),
        ("datatype-class-unknown", with_type(&[0x1F, 0, 0, 0, 4, 0, 0, 0]), "class is unknown"),
        ("datatype-without-bytes", with_type(&[0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "no bytes"),
        ("datatype-cut-off", with_type(&[0x11, 0x20, 0x1F, 0, 4, 0, 0, 0]), "ends before"),
        ("datatype-nested-20-deep", with_type(&deep), "too deep"),
        (
            "array-size-differs",
            with_type(&fields(&[
                &[0x3A, 0, 0, 0],
                &4u32.to_le_bytes(),
                &[1],
                &3u32.to_le_bytes(),
                &float32_type(),
            ])),
            "do not give its size",
        ),
        ("layout-missing-space", Builder::new().one(&[float32(), contiguous(u64::MAX, 0)]), "no dataspace"),
        ("layout-class-unknown", with_layout((LAYOUT, vec![3, 9, 0, 0, 0, 0, 0, 0])), "class is unknown"),
        ("contiguous-length-differs", with_layout(contiguous(0, 12)), "need 8"),
        ("contiguous-outside", with_layout(contiguous(beyond, 8)), "announced"),
        ("contiguous-overflows", with_layout(contiguous(u64::MAX - 4, 8)), "announced"),
        ("compact-length-differs", with_layout((LAYOUT, vec![3, 0, 4, 0, 1, 2, 3, 4])), "need 8"),
        ("compact-cut-off", with_layout((LAYOUT, vec![3, 0, 0xFF, 0xFF, 1, 2, 3, 4])), "ends before"),
        ("chunk-dimension-zero", with_layout(chunked(u64::MAX, &[0], 4)), "is zero"),
        (
            "chunk-dimensions-differ",
            with_layout(chunked(u64::MAX, &[1, 1], 4)),
            "another number of dimensions",
        ),
        ("chunk-element-size-differs", with_layout(chunked(u64::MAX, &[1], 8)), "another element size"),
        (
            "chunk-size-overflows",
            Builder::new().one(&[space(&[1; 8]), float32(), chunked(u64::MAX, &[u32::MAX; 8], 4)]),
            "overflows",
        ),
        ("chunk-outside", chunk_at(beyond), "announced"),
        ("chunk-misplaced", chunks(&[], &[chunk_key(8, 0, &[1])], &[0; 8]), "begin where chunks can"),
        ("chunk-twice", chunks(&[], &[chunk_key(8, 0, &[0]), chunk_key(8, 0, &[0])], &[0; 8]), "same place"),
        ("chunk-length-differs", chunks(&[], &[chunk_key(4, 0, &[0])], &[0; 8]), "instead of 8"),
        ("chunk-length-huge", chunks(&[1], &[chunk_key(u32::MAX, 0, &[0])], &[0; 8]), "announced"),
        ("chunk-deflate-damaged", chunks(&[1], &[chunk_key(8, 0, &[0])], &[0xFF; 8]), "deflate"),
        ("chunk-lzf-damaged", chunks(&[32000], &[chunk_key(2, 0, &[0])], &[0xFF; 8]), "lzf"),
        ("chunk-checksum-wrong", chunks(&[3], &[chunk_key(12, 0, &[0])], &[1; 12]), "checksum"),
        ("chunk-mask-hides-nothing", chunks(&[1], &[chunk_key(4, 1, &[0])], &[0; 8]), "instead of 8"),
        (
            "chunk-tree-to-itself",
            {
                let mut b = Builder::new();
                let at = b.next();
                b.put(&tree(1, 1, &[(chunk_key(8, 0, &[0]), at)]));
                b.one(&[space(&[4]), float32(), chunked(at, &[2], 4)])
            },
            "level",
        ),
        (
            "filters-33",
            Builder::new().one(&[space(&[4]), float32(), chunked(u64::MAX, &[2], 4), filters(&[3; 33])]),
            "more than 32",
        ),
        (
            "fill-value-length-differs",
            Builder::new().one(&[
                space(&[4]),
                float32(),
                contiguous(u64::MAX, 0),
                (FILL, vec![2, 2, 2, 1, 2, 0, 0, 0, 1, 1]),
            ]),
            "fill value has 2 bytes",
        ),
        ("attribute-shorter-than-its-shape", root(attribute("a", &[1 << 20], &[0; 4])), "shorter"),
        ("attribute-shape-overflows", root(attribute("a", &[1 << 40, 1 << 40], &[0; 4])), "shorter"),
        ("attribute-cut-off", root((ATTRIBUTE, vec![3, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0])), "ends before"),
        (
            "attribute-twice",
            with_root(|_, dataset| {
                vec![link("weight", dataset), attribute("a", &[1], &[0; 4]), attribute("a", &[1], &[0; 4])]
            }),
            "twice",
        ),
    ]
}

#[test]
fn the_corpus_is_what_it_is_meant_to_be() {
    let files = files();
    assert_stored(
        "reject/hdf5",
        files.iter().map(|(name, bytes, _)| (format!("{name}.h5"), bytes.as_slice())),
    );
    for (name, bytes, reason) in files {
        let error = match Reader::from_bytes(bytes) {
            Err(error) => error,
            Ok(reader) => {
                reader.verify_all().into_iter().next().unwrap_or_else(|| panic!("{name} was read")).1
            }
        };
        assert!(error.to_string().contains(reason), "{name}: {error}");
    }
}
