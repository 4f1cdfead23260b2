//! What wrong files do: an error, never a panic, and no memory out of proportion.

use ztensor::{Kind, Reader, Result};

use crate::builder::*;
use crate::corpus::{every_type, mixed};

fn read_all(bytes: Vec<u8>) -> Result<()> {
    let reader = Reader::from_bytes(bytes)?;
    for name in reader.names() {
        reader.bytes(name)?;
    }
    Ok(())
}

fn compressed() -> Vec<u8> {
    let data: Vec<u8> = (0..1200u32).map(|value| (value / 7) as u8).collect();
    archive(&[
        Member::compressed("a.npy", &array("'<f4'", true, "(10, 30)", &data)),
        Member::compressed("b.npy", &array("'|O'", false, "(1,)", b"N.")),
    ])
}

#[test]
fn every_truncation_is_an_error() {
    for file in [three_floats(), mixed(), compressed()] {
        for length in 0..file.len() {
            assert!(read_all(file[..length].to_vec()).is_err(), "{length} of {} bytes", file.len());
        }
    }
}

#[test]
fn every_flipped_byte_ends_in_a_result() {
    for file in [three_floats(), mixed(), compressed(), every_type()[..4000].to_vec()] {
        for position in 0..file.len() {
            for mask in [0xFF, 0x01, 0x80] {
                let mut changed = file.clone();
                changed[position] ^= mask;
                // Many flips leave a legal file; what counts is that nothing panics.
                let _ = read_all(changed);
            }
        }
    }
}

#[test]
fn no_flipped_byte_of_a_deflated_member_goes_unnoticed() {
    let member = Member::compressed("a.npy", &three_floats());
    let file = archive(std::slice::from_ref(&member));
    let start = file.windows(member.stored.len()).position(|window| *window == *member.stored).unwrap();
    for position in start..start + member.stored.len() {
        let mut changed = file.clone();
        changed[position] ^= 0x10;
        // A type that became another is skipped by name; bits behind the end of the stream mean nothing.
        if let Ok(reader) = Reader::from_bytes(changed)
            && let Some(Ok(bytes)) = reader.names().next().map(|name| reader.bytes(name))
        {
            assert!(three_floats().ends_with(&bytes), "byte {position}");
        }
    }
}

#[test]
fn a_bomb_is_refused_before_it_is_inflated() {
    // 64 MiB of zeros in 64 KiB, behind a header that announces three floats.
    let content = [three_floats(), vec![0; 64 << 20]].concat();
    let error = read_all(archive(&[Member::compressed("a.npy", &content)])).unwrap_err();
    assert_eq!(error.kind(), Kind::Malformed);
    assert!(error.message().contains("behind the elements"), "{error}");
}

#[test]
fn a_long_header_is_not_inflated() {
    let header = [b"{'descr': ".as_slice(), &vec![b' '; 100 << 20]].concat();
    let file = archive(&[Member::compressed("a.npy", &versioned((2, 0), &header, &[]))]);
    let reader = Reader::from_bytes(file).unwrap();
    assert!(reader.skipped()[0].reason.contains("header of"));
}
