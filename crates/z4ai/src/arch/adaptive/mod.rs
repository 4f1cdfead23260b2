//! Adaptive floats for kernels that have the eight lanes of a step in registers: one loop for magnitudes and
//! one for signs, over [`EightLanes`].
#![allow(unsafe_code)]

pub(super) mod lanes;
mod magnitudes;
mod signs;

use super::eight::EightLanes;
use crate::transform::adaptive::{MagnitudeDecoder, MagnitudeRun, SignDecoder, SignRun};

/// Decodes the steps of a run, those with an escape one lane after the other.
#[inline(always)]
pub(super) fn decode_magnitudes<V: EightLanes>(
    kernel: V::Kernel,
    decoder: &mut MagnitudeDecoder,
    first: usize,
    run: &mut MagnitudeRun,
) {
    while run.done < run.steps {
        magnitudes::decode::<V>(kernel, decoder, first, run);
        // It stops where a lane has an escape.
        if run.done < run.steps {
            run.next(first, decoder);
        }
    }
}

/// Decodes the signs of a run.
#[inline(always)]
pub(super) fn decode_signs<V: EightLanes>(kernel: V::Kernel, decoder: &mut SignDecoder, run: &mut SignRun) {
    signs::decode::<V>(kernel, run, &mut decoder.stream);
}
