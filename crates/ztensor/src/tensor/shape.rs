//! Shapes with checked arithmetic: products never wrap, also when another dimension is zero.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use crate::error::{Error, Kind, Result};

/// Dimensions that are held without an allocation.
const INLINE: usize = 4;

/// The dimensions of a tensor, outermost first. A scalar has none.
#[derive(Clone)]
pub struct Shape(Dimensions);

/// Nearly all tensors have few dimensions; those take no allocation of their own.
#[derive(Clone)]
enum Dimensions {
    Few { count: u8, values: [u64; INLINE] },
    Many(Vec<u64>),
}

impl Shape {
    /// The most dimensions that a tensor of a file may have: as many as NumPy and PyTorch know.
    pub const MOST_DIMENSIONS: usize = 64;

    /// A shape from its dimensions.
    pub fn new(dimensions: impl AsRef<[u64]>) -> Self {
        let dimensions = dimensions.as_ref();
        let mut values = [0; INLINE];
        Shape(match values.get_mut(..dimensions.len()) {
            Some(few) => {
                few.copy_from_slice(dimensions);
                Dimensions::Few { count: dimensions.len() as u8, values }
            }
            None => Dimensions::Many(dimensions.to_vec()),
        })
    }

    /// Adds an innermost dimension, unless there are too many.
    pub(crate) fn push(&mut self, dimension: u64) -> Result<()> {
        if self.len() >= Shape::MOST_DIMENSIONS {
            return Err(too_many());
        }
        match &mut self.0 {
            Dimensions::Few { count, values } => match values.get_mut(usize::from(*count)) {
                Some(free) => {
                    *free = dimension;
                    *count += 1;
                }
                None => *self = Shape(Dimensions::Many(values.iter().copied().chain([dimension]).collect())),
            },
            Dimensions::Many(values) => values.push(dimension),
        }
        Ok(())
    }

    /// Refuses a shape with too many dimensions.
    pub(crate) fn check(&self) -> Result<()> {
        if self.len() > Shape::MOST_DIMENSIONS { Err(too_many()) } else { Ok(()) }
    }

    /// The number of elements, or `None` when the product of the non-zero dimensions does not fit `u64`
    /// (a zero elsewhere does not excuse an absurd dimension).
    pub fn elements(&self) -> Option<u64> {
        let mut product = 1u64;
        let mut empty = false;
        for &dimension in self.iter() {
            match dimension {
                0 => empty = true,
                _ => product = product.checked_mul(dimension)?,
            }
        }
        Some(if empty { 0 } else { product })
    }

    /// The dimensions as `usize`, where they fit.
    pub fn to_usize(&self) -> Option<Vec<usize>> {
        self.iter().map(|&d| usize::try_from(d).ok()).collect()
    }
}

fn too_many() -> Error {
    Error::new(Kind::Limit, format!("the tensor has more than {} dimensions", Shape::MOST_DIMENSIONS))
}

impl Deref for Shape {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        match &self.0 {
            // `count` is at most the number of values.
            Dimensions::Few { count, values } => &values[..usize::from(*count)],
            Dimensions::Many(dimensions) => dimensions,
        }
    }
}

impl Default for Shape {
    fn default() -> Self {
        Shape::new([])
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Shape {}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Vec<u64>> for Shape {
    fn from(dimensions: Vec<u64>) -> Self {
        Shape::new(dimensions)
    }
}

impl From<&[u64]> for Shape {
    fn from(dimensions: &[u64]) -> Self {
        Shape::new(dimensions)
    }
}

impl<const N: usize> From<[u64; N]> for Shape {
    fn from(dimensions: [u64; N]) -> Self {
        Shape::new(dimensions)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Shape};

    #[test]
    fn a_zero_does_not_hide_an_overflow() {
        assert_eq!(Shape::new([]).elements(), Some(1));
        assert_eq!(Shape::new([3, 0, 4]).elements(), Some(0));
        assert_eq!(Shape::new([u64::MAX, 2, 0]).elements(), None);
        assert_eq!(Shape::new([1 << 32, 1 << 32]).elements(), None);
    }

    #[test]
    fn dimensions_are_kept_up_to_as_many_as_arrays_may_have() {
        let mut grown = Shape::default();
        for count in 0..Shape::MOST_DIMENSIONS as u64 {
            let dimensions: Vec<u64> = (0..count).collect();
            assert_eq!(*grown, *dimensions);
            assert_eq!(grown, Shape::from(dimensions));
            grown.push(count).unwrap();
        }
        assert_eq!(grown.push(1).unwrap_err().kind(), Kind::Limit);
        grown.check().unwrap();
        assert_eq!(Shape::new([1; 65]).check().unwrap_err().kind(), Kind::Limit);
    }
}
