//! Four-bit indices into a fixed table of sixteen values, spaced closer around zero than at the ends.

use super::{half_at, u16_at};

const VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

pub(in super::super) fn iq4_nl(block: &[u8; 18], out: &mut [f32; 32]) {
    nibbles(half_at(block, 0), &VALUES, &block[2..], out);
}

pub(in super::super) fn iq4_xs(block: &[u8; 136], out: &mut [f32; 256]) {
    let scale = half_at(block, 0);
    let high = u16_at(block, 2);
    let quants = block[8..].chunks_exact(16);
    for (group, (quants, out)) in quants.zip(out.as_chunks_mut::<32>().0).enumerate() {
        let low = block[4 + group / 2] >> (group % 2 * 4) & 15;
        let bits = low | ((high >> (2 * group) & 3) as u8) << 4;
        nibbles(scale * f32::from(bits as i8 - 32), &VALUES, quants, out);
    }
}

/// The low nibbles of all bytes, then the high ones, through a table.
#[inline(always)]
pub(super) fn nibbles(scale: f32, table: &[i8; 16], quants: &[u8], out: &mut [f32]) {
    let (low, high) = out.split_at_mut(quants.len());
    for (&byte, (low, high)) in quants.iter().zip(low.iter_mut().zip(high)) {
        *low = scale * f32::from(table[usize::from(byte & 15)]);
        *high = scale * f32::from(table[usize::from(byte >> 4)]);
    }
}
