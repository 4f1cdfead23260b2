//! Scales of groups that share them: blocks of rows and columns, of which a row shows a part at a time, or
//! scales that were quantised themselves. Each scale is an interval at first, which all groups that fit it
//! narrow together; a scale that is left then reproduces all of them.

use super::format::Format;
use super::levels::Levels;
use super::minifloat::Minifloat;
use super::scale_search::{QuantisedGroup, candidates};

/// The scales of a block of groups, and the codes of all elements.
pub(super) struct SharedScales {
    pub scales: Vec<f32>,
    /// For each group the place of its scale; nothing where it is off the grid.
    pub places: Vec<Option<usize>>,
    /// For each group those of its elements; none where it is off the grid.
    pub codes: Vec<Vec<u8>>,
}

/// Scales for which all groups so far have levels.
struct SharedScale {
    interval: (f64, f64),
    members: Vec<usize>,
}

impl SharedScales {
    /// Finds scales for the groups of a block, as few as may be. `largest` are numbers that the largest
    /// element of a group may stand for.
    pub fn find<F: Format>(groups: &[QuantisedGroup<'_, F>], float: Minifloat, largest: &[f64]) -> Self {
        let levels = Levels::Minifloat(float);
        let mut shared: Vec<SharedScale> = Vec::new();
        for (index, group) in groups.iter().enumerate().filter(|(_, group)| !group.is_zero()) {
            let known = Self::known(group, levels, largest, &shared);
            if let Some((place, interval)) = known {
                shared[place].interval = interval;
                shared[place].members.push(index);
                continue;
            }
            let fits = |&largest: &f64| group.narrow(levels, largest);
            if let Some(interval) = largest.iter().find_map(fits) {
                let place = shared.partition_point(|known| known.interval.0 < interval.0);
                shared.insert(place, SharedScale { interval, members: vec![index] });
            }
        }
        Self::settle(groups, levels, largest, shared)
    }

    /// The scale of other groups that fits this one, and the interval that is left of it.
    fn known<F: Format>(
        group: &QuantisedGroup<'_, F>,
        levels: Levels,
        largest: &[f64],
        shared: &[SharedScale],
    ) -> Option<(usize, (f64, f64))> {
        if group.is_infinite() {
            return None;
        }
        // The largest elements of all groups stand for the largest numbers, so that their codes have much in
        // common.
        largest.iter().find_map(|&largest| {
            let (low, high) = group.scales_of_largest(largest);
            // Intervals are short and in order, so the one before may reach in.
            let first = shared.partition_point(|known| known.interval.1 < low);
            let reaching = shared[first..].iter().take_while(|known| known.interval.0 <= high);
            reaching.enumerate().find_map(|(step, known)| {
                let interval = group.narrow_from(levels, known.interval)?;
                Some((first + step, interval))
            })
        })
    }

    /// Takes a scale from each interval, the simplest that reproduces all that share it. Those that it does
    /// not reproduce get one of their own.
    fn settle<F: Format>(
        groups: &[QuantisedGroup<'_, F>],
        levels: Levels,
        largest: &[f64],
        shared: Vec<SharedScale>,
    ) -> Self {
        let mut found = vec![None; groups.len()];
        let mut numbered: Vec<Vec<i16>> = vec![Vec::new(); groups.len()];
        let mut scales: Vec<f32> = Vec::new();
        let (mut numbers, mut own) = (Vec::new(), Vec::new());
        let mut take = |scale: f32, members: &[usize]| -> Vec<usize> {
            let mut left = Vec::new();
            for &member in members {
                match groups[member].number(levels, scale, &mut numbers) {
                    Some(_) => {
                        found[member] = Some(scales.len());
                        numbered[member].clone_from(&numbers);
                    }
                    None => left.push(member),
                }
            }
            if left.len() < members.len() {
                scales.push(scale);
            }
            left
        };
        for SharedScale { interval, members } in shared {
            let mut left = members;
            for scale in candidates(interval) {
                let before = left.len();
                left = take(scale, &left);
                if left.is_empty() || left.len() < before {
                    break;
                }
            }
            // Their largest elements stand for something else, or the scale is at an end of their interval.
            for member in left {
                if let Some(fit) = groups[member].fit(levels, largest, &mut own) {
                    take(fit.scale, &[member]);
                }
            }
        }
        for (index, group) in groups.iter().enumerate().filter(|(_, group)| group.is_zero()) {
            if scales.is_empty() {
                scales.push(1.0);
            }
            // Any scale will do.
            found[index] = Some(0);
            let zero = |bits: u32| levels.nearest(0.0, bits & F::SIGN != 0).0 as i16;
            numbered[index] = group.bits().map(zero).collect();
        }
        let codes =
            numbered.into_iter().map(|numbers| numbers.into_iter().map(|number| number as u8).collect());
        Self { scales, places: found, codes: codes.collect() }
    }
}
