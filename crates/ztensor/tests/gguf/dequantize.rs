//! Dequantised values: digests taken from ggml's own Python package on the same noise, and values worked out by hand for
//! the types that package does not decode.

use half::f16;
use sha2::{Digest, Sha256};
use ztensor::Reader;
use ztensor::formats::gguf::{BlockType, dequantize};

use crate::builder::{Order, noise};
use crate::corpus::{BLOCK_TYPES, block_types, little};

/// The first eight bytes of the SHA-256 of 64 blocks of noise, dequantised, with every NaN written as 0x7FC00000.
const REFERENCE: &[(&str, &str)] = &[
    ("q4_0", "13ee4d380aa7987d"),
    ("q4_1", "6e1eb54188ec9b84"),
    ("q5_0", "21e2218231bbd78d"),
    ("q5_1", "7a70b28b16faea20"),
    ("q8_0", "5be04944418fc0fa"),
    ("q2_k", "ff3581d114f48804"),
    ("q3_k", "d752aa31b8d25111"),
    ("q4_k", "3953d87c11d6c062"),
    ("q5_k", "7c95fac950daf8bd"),
    ("q6_k", "c242f18752b4cad8"),
    ("iq2_xxs", "60df599017325b5e"),
    ("iq2_xs", "10beb825a8f93929"),
    ("iq3_xxs", "ed51dffc510f944d"),
    ("iq1_s", "de9de05395c434f6"),
    ("iq4_nl", "01f4d228c48470f3"),
    ("iq3_s", "c30acdaa062163fc"),
    ("iq2_s", "9a005d9c50977c5b"),
    ("iq4_xs", "1c487d89d5bf5db8"),
    ("iq1_m", "e1b3b05de4d2c8da"),
    ("tq1_0", "d7c848f21ec1b0e5"),
    ("tq2_0", "e8f6567b2bafdc21"),
    ("mxfp4", "8dab27f5cd9c3c12"),
    ("nvfp4", "ba2a44bf349d648f"),
];

fn decode(name: &str, blocks: &[u8]) -> Vec<f32> {
    let block = BlockType::from_layout(&format!("gguf.{name}/1")).unwrap();
    let mut out = vec![0f32; blocks.len() / block.bytes() * block.elements()];
    dequantize(block, blocks, &mut out).unwrap();
    out
}

#[test]
fn values_are_those_of_the_reference() {
    for &(name, expected) in REFERENCE {
        let block = BlockType::from_layout(&format!("gguf.{name}/1")).unwrap();
        let mut hasher = Sha256::new();
        for value in decode(name, &noise(7, 64 * block.bytes())) {
            let bits = if value.is_nan() { 0x7FC0_0000 } else { value.to_bits() };
            hasher.update(bits.to_le_bytes());
        }
        let found: String = hasher.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn types_without_a_reference_follow_their_definition() {
    let half = f16::from_f32(0.5).to_le_bytes();
    let single = 0.25f32.to_le_bytes();

    let q1 = decode("q1_0", &[&half[..], &[0b0000_0110], &[0; 15]].concat());
    assert_eq!(q1[..4], [-0.5, 0.5, 0.5, -0.5]);

    for (name, rest) in [("q2_0", 15), ("q2_0_wide", 31)] {
        let q2 = decode(name, &[&half[..], &[0b11_10_01_00], &vec![0b01_01_01_01; rest]].concat());
        assert_eq!(q2[..5], [-0.5, 0.0, 0.5, 1.0, 0.0], "{name}");
    }

    let quants = [3u8, 0xFF, 0x80];
    let expected = [1.5, -0.5, -64.0];
    assert_eq!(decode("q8_1", &[&half[..], &[9, 9], &quants, &[0; 29]].concat())[..3], expected);
    let expected = [0.75, -0.25, -32.0];
    assert_eq!(decode("q8_1_wide", &[&single[..], &[9; 4], &quants, &[0; 29]].concat())[..3], expected);
    assert_eq!(decode("q8_k", &[&single[..], &quants, &[0; 253], &[9; 32]].concat())[..3], expected);
}

#[test]
fn large_tensors_decode_in_parallel_to_the_same_values() {
    for &block in BlockType::ALL {
        let blocks = noise(11, (200_000 / block.elements() + 1) * block.bytes());
        let whole = decode(block.name(), &blocks);
        for (blocks, values) in
            blocks.chunks(7 * block.bytes()).zip(whole.chunks(7 * block.elements())).step_by(97)
        {
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&decode(block.name(), blocks)), bits(values), "{}", block.name());
        }
    }
}

#[test]
fn half_precision_is_the_rounded_single_precision() {
    for &(_, name, bytes, elements) in BLOCK_TYPES {
        let block = BlockType::from_layout(&format!("gguf.{name}/1")).unwrap();
        let blocks = noise(5, 16 * bytes);
        let mut narrow = vec![f16::ZERO; 16 * elements];
        dequantize(block, &blocks, &mut narrow).unwrap();
        for (wide, narrow) in decode(name, &blocks).into_iter().zip(narrow) {
            let rounded = f16::from_f32(wide);
            assert!(rounded.to_bits() == narrow.to_bits() || (wide.is_nan() && narrow.is_nan()), "{name}");
        }
    }
}

#[test]
fn lengths_have_to_match() {
    let mut out = [0f32; 32];
    assert!(dequantize(BlockType::Q8_0, &[0; 33], &mut out).is_err());
    assert!(dequantize(BlockType::Q8_0, &[0; 68], &mut out).is_err());
    assert!(dequantize(BlockType::Q8_0, &[0; 34], &mut out).is_ok());
}

#[test]
fn a_reader_dequantises_by_name() {
    let reader = Reader::from_bytes(block_types(Order::Little).build()).unwrap();
    for &(number, name, bytes, _) in BLOCK_TYPES {
        let expected = decode(name, &noise(number.into(), 2 * bytes));
        let found = reader.dequantize(name).unwrap();
        assert!(found.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}");
    }
    let plain = little().tensor("plain", &[1], 0, &[0; 4]).build();
    assert_eq!(
        Reader::from_bytes(plain).unwrap().dequantize("plain").unwrap_err().kind(),
        ztensor::Kind::Mismatch
    );
}

#[test]
fn big_endian_scales_are_turned_round() {
    // One block each, with the scale stored the other way round.
    let scale = f16::from_f32(0.5).to_be_bytes();
    let file = crate::builder::Builder::new(Order::Big)
        .tensor("q8_0", &[32], 8, &[&scale[..], &[2; 32]].concat())
        .tensor("q4_k", &[256], 12, &[&scale[..], &scale, &[1; 12], &[0x22; 128]].concat())
        .tensor("q6_k", &[256], 14, &[&[0x11; 192][..], &[2; 16], &scale].concat())
        .tensor("mxfp4", &[32], 39, &[&[128][..], &[0x22; 16]].concat());
    let reader = Reader::from_bytes(file.build()).unwrap();
    assert_eq!(reader.dequantize("q8_0").unwrap(), [1.0; 32]);
    assert_eq!(reader.dequantize("q4_k").unwrap()[..32], [0.5; 32]);
    assert_eq!(reader.dequantize("q6_k").unwrap()[..16], [-15.0; 16]);
    assert_eq!(reader.dequantize("mxfp4").unwrap(), [2.0; 32]);
}
