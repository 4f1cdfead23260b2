//! Shapes with checked arithmetic: products never wrap, also when another dimension is zero.

use std::fmt;
use std::ops::Deref;

/// The dimensions of a tensor, outermost first. A scalar has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape(Vec<u64>);

impl Shape {
    /// A shape from its dimensions.
    pub fn new(dimensions: impl Into<Vec<u64>>) -> Self {
        Shape(dimensions.into())
    }

    /// The number of elements, or `None` when the product of the non-zero dimensions does not fit `u64`
    /// (a zero elsewhere does not excuse an absurd dimension).
    pub fn elements(&self) -> Option<u64> {
        let mut product = 1u64;
        let mut empty = false;
        for &dimension in &self.0 {
            match dimension {
                0 => empty = true,
                _ => product = product.checked_mul(dimension)?,
            }
        }
        Some(if empty { 0 } else { product })
    }

    /// The dimensions as `usize`, where they fit.
    pub fn to_usize(&self) -> Option<Vec<usize>> {
        self.0.iter().map(|&d| usize::try_from(d).ok()).collect()
    }
}

impl Deref for Shape {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        &self.0
    }
}

impl From<Vec<u64>> for Shape {
    fn from(dimensions: Vec<u64>) -> Self {
        Shape(dimensions)
    }
}

impl From<&[u64]> for Shape {
    fn from(dimensions: &[u64]) -> Self {
        Shape(dimensions.to_vec())
    }
}

impl<const N: usize> From<[u64; N]> for Shape {
    fn from(dimensions: [u64; N]) -> Self {
        Shape(dimensions.to_vec())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn a_zero_does_not_hide_an_overflow() {
        assert_eq!(Shape::new([]).elements(), Some(1));
        assert_eq!(Shape::new([3, 0, 4]).elements(), Some(0));
        assert_eq!(Shape::new([u64::MAX, 2, 0]).elements(), None);
        assert_eq!(Shape::new([1 << 32, 1 << 32]).elements(), None);
    }
}
