//! The fast coder for floats: exponents minus whole octaves per row and column as nested bit planes, sign and
//! mantissa as they are.
//!
//! A block is the code, the lengths of the streams, the tail of each chunk, the deeper levels, spelled-out
//! symbols, the first level, the planes of each chunk, and sixteen zero bytes. Everything about a block but
//! its element count, geometry and shifts is in the block. Decoding has no data-dependent branches except for
//! the rare spelled-out symbols.

mod code;
mod decode;
mod encode;
mod fit;
mod geometry;
mod model;
mod shifts;
mod steps;
mod streams;
mod tail;

pub(crate) use code::Code;
pub(crate) use model::NestedModel;
pub(crate) use steps::Steps;
pub(crate) use streams::{BitStream, Cursor, NESTED_CHUNK, NESTED_GROUP, decode as decode_levels, histogram};
pub(crate) use tail::{Tail, TailSign, TailWord, merge, store};

use crate::error::{Error, Result};
use geometry::FloatFields;
use shifts::Shifts;

/// The element count of a buffer, if it and the shifts agree.
fn element_count(bytes: usize, geometry: FloatFields, shifts: &Shifts<'_>) -> Result<usize> {
    let count = bytes / geometry.width;
    if !bytes.is_multiple_of(geometry.width) || u32::try_from(bytes).is_err() {
        return Err(Error::corrupt("a nested block holds whole elements, less than 4 GiB of them"));
    }
    if !shifts.cover(count) {
        return Err(Error::corrupt("every row and column of a nested block has its shift"));
    }
    Ok(count)
}

#[cfg(test)]
mod measure;
#[cfg(test)]
mod tests;
