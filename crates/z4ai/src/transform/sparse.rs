//! Pruned tensors: a bitmap of the elements that are not zero, and those elements one after the other.
//!
//! Pruning by a mask turns negative weights into minus zero, so floats have a second bitmap with the signs of the zeros,
//! present only when there is a minus zero. The dense rest is again a tensor of the same dtype for the usual coder.

use crate::arch::Kernel;
use crate::error::{Error, Result};

/// Zeros per 256 elements from which the bitmap pays for itself.
const WORTH_IT: usize = 48;
/// Elements looked at by [`detect`].
const SAMPLE: usize = 4096;

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
struct Zeros {
    width: usize,
    has_sign: bool,
}

impl Zeros {
    /// Whether an element is a zero, and a minus zero.
    #[inline(always)]
    fn look(self, element: &[u8]) -> (bool, bool) {
        let Some((&top, rest)) = element.split_last() else { return (false, false) };
        let low = rest.iter().fold(0, |all, &byte| all | byte);
        let sign = u8::from(self.has_sign) << 7;
        // Nobody can predict which elements are zero, so there is no branch.
        let zero = (low == 0) & (top & !sign == 0);
        (zero, zero & (top != 0))
    }
}

/// Whether enough elements are zero, judged by a sample.
pub(crate) fn detect(elements: &[u8], width: usize, is_float: bool) -> bool {
    let zeros = Zeros { width: width.max(1), has_sign: is_float };
    let count = elements.len() / zeros.width;
    let step = (count / (SAMPLE / 16)).max(16) * zeros.width;
    let sample = elements.chunks(step).flat_map(|part| part.chunks_exact(zeros.width).take(16));
    let (seen, found) =
        sample.fold((0, 0), |(seen, found), element| (seen + 1, found + usize::from(zeros.look(element).0)));
    seen > 0 && found * 256 >= seen * WORTH_IT
}

/// Take the zeros out of a block of whole elements.
pub(crate) fn encode(elements: &[u8], width: usize, is_float: bool) -> Sparse {
    match width {
        1 => encode_width::<1>(elements, is_float),
        2 => encode_width::<2>(elements, is_float),
        4 => encode_width::<4>(elements, is_float),
        _ => encode_width::<8>(elements, is_float),
    }
}

fn encode_width<const WIDTH: usize>(elements: &[u8], is_float: bool) -> Sparse {
    let zeros = Zeros { width: WIDTH, has_sign: is_float };
    let (elements, _) = elements.as_chunks::<WIDTH>();
    let mut bitmap = vec![0; elements.len().div_ceil(8)];
    let mut dense = vec![0; elements.len() * WIDTH];
    let (mut length, mut any_minus) = (0, false);
    let (places, _) = dense.as_chunks_mut::<WIDTH>();
    for (mask, group) in bitmap.iter_mut().zip(elements.chunks(8)) {
        let mut bits = 0;
        for (bit, element) in group.iter().enumerate() {
            let (zero, minus) = zeros.look(element);
            // Every element is written and the next one overwrites a zero: cheaper than a branch that nobody can predict.
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
    let mut bits = Bits::with_room_for(elements.len());
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
struct Bits {
    bytes: Vec<u8>,
    /// Those that do not fill a byte yet.
    last: u16,
    count: u32,
}

impl Bits {
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

/// How many elements a bitmap says are not zero, if it fits `count` elements. This is the length of the dense rest.
pub(crate) fn dense_count(bitmap: &[u8], count: usize) -> Result<usize> {
    let unused =
        bitmap.len().checked_mul(8).and_then(|bits| bits.checked_sub(count)).filter(|&unused| unused < 8);
    let unused = unused.ok_or_else(|| Error::corrupt("a sparse block has one bit per element"))?;
    if bitmap.last().is_some_and(|&last| u32::from(last) >> (8 - unused) != 0) {
        return Err(Error::corrupt("a sparse bitmap marks elements past the end"));
    }
    let (words, rest) = bitmap.as_chunks();
    let count: u32 = words.iter().map(|word| u64::from_le_bytes(*word).count_ones()).sum();
    Ok(count as usize + rest.iter().map(|byte| byte.count_ones() as usize).sum::<usize>())
}

/// Put zeros and dense elements of a block together again.
pub(crate) fn decode(
    bitmap: &[u8],
    zero_signs: &[u8],
    dense: &[u8],
    width: usize,
    kernel: Kernel,
    out: &mut [u8],
) -> Result<()> {
    match width {
        1 => decode_width::<1>(bitmap, zero_signs, dense, kernel, out),
        2 => decode_width::<2>(bitmap, zero_signs, dense, kernel, out),
        4 => decode_width::<4>(bitmap, zero_signs, dense, kernel, out),
        8 => decode_width::<8>(bitmap, zero_signs, dense, kernel, out),
        _ => Err(Error::corrupt("sparse elements have 1, 2, 4 or 8 bytes")),
    }
}

fn decode_width<const WIDTH: usize>(
    bitmap: &[u8],
    zero_signs: &[u8],
    dense: &[u8],
    kernel: Kernel,
    out: &mut [u8],
) -> Result<()> {
    let (elements, rest) = out.as_chunks_mut::<WIDTH>();
    let filled = dense_count(bitmap, elements.len())?;
    let sign_bytes = if zero_signs.is_empty() { 0 } else { (elements.len() - filled).div_ceil(8) };
    let (dense, partial) = dense.as_chunks::<WIDTH>();
    if !rest.is_empty() || !partial.is_empty() || dense.len() != filled || zero_signs.len() != sign_bytes {
        return Err(Error::corrupt("the planes of a sparse block have the lengths that its bitmap asks for"));
    }
    let (groups, mut position) = kernel.spread(bitmap, dense, elements);
    for (elements, &mask) in elements.chunks_mut(8).zip(bitmap).skip(groups) {
        // Rows that were never touched, and whole ones, come in runs.
        if mask == 0 {
            elements.fill([0; WIDTH]);
            continue;
        }
        if let (0xff, Some(values)) = (mask, dense.get(position..position + elements.len())) {
            elements.copy_from_slice(values);
            position += elements.len();
            continue;
        }
        for (bit, element) in elements.iter_mut().enumerate() {
            // The next dense element is read either way and masked out where a zero belongs: cheaper than a branch that nobody can predict.
            let present = mask >> bit & 1;
            let value = dense.get(position).copied().unwrap_or([0; WIDTH]);
            *element = value.map(|byte| byte & present.wrapping_neg());
            position += usize::from(present);
        }
    }
    if !zero_signs.is_empty() {
        restore_signs(bitmap, zero_signs, elements);
    }
    Ok(())
}

/// Gives the zeros their signs.
fn restore_signs<const WIDTH: usize>(bitmap: &[u8], zero_signs: &[u8], elements: &mut [[u8; WIDTH]]) {
    let mut zeros = 0_usize;
    for (elements, &mask) in elements.chunks_mut(8).zip(bitmap) {
        for (bit, element) in elements.iter_mut().enumerate() {
            if mask >> bit & 1 == 0 {
                let minus = zero_signs.get(zeros / 8).is_some_and(|byte| byte >> (zeros % 8) & 1 != 0);
                element[WIDTH - 1] = u8::from(minus) << 7;
                zeros += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(elements: &[u8], width: usize, is_float: bool) -> Sparse {
        let sparse = encode(elements, width, is_float);
        for kernel in Kernel::available() {
            let mut out = vec![0xcc; elements.len()];
            decode(&sparse.bitmap, &sparse.zero_signs, &sparse.dense, width, kernel, &mut out).unwrap();
            assert!(out == elements);
        }
        assert_eq!(dense_count(&sparse.bitmap, elements.len() / width).unwrap() * width, sparse.dense.len());
        sparse
    }

    fn pruned(keep_one_in: usize, minus: bool) -> Vec<u8> {
        let value = |index: usize| match (index.wrapping_mul(0x9e37_79b1) >> 7) % keep_one_in {
            0 => 1.5 + index as f32,
            1 if minus => -0.0,
            _ => 0.0,
        };
        (0..5000).flat_map(|index| value(index).to_le_bytes()).collect()
    }

    #[test]
    fn zeros_and_minus_zeros_are_told_apart() {
        let plain = round_trip(&pruned(5, false), 4, true);
        assert!(plain.zero_signs.is_empty());
        assert!(plain.dense.len() < 5000 * 4 / 4);
        let signed = round_trip(&pruned(5, true), 4, true);
        assert_eq!((signed.bitmap, signed.dense), (plain.bitmap, plain.dense));
        assert!(!signed.zero_signs.is_empty());
    }

    #[test]
    fn integers_have_no_minus_zero() {
        let elements: Vec<u8> =
            [i16::MIN, 0, 5, 0, i16::MIN].iter().flat_map(|value| value.to_le_bytes()).collect();
        let sparse = round_trip(&elements, 2, false);
        assert_eq!((sparse.bitmap, sparse.zero_signs.len(), sparse.dense.len()), (vec![0b10101], 0, 6));
    }

    #[test]
    fn dense_weights_are_refused() {
        assert!(detect(&pruned(2, false), 4, true));
        assert!(detect(&pruned(5, true), 4, true));
        let dense: Vec<u8> = (0..20_000_u32).flat_map(|index| (index * 77 % 1000).to_le_bytes()).collect();
        assert!(!detect(&dense, 4, true));
        assert!(!detect(&[], 4, true));
    }

    #[test]
    fn planes_of_other_lengths_are_refused() {
        let elements = pruned(3, true);
        let sparse = encode(&elements, 4, true);
        let mut out = vec![0; elements.len()];
        let Sparse { bitmap, zero_signs, dense } = &sparse;
        let decode = |bitmap: &[u8], zero_signs: &[u8], dense: &[u8], width: usize, out: &mut [u8]| {
            decode(bitmap, zero_signs, dense, width, Kernel::detect(), out)
        };
        assert!(decode(&bitmap[1..], zero_signs, dense, 4, &mut out).is_err());
        assert!(decode(bitmap, &zero_signs[1..], dense, 4, &mut out).is_err());
        assert!(decode(bitmap, zero_signs, &dense[4..], 4, &mut out).is_err());
        assert!(decode(bitmap, zero_signs, &dense[1..], 4, &mut out).is_err());
        assert!(decode(bitmap, zero_signs, dense, 3, &mut out).is_err());
        assert!(decode(bitmap, zero_signs, dense, 4, &mut out[36..]).is_err());
        assert!(dense_count(&[0b100], 2).is_err());
        assert!(dense_count(&[], 1).is_err());
        assert_eq!(dense_count(&[], 0).unwrap(), 0);
    }

    proptest! {
        #[test]
        fn any_elements_come_back(
            bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(0x80), any::<u8>()], 0..600),
            width in 0_usize..4,
            is_float in any::<bool>(),
        ) {
            let width = 1 << width;
            let whole = bytes.len() / width * width;
            round_trip(&bytes[..whole], width, is_float);
        }
    }
}
