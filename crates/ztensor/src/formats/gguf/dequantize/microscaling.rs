//! Four-bit floats with a scale of one byte per 32 (MXFP4) or 16 (NVFP4) elements. The table holds twice the values of E2M1, so that
//! they are integers; the scales are halved to make up for it.

use super::nonlinear::nibbles;

/// E2M1, doubled.
const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

pub(in super::super) fn mxfp4(block: &[u8; 17], out: &mut [f32; 32]) {
    nibbles(half_power_of_two(block[0]), &DOUBLED, &block[1..], out);
}

/// Half of 2^(exponent − 127); the two smallest are subnormal.
fn half_power_of_two(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 | 1 => 0x0020_0000 << exponent,
        _ => u32::from(exponent - 1) << 23,
    })
}

pub(in super::super) fn nvfp4(block: &[u8; 36], out: &mut [f32; 64]) {
    let (scales, quants) = block.split_at(4);
    let groups = quants.chunks_exact(8).zip(out.chunks_exact_mut(16));
    for (&scale, (quants, out)) in scales.iter().zip(groups) {
        nibbles(half_e4m3(scale), &DOUBLED, quants, out);
    }
}

/// Half of an unsigned E4M3: the sign bit is ignored, and the pattern that would be NaN counts as zero.
fn half_e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = (byte >> 3 & 15, f32::from(byte & 7));
    let value = match (byte, exponent) {
        (0 | 0x7F, _) => 0.0,
        (_, 0) => mantissa * f32::from_bits((127 - 9) << 23),
        _ => (1.0 + mantissa / 8.0) * f32::from_bits((u32::from(exponent) + 127 - 7) << 23),
    };
    value * 0.5
}
