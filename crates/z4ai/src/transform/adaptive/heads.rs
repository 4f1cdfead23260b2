//! Decodes the heads of a block of the adaptive coder of floats, without their verbatim bits: stretch by
//! stretch first the magnitudes, then the signs.

use super::lanes::{ByLane, Lanes, MOST_STRETCH_STEPS};
use super::learner::{Learner, Learning};
use super::sign_mixer::{SignMixer, magnitude_class};
use super::steps::{Escapes, MagnitudeDecoder, SignDecoder};
use super::symbol_code::SymbolCode;
use crate::dtype::FloatLayout;
use crate::entropy::plane;
use crate::entropy::rans::{MIXED_LANES, MixedDecoder, MixedWords};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::float::JOINT_BITS;

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
    pub fn decode(self, reader: &mut Reader, count: usize) -> Result<Vec<u16>> {
        let lanes = Lanes::new(self.learning, count);
        let (states, words) = MixedWords::read(lanes.count(), reader)?;
        let mut stream = MixedDecoder::new(self.symbols.decoder(), states, &words);
        let escapes = read_escapes(reader, count)?;
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
                MagnitudeDecoder { stream, escapes, context_mask, expected, distances: &mut distances };
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
                let mut signs = SignDecoder { stream };
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
static NO_SIGNS: [u8; MOST_STRETCH_STEPS] = [0; MOST_STRETCH_STEPS];

fn by_lane<T: Copy + Default>() -> Box<ByLane<T>> {
    Box::new([[T::default(); MIXED_LANES]; MOST_STRETCH_STEPS])
}

/// The exponents of a block's escapes.
fn read_escapes(reader: &mut Reader, count: usize) -> Result<Vec<u8>> {
    let escapes = reader.length()?;
    if escapes > count {
        return Err(Error::corrupt("a block has more escapes than elements"));
    }
    if escapes == 0 { Ok(Vec::new()) } else { plane::read_bytes(reader, escapes) }
}
