//! The levels that a quantiser can take, before they are multiplied by a group's scale: all integers, or one of the
//! four-bit tables in common use.

/// Which levels a tensor was quantised to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Levels {
    /// Integers up to 255 in magnitude: every integer scheme, with or without a zero point, and E2M1 floats.
    Integers,
    /// Sixteen levels from a table.
    Table(Table),
}

/// A table of sixteen levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// Quantiles of the normal distribution ("NF4").
    NormalFloat,
    /// The four-bit float of bitsandbytes, scaled to one.
    Float,
}

/// Largest magnitude of an integer level.
pub(crate) const LARGEST_INTEGER: u32 = 255;

const NORMAL_FLOAT: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

const FLOAT: [f32; 16] = [
    -1.0,
    -0.666_666_7,
    -0.5,
    -0.333_333_34,
    -0.25,
    -0.166_666_67,
    -0.005_208_333_5,
    0.0,
    0.005_208_333_5,
    0.166_666_67,
    0.25,
    0.333_333_34,
    0.5,
    0.666_666_7,
    1.0,
    0.0,
];

impl Table {
    /// The levels by symbol. Symbol 7 is zero in every table.
    pub(crate) const fn levels(self) -> &'static [f32; 16] {
        match self {
            Self::NormalFloat => &NORMAL_FLOAT,
            Self::Float => &FLOAT,
        }
    }
}

impl Levels {
    /// Every kind of levels, in the order in which they are tried.
    pub(crate) const ALL: [Self; 3] =
        [Self::Integers, Self::Table(Table::NormalFloat), Self::Table(Table::Float)];

    /// The byte that stands for the kind in a header: its place in [`Levels::ALL`].
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            Self::Integers => 0,
            Self::Table(Table::NormalFloat) => 1,
            Self::Table(Table::Float) => 2,
        }
    }

    /// The kind that a header's byte stands for.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// The number of level zero.
    pub(crate) fn zero(self) -> u8 {
        match self {
            Self::Integers => 0,
            Self::Table(_) => 7,
        }
    }

    /// The nearest level to `ratio` of the given sign, as a magnitude, and the signed level's number: the integer
    /// itself, or the place in the table.
    #[inline(always)]
    pub(crate) fn nearest(self, ratio: f64, negative: bool) -> (f64, i32) {
        match self {
            Self::Integers => {
                let level = (ratio + 0.5) as i32;
                (f64::from(level), if negative { -level } else { level })
            }
            Self::Table(table) => {
                let levels = table.levels();
                let side = if negative { 0..8 } else { 7..15 + usize::from(table == Table::NormalFloat) };
                let distance = |&number: &usize| (f64::from(levels[number].abs()) - ratio).abs();
                let number = side.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(7);
                (f64::from(levels[number].abs()), number as i32)
            }
        }
    }

    /// Magnitudes that the largest element of a group may stand for, the likeliest first.
    pub(crate) fn largest(self) -> Vec<f64> {
        match self {
            Self::Integers => (1..=LARGEST_INTEGER).map(f64::from).collect(),
            Self::Table(table) => {
                let mut levels: Vec<f64> =
                    table.levels().iter().map(|level| f64::from(level.abs())).collect();
                levels.retain(|&level| level > 0.0);
                levels.sort_by(|a, b| b.total_cmp(a));
                levels.dedup();
                levels
            }
        }
    }
}
