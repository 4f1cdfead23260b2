//! The hot loops of adaptive floats: decoding magnitudes and signs in the order in which they are learnt
//! from.

use super::lanes::{ByLane, MOST_STRETCH_STEPS};
use super::learner::{Expectation, MagnitudeCoder, MagnitudeRun, bound};
use super::sign_mixer::{SignCoder, SignRun};
use crate::arch::{Instructions, dispatch};
use crate::entropy::rans::{MIXED_LANES, MixedDecoder};
use crate::transform::float::JOINT_BITS;

/// Steps that kernels override.
pub(crate) trait Steps: Instructions {
    /// Decodes the steps of a run, which begins at step `first` of its stretch.
    fn decode_magnitudes(self, decoder: &mut MagnitudeDecoder, first: usize, run: &mut MagnitudeRun) {
        run.walk(first, decoder);
    }

    /// Decodes the signs of a run.
    fn decode_signs(self, decoder: &mut SignDecoder, run: &mut SignRun) {
        run.walk(decoder);
    }
}

/// Decodes the magnitudes of a stretch: what was expected of each, and how far it is from that, both in
/// sixteenths of an octave.
pub(crate) struct MagnitudeDecoder<'a, 't> {
    pub stream: MixedDecoder<'t>,
    pub escapes: &'a mut Escapes<'t>,
    /// The bits of a context that tell tables apart.
    pub context_mask: usize,
    pub expected: &'a mut ByLane<u16>,
    pub distances: &'a mut ByLane<i16>,
}

impl MagnitudeCoder for MagnitudeDecoder<'_, '_> {
    #[inline(always)]
    fn code(&mut self, step: usize, lane: usize, expected: Expectation) -> i32 {
        let symbol = self.stream.symbol(lane, expected.context & self.context_mask);
        let mut distance = expected.distance_of(symbol);
        let mut bounded = distance;
        if symbol >> JOINT_BITS == 0 {
            distance = expected.distance(u16::from(self.escapes.next()) << JOINT_BITS | u16::from(symbol));
            bounded = bound(distance);
        }
        self.expected[step & (MOST_STRETCH_STEPS - 1)][lane & (MIXED_LANES - 1)] = expected.sixteenths();
        self.distances[step & (MOST_STRETCH_STEPS - 1)][lane & (MIXED_LANES - 1)] = distance as i16;
        bounded
    }

    fn code_run(&mut self, first: usize, run: &mut MagnitudeRun) {
        dispatch!(kernel => kernel.decode_magnitudes(self, first, run));
    }
}

/// Decodes the signs of a stretch.
pub(crate) struct SignDecoder<'t> {
    pub stream: MixedDecoder<'t>,
}

impl SignCoder for SignDecoder<'_> {
    #[inline(always)]
    fn code(&mut self, lane: usize, probability: u32) -> bool {
        self.stream.bit(lane, probability)
    }

    fn code_run(&mut self, run: &mut SignRun) {
        dispatch!(kernel => kernel.decode_signs(self, run));
    }
}

/// The exponents of escapes that are still to come.
pub(crate) struct Escapes<'a> {
    pub exponents: std::slice::Iter<'a, u8>,
    /// Whether there were too few.
    pub missing: bool,
}

impl Escapes<'_> {
    #[cold]
    fn next(&mut self) -> u8 {
        let exponent = self.exponents.next();
        self.missing |= exponent.is_none();
        exponent.copied().unwrap_or(0)
    }
}
