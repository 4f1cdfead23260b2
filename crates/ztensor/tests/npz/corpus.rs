//! The files of `conformance/` that this format has, as code: each file there must be what its entry here makes. With the environment
//! variable `ZTENSOR_WRITE_CORPUS` set, missing files are written.

use crate::builder::*;
use crate::stored::assert_stored;

type Files = Vec<(String, Vec<u8>)>;

/// One array of each type in both byte orders, stored and deflated in turn.
pub fn every_type() -> Vec<u8> {
    let types =
        ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "V2", "f1"];
    let mut members = Vec::new();
    for (number, code) in types.iter().enumerate() {
        let width: usize = code[1..].parse().unwrap();
        for order in ["<", ">"] {
            let file = array(&format!("'{order}{code}'"), number % 3 == 0, "(2, 2)", &vec![1; 4 * width]);
            let name = format!("{order}{code}.npy");
            members.push(if number % 2 == 0 {
                Member::plain(&name, &file)
            } else {
                Member::deflated(&name, &file)
            });
        }
    }
    archive(&members)
}

pub fn mixed() -> Vec<u8> {
    archive(&[
        Member::plain("weights.npy", &three_floats()),
        Member::deflated("deflated.npy", &three_floats()),
        Member::plain("texts.npy", &array("'<U2'", false, "(1,)", &[0; 8])),
        Member::deflated("objects.npy", &array("'|O'", false, "(1,)", b"\x80\x04N.")),
        Member::deflated("fortran.npy", &array("'>i2'", true, "(2, 3)", &[0; 12])),
        Member::plain("scalar.npy", &array("'<f8'", false, "()", &[0; 8])),
        Member::plain("empty.npy", &array("'<f8'", false, "(0,)", &[])),
        Member::plain("notes.txt", b"hello"),
    ])
}

fn valid() -> Files {
    let header = b"{'descr': '<i2', 'fortran_order': False, 'shape': (1,), }\n";
    let mut files: Files = [("every-type", every_type()), ("mixed", mixed()), ("no-members", archive(&[]))]
        .map(|(name, bytes)| (format!("{name}.npz"), bytes))
        .to_vec();
    for major in 1..=3 {
        files.push((format!("version-{major}.npy"), versioned((major, 0), header, &[5, 0])));
    }
    files.push(("fortran-order.npy".to_owned(), array("'<i2'", true, "(2, 3)", &[7; 12])));
    files
}

fn reject() -> Files {
    let dictionary = |text: &str| with_header(text, &[0; 8]);
    let rest = "'fortran_order': False, 'shape': (1,)";
    let shaped = |shape: &str| array("'<f8'", false, shape, &[0; 8]);
    let arrays = [
        ("header-not-a-dictionary", dictionary("('<f8', False, (1,))")),
        ("header-is-code", dictionary("__import__('os').abort()")),
        ("header-not-closed", dictionary(&format!("{{'descr': '<f8', {rest}"))),
        ("header-followed-by-text", dictionary(&format!("{{'descr': '<f8', {rest}}} x"))),
        (
            "header-nested-too-deep",
            dictionary(&format!("{{'descr': {}{}, {rest}}}", "(".repeat(99), ")".repeat(99))),
        ),
        ("header-without-descr", dictionary(&format!("{{{rest}}}"))),
        ("header-key-unknown", dictionary(&format!("{{'descr': '<f8', {rest}, 'extra': 1}}"))),
        ("header-key-twice", dictionary(&format!("{{'descr': '<f8', 'descr': '<f4', {rest}}}"))),
        ("header-longer-than-file", versioned((1, 0), b"{}", &[])[..11].to_vec()),
        (
            "header-length-beyond-file",
            [b"\x93NUMPY\x02\0".as_slice(), &60_000u32.to_le_bytes(), b"{}"].concat(),
        ),
        ("header-not-utf8", versioned((3, 0), b"{'\xFF': 1}", &[])),
        ("order-not-a-boolean", dictionary("{'descr': '<f8', 'fortran_order': 0, 'shape': (1,)}")),
        ("shape-not-a-tuple", shaped("[1]")),
        ("shape-without-comma", shaped("(1)")),
        ("dimension-negative", shaped("(-1,)")),
        ("dimension-not-an-integer", shaped("('1',)")),
        ("dimension-2-to-64", shaped("(18446744073709551616,)")),
        ("dimensions-65", shaped(&format!("({})", "1,".repeat(65)))),
        ("elements-overflow", shaped("(4611686018427387904, 4)")),
        ("elements-overflow-beside-zero", shaped("(0, 4611686018427387904, 4)")),
        ("bytes-overflow", shaped("(4611686018427387904,)")),
        ("data-truncated", shaped("(2,)")),
        ("data-followed-by-more", shaped("(0,)")),
    ];
    let one = |member: Member| archive(&[member]);
    let good = Member::deflated("a.npy", &three_floats());
    let mut overlapping =
        archive(&[Member::plain("a.npy", &three_floats()), Member::plain("a.npy", &three_floats())]);
    let second = overlapping.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
    overlapping[second + 42..second + 46].fill(0);
    let mut unfinished = good.clone();
    unfinished.stored.truncate(unfinished.stored.len() - 6);
    let mut followed = good.clone();
    followed.stored.push(0);
    let mut damaged = good.clone();
    damaged.stored[60] ^= 1;
    let mut bit = Member::deflated("a.npy", &three_floats());
    let last = bit.stored.len() - 1;
    bit.stored[last] ^= 1;
    let huge = array("'<f8'", false, "(1000000,)", &[]);
    let archives = [
        ("member-truncated", one(Member::plain("a.npy", &three_floats()[..90]))),
        ("member-not-an-array", one(Member::plain("a.npy", b"this is no array"))),
        ("member-empty", one(Member::plain("a.npy", b""))),
        ("member-empty-deflated", one(Member::deflated("a.npy", b""))),
        ("member-name-twice", archive(&[good.clone(), good.clone()])),
        ("members-overlap", overlapping),
        ("deflate-damaged-header", one(damaged)),
        ("deflate-crc-wrong", one(bit)),
        ("deflate-crc-announced-wrong", one(Member { crc32: 1, ..good.clone() })),
        ("deflate-ends-early", one(unfinished)),
        ("deflate-followed-by-more", one(followed)),
        (
            "deflate-shorter-than-announced",
            one(Member { decoded_length: good.decoded_length + 4, ..good.clone() }),
        ),
        (
            "deflate-longer-than-announced",
            one(Member { decoded_length: good.decoded_length - 4, ..good.clone() }),
        ),
        ("deflate-announces-the-impossible", one(Member { decoded_length: 1 << 30, ..good.clone() })),
        ("deflate-shape-beyond-content", one(Member::deflated("a.npy", &huge))),
        ("archive-cut-off", mixed()[..200].to_vec()),
    ];
    let named = |(name, bytes): (&str, Vec<u8>), extension: &str| (format!("{name}.{extension}"), bytes);
    arrays.map(|file| named(file, "npy")).into_iter().chain(archives.map(|file| named(file, "npz"))).collect()
}

#[test]
fn the_corpus_is_what_it_is_meant_to_be() {
    for (kind, files) in [("valid", valid()), ("reject", reject())] {
        let files = files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice()));
        assert_stored(&format!("{kind}/npz"), files);
    }
}
