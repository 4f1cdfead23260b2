//! Adaptive floats with AVX2: the eight lanes of a step in one register.

pub(in crate::arch) mod lanes;
mod magnitudes;
pub(in crate::arch) mod signs;

use super::Avx2;
use crate::transform::adaptive::{MagnitudeDecoder, MagnitudeRun, SignDecoder, SignRun, Steps};

impl Steps for Avx2 {
    fn decode_magnitudes(self, decoder: &mut MagnitudeDecoder, first: usize, run: &mut MagnitudeRun) {
        while run.done < run.steps {
            // SAFETY: an `Avx2` exists only where the CPU has these instructions.
            unsafe { magnitudes::decode(decoder, first, run) };
            // It stops where a lane has an escape.
            if run.done < run.steps {
                run.next(first, decoder);
            }
        }
    }

    fn decode_signs(self, decoder: &mut SignDecoder, run: &mut SignRun) {
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        unsafe { signs::decode(run, &mut decoder.stream) };
    }
}
