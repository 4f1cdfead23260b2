//! A block to a bitmap, the signs of its zeros and a dense rest.

use super::model::SparseModel;
use crate::entropy::plane;
use crate::error::Result;
use crate::frame::wire::put_length;
use crate::transform::Position;

impl SparseModel {
    /// Appends a block.
    pub(super) fn encode_block(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let sparse = encode(bytes, self.width, self.is_float);
        plane::write_bytes(&sparse.bitmap, out)?;
        put_length(out, sparse.zero_signs.len());
        plane::write_bytes(&sparse.zero_signs, out)?;
        self.dense.encode(&sparse.dense, Position::element(0), out)
    }
}

/// A pruned block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Sparse {
    /// One bit per element, from the low end of each byte: set where the element is not zero.
    pub(crate) bitmap: Vec<u8>,
    /// One bit per zero: set where it is minus zero. Empty if none is.
    pub(crate) zero_signs: Vec<u8>,
    /// The elements that are not zero.
    pub(crate) dense: Vec<u8>,
}

/// Which patterns count as zero: all bits clear, and for floats all bits but the sign.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zeros {
    pub has_sign: bool,
}

impl Zeros {
    /// Whether an element is a zero, and a minus zero.
    #[inline(always)]
    pub fn look(self, element: &[u8]) -> (bool, bool) {
        let Some((&top, rest)) = element.split_last() else { return (false, false) };
        let low = rest.iter().fold(0, |all, &byte| all | byte);
        let sign = u8::from(self.has_sign) << 7;
        // Branch-free: which elements are zero is unpredictable.
        let zero = (low == 0) & (top & !sign == 0);
        (zero, zero & (top != 0))
    }
}

/// Takes the zeros out of a block of whole elements.
pub(crate) fn encode(elements: &[u8], width: usize, is_float: bool) -> Sparse {
    match width {
        1 => encode_width::<1>(elements, is_float),
        2 => encode_width::<2>(elements, is_float),
        4 => encode_width::<4>(elements, is_float),
        _ => encode_width::<8>(elements, is_float),
    }
}

fn encode_width<const WIDTH: usize>(elements: &[u8], is_float: bool) -> Sparse {
    let zeros = Zeros { has_sign: is_float };
    let (elements, _) = elements.as_chunks::<WIDTH>();
    let mut bitmap = vec![0; elements.len().div_ceil(8)];
    let mut dense = vec![0; elements.len() * WIDTH];
    let (mut length, mut any_minus) = (0, false);
    let (places, _) = dense.as_chunks_mut::<WIDTH>();
    for (mask, group) in bitmap.iter_mut().zip(elements.chunks(8)) {
        let mut bits = 0;
        for (bit, element) in group.iter().enumerate() {
            let (zero, minus) = zeros.look(element);
            // Every element is written and the next one overwrites a zero: cheaper than an unpredictable
            // branch.
            if let Some(place) = places.get_mut(length) {
                *place = *element;
            }
            length += usize::from(!zero);
            bits |= u8::from(!zero) << bit;
            any_minus |= minus;
        }
        *mask = bits;
    }
    dense.truncate(length * WIDTH);
    let zero_signs = if any_minus { zero_signs(elements, zeros) } else { Vec::new() };
    Sparse { bitmap, zero_signs, dense }
}

/// The signs of the zeros.
fn zero_signs<const WIDTH: usize>(elements: &[[u8; WIDTH]], zeros: Zeros) -> Vec<u8> {
    let mut bits = ZeroSignBits::with_room_for(elements.len());
    for group in elements.chunks(8) {
        let (mut signs, mut found) = (0u16, 0);
        for element in group {
            let (zero, minus) = zeros.look(element);
            signs |= u16::from(minus) << found;
            found += u32::from(zero);
        }
        bits.push(signs as u8, found);
    }
    bits.finish()
}

/// Bits appended from the low end of each byte up.
struct ZeroSignBits {
    bytes: Vec<u8>,
    /// Those that do not fill a byte yet.
    last: u16,
    count: u32,
}

impl ZeroSignBits {
    fn with_room_for(bits: usize) -> Self {
        Self { bytes: Vec::with_capacity(bits.div_ceil(8)), last: 0, count: 0 }
    }

    /// Appends `count` bits, at most eight; those above are 0.
    fn push(&mut self, bits: u8, count: u32) {
        self.last |= u16::from(bits) << self.count;
        self.count += count;
        if self.count >= 8 {
            self.bytes.push(self.last as u8);
            self.last >>= 8;
            self.count -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.last as u8);
        }
        self.bytes
    }
}
