//! What reading an entry takes, and when its chain of deltas takes too much: a piece is anchored anew then, against the end of the chain or by itself.

use std::collections::BTreeMap;

use crate::record::{Encoding, Entry, needed};

/// What a byte takes that is written out: its digest, and the write, by one thread. Of this and the next three only the proportions count. Restores from a
/// directory on two cores with AVX-512 and SHA instructions take 0.95 ns of CPU time a byte of bf16 by itself and 0.45 ns more for each delta of 4 bits, fp32 1.0 and
/// 0.61 ns, which 5, 2, 1, 3 fit; with those the worst of 60 bf16 checkpoints took 2.5 times as long as a fresh one. These weigh deltas more.
const WRITTEN: u64 = 4;
/// For a byte that is decoded, in each entry of the chain; and where a sixteenth or less of it is stored, which is mostly copying.
const DECODED: u64 = 3;
const COPIED: u64 = 1;
/// For a stored byte that is fetched and decoded.
const STORED: u64 = 4;
/// For fetching an entry, whatever its length: opening a file takes 10 microseconds. It keeps chains of small tensors short, which save little and cost a
/// request each in a bucket.
const FETCHED: u64 = 100_000;
/// A chain may take this many times as long to restore as a piece that is stored by itself.
const DEAREST: u64 = 2;

/// What decoding an entry takes, with the chain below it.
pub(crate) fn chain(entries: &[Entry], number: usize) -> u64 {
    let mut costs: BTreeMap<usize, u64> = BTreeMap::new();
    for place in needed(entries, number) {
        let Some(entry) = entries.get(place) else { continue };
        let below = entry.encoding.bases().filter_map(|base| costs.get(&base));
        let own = below.fold(one(entry.length, entry.stored), |sum, cost| sum.saturating_add(*cost));
        costs.insert(place, own);
    }
    costs.get(&number).copied().unwrap_or(0)
}

fn one(length: u64, stored: u64) -> u64 {
    let decoded = if stored <= length / 16 { COPIED } else { DECODED };
    let bytes = decoded.saturating_mul(length).saturating_add(STORED.saturating_mul(stored));
    bytes.saturating_add(FETCHED)
}

/// The end of an entry's chain, as far as it has the same type: what the entry would be stored as if it were anchored anew.
pub(crate) fn anchor(entries: &[Entry], number: usize) -> Option<&Entry> {
    let mut entry = entries.get(number)?;
    while let Encoding::Delta { base } = &entry.encoding {
        entry = entries.get(*base)?;
    }
    Some(entry)
}

/// Bytes that an entry would take by itself, going by the end of its chain, which is of the same length as a rule.
pub(crate) fn alone(entries: &[Entry], number: usize) -> u64 {
    let length = entries.get(number).map_or(0, |entry| entry.length);
    match anchor(entries, number) {
        Some(anchor) if !anchor.encoding.has_base() && anchor.length == length => anchor.stored,
        _ => length,
    }
}

/// Whether a delta of so many stored bytes over an entry is still read in time.
pub(crate) fn is_affordable(entries: &[Entry], base: usize, length: u64, stored: u64) -> bool {
    let written = WRITTEN.saturating_mul(length);
    let fresh = one(length, alone(entries, base).min(length));
    let own = chain(entries, base).saturating_add(one(length, stored)).saturating_add(written);
    own <= DEAREST.saturating_mul(fresh.saturating_add(written))
}

/// Whether a piece of so many stored bytes that is computed from entries is read in time: as if each of them, and the piece, were stored by itself. What
/// it takes to decode a tensor of twice the width for one of half of it is the price of computing it.
pub(crate) fn is_computed_in_time(
    entries: &[Entry],
    bases: &[usize],
    (length, stored, own): (u64, u64, u64),
) -> bool {
    let fresh = |base: &usize| {
        let length = entries.get(*base).map_or(0, |entry| entry.length);
        one(length, alone(entries, *base).min(length))
    };
    let sum = |cost: &dyn Fn(&usize) -> u64| bases.iter().map(cost).fold(0, u64::saturating_add);
    let written = WRITTEN.saturating_mul(length);
    let taken = sum(&|base| chain(entries, *base)).saturating_add(one(length, stored));
    let least = sum(&fresh).saturating_add(one(length, own.min(length)));
    taken.saturating_add(written) <= DEAREST.saturating_mul(least.saturating_add(written))
}

/// Whether one more delta over an entry would be, if it takes as much as the last one did.
pub(crate) fn has_room(entries: &[Entry], number: usize) -> bool {
    entries.get(number).is_some_and(|entry| {
        !entry.encoding.has_base() || is_affordable(entries, number, entry.length, entry.stored)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(encoding: Encoding, length: u64, stored: u64) -> Entry {
        Entry {
            digest: [0; 32],
            length,
            dtype: "bf16".into(),
            shape: vec![length / 2],
            encoding,
            pack: 0,
            offset: 0,
            stored,
        }
    }

    /// The deltas over an anchor until there is no room for another.
    fn deepest(length: u64, anchor: u64, delta: u64) -> usize {
        let mut entries = vec![entry(Encoding::Frame, length, anchor)];
        while entries.len() < 200 && has_room(&entries, entries.len() - 1) {
            let base = entries.len() - 1;
            entries.push(entry(Encoding::Delta { base }, length, delta));
        }
        entries.len() - 1
    }

    #[test]
    fn sparse_deltas_make_longer_chains_than_dense_ones_and_small_tensors_short_ones() {
        let (dense, sparse) = (deepest(8 << 20, 5 << 20, 3 << 20), deepest(8 << 20, 5 << 20, 1 << 10));
        assert!((2..=6).contains(&dense) && sparse > 2 * dense, "{dense} {sparse}");
        assert_eq!(deepest(1024, 700, 10), 1);
    }

    #[test]
    fn chains_are_affordable_up_to_their_room_and_numbers_from_records_do_not_overflow() {
        let entries = [entry(Encoding::Frame, u64::MAX, u64::MAX), entry(Encoding::Delta { base: 0 }, 8, 8)];
        assert!(chain(&entries, 1) == u64::MAX && alone(&entries, 1) == 8);
        assert!(!has_room(&entries, 7) && !is_affordable(&entries, 1, 8, 8));
        let entries = [entry(Encoding::Frame, 8 << 20, 5 << 20)];
        assert!(is_affordable(&entries, 0, 8 << 20, 3 << 20));
    }
}
