//! Groups with an offset that is not a whole number of steps: `level · scale + minimum`, as GGUF's Q4_1 and
//! K-quants compute it, and `(level - centre) · scale`, as HQQ does. Levels run from zero to at most 31 and
//! both ends are in use, so the smallest and the largest element say almost everything; what is left is a
//! search among neighbouring floats.

use super::format::{Bf16, Format, Fp16};
use super::scale_search::{Fit, QuantisedGroup, candidates};

/// How level, scale and offset are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offset {
    /// Level times scale, plus the offset, in single precision.
    Minimum,
    /// Level minus the offset, rounded to the stored format, times scale.
    Centre,
}

/// Most distinct elements of a group. Structured: half or double changes no size.
const MOST_LEVELS: usize = 32;
/// Largest centre: far above any level, and small enough that no difference overflows.
pub(crate) const LARGEST_CENTRE: f32 = 32768.0;
/// Floats on either side of the estimated offset that are tried. Structured: half or double changes no size.
const OFFSETS_TRIED: i32 = 8;

impl Offset {
    /// Levels of the largest element that are tried, the likeliest first.
    pub(crate) fn largest() -> Vec<f64> {
        vec![15.0, 7.0, 3.0, 31.0, 1.0]
    }

    /// The element of a level.
    #[inline(always)]
    pub(crate) fn element<F: Format>(self, level: f32, scale: f32, offset: f32) -> u32 {
        match self {
            Self::Minimum => F::round(level * scale + offset),
            Self::Centre => F::round(F::value(F::round(level - offset)) * scale),
        }
    }

    /// Scale and offset that reproduce every element of the group. `numbers` receives the level of each.
    pub(crate) fn fit<F: Format>(
        self,
        group: &QuantisedGroup<'_, F>,
        largest: &[f64],
        numbers: &mut Vec<i16>,
    ) -> Option<Fit> {
        let mut levels = Distinct::collect(group)?;
        for &largest in largest {
            let Some(step) = levels.assign(largest) else { continue };
            let with = |offset: f32| {
                let scales = levels.scales(self, offset)?;
                let scale = candidates(scales).find(|&scale| levels.reproduced_by(self, scale, offset))?;
                Some((scale, offset))
            };
            let likely = levels.likely_offsets(self, step).into_iter().find_map(with);
            let found = likely.or_else(|| levels.possible_offsets(self).into_iter().find_map(with));
            if let Some((scale, offset)) = found {
                numbers.clear();
                numbers.extend(group.bits().map(|bits| levels.level_of(bits)));
                return Some(Fit { scale, offset, largest, numbers: (0, 0) });
            }
        }
        None
    }
}

/// The distinct elements of a group, ascending.
struct Distinct<F> {
    elements: Vec<Element>,
    format: std::marker::PhantomData<F>,
}

#[derive(Clone, Copy)]
struct Element {
    bits: u32,
    value: f64,
    level: f64,
}

impl<F: Format> Distinct<F> {
    /// `None` if there are too many or too few, or one is not finite.
    fn collect(group: &QuantisedGroup<'_, F>) -> Option<Self> {
        let mut elements: Vec<Element> = Vec::with_capacity(MOST_LEVELS);
        for bits in group.bits() {
            if elements.iter().any(|known| known.bits == bits) {
                continue;
            }
            if elements.len() == MOST_LEVELS || bits & !F::SIGN >= F::INFINITY {
                return None;
            }
            elements.push(Element { bits, value: f64::from(F::value(bits)), level: 0.0 });
        }
        elements.sort_by(|a, b| a.value.total_cmp(&b.value));
        (elements.len() > 1).then_some(Self { elements, format: std::marker::PhantomData })
    }

    /// Gives each element its level when the last one has level `largest`; the step between levels.
    fn assign(&mut self, largest: f64) -> Option<f64> {
        let (first, last) = (self.elements.first()?.value, self.elements.last()?.value);
        let step = (last - first) / largest;
        let mut before = -1.0;
        for element in &mut self.elements {
            let place = (element.value - first) / step;
            element.level = f64::from((place + 0.5) as i32);
            if (place - element.level).abs() > 0.3 || element.level <= before {
                return None;
            }
            before = element.level;
        }
        Some(step)
    }

    /// Offsets that the smallest element suggests, nearest first.
    fn likely_offsets(&self, kind: Offset, step: f64) -> Vec<f32> {
        let Some(first) = self.elements.first() else { return Vec::new() };
        match kind {
            Offset::Minimum => {
                let own = F::value(first.bits);
                let (low, high) = interval::<F>(first.bits);
                let finer =
                    around::<Fp16>(own).into_iter().filter(|&near| (low..=high).contains(&f64::from(near)));
                [own].into_iter().chain(finer).collect()
            }
            Offset::Centre => {
                let centre = (-first.value / step) as f32;
                let mut offsets =
                    [around::<Bf16>(centre), around::<Fp16>(centre), around::<F>(centre)].concat();
                offsets.retain(|offset| offset.abs() < LARGEST_CENTRE);
                offsets
            }
        }
    }

    /// Minima that were rounded away with the smallest element, those stored in few bits first.
    fn possible_offsets(&self, kind: Offset) -> Vec<f32> {
        let found = self
            .elements
            .first()
            .filter(|_| kind == Offset::Minimum)
            .and_then(|first| self.minima(first.bits));
        let Some((low, high)) = found else { return Vec::new() };
        let middle = ((low + high) / 2.0) as f32;
        let short =
            around::<Fp16>(middle).into_iter().filter(|&near| (low..=high).contains(&f64::from(near)));
        let magnitudes = (low.abs().min(high.abs()), low.abs().max(high.abs()));
        short.chain(candidates(magnitudes).take(8).map(|magnitude| magnitude.copysign(middle))).collect()
    }

    /// The minima for which some scale is left. The width of that interval of scales is a concave function of
    /// the minimum, so its peak is found by trisection and the ends by bisection.
    fn minima(&self, first: u32) -> Option<(f64, f64)> {
        const STEPS: usize = 24;
        let (bottom, top) = interval::<F>(first);
        let above = self.elements.iter().filter(|element| element.level > 0.0);
        let limits: Vec<(f64, f64, f64)> = above
            .map(|element| {
                let (least, most) = interval::<F>(element.bits);
                let reciprocal = 1.0 / element.level;
                (least * reciprocal, most * reciprocal, reciprocal)
            })
            .collect();
        let width = |minimum: f64| {
            let (mut low, mut high) = (f64::MIN, f64::MAX);
            for &(least, most, reciprocal) in &limits {
                low = low.max(least - minimum * reciprocal);
                high = high.min(most - minimum * reciprocal);
            }
            high - low
        };
        let (mut low, mut high) = (bottom, top);
        for _ in 0..STEPS {
            let third = (high - low) / 3.0;
            if width(low + third) < width(high - third) { low += third } else { high -= third }
        }
        let peak = (low + high) / 2.0;
        if width(peak) < 0.0 {
            return None;
        }
        let end = |outside: f64| {
            let (mut inside, mut outside) = (peak, outside);
            for _ in 0..STEPS {
                let middle = (inside + outside) / 2.0;
                if width(middle) < 0.0 { outside = middle } else { inside = middle }
            }
            inside
        };
        Some((end(bottom), end(top)))
    }

    /// The scales that are left for an offset.
    fn scales(&self, kind: Offset, offset: f32) -> Option<(f64, f64)> {
        const OFFSET_SLACK: f64 = 1.0 / (1_u64 << 23) as f64;
        let (mut low, mut high) = (0.0_f64, f64::from(f32::MAX));
        for element in &self.elements {
            let (mut least, mut most) = interval::<F>(element.bits);
            let factor = match kind {
                Offset::Minimum => {
                    let slack = (element.value.abs() + f64::from(offset.abs())) * OFFSET_SLACK;
                    least -= f64::from(offset) + slack;
                    most -= f64::from(offset) - slack;
                    element.level
                }
                Offset::Centre => f64::from(F::value(F::round(element.level as f32 - offset))),
            };
            if factor == 0.0 {
                continue;
            }
            let (a, b) = (least / factor, most / factor);
            (low, high) =
                (low.max(a.min(b) * (1.0 - OFFSET_SLACK)), high.min(a.max(b) * (1.0 + OFFSET_SLACK)));
            if low > high {
                return None;
            }
        }
        Some((low, high))
    }

    fn reproduced_by(&self, kind: Offset, scale: f32, offset: f32) -> bool {
        self.elements
            .iter()
            .all(|element| kind.element::<F>(element.level as f32, scale, offset) == element.bits)
    }

    fn level_of(&self, bits: u32) -> i16 {
        self.elements.iter().find(|element| element.bits == bits).map_or(0, |element| element.level as i16)
    }
}

/// The reals that round to an element.
fn interval<F: Format>(bits: u32) -> (f64, f64) {
    let magnitude = bits & !F::SIGN;
    if magnitude == 0 {
        let half = f64::from(F::value(1)) / 2.0;
        return (-half, half);
    }
    let (low, high) = F::rounding_interval(magnitude);
    if bits == magnitude { (low, high) } else { (-high, -low) }
}

/// The floats of a format nearest to a value, nearest first.
fn around<F: Format>(value: f32) -> Vec<f32> {
    let nearest = F::round(value) as i32;
    let steps = (0..=OFFSETS_TRIED).flat_map(|step| [step, -step]).skip(1);
    steps.map(|step| F::value(nearest.wrapping_add(step) as u32)).filter(|near| near.is_finite()).collect()
}
