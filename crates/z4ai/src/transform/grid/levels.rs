//! The levels that a quantiser can take, before they are multiplied by a group's scale: all integers, or one
//! of the four-bit tables in common use, or the numbers of a small float type.

use super::minifloat::Minifloat;

/// Which levels a tensor was quantised to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Levels {
    /// Integers up to 255 in magnitude: every integer scheme, with or without a zero point, and E2M1 floats.
    Integers,
    /// Sixteen levels from a table.
    LevelTable(LevelTable),
    /// The numbers of a float type.
    Minifloat(Minifloat),
}

/// A table of sixteen levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LevelTable {
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

/// The levels of a table on one side of zero, from zero outwards.
struct Side {
    /// Halfway points between neighbouring levels; infinite past the last level.
    borders: [f64; 8],
    /// Reciprocals of the magnitudes, zero for zero.
    reciprocals: [f64; 16],
}

impl Side {
    const fn new(levels: &[f32; 16], direction: isize) -> Self {
        let mut side = Self { borders: [f64::INFINITY; 8], reciprocals: [0.0; 16] };
        let mut steps = 0;
        while steps < 8 {
            let here = levels[(7 + direction * steps as isize) as usize].abs() as f64;
            if steps == 7 && direction < 0 {
                break;
            }
            let next = levels[(7 + direction * (steps as isize + 1)) as usize].abs() as f64;
            if next <= here {
                break;
            }
            side.borders[steps] = (here + next) / 2.0;
            side.reciprocals[steps + 1] = 1.0 / next;
            steps += 1;
        }
        side
    }
}

impl LevelTable {
    /// The levels by symbol. Symbol 7 is zero in every table.
    pub(crate) const fn levels(self) -> &'static [f32; 16] {
        match self {
            Self::NormalFloat => &NORMAL_FLOAT,
            Self::Float => &FLOAT,
        }
    }

    /// The levels of one sign.
    const fn side(self, negative: bool) -> &'static Side {
        const NORMAL_FLOAT_SIDES: [Side; 2] = [Side::new(&NORMAL_FLOAT, 1), Side::new(&NORMAL_FLOAT, -1)];
        const FLOAT_SIDES: [Side; 2] = [Side::new(&FLOAT, 1), Side::new(&FLOAT, -1)];
        match self {
            Self::NormalFloat => &NORMAL_FLOAT_SIDES[negative as usize],
            Self::Float => &FLOAT_SIDES[negative as usize],
        }
    }
}

impl Levels {
    /// The number of level zero.
    pub(crate) fn zero(self) -> u8 {
        match self {
            Self::Integers | Self::Minifloat(_) => 0,
            Self::LevelTable(_) => 7,
        }
    }

    /// Whether every level, zero too, comes with either sign.
    pub(crate) fn has_signs(self) -> bool {
        matches!(self, Self::Minifloat(_))
    }

    /// The number of the level of this sign that is nearest to the magnitude `ratio`, and the reciprocal of
    /// the level's magnitude, zero for level zero. Integers are their own numbers, table levels are numbered
    /// by place.
    #[inline(always)]
    pub(crate) fn nearest(self, ratio: f64, negative: bool) -> (i32, f64) {
        match self {
            Self::Integers => {
                let level = (ratio + 0.5) as i32;
                let reciprocal = RECIPROCALS.get(level as usize).copied().unwrap_or(0.0);
                (if negative { -level } else { level }, reciprocal)
            }
            Self::LevelTable(table) => {
                let side = table.side(negative);
                let steps = side.borders.iter().map(|&border| i32::from(ratio >= border)).sum::<i32>();
                (if negative { 7 - steps } else { 7 + steps }, side.reciprocals[steps as usize & 15])
            }
            Self::Minifloat(float) => float.nearest(ratio, negative),
        }
    }

    /// The level with this number.
    #[inline(always)]
    pub(crate) fn level(self, number: i32) -> f32 {
        match self {
            Self::Integers => number as f32,
            Self::LevelTable(table) => table.levels()[(number & 15) as usize],
            Self::Minifloat(float) => float.value(number as u32),
        }
    }

    /// Magnitudes that the largest element of a group may stand for, the likeliest first.
    pub(crate) fn largest(self) -> Vec<f64> {
        match self {
            Self::Integers => (1..=LARGEST_INTEGER).map(f64::from).collect(),
            Self::LevelTable(table) => {
                let mut levels: Vec<f64> =
                    table.levels().iter().map(|level| f64::from(level.abs())).collect();
                levels.retain(|&level| level > 0.0);
                levels.sort_by(|a, b| b.total_cmp(a));
                levels.dedup();
                levels
            }
            Self::Minifloat(float) => float.greatest_of_each_mantissa(),
        }
    }
}
