//! Adaptive floats with AVX2: the eight lanes of a step in one register.

use super::Avx2;
use crate::arch::adaptive;
use crate::transform::adaptive::{MagnitudeDecoder, MagnitudeRun, SignDecoder, SignRun, Steps};
use std::arch::x86_64::__m256i;

impl Steps for Avx2 {
    fn decode_magnitudes(self, decoder: &mut MagnitudeDecoder, first: usize, run: &mut MagnitudeRun) {
        #[target_feature(enable = "avx2,bmi2,popcnt")]
        fn decode(decoder: &mut MagnitudeDecoder, first: usize, run: &mut MagnitudeRun) {
            // SAFETY: these are the instructions.
            unsafe { adaptive::decode_magnitudes::<__m256i>(decoder, first, run) };
        }
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        unsafe { decode(decoder, first, run) };
    }

    fn decode_signs(self, decoder: &mut SignDecoder, run: &mut SignRun) {
        #[target_feature(enable = "avx2,bmi2,popcnt")]
        fn decode(decoder: &mut SignDecoder, run: &mut SignRun) {
            // SAFETY: these are the instructions.
            unsafe { adaptive::decode_signs::<__m256i>(decoder, run) };
        }
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        unsafe { decode(decoder, run) };
    }
}
