//! The schemes a tensor may have been quantised with, as far as the planes need them.

use super::format::Format;
use super::levels::{LevelTable, Levels};
use super::minifloat::Minifloat;
use super::offset::Offset;
use super::scale_search::{Fit, QuantisedGroup};

/// How an element follows from its level and its group's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Level times scale.
    Product(Levels),
    /// Level, scale and offset.
    Offset(Offset),
}

impl Scheme {
    /// Every scheme, in the order in which they are tried and numbered in headers.
    pub(crate) const ALL: [Self; 8] = [
        Self::Product(Levels::Integers),
        Self::Product(Levels::LevelTable(LevelTable::NormalFloat)),
        Self::Product(Levels::LevelTable(LevelTable::Float)),
        Self::Offset(Offset::Minimum),
        Self::Offset(Offset::Centre),
        Self::Product(Levels::Minifloat(Minifloat::E2m1)),
        Self::Product(Levels::Minifloat(Minifloat::E5m2)),
        Self::Product(Levels::Minifloat(Minifloat::E4m3)),
    ];

    /// The byte that stands for the scheme in a header: its place in [`Scheme::ALL`].
    pub(crate) fn to_byte(self) -> u8 {
        Self::ALL.iter().position(|&scheme| scheme == self).unwrap_or(0) as u8
    }

    /// The scheme that a header's byte stands for.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// The level that stands for zero, where there is one.
    pub(crate) fn zero(self) -> u8 {
        match self {
            Self::Product(levels) => levels.zero(),
            Self::Offset(_) => 0,
        }
    }

    /// Whether levels may be negated together with the scale.
    pub(crate) fn is_mirrored(self) -> bool {
        self == Self::Product(Levels::Integers)
    }

    /// The small float type that levels are numbers of.
    pub(crate) fn minifloat(self) -> Option<Minifloat> {
        match self {
            Self::Product(Levels::Minifloat(float)) => Some(float),
            _ => None,
        }
    }

    /// Whether each group has an offset besides its scale.
    pub(crate) fn has_offset(self) -> bool {
        matches!(self, Self::Offset(_))
    }

    /// Levels that the largest element of a group may stand for, the likeliest first.
    pub(crate) fn largest(self) -> Vec<f64> {
        match self {
            Self::Product(levels) => levels.largest(),
            Self::Offset(_) => Offset::largest(),
        }
    }

    /// Parameters that reproduce every element of a group, and the number of each element's level.
    pub(crate) fn fit<F: Format>(
        self,
        group: &QuantisedGroup<'_, F>,
        largest: &[f64],
        numbers: &mut Vec<i16>,
    ) -> Option<Fit> {
        match self {
            Self::Product(levels) => group.fit(levels, largest, numbers),
            Self::Offset(offset) => offset.fit(group, largest, numbers),
        }
    }
}
