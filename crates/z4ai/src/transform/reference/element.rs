//! The arithmetic of one element, in words of its own width so that compilers vectorise it. Everything wraps,
//! so that any pair of bit patterns, NaNs included, comes back.

use super::decay::Decay;
use super::encode::DeltaScratch;
use std::cell::RefCell;

/// The bits of an element.
pub(crate) trait Word: Copy + Default + Send + Sync + 'static {
    const BYTES: usize;

    fn from_bytes(bytes: &[u8]) -> Self;
    fn to_bytes(self, out: &mut [u8]);
    fn from_wide(value: u64) -> Self;
    fn wide(self) -> u64;

    /// The exponent field.
    fn exponent(self, mantissa_bits: u32) -> usize;

    /// How far the magnitude of `current` is above that of `base`, in steps between neighbouring floats, less
    /// what decay predicts; as a zigzag number.
    fn difference<const DECAY: bool>(current: Self, base: Self, decay: Decay) -> Self;

    /// The element with this difference from `base`.
    fn restore<const DECAY: bool>(difference: Self, base: Self, decay: Decay) -> Self;

    /// Bits of the number without leading zeros.
    fn length(self) -> u32;

    /// Runs `work` with this thread's memory for blocks of such elements.
    fn with_scratch<R>(work: impl FnOnce(&mut DeltaScratch<Self>) -> R) -> R;
}

macro_rules! word {
    ($unsigned:ty, $signed:ty, $steps:expr) => {
        impl Word for $unsigned {
            const BYTES: usize = size_of::<Self>();

            #[inline(always)]
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; Self::BYTES];
                own.copy_from_slice(&bytes[..Self::BYTES]);
                Self::from_le_bytes(own)
            }

            #[inline(always)]
            fn to_bytes(self, out: &mut [u8]) {
                out[..Self::BYTES].copy_from_slice(&self.to_le_bytes());
            }

            #[inline(always)]
            fn from_wide(value: u64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn wide(self) -> u64 {
                self.into()
            }

            #[inline(always)]
            fn exponent(self, mantissa_bits: u32) -> usize {
                ((self & (<$signed>::MAX as Self)) >> mantissa_bits) as usize
            }

            #[inline(always)]
            fn difference<const DECAY: bool>(current: Self, base: Self, decay: Decay) -> Self {
                let sign = base as $signed >> (Self::BITS - 1);
                let mut steps = ordered(current).wrapping_sub(ordered(base));
                steps = (steps ^ sign).wrapping_sub(sign);
                if DECAY {
                    steps = steps.wrapping_sub($steps(decay, base));
                }
                return (steps << 1 ^ steps >> (Self::BITS - 1)) as Self;

                #[inline(always)]
                fn ordered(bits: $unsigned) -> $signed {
                    let sign = bits as $signed >> (<$unsigned>::BITS - 1);
                    (bits as $signed & <$signed>::MAX) ^ sign
                }
            }

            #[inline(always)]
            fn restore<const DECAY: bool>(difference: Self, base: Self, decay: Decay) -> Self {
                let mut steps = (difference >> 1) as $signed ^ ((difference & 1) as $signed).wrapping_neg();
                if DECAY {
                    steps = steps.wrapping_add($steps(decay, base));
                }
                let sign = base as $signed >> (Self::BITS - 1);
                let ordered = (base as $signed & <$signed>::MAX) ^ sign;
                let moved = ordered.wrapping_add((steps ^ sign).wrapping_sub(sign));
                let sign = moved >> (Self::BITS - 1);
                ((moved ^ sign) & <$signed>::MAX | sign & <$signed>::MIN) as Self
            }

            #[inline(always)]
            fn length(self) -> u32 {
                Self::BITS - self.leading_zeros()
            }

            fn with_scratch<R>(work: impl FnOnce(&mut DeltaScratch<Self>) -> R) -> R {
                thread_local! {
                    static DELTA_SCRATCH: RefCell<DeltaScratch<$unsigned>> = RefCell::default();
                }
                DELTA_SCRATCH.with_borrow_mut(work)
            }
        }
    };
}

word!(u8, i8, |decay: Decay, base: u8| decay.short_steps(base.into()) as i8);
word!(u16, i16, |decay: Decay, base: u16| decay.short_steps(base));
word!(u32, i32, |decay: Decay, base: u32| decay.steps(base.into()) as i32);
word!(u64, i64, |decay: Decay, base: u64| decay.steps(base));

#[cfg(test)]
mod tests {
    use super::super::ElementFields;
    use super::*;
    use crate::dtype::Dtype;
    use proptest::prelude::*;

    fn survives<W: Word>(current: u64, base: u64, decay: Decay) {
        let (current, base) = (W::from_wide(current), W::from_wide(base));
        let difference = W::difference::<true>(current, base, decay);
        assert_eq!(W::restore::<true>(difference, base, decay).wide(), current.wide());
        let difference = W::difference::<false>(current, base, decay);
        assert_eq!(W::restore::<false>(difference, base, decay).wide(), current.wide());
    }

    #[test]
    fn every_pair_of_small_floats_survives() {
        let decay = Decay::new(-1 << 28, ElementFields::of(Dtype::F8E4M3).unwrap());
        for pair in 0..1u64 << 16 {
            survives::<u8>(pair & 0xff, pair >> 8, decay);
        }
    }

    proptest! {
        #[test]
        fn any_pair_survives(current in any::<u64>(), base in any::<u64>(), rate in any::<i32>()) {
            survives::<u16>(current, base, Decay::new(rate, ElementFields::of(Dtype::Bf16).unwrap()));
            survives::<u32>(current, base, Decay::new(rate, ElementFields::of(Dtype::F32).unwrap()));
            survives::<u64>(current, base, Decay::new(rate, ElementFields::of(Dtype::F64).unwrap()));
        }
    }

    #[test]
    fn differences_follow_the_magnitude() {
        let decay = Decay::default();
        let steps =
            |current: f32, base: f32| u32::difference::<false>(current.to_bits(), base.to_bits(), decay);
        assert_eq!(steps(1.5, 1.5), 0);
        assert_eq!(steps(1.5f32.next_up(), 1.5), 2);
        assert_eq!(steps(-1.5f32.next_up(), -1.5), 2);
        assert_eq!(steps(1.5f32.next_down(), 1.5), 1);
    }
}
