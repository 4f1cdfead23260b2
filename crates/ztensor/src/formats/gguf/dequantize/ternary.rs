//! Elements that are −1, 0 or 1 times a scale: packed five to a byte in base three, or four to a byte in two bits.

use super::half_at;

/// A byte holds the fraction of a base-three number: times three to the power of *n*, without the carry, it begins with digit *n*.
#[inline(always)]
fn digit(byte: u8, power: u8) -> f32 {
    let fraction = u16::from(byte.wrapping_mul(power));
    f32::from(((fraction * 3) >> 8) as i8 - 1)
}

const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

pub(in super::super) fn tq1_0(block: &[u8; 54], out: &mut [f32; 256]) {
    let scale = half_at(block, 52);
    let (first, rest) = out.split_at_mut(5 * 32);
    let (second, third) = rest.split_at_mut(5 * 16);
    for (bytes, out) in [(&block[..32], first), (&block[32..48], second), (&block[48..52], third)] {
        for (out, power) in out.chunks_exact_mut(bytes.len()).zip(POWERS) {
            for (out, &byte) in out.iter_mut().zip(bytes) {
                *out = scale * digit(byte, power);
            }
        }
    }
}

pub(in super::super) fn tq2_0(block: &[u8; 66], out: &mut [f32; 256]) {
    let scale = half_at(block, 64);
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (half, shift) = (group / 4, group % 4 * 2);
        for (out, &byte) in out.iter_mut().zip(&block[half * 32..half * 32 + 32]) {
            *out = scale * f32::from((byte >> shift & 3) as i8 - 1);
        }
    }
}
