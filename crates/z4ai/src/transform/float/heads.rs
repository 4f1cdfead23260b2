//! Decodes the heads of a block of the adaptive coder of floats, without their verbatim bits: stretch by stretch first the magnitudes, then the signs.

use super::JOINT_BITS;
use super::lanes::{Lanes, MOST};
use super::learner::{Expectation, Learner, Learning, MagnitudeCoder, bound};
use super::sign_mixer::{SignCoder, SignMixer, magnitude_class};
use super::symbol_code::SymbolCode;
use crate::arch::Kernel;
use crate::dtype::FloatLayout;
use crate::entropy::plane;
use crate::entropy::rans::{MIXED_LANES, MixedDecoder, MixedWords, Stretch};
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
        let (mut coded, mut distances, mut classes) = ([0; MOST], [0; MOST], [0; MOST]);
        let low = self.layout.head_mantissa_bits() - JOINT_BITS;
        let context_mask = self.symbols.context_mask();
        let magnitude_mask = (1 << (self.layout.exponent_bits + JOINT_BITS)) - 1;
        for (first, stretch) in lanes.stretches() {
            let elements = stretch.elements();
            let (expected, escapes) = (&mut coded, &mut escapes);
            let mut magnitudes =
                Magnitudes { stream, escapes, context_mask, expected, distances: &mut distances, next: 0 };
            learner.walk(stretch, &mut magnitudes);
            stream = magnitudes.stream;
            stream.go_on();
            for (head, &distance) in coded.iter_mut().zip(&distances).take(elements) {
                // Four of the sixteenths of an octave that these are in make a quarter.
                *head = (head.wrapping_add_signed(distance) >> 2 & magnitude_mask) << low;
            }
            if let Some(mixer) = &mut mixer {
                let pairs = classes.iter_mut().zip(&distances);
                pairs.take(elements).for_each(|(class, distance)| *class = magnitude_class(*distance));
                mixer.walk(stretch, &classes, &mut stream);
                stream.go_on();
                place_signs(stretch, mixer.last(stretch.steps), &mut coded[..elements]);
            }
            lanes.scatter(first, stretch, &coded[..elements], &mut heads);
        }
        if escapes.missing || escapes.exponents.next().is_some() {
            return Err(Error::corrupt("a block has more or fewer escapes than escape symbols"));
        }
        stream.finish()?;
        Ok(heads)
    }
}

/// Decodes the magnitudes of a stretch: what was expected of each, and how far it is from that, both in sixteenths of an octave.
struct Magnitudes<'a, 't> {
    stream: MixedDecoder<'t>,
    escapes: &'a mut Escapes<'t>,
    /// The bits of a context that tell tables apart.
    context_mask: usize,
    expected: &'a mut [u16; MOST],
    distances: &'a mut [i16; MOST],
    next: usize,
}

impl MagnitudeCoder for Magnitudes<'_, '_> {
    #[inline(always)]
    fn code(&mut self, lane: usize, expected: Expectation) -> i32 {
        let symbol = self.stream.symbol(lane, expected.context & self.context_mask);
        let mut distance = expected.distance_of(symbol);
        let mut bounded = distance;
        if symbol >> JOINT_BITS == 0 {
            distance = expected.distance(u16::from(self.escapes.next()) << JOINT_BITS | u16::from(symbol));
            bounded = bound(distance);
        }
        let index = self.next & (MOST - 1);
        self.expected[index] = expected.sixteenths();
        self.distances[index] = distance as i16;
        self.next += 1;
        bounded
    }
}

impl SignCoder for MixedDecoder<'_> {
    #[inline(always)]
    fn code(&mut self, lane: usize, probability: u32) -> bool {
        self.bit(lane, probability)
    }
}

/// Adds the signs of each step, a bit per lane, to the heads of a stretch.
fn place_signs(stretch: Stretch, signs: &[u8], heads: &mut [u16]) {
    if stretch.width() == MIXED_LANES {
        for (heads, signs) in heads.as_chunks_mut::<MIXED_LANES>().0.iter_mut().zip(signs) {
            for (lane, head) in heads.iter_mut().enumerate() {
                *head |= u16::from(signs >> lane & 1) << 15;
            }
        }
        return;
    }
    for (heads, signs) in heads.chunks_mut(stretch.width().max(1)).zip(signs) {
        for (head, lane) in heads.iter_mut().zip(stretch.lanes()) {
            *head |= u16::from(signs >> lane & 1) << 15;
        }
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
