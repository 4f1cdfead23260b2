//! Decodes the heads of a block of the adaptive coder of floats, without their verbatim bits: stretch by stretch first the magnitudes, then the signs.

use super::JOINT_BITS;
use super::lanes::{ByLane, Lanes, STEPS};
use super::learner::{Expectation, Learner, Learning, MagnitudeCoder, MagnitudeRun, bound};
use super::sign_mixer::{SignCoder, SignMixer, SignRun, magnitude_class};
use super::symbol_code::SymbolCode;
use crate::arch::Kernel;
use crate::dtype::FloatLayout;
use crate::entropy::plane;
use crate::entropy::rans::{MIXED_LANES, MixedDecoder, MixedWords};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// How the heads of a section are coded.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeadCode<'m> {
    pub layout: FloatLayout,
    pub learning: Learning,
    pub symbols: &'m SymbolCode,
    /// Whether signs are coded.
    pub signs: bool,
}

impl HeadCode<'_> {
    /// Decodes the heads of a block of `count` elements.
    pub fn decode(self, reader: &mut Reader, count: usize, kernel: Kernel) -> Result<Vec<u16>> {
        let lanes = Lanes::new(self.learning, count);
        let (states, words) = MixedWords::read(lanes.count(), reader)?;
        let mut stream = MixedDecoder::new(self.symbols.decoder(), states, &words);
        let escapes = read_escapes(reader, count, kernel)?;
        let mut escapes = Escapes { exponents: escapes.iter(), missing: false };
        let mut learner = Learner::new(self.learning, self.layout.exponent_bits, lanes);
        let mut mixer = self.signs.then(|| SignMixer::new(self.learning, lanes));
        let mut heads = vec![0; count];
        let (mut coded, mut distances, mut classes) = (by_lane(), by_lane(), by_lane());
        let low = self.layout.head_mantissa_bits() - JOINT_BITS;
        let context_mask = self.symbols.context_mask();
        let magnitude_mask = (1 << (self.layout.exponent_bits + JOINT_BITS)) - 1;
        for (first, stretch) in lanes.stretches() {
            let (expected, escapes) = (&mut *coded, &mut escapes);
            let mut magnitudes =
                Magnitudes { stream, kernel, escapes, context_mask, expected, distances: &mut distances };
            learner.walk(stretch, &mut magnitudes);
            stream = magnitudes.stream;
            stream.go_on();
            let coded_here = coded[..stretch.steps].as_flattened_mut();
            let distances_here = distances[..stretch.steps].as_flattened();
            for (head, &distance) in coded_here.iter_mut().zip(distances_here) {
                // Four of the sixteenths of an octave that these are in make a quarter.
                *head = (head.wrapping_add_signed(distance) >> 2 & magnitude_mask) << low;
            }
            if let Some(mixer) = &mut mixer {
                let classes_here = classes[..stretch.steps].as_flattened_mut();
                for (class, &distance) in classes_here.iter_mut().zip(distances_here) {
                    *class = magnitude_class(distance);
                }
                let mut signs = Signs { stream, kernel };
                mixer.walk(stretch, &classes, &mut signs);
                stream = signs.stream;
                stream.go_on();
                lanes.scatter(first, stretch, &coded, mixer.last(stretch.steps), &mut heads);
            } else {
                lanes.scatter(first, stretch, &coded, &NO_SIGNS, &mut heads);
            }
        }
        if escapes.missing || escapes.exponents.next().is_some() {
            return Err(Error::corrupt("a block has more or fewer escapes than escape symbols"));
        }
        stream.finish()?;
        Ok(heads)
    }
}

/// The signs of a stretch in which they are not coded.
static NO_SIGNS: [u8; STEPS] = [0; STEPS];

fn by_lane<T: Copy + Default>() -> Box<ByLane<T>> {
    Box::new([[T::default(); MIXED_LANES]; STEPS])
}

/// Decodes the magnitudes of a stretch: what was expected of each, and how far it is from that, both in sixteenths of an octave.
struct Magnitudes<'a, 't> {
    stream: MixedDecoder<'t>,
    kernel: Kernel,
    escapes: &'a mut Escapes<'t>,
    /// The bits of a context that tell tables apart.
    context_mask: usize,
    expected: &'a mut ByLane<u16>,
    distances: &'a mut ByLane<i16>,
}

impl MagnitudeCoder for Magnitudes<'_, '_> {
    #[inline(always)]
    fn code(&mut self, step: usize, lane: usize, expected: Expectation) -> i32 {
        let symbol = self.stream.symbol(lane, expected.context & self.context_mask);
        let mut distance = expected.distance_of(symbol);
        let mut bounded = distance;
        if symbol >> JOINT_BITS == 0 {
            distance = expected.distance(u16::from(self.escapes.next()) << JOINT_BITS | u16::from(symbol));
            bounded = bound(distance);
        }
        self.expected[step & (STEPS - 1)][lane & (MIXED_LANES - 1)] = expected.sixteenths();
        self.distances[step & (STEPS - 1)][lane & (MIXED_LANES - 1)] = distance as i16;
        bounded
    }

    fn code_run(&mut self, first: usize, run: &mut MagnitudeRun) {
        let expected = self.expected.get_mut(first..).unwrap_or_default();
        let distances = self.distances.get_mut(first..).unwrap_or_default();
        self.kernel.decode_magnitudes(run, &mut self.stream, self.context_mask, expected, distances);
    }
}

/// Decodes the signs of a stretch.
struct Signs<'t> {
    stream: MixedDecoder<'t>,
    kernel: Kernel,
}

impl SignCoder for Signs<'_> {
    #[inline(always)]
    fn code(&mut self, lane: usize, probability: u32) -> bool {
        self.stream.bit(lane, probability)
    }

    fn code_run(&mut self, run: &mut SignRun) -> bool {
        self.kernel.decode_signs(run, &mut self.stream)
    }
}

/// The exponents of escapes that are still to come.
struct Escapes<'a> {
    exponents: std::slice::Iter<'a, u8>,
    /// Whether there were too few.
    missing: bool,
}

impl Escapes<'_> {
    #[cold]
    fn next(&mut self) -> u8 {
        let exponent = self.exponents.next();
        self.missing |= exponent.is_none();
        exponent.copied().unwrap_or(0)
    }
}

/// The exponents of a block's escapes.
fn read_escapes(reader: &mut Reader, count: usize, kernel: Kernel) -> Result<Vec<u8>> {
    let escapes = reader.length()?;
    if escapes > count {
        return Err(Error::corrupt("a block has more escapes than elements"));
    }
    if escapes == 0 { Ok(Vec::new()) } else { plane::read_bytes(reader, escapes, kernel) }
}
