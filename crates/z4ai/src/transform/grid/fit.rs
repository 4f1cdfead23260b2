//! Finding a group's scale. A guess of which level the largest element stands for gives an interval of scales; each
//! element, taken from the smallest up, then either narrows the interval or refutes the guess. Any scale that is left and
//! reproduces every element will do, so the one with the fewest significant bits is kept: it costs least to store.

use super::format::{Format, rounding_interval};
use super::levels::Levels;

/// The distinct nonzero elements of a group, by magnitude, and which zeros it has.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    /// Magnitude in the upper bits, sign in bit 0.
    keys: Vec<u64>,
    /// Whether a positive zero occurs.
    pub(crate) zero: bool,
    /// Whether a negative zero occurs.
    pub(crate) minus_zero: bool,
    finite: bool,
}

/// A group on the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fit {
    /// What the levels are multiplied by.
    pub(crate) scale: f32,
    /// Magnitude of the largest element's level.
    pub(crate) largest: f64,
    /// Smallest and largest level number, zero included.
    pub(crate) numbers: (i32, i32),
}

impl Distinct {
    /// Collect the elements of a group, forgetting what was collected before.
    pub(crate) fn collect<F: Format>(&mut self, elements: &[u8]) {
        self.keys.clear();
        (self.zero, self.minus_zero, self.finite) = (false, false, true);
        for element in elements.chunks_exact(F::WIDTH) {
            let bits = F::read(element);
            let magnitude = bits & !F::SIGN;
            self.finite &= magnitude < F::INFINITY;
            if magnitude == 0 {
                self.zero |= bits == 0;
                self.minus_zero |= bits != 0;
            } else {
                self.keys.push(u64::from(magnitude) << 1 | u64::from(bits != magnitude));
            }
        }
        self.keys.sort_unstable();
        self.keys.dedup();
    }

    /// Whether the group has zeros only.
    pub(crate) fn is_zero(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many distinct nonzero elements there are.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// A scale that reproduces every element, for the first of `largest` that has one.
    pub(crate) fn fit<F: Format>(&self, levels: Levels, largest: &[f64]) -> Option<Fit> {
        if !self.finite || self.keys.is_empty() {
            return None;
        }
        largest.iter().find_map(|&largest| {
            let interval = self.narrow::<F>(levels, largest)?;
            candidates(interval).find_map(|scale| {
                let numbers = self.numbers_under::<F>(levels, scale)?;
                Some(Fit { scale, largest, numbers })
            })
        })
    }

    /// The scales that are left when the largest element stands for `largest`.
    fn narrow<F: Format>(&self, levels: Levels, largest: f64) -> Option<(f64, f64)> {
        let &last = self.keys.last()?;
        let (mut low, mut high) = scales_for::<F>(last, largest);
        for &key in &self.keys {
            let value = f64::from(F::value((key >> 1) as u32));
            let (level, _) = levels.nearest(value * 2.0 / (low + high), key & 1 == 1);
            if level == 0.0 {
                return None;
            }
            let (lowest, highest) = scales_for::<F>(key, level);
            (low, high) = (low.max(lowest), high.min(highest));
            if low > high {
                return None;
            }
        }
        Some((low, high))
    }

    /// The range of the level numbers, if the scale reproduces every element with at most 256 levels.
    fn numbers_under<F: Format>(&self, levels: Levels, scale: f32) -> Option<(i32, i32)> {
        let assign = Assign::new(levels, scale);
        let (mut low, mut high) = (0, 0);
        for &key in &self.keys {
            let number = assign.number::<F>(element::<F>(key))?;
            (low, high) = (low.min(number), high.max(number));
        }
        (high - low < 256).then_some((low, high))
    }
}

/// The element that a key stands for.
fn element<F: Format>(key: u64) -> u32 {
    (key >> 1) as u32 | if key & 1 == 1 { F::SIGN } else { 0 }
}

/// The scales for which the level rounds to this element, a little wider than exact because the product is first
/// rounded to single precision.
fn scales_for<F: Format>(key: u64, level: f64) -> (f64, f64) {
    const SLACK: f64 = 1.0 / (1_u64 << 24) as f64;
    let (low, high) = rounding_interval::<F>((key >> 1) as u32);
    let slack = if F::WIDTH == 4 { f64::EPSILON } else { SLACK };
    (low / level * (1.0 - slack), high / level * (1.0 + slack))
}

/// Scales inside the interval, those with the fewest significant bits first.
fn candidates((low, high): (f64, f64)) -> impl Iterator<Item = f32> {
    // Patterns of positive floats are ordered like their values. The conversion rounds, so one step outwards may still be inside.
    let first = (low as f32).to_bits().saturating_sub(1).max(1);
    let last = ((high as f32).to_bits() + 1).min(f32::MAX.to_bits());
    let inside = move |bits: u32| (low..=high).contains(&f64::from(f32::from_bits(bits)));
    let round = (0..24)
        .rev()
        .map(move |zeros| last >> zeros << zeros)
        .filter(move |&bits| bits >= first && inside(bits));
    let middle = [((low + high) / 2.0) as f32, low as f32, high as f32].into_iter().map(f32::to_bits);
    let neighbours = (first..=last).take(if last - first < 8 { 8 } else { 0 });
    round.chain(neighbours).chain(middle).map(f32::from_bits).filter(|&scale| scale > 0.0)
}

/// Elements to level numbers, for one group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Assign {
    levels: Levels,
    scale: f32,
    inverse: f64,
}

impl Assign {
    /// For a group with this scale, which is not zero.
    pub(crate) fn new(levels: Levels, scale: f32) -> Self {
        Self { levels, scale, inverse: 1.0 / f64::from(scale.abs()) }
    }

    /// The level's number of a nonzero element, if the scale reproduces it.
    #[inline(always)]
    pub(crate) fn number<F: Format>(&self, bits: u32) -> Option<i32> {
        let value = F::value(bits);
        let negative = (value < 0.0) != (self.scale < 0.0);
        let (_, number) = self.levels.nearest(f64::from(value.abs()) * self.inverse, negative);
        let level = match self.levels {
            Levels::Integers => number as f32,
            Levels::Table(table) => table.levels()[(number & 15) as usize],
        };
        (F::round(level * self.scale) == bits).then_some(number)
    }
}
