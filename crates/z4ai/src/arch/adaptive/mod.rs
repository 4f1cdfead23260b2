//! Adaptive floats for kernels that have the eight lanes of a step in registers: one loop for magnitudes and
//! one for signs, over [`EightLanes`].
#![allow(unsafe_code)]

pub(super) mod lanes;
mod magnitudes;
mod signs;

use super::eight::EightLanes;
use crate::transform::adaptive::{MagnitudeDecoder, MagnitudeRun, SignDecoder, SignRun};

/// Decodes the steps of a run, those with an escape one lane after the other.
///
/// # Safety
///
/// The CPU must have the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn decode_magnitudes<V: EightLanes>(
    decoder: &mut MagnitudeDecoder,
    first: usize,
    run: &mut MagnitudeRun,
) {
    while run.done < run.steps {
        // SAFETY: the caller vouches for the instructions.
        unsafe { magnitudes::decode::<V>(decoder, first, run) };
        // It stops where a lane has an escape.
        if run.done < run.steps {
            run.next(first, decoder);
        }
    }
}

/// Decodes the signs of a run.
///
/// # Safety
///
/// The CPU must have the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn decode_signs<V: EightLanes>(decoder: &mut SignDecoder, run: &mut SignRun) {
    // SAFETY: the caller vouches for the instructions.
    unsafe { signs::decode::<V>(run, &mut decoder.stream) };
}
