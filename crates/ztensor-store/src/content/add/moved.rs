//! Files that are no models and whose bytes have moved: a line was inserted into a text, a table lost a row. Side by side such a file and its base differ in
//! nearly every byte; a recipe that puts stretches of the base where they are now makes them equal again.

use std::collections::HashMap;

use super::Builder;
use super::prepare::{Derived, Ingredient, Origin};
use crate::content::chain::{buffer, read_entry};
use crate::content::known::{Place, plain_key};
use ztensor::recipe::{Number, Recipe};

/// Equal stretches are found by so many bytes, or four or sixteen times as many where that finds more of them than a recipe holds.
const SEEDS: [usize; 3] = [32, 128, 512];
/// Stretches of a recipe: two nodes and about 30 bytes each, of the 1024 and 64 KiB that one may have.
const MOST: usize = 400;
/// Shorter pieces are not worth a recipe.
const SHORTEST: usize = 4 << 10;

/// Bytes of the base that stand for as many of the piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    start: usize,
    length: usize,
}

/// More stretches than a recipe holds.
#[derive(Debug)]
struct TooMany;

impl Builder<'_> {
    /// A piece as the difference to stretches of the file of that name that the nearest checkpoint has, if that takes clearly less than `otherwise`.
    pub(super) fn moved(
        &self,
        bytes: &[u8],
        origin: &Origin<'_>,
        otherwise: usize,
        codec: &z4ai::Options,
    ) -> ztensor::Result<Option<Derived>> {
        // Where next to nothing is left, nothing has moved.
        if bytes.len() < SHORTEST || otherwise <= bytes.len() / 64 {
            return Ok(None);
        }
        let places = self.neighbours(origin)?;
        if places.is_empty() {
            return Ok(None);
        }
        let mut ends = Vec::with_capacity(places.len());
        let mut base = Vec::new();
        for place in &places {
            let start = base.len();
            base.append(&mut buffer(self.known.entry(*place).length)?);
            read_entry(self.protocol, self.known.manifest(*place), place.entry, 0, &mut base[start..])?;
            ends.push(base.len());
        }
        let found = SEEDS.iter().map(|seed| stretches(&base, bytes, *seed));
        let Some(Ok(Some(stretches))) = found.into_iter().find(Result::is_ok) else { return Ok(None) };
        // Of the base only the pieces that are needed.
        let needed = |place: &usize| {
            let (start, end) = (place.checked_sub(1).map_or(0, |before| ends[before]), ends[*place]);
            stretches.iter().any(|found| found.start < end && start < found.start + found.length)
        };
        let used: Vec<usize> = (0..places.len()).filter(needed).collect();
        let (Some(first), Some(last)) = (used.first(), used.last()) else { return Ok(None) };
        let skipped = first.checked_sub(1).map_or(0, |before| ends[before]);
        let slice = |stretch: &Stretch| {
            let operand = Recipe::operand(0, Number::U8);
            operand.slice((stretch.start - skipped) as u64, stretch.length as u64)
        };
        let recipe = Recipe::join(stretches.iter().map(slice).collect()).encode();
        if recipe.len() > Recipe::MOST_BYTES {
            return Ok(None);
        }
        let found = stretches.iter().flat_map(|found| &base[found.start..found.start + found.length]);
        let reference: Vec<u8> = found.copied().collect();
        let (frame, is_delta) = z4ai::compress_delta_if_useful(bytes, &reference, codec)?;
        if !is_delta || (frame.len() + recipe.len()) as u64 * 10 >= otherwise as u64 * 9 {
            return Ok(None);
        }
        let operands = vec![Ingredient::Stored(places[*first..=*last].to_vec())];
        let alone = z4ai::compress(bytes, codec)?.len() as u64;
        Ok(Some(Derived { recipe, operands, frame, alone }))
    }

    /// The pieces around the place that a piece has in its file, of the nearest checkpoint with such a file, as far as they may be bases.
    fn neighbours(&self, origin: &Origin<'_>) -> ztensor::Result<Vec<Place>> {
        let Some(number) = origin.stretch else { return Ok(Vec::new()) };
        let named = |number: usize| {
            self.known.candidates(&plain_key(origin.path, number), origin.path, "", &[], true).0
        };
        let before = number.saturating_sub(1);
        let nearest = named(number).first().or(named(before).first()).map(|place| place.checkpoint);
        let Some(checkpoint) = nearest else { return Ok(Vec::new()) };
        let mut places = Vec::new();
        for near in before..=number.saturating_add(1) {
            let found = named(near).into_iter().find(|place| place.checkpoint == checkpoint);
            let Some(place) = found else { continue };
            let is_deep = self.known.manifest(place).depth(place.entry) >= self.options.deepest;
            if is_deep || !self.known.may_be_base(place) || !self.known.is_usable(place)? {
                return Ok(Vec::new());
            }
            places.push(place);
        }
        Ok(places)
    }
}

/// Stretches of the base that are together as long as the piece and equal to it wherever `seed` bytes and more of it are found in the base. What lies between
/// such matches is set against what follows them in the base. `None` where less than half of the piece is found.
fn stretches(base: &[u8], piece: &[u8], seed: usize) -> Result<Option<Vec<Stretch>>, TooMany> {
    let mut places: HashMap<u64, usize> = HashMap::with_capacity(base.len() / seed);
    for (number, block) in base.chunks_exact(seed).enumerate() {
        places.entry(Rolling::of(block).0).or_insert(number * seed);
    }
    let mut found: Vec<Stretch> = Vec::new();
    // Up to where the piece has stretches, and how much of that is equal.
    let (mut end, mut equal) = (0, 0);
    let mut position = 0;
    let mut hash: Option<Rolling> = None;
    let highest = (0..seed).fold(1u64, |power, _| power.wrapping_mul(Rolling::BASE));
    while position + seed <= piece.len() {
        let window = &piece[position..position + seed];
        let rolling = *hash.get_or_insert_with(|| Rolling::of(window));
        // The base goes on as it did, more often than not.
        let on = found.last().map(|last| last.start + last.length + (position - end));
        let is_equal = |start: &usize| base.get(*start..*start + seed) == Some(window);
        let start = on.filter(is_equal).or_else(|| places.get(&rolling.0).copied().filter(is_equal));
        let Some(start) = start else {
            hash = piece.get(position + seed).map(|next| rolling.rolled(window[0], *next, highest));
            position += 1;
            continue;
        };
        let same = |(a, b): &(&u8, &u8)| a == b;
        let back = piece[end..position].iter().rev().zip(base[..start].iter().rev()).take_while(same).count();
        let after = piece[position..].iter().zip(&base[start..]).take_while(same).count();
        let (at, from) = (position - back, start - back);
        let stretch = Stretch { start: from, length: back + after };
        if join(&mut found, base.len(), at - end, stretch).is_none() {
            return Ok(None);
        }
        if found.len() > MOST {
            return Err(TooMany);
        }
        equal += back + after;
        end = at + back + after;
        position = end;
        hash = None;
    }
    let rest = piece.len() - end;
    let (Some(last), Some(most)) = (found.last(), base.len().checked_sub(rest)) else { return Ok(None) };
    if equal < piece.len() / 2 {
        return Ok(None);
    }
    if rest > 0 {
        let start = (last.start + last.length).min(most);
        append(&mut found, Stretch { start, length: rest });
    }
    Ok(Some(found))
}

/// Appends a stretch, and before it as many bytes as are missing: those that follow the last one, or come before this one.
fn join(found: &mut Vec<Stretch>, base: usize, missing: usize, stretch: Stretch) -> Option<()> {
    if missing > 0 {
        let start = match found.last() {
            Some(last) => last.start + last.length,
            None => stretch.start.saturating_sub(missing),
        };
        append(found, Stretch { start: start.min(base.checked_sub(missing)?), length: missing });
    }
    append(found, stretch);
    Some(())
}

fn append(found: &mut Vec<Stretch>, stretch: Stretch) {
    match found.last_mut() {
        Some(last) if last.start + last.length == stretch.start => last.length += stretch.length,
        _ => found.push(stretch),
    }
}

/// The hash of a window that moves byte by byte.
#[derive(Clone, Copy)]
struct Rolling(u64);

impl Rolling {
    const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

    fn of(window: &[u8]) -> Rolling {
        Rolling(window.iter().fold(0, |hash, byte| step(hash, *byte)))
    }

    fn rolled(self, out: u8, into: u8, highest: u64) -> Rolling {
        let gone = highest.wrapping_mul(u64::from(out) + 1);
        Rolling(step(self.0, into).wrapping_sub(gone))
    }
}

fn step(hash: u64, byte: u8) -> u64 {
    hash.wrapping_mul(Rolling::BASE).wrapping_add(u64::from(byte) + 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    /// How many bytes of the piece differ from the stretches, and how many stretches there are.
    fn differing(base: &[u8], piece: &[u8]) -> (usize, usize) {
        let found = stretches(base, piece, SEEDS[0]).unwrap().unwrap();
        let reference: Vec<u8> =
            found.iter().flat_map(|found| &base[found.start..][..found.length]).copied().collect();
        assert_eq!(reference.len(), piece.len());
        (reference.iter().zip(piece).filter(|(a, b)| a != b).count(), found.len())
    }

    #[test]
    fn what_was_inserted_removed_swapped_and_changed_leaves_the_rest_equal() {
        let base = noise(1, 50_000);
        let inserted = [&base[..20_000], b"something new", &base[20_000..]].concat();
        let (differ, count) = differing(&base, &inserted);
        assert!(differ <= 13 && count <= 3, "{differ} {count}");
        let (differ, count) = differing(&base, &[&base[..777], &base[1000..]].concat());
        assert_eq!((differ, count), (0, 2));
        assert_eq!(differing(&base, &[&base[30_000..], &base[..30_000]].concat()), (0, 2));
        let mut changed = base.clone();
        changed.iter_mut().step_by(5000).for_each(|byte| *byte ^= 1);
        assert_eq!(differing(&base, &changed), (10, 1));
        let (differ, count) = differing(&base, &[b"ahead", &base[..], b"behind"].concat());
        assert!(differ <= 11 && count <= 3, "{differ} {count}");
        assert_eq!(differing(&base, &base), (0, 1));
    }

    #[test]
    fn the_rolling_hash_is_that_of_the_window() {
        let bytes = noise(3, 300);
        let highest = (0..32).fold(1u64, |power, _| power.wrapping_mul(Rolling::BASE));
        let mut hash = Rolling::of(&bytes[..32]);
        for start in 1..=bytes.len() - 32 {
            hash = hash.rolled(bytes[start - 1], bytes[start + 31], highest);
            assert_eq!(hash.0, Rolling::of(&bytes[start..start + 32]).0);
        }
    }

    #[test]
    fn strangers_fragments_and_what_repeats_end_well() {
        assert!(stretches(&noise(1, 10_000), &noise(2, 10_000), 32).unwrap().is_none());
        assert!(stretches(&[], &noise(2, 10_000), 32).unwrap().is_none());
        let base = noise(1, 100_000);
        let shuffled: Vec<u8> =
            (0..2000).flat_map(|number| base[number * 37 % 2000 * 50..][..50].to_vec()).collect();
        assert!(stretches(&base, &shuffled, 32).is_err(), "fewer than a recipe holds");
        assert_eq!(differing(&vec![0; 10_000], &vec![0; 10_000]).0, 0);
        assert!(stretches(&base[..100], &[&base[..100], &[7; 150][..]].concat(), 32).unwrap().is_none());
        // Longer than its base.
        assert_eq!(differing(&base[..5000], &[&base[..5000], &base[..5000]].concat()), (0, 2));
    }
}
