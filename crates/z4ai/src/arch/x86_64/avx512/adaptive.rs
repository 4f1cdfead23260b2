//! Adaptive floats with AVX-512: magnitudes as with AVX2, signs with their tables in registers.

mod lanes;
mod signs;

use super::Avx512;
use crate::transform::adaptive::{MagnitudeDecoder, MagnitudeRun, SignDecoder, SignRun, Steps};

impl Steps for Avx512 {
    fn decode_magnitudes(self, decoder: &mut MagnitudeDecoder, first: usize, run: &mut MagnitudeRun) {
        self.0.decode_magnitudes(decoder, first, run);
    }

    fn decode_signs(self, decoder: &mut SignDecoder, run: &mut SignRun) {
        // SAFETY: an `Avx512` exists only where the CPU has these instructions.
        unsafe { signs::decode(self.0, run, &mut decoder.stream) };
    }
}
