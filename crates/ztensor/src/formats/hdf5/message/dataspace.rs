//! Dataspaces: the shape of a dataset or an attribute, and how far it may grow.

use super::super::cursor::Cursor;
use crate::error::Result;
use crate::tensor::Shape;

/// The library's own limit on the number of dimensions.
pub(in super::super) const MOST_DIMENSIONS: usize = 32;

/// A shape.
#[derive(Debug)]
pub(in super::super) enum Dataspace {
    /// No elements and no shape at all (h5py's `Empty`).
    Null,
    /// Dimensions; none for a scalar.
    Simple {
        dimensions: Shape,
        /// Where the dataset may grow to, if it may: `None` for "without end".
        maximum: Vec<Option<u64>>,
    },
}

impl Dataspace {
    pub fn parse(cursor: &mut Cursor<'_>) -> Result<Dataspace> {
        let version = cursor.version(1..=2)?;
        let rank = usize::from(cursor.u8()?);
        if rank > MOST_DIMENSIONS {
            return Err(cursor.error("it has more than 32 dimensions"));
        }
        let flags = cursor.u8()?;
        if version == 1 {
            cursor.skip(5)?;
        } else {
            match (cursor.u8()?, rank) {
                (0, 0) | (1, _) => {}
                (2, 0) => return Ok(Dataspace::Null),
                _ => return Err(cursor.error("its type does not match its dimensions")),
            }
        }
        let mut dimensions = Shape::default();
        for _ in 0..rank {
            dimensions.push(cursor.length()?)?;
        }
        let mut maximum = Vec::new();
        if flags & 1 != 0 {
            for (number, &dimension) in dimensions.iter().enumerate() {
                let limit = cursor.limit()?;
                if limit.is_some_and(|limit| limit < dimension) {
                    return Err(cursor.error("a dimension is larger than its maximum"));
                }
                if maximum.is_empty() && limit != Some(dimension) {
                    maximum.extend(dimensions.iter().take(number).copied().map(Some));
                }
                if !maximum.is_empty() || limit != Some(dimension) {
                    maximum.push(limit);
                }
            }
        }
        Ok(Dataspace::Simple { dimensions, maximum })
    }
}
