//! One file's header: magic, version, counts, metadata, and the list of tensors.

use super::cursor::{Cursor, Order};
use super::metadata;
use crate::error::{Error, Result};
use crate::limits::Budget;
use crate::source::Source;
use crate::tensor::{Attributes, Shape};

/// The first four bytes, whatever the byte order.
pub(super) const MAGIC: &[u8; 4] = b"GGUF";

/// Where tensors begin on multiples of, unless the metadata says otherwise.
const DEFAULT_ALIGNMENT: u64 = 32;

/// The most dimensions ggml has.
const MOST_DIMENSIONS: u32 = 4;

/// ggml keeps names in 64 bytes, with a NUL at the end.
const LONGEST_NAME: usize = 63;

/// The least a tensor's entry can take: an empty name, no dimensions, a type and an offset.
const SHORTEST_ENTRY: u64 = 8 + 4 + 4 + 8;

/// What a file says before its tensor data.
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) order: Order,
    pub(super) attributes: Attributes,
    pub(super) tensors: Vec<Entry>,
    pub(super) alignment: u64,
    /// Where the key-value pairs end and the list of tensors begins.
    pub(super) pairs_end: u64,
    /// Where the list of tensors ends.
    pub(super) end: u64,
    /// Where the tensor data begins.
    pub(super) data_start: u64,
}

/// One tensor as the header describes it.
pub(super) struct Entry {
    pub(super) name: String,
    /// Row-major: the reverse of the order in the file.
    pub(super) shape: Shape,
    /// ggml's type number.
    pub(super) type_number: u32,
    /// Where its data begins, counted from the start of the data.
    pub(super) offset: u64,
    /// Where this entry stands in the file.
    pub(super) position: u64,
}

impl Header {
    pub(super) fn read(source: &Source, budget: &mut Budget) -> Result<Header> {
        let mut cursor = Cursor::new(source, budget);
        if cursor.take(4)? != MAGIC {
            return Err(Error::malformed("the file does not begin with \"GGUF\"").with_offset(0));
        }
        let mut version = cursor.u32()?;
        if version & 0xFFFF == 0 {
            // A small number that looks large: the file is big-endian.
            version = version.swap_bytes();
            cursor.order = Order::Big;
        }
        if !matches!(version, 2 | 3) {
            return Err(Error::unsupported(format!("GGUF version {version}; versions 2 and 3 are read"))
                .with_offset(4)
                .with_hint("Convert the model again with a current tool."));
        }
        let tensor_count = cursor.u64()?;
        let pair_count = cursor.u64()?;
        let attributes = metadata::read(&mut cursor, pair_count)?;
        let alignment = alignment(&attributes)?;
        let pairs_end = cursor.offset();
        cursor.check_count(tensor_count, SHORTEST_ENTRY, "tensors")?;
        // Grown as entries arrive: the count alone is no reason to take memory.
        let mut tensors = Vec::new();
        for _ in 0..tensor_count {
            tensors.push(Entry::read(&mut cursor)?);
        }
        let end = cursor.offset();
        let data_start = pad(end, alignment)?;
        Ok(Header {
            version,
            order: cursor.order,
            attributes,
            tensors,
            alignment,
            pairs_end,
            end,
            data_start,
        })
    }
}

impl Entry {
    fn read(cursor: &mut Cursor<'_>) -> Result<Entry> {
        let position = cursor.offset();
        cursor.budget().charge_object()?;
        cursor.budget().charge(size_of::<Entry>() as u64)?;
        let name = cursor.text("tensor name")?;
        if name.len() > LONGEST_NAME {
            return Err(Error::malformed(format!(
                "a tensor name has {} bytes; at most {LONGEST_NAME} are allowed",
                name.len()
            ))
            .with_offset(position));
        }
        let name = name.to_owned();
        match Entry::read_rest(cursor) {
            Ok((shape, type_number, offset)) => Ok(Entry { name, shape, type_number, offset, position }),
            Err(error) => Err(error.with_tensor(&name)),
        }
    }

    fn read_rest(cursor: &mut Cursor<'_>) -> Result<(Shape, u32, u64)> {
        let at = cursor.offset();
        let rank = cursor.u32()?;
        if rank > MOST_DIMENSIONS {
            return Err(Error::malformed(format!(
                "the tensor has {rank} dimensions; at most {MOST_DIMENSIONS} are allowed"
            ))
            .with_offset(at));
        }
        let mut dimensions = vec![0; rank as usize];
        for dimension in dimensions.iter_mut().rev() {
            *dimension = cursor.u64()?;
            if *dimension > i64::MAX as u64 {
                return Err(Error::malformed("a dimension is negative").with_offset(at));
            }
        }
        Ok((Shape::from(dimensions), cursor.u32()?, cursor.u64()?))
    }
}

fn alignment(attributes: &Attributes) -> Result<u64> {
    let Some(value) = attributes.get("general.alignment") else { return Ok(DEFAULT_ALIGNMENT) };
    match value.as_u64() {
        Some(alignment) if alignment.is_power_of_two() && alignment <= u64::from(u32::MAX) => Ok(alignment),
        _ => Err(Error::malformed("general.alignment is not a power of two that fits 32 bits")),
    }
}

/// The next multiple of the alignment.
pub(super) fn pad(offset: u64, alignment: u64) -> Result<u64> {
    offset
        .checked_next_multiple_of(alignment)
        .ok_or_else(|| Error::malformed("an offset does not fit 64 bits").with_offset(offset))
}
