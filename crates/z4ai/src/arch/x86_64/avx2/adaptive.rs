//! Adaptive floats with AVX2: the eight lanes of a step in one register.

use super::Avx2;
use super::eight::EightInts;
use crate::arch::{Instructions, adaptive};
use crate::transform::adaptive::{MagnitudeDecoder, MagnitudeRun, SignDecoder, SignRun, Steps};

impl Steps for Avx2 {
    fn decode_magnitudes(self, decoder: &mut MagnitudeDecoder, first: usize, run: &mut MagnitudeRun) {
        self.vectorised(
            #[inline(always)]
            || adaptive::decode_magnitudes::<EightInts>(self, decoder, first, run),
        );
    }

    fn decode_signs(self, decoder: &mut SignDecoder, run: &mut SignRun) {
        self.vectorised(
            #[inline(always)]
            || adaptive::decode_signs::<EightInts>(self, decoder, run),
        );
    }
}
