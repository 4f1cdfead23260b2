//! The description of a frame adds up, and names what was found.
#![allow(clippy::unwrap_used)]

use z4ai::{Dtype, Effort, Info, Options};

fn bf16(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes()).collect()
}

fn noise() -> impl FnMut() -> f32 {
    let mut state = 1u32;
    move || {
        let mut sum = 0.0;
        for _ in 0..4 {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            sum += (state >> 8) as f32 / (1 << 24) as f32 - 0.5;
        }
        sum
    }
}

fn describe(bytes: &[u8], options: Options) -> Info {
    let frame = z4ai::compress(bytes, &options).unwrap();
    let info = Info::read(&frame).unwrap();
    assert_eq!(info.decoded_len, bytes.len() as u64);
    assert_eq!(info.encoded_len, frame.len() as u64);
    assert_eq!(info.transforms.iter().map(|part| part.decoded_len).sum::<u64>(), bytes.len() as u64);
    let planes: u64 = info.planes.iter().map(|part| part.encoded_len).sum();
    // A coded block has a few bytes of modes and lengths besides its planes.
    assert!(planes <= info.encoded_len && planes + 48 * info.blocks as u64 >= info.encoded_len, "{info:?}");
    let estimate = z4ai::estimate(bytes, &options).unwrap();
    assert!((estimate / info.ratio() - 1.0).abs() < 0.05, "{estimate} {}", info.ratio());
    info
}

#[test]
fn transforms_are_named() {
    let mut next = noise();
    let dense = bf16((0..200_000).map(|_| next()));
    let options = Options::new(Dtype::Bf16).shape([500, 400]);
    let info = describe(&dense, options.clone());
    assert_eq!(info.transforms[0].name, "float");
    assert_eq!(info.shape, Some(vec![500, 400]));
    let floor = info.entropy_floor.unwrap();
    assert!(info.bits_per_element() < floor + 0.1, "{} {floor}", info.bits_per_element());
    assert!(info.planes.iter().any(|plane| plane.name == "exponent"));
    assert_eq!(describe(&dense, options.clone().effort(Effort::Fast)).transforms[0].name, "fast");
    let pruned = bf16((0..200_000).map(|i| if i * 7919 % 10 < 6 { 0.0 } else { next() }));
    assert_eq!(describe(&pruned, options.clone()).transforms[0].name, "sparse");
    let ternary = bf16((0..200_000).map(|_| (next() * 1.5).round() * 0.5));
    assert_eq!(describe(&ternary, options.clone()).transforms[0].name, "palette");
    let quantised = bf16((0..200_000).map(|i| {
        let scale = (1.0 + (i / 400 % 89) as f32 / 89.0) * 0.01;
        let scale = f32::from_bits(scale.to_bits() >> 16 << 16);
        (next() * 6.0).round() * scale
    }));
    let info = describe(&quantised, options);
    assert_eq!(info.transforms[0].name, "grid");
    assert!(info.ratio() > 3.0, "{}", info.ratio());
    let tiled = bf16((0..200_000).map(|i| (i % 1000 * 37 % 1000) as f32));
    assert_eq!(describe(&tiled, Options::new(Dtype::Bf16)).transforms[0].name, "copy");
    let text = b"weights and weights and ".repeat(4000);
    assert_eq!(describe(&text, Options::default()).transforms[0].name, "opaque");
}
