//! Stretches that repeat earlier data of their section, at any element offset: tied embeddings, shared
//! layers, tiled tensors. They are taken out before anything else looks at the data; what is left, the
//! *originals*, is planned and coded as if it were the whole section.
//!
//! Places are recognised by their content: a hash of the next four bytes singles out one place in 256, the
//! same ones wherever a stretch occurs, and the next eight bytes tell them apart.

use crate::arch::{self, memory};
use crate::frame::section::Copy;
use crate::threads;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// Bytes of the shortest copy. Unshaped and structured, of which one repeats: half or double changes no size.
const SHORTEST_COPY: usize = 4096;
/// Ordinary weights are told from a part of each window only: enough to notice a long repeat, after which all
/// is searched. Unshaped and structured: half or double of either changes no size.
const WINDOW: usize = 1 << 16;
const SEARCHED_BYTES: usize = 1 << 14;
/// Windows that are looked at by one thread at a time: 1 MiB. A round number.
const WINDOWS_PER_TASK: usize = 16;
/// Of ordinary data one place in 256 is remembered; of no data more than one for so many bytes. Unshaped and
/// structured: half or double changes no size.
const MOST_ANCHORS: usize = 64;
/// Bytes that must agree before a part of the data counts as repeated. Unshaped and structured: half or
/// double changes no size.
const CONVINCING: usize = 1024;
/// One in so many of the places that are looked at must be repeated. A fourth of all are looked at, so that
/// of two occurrences one meets the other a fourth of the time: what is repeated is then 4 in so many of the
/// data. Unshaped and structured: half or double changes no size.
const WORTHWHILE_REPEATS: usize = 512;
/// Bytes that may be compared in vain, per byte of the data. Unshaped and structured: half or double changes
/// no size.
const PATIENCE: usize = 4;

/// A section without its repeats.
#[derive(Debug)]
pub(crate) struct Repeats {
    /// The data without what the copies restore.
    pub originals: Vec<u8>,
    /// In the order of the data.
    pub copies: Vec<Copy>,
}

/// The repeats of `bytes`, if there are any, where they are likely. Copies begin and end at multiples of
/// `unit` (whole elements, or whole rows so that columns stay aligned).
pub(crate) fn find(bytes: &[u8], width: usize, unit: usize) -> Option<Repeats> {
    if are_likely(bytes, width) { search(bytes, width, unit) } else { None }
}

/// The repeats of `bytes`, if there are any.
pub(crate) fn search(bytes: &[u8], width: usize, unit: usize) -> Option<Repeats> {
    if bytes.len() < 2 * SHORTEST_COPY {
        return None;
    }
    let mut search = Search {
        bytes,
        unit,
        originals: memory::with_room_for(bytes.len()),
        position: 0,
        copies: Vec::new(),
        end: 0,
        kept: 0,
        patience: bytes.len().saturating_mul(PATIENCE),
    };
    // What goes from place to place does so in order, so the places are found beforehand, by all threads.
    let piece = (WINDOW * WINDOWS_PER_TASK).next_multiple_of(width);
    let anchors = threads::map((0..bytes.len()).step_by(piece), |start| {
        let end = bytes.len().min(start + piece);
        let mut anchors = Vec::with_capacity(2 * (end - start) / width / 256);
        add_anchors(bytes, start..end, width, piece / MOST_ANCHORS, &mut anchors);
        anchors
    });
    let mut places = HashMap::with_capacity(anchors.iter().map(Vec::len).sum());
    let mut position = 0;
    for (place, key) in anchors.into_iter().flatten() {
        if place < position {
            continue;
        }
        match places.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(place - search.end + search.kept);
            }
            Entry::Occupied(entry) => position = search.copy(place, *entry.get()).unwrap_or(position),
        }
        if search.patience == 0 {
            break;
        }
    }
    search.finish()
}

/// Whether a part of the data shows repeats, enough of them to be worth the search.
pub(crate) fn are_likely(bytes: &[u8], width: usize) -> bool {
    let window = WINDOW.next_multiple_of(width);
    let windows = bytes.len().div_ceil(window);
    let anchors = threads::map((0..windows).step_by(WINDOWS_PER_TASK), |first| {
        let mut anchors = Vec::new();
        for index in first..windows.min(first + WINDOWS_PER_TASK) {
            // Another part of each window: with the same one, repeats at some distances would never be seen.
            let skip = ((index as u64 * 0x9e37_79b1) >> 7) as usize % (WINDOW - SEARCHED_BYTES);
            let start = index * window + skip.next_multiple_of(width);
            add_anchors(bytes, start..start + SEARCHED_BYTES, width, SEARCHED_BYTES, &mut anchors);
        }
        anchors
    });
    let mut anchors: Vec<(u64, usize)> =
        anchors.into_iter().flatten().map(|(place, key)| (key, place)).collect();
    anchors.sort_unstable();
    let mut repeated = 0;
    for pair in anchors.windows(2) {
        let [(key, earlier), (next_key, place)] = [pair[0], pair[1]];
        if key == next_key && common_prefix(&bytes[place..], &bytes[earlier..place], CONVINCING) == CONVINCING
        {
            repeated += WORTHWHILE_REPEATS;
            if repeated >= anchors.len() {
                return true;
            }
        }
    }
    false
}

/// Adds the places in `range`, in steps of `width`, that are remembered, and their keys: not many more than
/// the first `most`.
fn add_anchors(
    bytes: &[u8],
    range: Range<usize>,
    width: usize,
    most: usize,
    anchors: &mut Vec<(usize, u64)>,
) {
    let (mut position, most) = (range.start, anchors.len() + most);
    if width == 2 {
        arch::vectorised(
            #[inline(always)]
            || {
                while position + 2 * PLACES_TOGETHER <= range.end
                    && anchors.len() < most
                    && let Some(stretch) = bytes.get(position..).and_then(<[u8]>::first_chunk)
                {
                    for (index, mut places) in zero_hashes(stretch).into_iter().enumerate() {
                        while places != 0 {
                            let place = position + 2 * (8 * index + places.trailing_zeros() as usize / 8);
                            places &= places - 1;
                            anchors.extend(anchor_at(bytes, place, width));
                        }
                    }
                    position += 2 * PLACES_TOGETHER;
                }
            },
        );
    }
    for place in (position..range.end.min(bytes.len())).step_by(width) {
        if anchors.len() >= most {
            break;
        }
        anchors.extend(anchor_at(bytes, place, width));
    }
}

/// Places of two bytes each that are looked at together.
const PLACES_TOGETHER: usize = 64;

/// A byte for each place, eight to a number: 1 where the hash is zero, else 0.
#[inline(always)]
fn zero_hashes(stretch: &[u8; 2 * PLACES_TOGETHER + 2]) -> [u64; PLACES_TOGETHER / 8] {
    let half = |index: usize| u16::from_le_bytes([stretch[2 * index], stretch[2 * index + 1]]);
    let mut zeros = [0u8; PLACES_TOGETHER];
    for (index, zero) in zeros.iter_mut().enumerate() {
        *zero = u8::from(hash(half(index), half(index + 1)) == 0);
    }
    bytemuck::cast::<_, [u64; PLACES_TOGETHER / 8]>(zeros).map(u64::from_le)
}

/// A place that is remembered, and its key.
#[inline(always)]
fn anchor_at(bytes: &[u8], place: usize, width: usize) -> Option<(usize, u64)> {
    let key = bytes.get(place..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))?;
    // Equal elements, as in padding, look the same everywhere and say nothing.
    (hash(key as u16, (key >> 16) as u16) == 0 && key.rotate_left(8 * width as u32) != key)
        .then_some((place, key))
}

/// Zero for one in 256, but not for the zeros that pruned weights are full of. Numbers of two bytes, of which
/// registers hold more than of four.
#[inline(always)]
fn hash(first: u16, second: u16) -> u16 {
    first.wrapping_mul(0x9e37).wrapping_add(second.wrapping_mul(0x79b1)).wrapping_add(1 << 15) >> 8
}

/// How many bytes `a` and `b` begin with in common, at most `limit`.
fn common_prefix(a: &[u8], b: &[u8], limit: usize) -> usize {
    let length = a.len().min(b.len()).min(limit);
    let stride = 64;
    let same = a[..length].chunks(stride).zip(b[..length].chunks(stride)).take_while(|(a, b)| a == b).count();
    let start = (same * stride).min(length);
    start + a[start..length].iter().zip(&b[start..length]).take_while(|(a, b)| a == b).count()
}

/// The copies found so far.
struct Search<'a> {
    bytes: &'a [u8],
    unit: usize,
    /// What is left of the data up to `position`.
    originals: Vec<u8>,
    position: usize,
    copies: Vec<Copy>,
    /// Where in the data the last copy ended, and how many originals lie before that.
    end: usize,
    kept: usize,
    /// Bytes that may still be compared in vain.
    patience: usize,
}

impl Search<'_> {
    /// Makes a copy of the stretch round `position`, which looks like offset `source` of the originals.
    /// Returns where it ends, if it is long enough.
    fn copy(&mut self, position: usize, source: usize) -> Option<usize> {
        self.originals.extend_from_slice(&self.bytes[self.position..position]);
        self.position = position;
        let (before, after) = self.originals.split_at_checked(source)?;
        let forward = common_prefix(&self.bytes[position..], after, usize::MAX);
        let backward = self.bytes[self.end..position].iter().rev().zip(before.iter().rev());
        let backward = backward.take_while(|(a, b)| a == b).count();
        let start = (position - backward).next_multiple_of(self.unit);
        let source = (source + start).checked_sub(position)?;
        // The copied stretch leaves the originals, so its source must end before it.
        let room = (self.kept + start - self.end).saturating_sub(source);
        let end = (position + forward).min(start + room) / self.unit * self.unit;
        if end < start + SHORTEST_COPY {
            self.patience = self.patience.saturating_sub(forward + backward);
            return None;
        }
        let gap = start - self.end;
        self.copies.push(Copy { gap, length: end - start, source });
        self.kept += gap;
        self.originals.truncate(self.kept);
        self.originals.extend_from_slice(self.bytes.get(position..start).unwrap_or_default());
        (self.end, self.position) = (end, end);
        Some(end)
    }

    fn finish(mut self) -> Option<Repeats> {
        self.originals.extend_from_slice(&self.bytes[self.position..]);
        (!self.copies.is_empty()).then_some(Repeats { originals: self.originals, copies: self.copies })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restore(repeats: &Repeats) -> Vec<u8> {
        let (mut data, mut position) = (Vec::new(), 0);
        for copy in &repeats.copies {
            data.extend_from_slice(&repeats.originals[position..position + copy.gap]);
            data.extend_from_slice(&repeats.originals[copy.source..copy.source + copy.length]);
            position += copy.gap;
        }
        data.extend_from_slice(&repeats.originals[position..]);
        data
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1u32;
        let next = |_| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 24) as u8
        };
        (0..length).map(next).collect()
    }

    #[test]
    fn repeats_are_found_at_any_offset() {
        let noise = noise(1_400_000);
        for (gap, unit) in
            [(0, 2), (2, 2), (1030, 2), (4096, 2), (32_000, 2), (3, 2), (1536, 768), (100, 768)]
        {
            let data = [&noise[..], &vec![9; gap], &noise, &noise].concat();
            let found = find(&data, 2, unit);
            if gap % 2 == 1 {
                // The second copy is back in step with the elements of the first.
                assert!(found.is_none_or(|repeats| repeats.originals.len() > 2_000_000));
                continue;
            }
            let repeats = found.unwrap();
            assert!(
                repeats.originals.len() < 1_400_000 + gap + 3 * 4096,
                "{gap} {}",
                repeats.originals.len()
            );
            assert!(repeats.copies.iter().all(|copy| copy.gap % unit == 0 && copy.length % unit == 0));
            assert!(restore(&repeats) == data, "{gap} {unit}");
        }
        assert!(find(&noise, 2, 2).is_none());
    }

    #[test]
    fn few_places_are_remembered_of_ordinary_and_of_pruned_weights() {
        let mut pruned = noise(1 << 20);
        for (index, element) in pruned.chunks_exact_mut(2).enumerate().filter(|(index, _)| index % 5 != 0) {
            element.fill(if index % 5 < 4 { 0 } else { element[0] & 1 });
        }
        for data in [noise(1 << 20), pruned] {
            let mut anchors = Vec::new();
            add_anchors(&data, 0..data.len(), 2, usize::MAX >> 1, &mut anchors);
            assert!((500..4000).contains(&anchors.len()), "{}", anchors.len());
            let one_by_one = (0..data.len()).step_by(2).filter_map(|place| anchor_at(&data, place, 2));
            assert!(one_by_one.eq(anchors));
            let mut first = Vec::new();
            add_anchors(&data, 0..data.len(), 2, 10, &mut first);
            assert!((10..10 + PLACES_TOGETHER).contains(&first.len()));
        }
    }

    #[test]
    fn tiles_and_padding_come_back() {
        for period in [5000, 20_000, 70_000] {
            let data: Vec<u8> = noise(period).into_iter().cycle().take(600_001).collect();
            let repeats = find(&data, 2, 2).unwrap();
            assert!(repeats.originals.len() < 2 * period + 20_000, "{period} {}", repeats.originals.len());
            assert!(restore(&repeats) == data);
        }
        assert!(find(&[0; 300_000], 4, 4).is_none());
        assert!(find(&[7; 300_000], 8, 8).is_none());
    }
}
