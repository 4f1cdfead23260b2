//! Broken frames give an error or the right bytes, never a panic, and never more memory than the frame can
//! justify.
#![allow(clippy::unwrap_used)]

use z4ai::{Dtype, Effort, ErrorKind, Options};

/// Small frames of every kind of section and block.
fn frames() -> Vec<(Vec<u8>, Vec<u8>)> {
    let floats: Vec<u8> =
        (0..600u32).flat_map(|i| (0x3c00u16 + (i * i % 997) as u16).to_le_bytes()).collect();
    let text = b"the quick brown fox jumps over the lazy dog; ".repeat(20);
    let zeros = vec![0; 4000];
    let pruned: Vec<u8> = floats
        .chunks(2)
        .enumerate()
        .flat_map(|(i, pair)| if i % 3 == 0 { [pair[0], pair[1]] } else { [0; 2] })
        .collect();
    let quantised: Vec<u8> = (0..600u32)
        .flat_map(|i| {
            let scale = f32::from_bits(0x3c01_2000 + i / 30 * 0x7_3000);
            (((i * i % 31) as f32 - 15.0) * scale).to_le_bytes()
        })
        .collect();
    let few: Vec<u8> = (0..900u32)
        .flat_map(|i| {
            [0.123_456_7f32, -0.123_456_7, 0.765_432_1, 0.0][(i * i * i % 13 % 4) as usize].to_le_bytes()
        })
        .collect();
    let tile: Vec<u8> =
        (0..2500u32).flat_map(|i| (i.wrapping_mul(i).wrapping_mul(2654435761) >> 3).to_le_bytes()).collect();
    // Kernels of very different sizes.
    let filters: Vec<u8> = (0..2304u32)
        .flat_map(|i| {
            let exponent = 0x3a00 + ((i / 9).wrapping_mul(2654435761) >> 28 << 7) as u16;
            (exponent + (i.wrapping_mul(i).wrapping_mul(2654435761) >> 24) as u16).to_le_bytes()
        })
        .collect();
    let subnormals: Vec<u8> = (0..3000u32)
        .flat_map(|i| {
            let noise = i.wrapping_mul(i).wrapping_mul(2654435761);
            ((noise >> 24 >> (i % 50 / 10)) as u16 | (noise as u16 & 0x8000)).to_le_bytes()
        })
        .collect();
    // What was bf16 before, but for one element.
    let mut halves: Vec<u8> = (0..3000u32)
        .flat_map(|i| {
            let noise = i.wrapping_mul(i).wrapping_mul(2654435761);
            ((0x2c00 + (noise >> 20) as u16) & 0xbff8 | (noise as u16 & 0x8000)).to_le_bytes()
        })
        .collect();
    halves[1000] |= 1;
    let tiled = [&tile[..], &floats, &tile].concat();
    let mut frames = Vec::new();
    for effort in [Effort::Fast, Effort::Default, Effort::Max] {
        for (bytes, options) in [
            (&floats, Options::new(Dtype::Bf16).shape([20, 30])),
            (&floats, Options::new(Dtype::F32)),
            (&floats, Options::new(Dtype::F64).shape([3, 50])),
            (&floats, Options::new(Dtype::I16)),
            (&floats, Options::new(Dtype::F8E4M3)),
            (&text, Options::default()),
            (&zeros, Options::new(Dtype::F16)),
            (&pruned, Options::new(Dtype::Bf16)),
            (&quantised, Options::new(Dtype::F32).shape([20, 30])),
            (&few, Options::new(Dtype::F32)),
            (&filters, Options::new(Dtype::Bf16).shape([16, 16, 3, 3])),
            (&halves, Options::new(Dtype::F16).shape([60, 50])),
            (&subnormals, Options::new(Dtype::F16).shape([60, 50])),
        ] {
            let mut options = options.effort(effort);
            options.numpy_dtype = Some("<f4".into());
            frames.push((bytes.clone(), z4ai::compress(bytes, &options).unwrap()));
        }
        let options = Options::new(Dtype::F32).effort(effort);
        frames.push((tiled.clone(), z4ai::compress(&tiled, &options).unwrap()));
    }
    frames
}

/// Every model and every mode of a block is among the frames.
#[test]
fn all_transforms_take_part() {
    let names: std::collections::BTreeSet<String> = frames()
        .iter()
        .flat_map(|(_, frame)| z4ai::Info::read(frame).unwrap().transforms)
        .map(|part| part.name)
        .collect();
    for name in [
        "float",
        "adaptive",
        "subnormal",
        "cast",
        "planes",
        "fast",
        "palette",
        "grid",
        "sparse",
        "opaque",
        "constant",
        "copy",
    ] {
        assert!(names.contains(name), "{name} is not in {names:?}");
    }
}

#[test]
fn every_flip_is_noticed_or_harmless() {
    for (bytes, mut frame) in frames() {
        // The middle of a long frame is noise to flip; its structure is at the start.
        let step = 1 + frame.len() / 4000;
        for index in (0..frame.len().min(1000)).chain((1000..frame.len()).step_by(step)) {
            for flip in [1u8, 0x80, 0xff] {
                frame[index] ^= flip;
                if let Ok(decoded) = z4ai::decompress(&frame) {
                    assert!(decoded == bytes, "byte {index} of {}", frame.len());
                }
                frame[index] ^= flip;
            }
        }
    }
}

#[test]
fn every_truncation_is_noticed() {
    for (_, frame) in frames() {
        let step = 1 + frame.len() / 4000;
        for length in (0..frame.len().min(1000)).chain((1000..frame.len()).step_by(step)) {
            assert!(z4ai::decompress(&frame[..length]).is_err(), "{length} of {}", frame.len());
        }
        let longer = [&frame[..], &[0]].concat();
        assert!(z4ai::decompress(&longer).is_err());
    }
}

/// Appends the low `count` bytes of the checksum of `bytes`.
fn checksummed(mut bytes: Vec<u8>, count: usize) -> Vec<u8> {
    let sum = twox_hash::XxHash3_64::oneshot(&bytes).to_le_bytes();
    bytes.extend_from_slice(&sum[..count]);
    bytes
}

#[test]
fn enormous_claims_cost_nothing() {
    // A header that declares 2^60 bytes, and nothing behind it.
    let enormous = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
    let header = checksummed([&b"Z4AI\x02\x11\x01"[..], &enormous].concat(), 2);
    assert_eq!(z4ai::decompress(&header).unwrap_err().kind(), ErrorKind::Truncated);
    // The same with a section that claims them in one block, stored or constant.
    for (model, payload) in [(0u8, vec![0u8]), (2, vec![2, 0, 0])] {
        let section = [&enormous[..], &[0, 1, payload.len() as u8, 0, 0, 0, 0, model]].concat();
        let frame = [header.clone(), checksummed(section, 4), payload].concat();
        let error = z4ai::decompress(&frame).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}

#[test]
fn foreign_bytes_are_named() {
    assert_eq!(z4ai::decompress(b"").unwrap_err().kind(), ErrorKind::NotAFrame);
    assert_eq!(z4ai::decompress(b"\x93NUMPY").unwrap_err().kind(), ErrorKind::NotAFrame);
    assert_eq!(z4ai::decompress(b"Z4AI\x01\0\x02\0").unwrap_err().kind(), ErrorKind::UnsupportedVersion);
    assert_eq!(z4ai::decompress(b"Z4AI\x07").unwrap_err().kind(), ErrorKind::UnsupportedVersion);
}
