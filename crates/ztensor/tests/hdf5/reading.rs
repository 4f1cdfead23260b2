//! What right files give.

use ztensor::{Kind, Reader};

use crate::builder::{
    Builder, DATATYPE, FILL, LAYOUT, attribute, chunk_key, chunked, contiguous, fields, filters, float32,
    link, soft_link, space, tree,
};

fn read(bytes: Vec<u8>) -> Reader {
    Reader::from_bytes(bytes).unwrap()
}

fn reason<'a>(reader: &'a Reader, name: &str) -> &'a str {
    &reader.skipped().iter().find(|skipped| skipped.name == name).unwrap().reason
}

#[test]
fn a_contiguous_dataset_is_borrowed_from_the_file() {
    let mut builder = Builder::new();
    let dataset = builder.dataset(&[1.0, 2.0, 3.0]);
    let inner = builder.group(&[("w", dataset)]);
    let root = builder.group(&[("layer", inner)]);
    let reader = read(builder.finish(root));
    assert_eq!(reader.names().collect::<Vec<_>>(), ["layer/w"]);
    assert_eq!(reader.view_as::<f32>("layer/w").unwrap(), [1.0, 2.0, 3.0]);
}

#[test]
fn a_compact_dataset_is_borrowed_from_its_header() {
    let layout = (LAYOUT, fields(&[&[3, 0, 8, 0], &1f32.to_le_bytes(), &2f32.to_le_bytes()]));
    let reader = read(Builder::new().one(&[space(&[2]), float32(), layout]));
    assert!(reader.component_view("x", "data").unwrap().is_some());
    assert_eq!(reader.read_as::<f32>("x").unwrap(), [1.0, 2.0]);
}

#[test]
fn big_endian_elements_are_turned_round() {
    let mut builder = Builder::new();
    let data = builder.put(&[0, 1, 0, 2]);
    let datatype = (DATATYPE, vec![0x10, 1, 0, 0, 2, 0, 0, 0, 0, 0, 16, 0]);
    let reader = read(builder.one(&[space(&[2]), datatype, contiguous(data, 4)]));
    assert_eq!(reader.read_as::<u16>("x").unwrap(), [1, 2]);
}

#[test]
fn what_was_never_written_holds_the_fill_value() {
    let fill = (FILL, fields(&[&[2, 2, 2, 1], &4u32.to_le_bytes(), &7f32.to_le_bytes()]));
    let messages = [space(&[3]), float32(), contiguous(u64::MAX, 0), fill.clone()];
    assert_eq!(read(Builder::new().one(&messages)).read_as::<f32>("x").unwrap(), [7.0; 3]);
    let messages = [space(&[3]), float32(), chunked(u64::MAX, &[2], 4), fill];
    assert_eq!(read(Builder::new().one(&messages)).read_as::<f32>("x").unwrap(), [7.0; 3]);
    let messages = [space(&[3]), float32(), contiguous(u64::MAX, 0)];
    assert_eq!(read(Builder::new().one(&messages)).read_as::<f32>("x").unwrap(), [0.0; 3]);
}

#[test]
fn chunks_are_put_in_place_and_cut_at_the_edges() {
    // 3 × 3 in chunks of 2 × 2; the chunk at (2, 0) does not exist, the others hold their number.
    let mut builder = Builder::new();
    let mut entries = Vec::new();
    for (number, origin) in [(1f32, [0, 0]), (2.0, [0, 2]), (4.0, [2, 2])] {
        let data = builder.put(&[number; 4].map(f32::to_le_bytes).concat());
        entries.push((chunk_key(16, 0, &origin), data));
    }
    let list = builder.put(&tree(1, 0, &entries));
    let reader = read(builder.one(&[space(&[3, 3]), float32(), chunked(list, &[2, 2], 4)]));
    let values = reader.read_as::<f32>("x").unwrap();
    assert_eq!(values, [1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 0.0, 0.0, 4.0]);
}

#[test]
fn one_plain_chunk_that_is_the_whole_tensor_is_borrowed() {
    let mut builder = Builder::new();
    let data = builder.put(&[1f32, 2.0].map(f32::to_le_bytes).concat());
    let list = builder.put(&tree(1, 0, &[(chunk_key(8, 0, &[0]), data)]));
    let reader = read(builder.one(&[space(&[2]), float32(), chunked(list, &[2], 4)]));
    assert_eq!(reader.view_as::<f32>("x").unwrap(), [1.0, 2.0]);
}

#[test]
fn a_filter_mask_leaves_filters_out() {
    let mut builder = Builder::new();
    let data = builder.put(&[1f32, 2.0].map(f32::to_le_bytes).concat());
    let list = builder.put(&tree(1, 0, &[(chunk_key(8, 0b11, &[0]), data)]));
    let messages = [space(&[2]), float32(), chunked(list, &[2], 4), filters(&[2, 1])];
    assert_eq!(read(builder.one(&messages)).read_as::<f32>("x").unwrap(), [1.0, 2.0]);
}

#[test]
fn unsupported_filters_spoil_one_tensor() {
    let mut builder = Builder::new();
    let good = builder.dataset(&[5.0]);
    let bad = builder.header(&[space(&[2]), float32(), chunked(u64::MAX, &[2], 4), filters(&[4])]);
    let root = builder.group(&[("bad", bad), ("good", good)]);
    let reader = read(builder.finish(root));
    assert_eq!(reader.read_as::<f32>("good").unwrap(), [5.0]);
    assert!(reason(&reader, "bad").contains("szip"));
    assert_eq!(reader.object("bad").unwrap_err().kind(), Kind::Unsupported);
}

#[test]
fn links_are_followed_inside_the_file() {
    let mut builder = Builder::new();
    let dataset = builder.dataset(&[1.0]);
    let inner = builder.group(&[("w", dataset)]);
    let root = builder.header(&[
        link("g", inner),
        soft_link("absolute", "/g/w"),
        soft_link("relative", "./g//w"),
        soft_link("chain", "relative"),
        soft_link("group", "g"),
        soft_link("through", "group/w"),
        soft_link("nowhere", "/no"),
        soft_link("round", "trip"),
        soft_link("trip", "round"),
    ]);
    let reader = read(builder.finish(root));
    for name in ["g/w", "absolute", "relative", "chain", "through"] {
        assert_eq!(reader.view_as::<f32>(name).unwrap(), [1.0], "{name}");
    }
    assert_eq!(reader.len(), 5);
    assert!(reason(&reader, "group").contains("another name of the group \"g\""));
    for name in ["nowhere", "round", "trip"] {
        assert!(reason(&reader, name).contains("leads nowhere"), "{name}");
    }
}

#[test]
fn groups_in_a_circle_are_walked_once() {
    let mut builder = Builder::new();
    let dataset = builder.dataset(&[1.0]);
    // The root's own address is known once everything before it is in place.
    let child = builder.next();
    let after = child + 16 + 2 * 24;
    let made = builder.group(&[("up", after), ("w", dataset)]);
    assert_eq!(made, child);
    let root = builder.group(&[("down", child), ("self", after)]);
    assert_eq!(root, after);
    let reader = read(builder.finish(root));
    assert_eq!(reader.names().collect::<Vec<_>>(), ["down/w"]);
    assert!(reason(&reader, "down/up").contains("root"));
    assert!(reason(&reader, "self").contains("root"));
}

#[test]
fn attributes_of_groups_and_datasets_are_kept() {
    let mut builder = Builder::new();
    let two = [1.5f32, 2.5].map(f32::to_le_bytes).concat();
    let dataset = builder.header(&[
        space(&[1]),
        float32(),
        contiguous(u64::MAX, 0),
        attribute("scale", &[], &two[..4]),
    ]);
    let group = builder.header(&[link("w", dataset), attribute("pair", &[2], &two)]);
    let root = builder.header(&[link("g", group), attribute("top", &[1, 2], &two)]);
    let reader = read(builder.finish(root));
    let text = |value: Option<&ztensor::Value>| format!("{:?}", value.unwrap());
    assert_eq!(text(reader.attributes().get("top")), "List([List([Float(1.5), Float(2.5)])])");
    assert_eq!(text(reader.attributes().get("g@pair")), "List([Float(1.5), Float(2.5)])");
    assert_eq!(text(reader.object("g/w").unwrap().attributes.get("scale")), "Float(1.5)");
}

#[test]
fn a_user_block_moves_everything() {
    let mut builder = Builder::new();
    let dataset = builder.dataset(&[4.0]);
    let root = builder.group(&[("x", dataset)]);
    let file = builder.finish(root);
    for length in [512, 1024, 65536] {
        let reader = read([vec![b' '; length], file.clone()].concat());
        assert_eq!(reader.read_as::<f32>("x").unwrap(), [4.0]);
    }
}
