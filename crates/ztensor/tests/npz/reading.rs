//! What right files give: names, shapes, types, bytes, and borrowed memory where the bytes lie plainly.

use ztensor::{Kind, Reader};

use crate::builder::*;

fn open(bytes: Vec<u8>) -> Reader {
    Reader::from_bytes(bytes).unwrap()
}

#[test]
fn an_array_file_is_named_after_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("embedding.npy");
    std::fs::write(&path, three_floats()).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.names().collect::<Vec<_>>(), ["embedding"]);
    assert_eq!(reader.read_as::<f32>("embedding").unwrap(), [1.0, 2.0, 3.0]);
    assert!(reader.component_view("embedding", "data").unwrap().is_some());
    assert_eq!(open(three_floats()).names().collect::<Vec<_>>(), ["arr_0"]);
}

#[test]
fn stored_and_deflated_members_are_the_same() {
    let reader = open(archive(&[
        Member::plain("a/plain.npy", &three_floats()),
        Member::deflated("blocks.npy", &three_floats()),
        Member::compressed("compressed.npy", &three_floats()),
    ]));
    assert_eq!(reader.format().name(), "npz");
    assert_eq!(reader.names().collect::<Vec<_>>(), ["a/plain", "blocks", "compressed"]);
    for name in reader.names() {
        assert_eq!(reader.read_as::<f32>(name).unwrap(), [1.0, 2.0, 3.0], "{name}");
    }
    assert!(reader.component_view("a/plain", "data").unwrap().is_some());
    assert!(reader.component_view("compressed", "data").unwrap().is_none());
}

#[test]
fn fortran_order_is_a_view_with_strides() {
    let file = array("'|u1'", true, "(2, 3)", &[1, 4, 2, 5, 3, 6]);
    let reader = open(archive(&[
        Member::plain("plain.npy", &file),
        Member::compressed("compressed.npy", &file),
        Member::plain("column.npy", &array("'|u1'", true, "(1, 3)", &[1, 2, 3])),
        Member::plain("swapped.npy", &array("'>u2'", true, "(2, 2)", &[0, 1, 0, 3, 0, 2, 0, 4])),
    ]));
    let view = reader.component_view("plain", "data").unwrap().unwrap();
    assert_eq!(view.strides, Some((0, [1, 2].as_slice())));
    assert_eq!(*reader.bytes("plain").unwrap(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(*reader.bytes("compressed").unwrap(), [1, 2, 3, 4, 5, 6]);
    let view = reader.component_view("column", "data").unwrap().unwrap();
    assert!(view.strides.is_none(), "one column is contiguous either way");
    assert_eq!(reader.read_as::<u16>("swapped").unwrap(), [1, 2, 3, 4]);
}

#[test]
fn byte_order_scalars_and_empty_arrays() {
    let reader = open(archive(&[
        Member::plain("big.npy", &array("'>i4'", false, "(2,)", &[0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFE])),
        Member::deflated("complex.npy", &array("'>c8'", false, "()", &[0x3F, 0x80, 0, 0, 0x40, 0, 0, 0])),
        Member::compressed("empty.npy", &array("'<f8'", false, "(3, 0)", &[])),
        Member::plain("none.npy", &array("'<f8'", true, "(0, 3)", &[])),
        Member::plain("bf16.npy", &array("'<V2'", false, "(1,)", &[0x80, 0x3F])),
    ]));
    assert_eq!(reader.read_as::<i32>("big").unwrap(), [1, -2]);
    assert_eq!(*reader.bytes("complex").unwrap(), [0, 0, 0x80, 0x3F, 0, 0, 0, 0x40]);
    assert!(reader.bytes("empty").unwrap().is_empty());
    assert_eq!(*reader.object("none").unwrap().shape, [0, 3]);
    assert_eq!(reader.object("bf16").unwrap().components[0].1.element.to_string(), "bfloat16");
}

#[test]
fn every_version_of_the_header_is_read() {
    let text = "{'descr': '<i2', 'fortran_order': False, 'shape': (1,), }\n";
    for version in [(1, 0), (2, 0), (3, 0)] {
        let reader = open(versioned(version, text.as_bytes(), &[5, 0]));
        assert_eq!(reader.read_as::<i16>("arr_0").unwrap(), [5]);
    }
    let python2 = "{'shape': (1L,), 'fortran_order': False, 'descr': u'<i2'}";
    assert_eq!(open(versioned((1, 0), python2.as_bytes(), &[5, 0])).read_as::<i16>("arr_0").unwrap(), [5]);
    // NumPy pads; a header longer than what is inflated first is inflated again.
    let long = format!("{}{}\n", text.trim_end(), " ".repeat(5000));
    let reader =
        open(archive(&[Member::compressed("long.npy", &versioned((1, 0), long.as_bytes(), &[5, 0]))]));
    assert_eq!(reader.read_as::<i16>("long").unwrap(), [5]);
}

#[test]
fn what_is_not_numbers_is_skipped_with_the_reason() {
    let odd = [
        ("objects.npy", array("'|O'", false, "(1,)", b"\x80\x04N.")),
        ("records.npy", array("[('x', '<f4'), ('y', '<i2', (3,))]", false, "(1,)", &[0; 10])),
        ("texts.npy", array("'<U2'", false, "(1,)", &[0; 8])),
        ("bytes.npy", array("'|S2'", false, "(1,)", &[0; 2])),
        ("void.npy", array("'|V2'", false, "(1,)", &[0; 2])),
        ("eight.npy", array("'<V1'", false, "(1,)", &[0; 1])),
        ("dates.npy", array("'<M8[ns]'", false, "(1,)", &[0; 8])),
        ("long_double.npy", array("'<f16'", false, "(1,)", &[0; 16])),
        ("version.npy", versioned((9, 0), b"{}", &[])),
        ("readme.txt", b"hello".to_vec()),
    ];
    let mut members: Vec<Member> = odd.iter().map(|(name, bytes)| Member::plain(name, bytes)).collect();
    members.push(Member::plain("weights.npy", &three_floats()));
    members.push(Member { method: 97, ..Member::plain("wavpack.npy", &three_floats()) });
    let reader = open(archive(&members));
    assert_eq!(reader.names().collect::<Vec<_>>(), ["weights"]);
    let skipped: Vec<(&str, &str)> =
        reader.skipped().iter().map(|skipped| (skipped.name.as_str(), skipped.reason.as_str())).collect();
    assert_eq!(skipped.len(), odd.len() + 1);
    let reason = |name: &str| skipped.iter().find(|(known, _)| *known == name).unwrap().1;
    assert!(reason("objects").contains("Python objects"));
    assert!(reason("records").contains("structured"));
    assert!(reason("texts").contains("strings"));
    assert!(reason("readme.txt").contains("not an .npy array"));
    assert!(reason("wavpack").contains("method 97"));
}

#[test]
fn an_archive_without_arrays_needs_its_extension() {
    let folder = tempfile::tempdir().unwrap();
    let empty = archive(&[]);
    assert_eq!(Reader::from_bytes(empty.clone()).map(drop).unwrap_err().kind(), Kind::UnknownFormat);
    let path = folder.path().join("empty.npz");
    std::fs::write(&path, empty).unwrap();
    assert!(Reader::open(&path).unwrap().is_empty());
}

#[test]
fn a_file_that_is_read_in_pieces_gives_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arrays.npz");
    let data: Vec<u8> = (0..100_000u32).map(|value| value.wrapping_mul(value) as u8).collect();
    let file = array("'|u1'", false, "(1000, 100)", &data);
    let members = [Member::plain("plain.npy", &file), Member::compressed("compressed.npy", &file)];
    std::fs::write(&path, archive(&members)).unwrap();
    let options = ztensor::OpenOptions { io: ztensor::Io::Read, ..Default::default() };
    let reader = options.open(&path).unwrap();
    assert!(*reader.bytes("plain").unwrap() == *data);
    assert!(*reader.bytes("compressed").unwrap() == *data);
}
