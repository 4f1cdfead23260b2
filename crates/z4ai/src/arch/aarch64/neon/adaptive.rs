//! Adaptive floats with NEON: the eight lanes of a step in two registers.

use super::Neon;
use super::eight::EightSigned;
use crate::arch::adaptive;
use crate::transform::adaptive::{MagnitudeDecoder, MagnitudeRun, SignDecoder, SignRun, Steps};

impl Steps for Neon {
    fn decode_magnitudes(self, decoder: &mut MagnitudeDecoder, first: usize, run: &mut MagnitudeRun) {
        // SAFETY: a `Neon` exists only where the CPU has these instructions.
        unsafe { adaptive::decode_magnitudes::<EightSigned>(decoder, first, run) };
    }

    fn decode_signs(self, decoder: &mut SignDecoder, run: &mut SignRun) {
        // SAFETY: a `Neon` exists only where the CPU has these instructions.
        unsafe { adaptive::decode_signs::<EightSigned>(decoder, run) };
    }
}
