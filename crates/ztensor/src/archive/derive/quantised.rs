//! Recipes for quantised tensors whose levels lie in words, and for their scales: the levels follow from the weights of the base and the scales
//! beside them. Zero points are stored with a tensor, unpacked; they are few, and mostly one number.

use std::sync::Arc;

use super::candidates::Origin;
use super::kits::{Kind, Kit};
use super::trial::{Source, Trial, sources};
use super::{Derivation, groups};
use crate::error::Result;
use crate::reader::Reader;
use crate::recipe::{Book, Groups, Levels, Number, Packing, Precision, Recipe, Rounding};
use crate::tensor::Shape;

/// NormalFloat's values, as bitsandbytes has them.
const NORMAL: [f32; 16] = [
    -1.0,
    -0.6961928,
    -0.52507305,
    -0.3949175,
    -0.28444138,
    -0.18477343,
    -0.091050036,
    0.0,
    0.0795803,
    0.1609302,
    0.2461123,
    0.33791524,
    0.44070983,
    0.562617,
    0.72295684,
    1.0,
];
/// The magnitudes of its FP4, and their codes.
const FLOATS: [(f32, u8); 8] = [
    (0.0, 0),
    (0.0625 / 12.0, 1),
    (2.0 / 12.0, 6),
    (3.0 / 12.0, 7),
    (4.0 / 12.0, 4),
    (6.0 / 12.0, 5),
    (8.0 / 12.0, 2),
    (1.0, 3),
];
/// Where E2M1's magnitudes turn to the next, and whether a number that is just there already has.
const PAIRS: [(f32, bool); 7] =
    [(0.25, false), (0.75, true), (1.25, false), (1.75, true), (2.5, false), (3.5, true), (5.0, false)];
/// The slot of each number of AWQ's words.
const AWQ_SLOTS: [u64; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
/// What programs divide the largest magnitude by: the largest number of a type, or half of its range.
const DIVISORS: [f64; 10] = [1.0, 448.0, 127.0, 127.5, 7.5, 7.0, 57344.0, 128.0, 8.0, 6.0];
/// Groups whose scales tell the divisor.
const COMPARED: usize = 64;

/// A weight of a base.
struct Weight<'a, 'b> {
    base: &'a Reader,
    origin: &'b Origin,
    rows: u64,
    row: u64,
}

impl<'a> Derivation<'a> {
    /// Recipes for a quantised tensor, or these numbers of it.
    pub(super) fn quantised(
        &self,
        kit: &Kit,
        (to, shape): (Number, &Shape),
        part: Option<(u64, u64)>,
    ) -> Result<Vec<Trial<'a>>> {
        let mut trials = Vec::new();
        for origins in &self.origins {
            for (origin, of) in origins.named(&kit.weight) {
                let (Some(row), Some(all)) = (of.last().copied(), of.elements()) else { continue };
                if row < 16 || all == 0 {
                    continue;
                }
                let weight = Weight { base: origins.base, origin: &origin, rows: all / row, row };
                let found = match kit.kind {
                    Kind::Words => self.words(kit, shape, &weight)?,
                    Kind::Transposed => self.transposed(kit, shape, &weight)?,
                    Kind::Pairs => self.pairs(kit, shape, &weight)?,
                    Kind::Normal | Kind::Floats => self.normal(kit, &weight),
                    Kind::Rows => self.rows(kit, &weight)?,
                    Kind::Scales => self.scales_of(kit, (to, shape), &weight)?,
                };
                trials.extend(found);
            }
        }
        // Of a part the same numbers of what all of it is.
        if let Some((first, count)) = part {
            let part = |trial: Trial<'a>| Trial::new(trial.recipe.slice(first, count), trial.sources);
            trials = trials.into_iter().map(part).collect();
        }
        Ok(trials)
    }

    /// Levels in words of 32 bits along rows.
    fn words(&self, kit: &Kit, shape: &Shape, weight: &Weight<'a, '_>) -> Result<Vec<Trial<'a>>> {
        let Some(words) = shape.last().copied() else { return Ok(Vec::new()) };
        let bits = words.saturating_mul(32) / weight.row;
        if !(2..=8).contains(&bits) || bits * weight.row != words * 32 {
            return Ok(Vec::new());
        }
        let scales = &self.runs[kit.scales];
        let Some((down, across)) = groups(weight.rows, weight.row, &scales.shape) else {
            return Ok(Vec::new());
        };
        let half = 1i16 << (bits - 1);
        let zeros = match kit.zeros {
            Some(zeros) => {
                let columns = weight.row.checked_div(across).unwrap_or(1);
                let Some(levels) = self.unpacked(zeros, bits, (weight.rows, columns))? else {
                    return Ok(Vec::new());
                };
                Some(
                    levels
                        .into_iter()
                        .map(|level| (level as i8).wrapping_sub(half as i8).cast_unsigned())
                        .collect(),
                )
            }
            None => None,
        };
        let numbers = (1..=8).find(|numbers| (numbers * bits).is_multiple_of(8)).unwrap_or(8);
        let slots: Vec<u64> = (0..numbers).collect();
        let packing = Packing::new(bits, &slots, 1)?;
        let groups = Groups { row: weight.row, down, across };
        let plain = weight.origin.recipe.clone();
        self.trials_of(
            kit,
            weight,
            (Book::Integers(-half, half - 1), groups, packing),
            (plain, Number::I8, zeros),
        )
    }

    /// Levels of the transposed matrix, in words of what lies below each other, or of neighbours.
    fn transposed(&self, kit: &Kit, shape: &Shape, weight: &Weight<'a, '_>) -> Result<Vec<Trial<'a>>> {
        let (rows, row) = (weight.rows, weight.row);
        let (&[height, width], &[bands, columns]) = (&shape[..], &self.runs[kit.scales].shape[..]) else {
            return Ok(Vec::new());
        };
        let Some(of) = weight.origin.recipe.plain() else { return Ok(Vec::new()) };
        if rows < 16 || columns != rows || bands == 0 || !row.is_multiple_of(bands) {
            return Ok(Vec::new());
        }
        let (is_awq, bits) = match (width == rows, height == row) {
            (true, false) => (false, height.saturating_mul(32) / row),
            (false, true) => (true, width.saturating_mul(32) / rows),
            _ => return Ok(Vec::new()),
        };
        let fits = if is_awq {
            bits == 4 && width * 8 == rows
        } else {
            [2, 4, 8].contains(&bits) && height * 32 == row * bits
        };
        if !fits {
            return Ok(Vec::new());
        }
        let most = (1i16 << bits) - 1;
        let packing = match is_awq {
            true => Packing::new(4, &AWQ_SLOTS, 1)?,
            false => Packing::new(bits, &(0..32 / bits).collect::<Vec<_>>(), rows)?,
        };
        let groups = Groups { row: rows, down: row / bands, across: 1 };
        let plain = Recipe::transposed(0, of, rows, row);
        let mut trials = Vec::new();
        let stored = match kit.zeros {
            Some(zeros) => self.unpacked_columns(zeros, bits, (bands, rows), is_awq)?,
            None => Some(vec![1 << (bits - 1); (bands * rows) as usize]),
        };
        let Some(stored) = stored else { return Ok(Vec::new()) };
        // GPTQ's first format stores zero points less one.
        for less in if is_awq || kit.zeros.is_none() { &[0u8][..] } else { &[1, 0] } {
            let zeros: Vec<u8> = stored.iter().map(|zero| zero.wrapping_add(*less) & most as u8).collect();
            let book = (Book::Integers(0, most), groups, packing.clone());
            trials.extend(self.trials_of(kit, weight, book, (plain.clone(), Number::U8, Some(zeros)))?);
        }
        Ok(trials)
    }

    /// The levels of numbers over the scales of the file, in the precisions that programs divide in.
    fn trials_of(
        &self,
        kit: &Kit,
        weight: &Weight<'a, '_>,
        (book, groups, packing): (Book, Groups, Packing),
        (numbers, zero, zeros): (Recipe, Number, Option<Vec<u8>>),
    ) -> Result<Vec<Trial<'a>>> {
        let scales = &self.runs[kit.scales];
        let (Some(of), Some(mut sources)) =
            (Number::of(&scales.element), sources(weight.base, weight.origin))
        else {
            return Ok(Vec::new());
        };
        let place = sources.len();
        sources.push(Source::Run(kit.scales, self.original.bytes(scales.offset, scales.length)?));
        if let Some(zeros) = &zeros {
            sources.push(Source::Field(zero, 1, Arc::new(zeros.clone())));
        }
        let narrow = [of, weight.origin.number].into_iter().find_map(Precision::of_narrow);
        let mut trials = Vec::new();
        for precision in narrow.into_iter().chain([Precision::F32]) {
            let levels = Levels { to: Number::U8, precision, factor: 0.0, book: book.clone(), groups };
            let scales = Recipe::operand(place, of);
            let zeros = zeros.as_ref().map(|_| Recipe::operand(place + 1, zero));
            let recipe = numbers.clone().levels(levels, scales, zeros).packed(packing.clone());
            trials.push(Trial::new(recipe, sources.clone()));
        }
        Ok(trials)
    }

    /// E2M1 in pairs, with a scale for 16 or 32 neighbours.
    fn pairs(&self, kit: &Kit, shape: &Shape, weight: &Weight<'a, '_>) -> Result<Vec<Trial<'a>>> {
        let run = &self.runs[kit.scales];
        let (Some(count), Some(all)) = (run.shape.elements(), shape.elements()) else {
            return Ok(Vec::new());
        };
        let numbers = weight.rows * weight.row;
        let across = numbers.checked_div(count).unwrap_or(0);
        if all.checked_mul(2) != Some(numbers)
            || !(8..=128).contains(&across)
            || !weight.row.is_multiple_of(across)
        {
            return Ok(Vec::new());
        }
        let of = match Number::of(&run.element) {
            Some(Number::U8) => Number::F8E8M0,
            Some(of) => of,
            None => return Ok(Vec::new()),
        };
        let Some(mut sources) = sources(weight.base, weight.origin) else { return Ok(Vec::new()) };
        let mut scales = Recipe::operand(sources.len(), of);
        sources.push(Source::Run(kit.scales, self.original.bytes(run.offset, run.length)?));
        if let Some(global) = kit.global {
            let run = &self.runs[global];
            let Some(of) = Number::of(&run.element).filter(|of| of.is_float() && count >= 16) else {
                return Ok(Vec::new());
            };
            scales = scales.scaled(Number::F32, count, (0, 0), Recipe::operand(sources.len(), of));
            sources.push(Source::Run(global, self.original.bytes(run.offset, run.length)?));
        }
        let packing = Packing::new(4, &[0, 1], 1)?;
        let groups = Groups { row: weight.row, down: 1, across };
        let narrow = Precision::of_narrow(weight.origin.number).filter(|_| kit.global.is_none());
        let trials = [Some(Precision::F32), narrow].into_iter().flatten().map(|precision| {
            let levels = Levels { to: Number::U8, precision, factor: 0.0, book: pairs_book(), groups };
            let recipe =
                weight.origin.recipe.clone().levels(levels, scales.clone(), None).packed(packing.clone());
            Trial::new(recipe, sources.clone())
        });
        Ok(trials.collect())
    }

    /// Indices into a table, in blocks of the whole tensor that the largest magnitude scales.
    fn normal(&self, kit: &Kit, weight: &Weight<'a, '_>) -> Vec<Trial<'a>> {
        let all = weight.rows * weight.row;
        let count = self.runs[kit.scales].shape.elements().unwrap_or(0);
        let Some(block) = all.checked_div(count).filter(|block| (8..=4096).contains(block)) else {
            return Vec::new();
        };
        let (Some(sources), Ok(packing)) = (sources(weight.base, weight.origin), Packing::new(4, &[1, 0], 1))
        else {
            return Vec::new();
        };
        let groups = Groups { row: all, down: 1, across: block.next_power_of_two() };
        let book = if kit.kind == Kind::Normal { normal_book() } else { floats_book() };
        let trials = loaded(weight.origin, &[Number::F16, Number::Bf16]).into_iter().map(|numbers| {
            let (precision, book) = (Precision::F32, book.clone());
            let levels = Levels { to: Number::U8, precision, factor: 1.0, book, groups };
            let scales = numbers.clone().largest(groups);
            Trial::new(numbers.levels(levels, scales, None).packed(packing.clone()), sources.clone())
        });
        trials.collect()
    }

    /// Integers of eight bits, by rows.
    fn rows(&self, kit: &Kit, weight: &Weight<'a, '_>) -> Result<Vec<Trial<'a>>> {
        let run = &self.runs[kit.scales];
        let (Some(of), Some(mut sources)) = (Number::of(&run.element), sources(weight.base, weight.origin))
        else {
            return Ok(Vec::new());
        };
        let scales = Recipe::operand(sources.len(), of);
        sources.push(Source::Run(kit.scales, self.original.bytes(run.offset, run.length)?));
        let groups = Groups { row: weight.row, down: 1, across: 0 };
        let book = Book::Integers(-127, 127);
        let levels = Levels { to: Number::I8, precision: Precision::F32, factor: 127.0, book, groups };
        let of = loaded(weight.origin, &[Number::F16])
            .into_iter()
            .map(|numbers| Trial::new(numbers.levels(levels.clone(), scales.clone(), None), sources.clone()));
        Ok(of.collect())
    }

    /// Scales: the largest magnitudes over a number that a few of them tell.
    fn scales_of(
        &self,
        kit: &Kit,
        (to, shape): (Number, &Shape),
        weight: &Weight<'a, '_>,
    ) -> Result<Vec<Trial<'a>>> {
        let (all, count) = (weight.rows * weight.row, shape.elements().unwrap_or(0));
        let groups = match groups(weight.rows, weight.row, shape) {
            Some((0, _)) => return Ok(Vec::new()),
            Some((down, across)) => Groups { row: weight.row, down, across },
            // Blocks of bitsandbytes.
            None if count > 0 && all.is_multiple_of(count) => {
                Groups { row: all, down: 1, across: all / count }
            }
            None => return Ok(Vec::new()),
        };
        let Some(sources) = sources(weight.base, weight.origin) else { return Ok(Vec::new()) };
        let run = &self.runs[kit.scales];
        let compared = (count as usize).min(COMPARED);
        let stored =
            super::trial::floats(to, &self.original.bytes(run.offset, (compared * to.width()) as u64)?)?;
        let mut trials = Vec::new();
        for numbers in loaded(weight.origin, &[Number::Bf16, Number::F16]) {
            let largest = numbers.largest(groups);
            let trial = Trial::new(largest.clone(), sources.clone());
            if trial.recipe.length(&trial.lengths).ok() != Some(4 * count) {
                continue;
            }
            let found = super::trial::floats(Number::F32, &trial.reference(0, 4 * compared)?)?;
            let mut ratios: Vec<f64> =
                found.iter().zip(&stored).map(|(most, scale)| f64::from(*most) / f64::from(*scale)).collect();
            ratios.sort_by(f64::total_cmp);
            let middle = ratios.get(compared / 2).copied().unwrap_or(f64::NAN);
            let Some(divisor) = DIVISORS.into_iter().find(|of| (middle / of - 1.0).abs() < 0.003) else {
                continue;
            };
            for precision in [Precision::of_narrow(to), Some(Precision::F32)].into_iter().flatten() {
                let sum = Recipe::sum(precision, divisor, vec![1.0], vec![largest.clone()]);
                let sum = if precision.number() == to { sum } else { sum.cast(to, Rounding::Nearest) };
                trials.push(Trial::new(sum, sources.clone()));
            }
        }
        Ok(trials)
    }

    /// Small numbers that lie in words down columns, by rows.
    fn unpacked(&self, place: usize, bits: u64, (rows, columns): (u64, u64)) -> Result<Option<Vec<u8>>> {
        let run = &self.runs[place];
        let words = rows.saturating_mul(bits).div_ceil(32);
        if run.element.storage.width() != 4
            || words.checked_mul(columns).and_then(|of| of.checked_mul(4)) != Some(run.length)
        {
            return Ok(None);
        }
        let bytes = self.original.bytes(run.offset, run.length)?;
        let word = |row: u64, column: u64| {
            let at = (row * columns + column) as usize;
            bytes.as_chunks::<4>().0.get(at).map_or(0, |word| u64::from(u32::from_le_bytes(*word)))
        };
        let number = |place: u64| {
            let (row, column) = (place / columns, place % columns);
            let (at, shift) = (row * bits / 32, row * bits % 32);
            let both = word(at, column) | if at + 1 < words { word(at + 1, column) << 32 } else { 0 };
            (both >> shift & ((1 << bits) - 1)) as u8
        };
        Ok(Some((0..rows * columns).map(number).collect()))
    }

    /// Small numbers that lie in words along rows, perhaps in AWQ's order.
    fn unpacked_columns(
        &self,
        place: usize,
        bits: u64,
        (rows, columns): (u64, u64),
        is_awq: bool,
    ) -> Result<Option<Vec<u8>>> {
        let run = &self.runs[place];
        let per_word = 32 / bits;
        let wanted = rows.checked_mul(columns / per_word).and_then(|of| of.checked_mul(4));
        if run.element.storage.width() != 4 || !columns.is_multiple_of(per_word) || wanted != Some(run.length)
        {
            return Ok(None);
        }
        let bytes = self.original.bytes(run.offset, run.length)?;
        let mut levels = Vec::with_capacity((rows * columns) as usize);
        for word in bytes.as_chunks::<4>().0 {
            let word = u32::from_le_bytes(*word);
            for number in 0..per_word {
                let slot = if is_awq { AWQ_SLOTS[number as usize] } else { number };
                levels.push((word >> (slot * bits) & ((1 << bits) - 1)) as u8);
            }
        }
        Ok(Some(levels))
    }
}

/// Numbers as programs load them before they quantise: as they are, or narrower.
fn loaded(origin: &Origin, narrow: &[Number]) -> Vec<Recipe> {
    let mut recipes = vec![origin.recipe.clone()];
    for number in narrow.iter().filter(|number| **number != origin.number) {
        recipes.push(origin.recipe.clone().cast(*number, Rounding::Nearest));
    }
    recipes
}

fn normal_book() -> Book {
    let thresholds = NORMAL.windows(2).map(|pair| f32::midpoint(pair[0], pair[1])).collect();
    Book::Table { thresholds, codes: (0..16).collect() }
}

fn floats_book() -> Book {
    let turns: Vec<(f32, bool)> =
        FLOATS.windows(2).map(|pair| (f32::midpoint(pair[0].0, pair[1].0), false)).collect();
    signed(&turns, &FLOATS.map(|(_, code)| code))
}

fn pairs_book() -> Book {
    signed(&PAIRS, &[0, 1, 2, 3, 4, 5, 6, 7])
}

/// A table for magnitudes with a sign in the fourth bit, from where each magnitude turns to the next; −0 is what is below 0.
fn signed(turns: &[(f32, bool)], codes: &[u8]) -> Book {
    let mut thresholds: Vec<f32> =
        turns.iter().rev().map(|(at, there)| if *there { -at } else { (-at).next_down() }).collect();
    thresholds.push(0f32.next_down());
    thresholds.extend(turns.iter().map(|(at, there)| if *there { at.next_down() } else { *at }));
    let codes = codes.iter().rev().map(|code| code | 8).chain(codes.iter().copied()).collect();
    Book::Table { thresholds, codes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_ascend_and_are_of_both_signs() {
        for (book, least, most) in [(normal_book(), 0, 15), (floats_book(), 11, 3), (pairs_book(), 15, 7)] {
            let Book::Table { thresholds, codes } = book else { unreachable!() };
            assert!(thresholds.is_sorted_by(|one, other| one < other), "{thresholds:?}");
            assert_eq!((thresholds.len(), codes[0], codes[15]), (15, least, most));
            let mut all = codes.clone();
            all.sort_unstable();
            assert_eq!(all, (0..16).collect::<Vec<u8>>());
        }
    }
}
