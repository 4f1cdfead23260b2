//! Pruned tensors: a bitmap of the elements that are not zero, and those elements one after the other, coded
//! with a model of their own.
//!
//! Pruning by a mask turns negative weights into minus zero, so floats have a second bitmap with the signs of
//! the zeros, present only when there is a minus zero. The dense rest has lost its place, so its model knows
//! no rows or columns.

mod decode;
mod encode;
mod fit;
mod model;
mod steps;

pub(crate) use model::SparseModel;
pub(crate) use steps::{Steps, spread};

#[cfg(test)]
mod tests {
    use super::Steps;
    use super::decode::{decode, dense_count};
    use super::encode::{Sparse, encode};
    use super::fit::detect;
    use crate::agreement::on_each;
    use crate::arch::{Kernel, dispatch};
    use proptest::prelude::*;

    fn round_trip(elements: &[u8], width: usize, is_float: bool) -> Sparse {
        let sparse = encode(elements, width, is_float);
        for kernel in Kernel::available() {
            kernel.run(|| {
                let mut out = vec![0xcc; elements.len()];
                decode(&sparse.bitmap, &sparse.zero_signs, &sparse.dense, width, &mut out).unwrap();
                assert!(out == elements);
            });
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
            decode(bitmap, zero_signs, dense, width, out)
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

    fn spread<const WIDTH: usize>(bitmap: &[u8], bytes: &[u8]) {
        let ones = bitmap.iter().map(|byte| byte.count_ones() as usize).sum();
        let dense: Vec<[u8; WIDTH]> =
            (0..ones).map(|index| std::array::from_fn(|byte| bytes[(index + byte) % bytes.len()])).collect();
        on_each(|| {
            let mut elements = vec![[0xcc; WIDTH]; 8 * bitmap.len()];
            dispatch!(kernel => kernel.spread(bitmap, &dense, &mut elements));
            elements
        });
    }

    proptest! {
        #[test]
        fn kernels_agree_on_spread(
            bitmap in prop::collection::vec(prop_oneof![Just(0), Just(u8::MAX), any::<u8>()], 0..60),
            bytes in prop::collection::vec(any::<u8>(), 1..500),
        ) {
            spread::<1>(&bitmap, &bytes);
            spread::<2>(&bitmap, &bytes);
            spread::<4>(&bitmap, &bytes);
            spread::<8>(&bitmap, &bytes);
        }

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
