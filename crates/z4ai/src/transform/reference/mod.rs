//! Floats against the floats of a reference. Both are mapped to integers in the order of the numbers; their
//! difference, less what weight decay explains of it, is small where training moved little. It is coded in
//! contexts that are chosen by the exponent in the reference (a step of a given size is a large difference of
//! a small number) and by how much changed in the neighbourhood.
//!
//! `element` has the arithmetic of one element, `symbols` how a difference becomes a symbol and some raw
//! bits, `classes` and `contexts` how classes and contexts are chosen, `listed` the chunks in which little
//! happened, `model` what a section shares, `encode` and `decode` the two directions of one block.

mod classes;
mod contexts;
mod counts;
mod decay;
mod decode;
mod element;
mod encode;
mod fit;
mod listed;
mod model;
mod raw_bits;
mod steps;
mod symbols;

pub(crate) use counts::{ChunkScratch, Movement, View};
pub(crate) use element::Word;
pub(crate) use model::ReferenceModel;
pub(crate) use raw_bits::{RAW_LANES, RAW_PIECE, RawDifferences, RawLanes, RawReader, RawWords, WORD_BITS};
pub(crate) use steps::{CodedBlock, CodedChunk, Steps, apply, contexts_from, read_differences, restore};
pub(crate) use symbols::Alphabet;

use crate::dtype::Dtype;

/// Elements that share a class.
pub(crate) const REFERENCE_CHUNK: usize = 256;
/// Classes of chunks by how much changed in them; in chunks of class 0 nothing did.
pub(crate) const CHUNK_CLASSES: usize = 16;
/// Exponents of the reference that are told apart.
pub(crate) const EXPONENT_NUMBERS: usize = 32;
/// The most contexts; as many tables of the finest precision as the decoder can address.
const MAX_CONTEXTS: usize = 16;

/// Where the exponent and the mantissa of a float lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ElementFields {
    /// Bytes per element: 1, 2, 4 or 8.
    pub width: usize,
    pub mantissa_bits: u32,
}

impl ElementFields {
    /// The fields of a dtype, if it is a float.
    pub fn of(dtype: Dtype) -> Option<Self> {
        if let Some(layout) = dtype.float_layout() {
            let mantissa_bits = 8 * layout.width as u32 - 1 - layout.exponent_bits;
            return Some(Self { width: layout.width, mantissa_bits });
        }
        match dtype {
            Dtype::F8E4M3 => Some(Self { width: 1, mantissa_bits: 3 }),
            Dtype::F8E5M2 => Some(Self { width: 1, mantissa_bits: 2 }),
            _ => None,
        }
    }

    /// Values of the exponent field.
    fn exponents(self) -> usize {
        1 << (8 * self.width as u32 - 1 - self.mantissa_bits)
    }
}

/// Runs `$function::<Word>` for the word that is as wide as an element.
macro_rules! for_width {
    ($fields:expr, $function:ident, $($argument:expr),*) => {
        match $fields.width {
            1 => $function::<u8>($($argument),*),
            2 => $function::<u16>($($argument),*),
            4 => $function::<u32>($($argument),*),
            _ => $function::<u64>($($argument),*),
        }
    };
}
use for_width;
