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
const LARGEST_INTEGER: u32 = 255;

/// Reciprocals of the integer levels, with zero for zero.
const RECIPROCALS: [f64; LARGEST_INTEGER as usize + 1] = {
    let mut reciprocals = [0.0; LARGEST_INTEGER as usize + 1];
    let mut level = 1;
    while level < reciprocals.len() {
        reciprocals[level] = 1.0 / level as f64;
        level += 1;
    }
    reciprocals
};

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

    /// The number of the largest positive level.
    const fn last(self) -> i32 {
        match self {
            Self::NormalFloat => 15,
            Self::Float => 14,
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

    /// The number of the level of this sign that is nearest to the magnitude `ratio`, and the reciprocal of the
    /// level's magnitude, zero for level zero. Integers are their own numbers, table levels are numbered by place.
    #[inline(always)]
    pub(crate) fn nearest(self, ratio: f64, negative: bool) -> (i32, f64) {
        match self {
            Self::Integers => {
                let level = (ratio + 0.5) as i32;
                let reciprocal = RECIPROCALS.get(level as usize).copied().unwrap_or(0.0);
                (if negative { -level } else { level }, reciprocal)
            }
            Self::Table(table) => {
                let levels = table.levels();
                let mut number = 7;
                let step = if negative { -1 } else { 1 };
                let last = if negative { 0 } else { table.last() };
                while number != last {
                    let (here, next) = (levels[number as usize], levels[(number + step) as usize]);
                    if ratio * 2.0 < f64::from(here.abs()) + f64::from(next.abs()) {
                        break;
                    }
                    number += step;
                }
                let level = f64::from(levels[number as usize].abs());
                (number, if level == 0.0 { 0.0 } else { 1.0 / level })
            }
        }
    }

    /// The level with this number.
    #[inline(always)]
    pub(crate) fn level(self, number: i32) -> f32 {
        match self {
            Self::Integers => number as f32,
            Self::Table(table) => table.levels()[(number & 15) as usize],
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
