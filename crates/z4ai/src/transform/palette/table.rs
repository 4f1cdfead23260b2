//! Tensors with few distinct elements: a sorted table of them and one index per element.
//!
//! Quantised weights that share one scale, ternary weights and lookup tables end up here. The table belongs
//! to the whole tensor, indices to its blocks. From 257 entries on, indices are split into a low and a high
//! plane.

use crate::error::{Error, Result};

/// Most entries of a palette, as the format says: indices have twelve bits.
const MOST_ENTRIES: usize = 4096;
/// Most entries of elements of two bytes. Dense weights have a few thousand distinct ones, numbers that were
/// rounded to three decimals some hundreds; a round number between these.
const MOST_NARROW_ENTRIES: usize = 1024;
/// Elements looked at before the whole tensor is. Structured: half or double changes no size.
const FIRST_LOOK: usize = 1024;

/// The distinct elements of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Palette {
    width: usize,
    /// The entries as little-endian numbers, ascending.
    entries: Vec<u64>,
}

/// Indices of a block: the low bytes, and the high bytes if the palette has more than 256 entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Indices {
    /// Low byte of each index.
    pub(crate) low: Vec<u8>,
    /// High byte of each index; empty for a palette of at most 256 entries.
    pub(crate) high: Vec<u8>,
}

impl Palette {
    /// The palette of `elements`, `width` bytes each (2, 4 or 8), if it is small enough to be worth it.
    pub(crate) fn detect(elements: &[u8], width: usize) -> Option<Self> {
        let most = match width {
            2 => MOST_NARROW_ENTRIES,
            4 | 8 => MOST_ENTRIES,
            _ => return None,
        };
        let count = elements.len() / width;
        // With fewer than four elements for each entry the table eats what indices save.
        let most = most.min(count / 4);
        if most == 0 {
            return None;
        }
        if width == 2 {
            return Self::detect_narrow(elements, most);
        }
        let mut lookup = EntryIndices::new(most);
        // Equal steps alone would see a single column of a matrix with a power of two of them, so short runs
        // are taken.
        let step = (count / (FIRST_LOOK / 16)).max(16) * width;
        let sample = elements.chunks(step).flat_map(|part| part.chunks_exact(width).take(16));
        let (mut seen, mut distinct) = (0, 0);
        for element in sample {
            seen += 1;
            distinct += usize::from(lookup.insert(number(element)));
            if distinct > most {
                return None;
            }
        }
        // Of 1024 draws from 4096 entries an eighth repeats; of those from dense weights next to none.
        if seen >= FIRST_LOOK / 2 && distinct * 16 > seen * 15 {
            return None;
        }
        for element in elements.chunks_exact(width) {
            distinct += usize::from(lookup.insert(number(element)));
            if distinct > most {
                return None;
            }
        }
        let mut entries: Vec<u64> = lookup.slots.iter().flatten().map(|&(entry, _)| entry).collect();
        entries.sort_unstable();
        Some(Self { width, entries })
    }

    /// The palette of elements of two bytes, if there are no more than `most`, which dense weights show soon.
    fn detect_narrow(elements: &[u8], most: usize) -> Option<Self> {
        let mut occurs = [0u64; (1 << 16) / 64];
        let mut distinct = 0;
        // Neighbours may be alike, so the first look is at short runs from all over.
        let step = (elements.len() / 2 / (FIRST_LOOK / 16)).max(16) * 2;
        let sample = elements.chunks(step).flat_map(|part| part.chunks_exact(2).take(16));
        for element in sample.chain(elements.chunks_exact(2)) {
            let element = number(element) as usize;
            let word = &mut occurs[element / 64];
            distinct += usize::from(*word >> (element % 64) & 1 == 0);
            *word |= 1 << (element % 64);
            if distinct > most {
                return None;
            }
        }
        let entries = (0..1u64 << 16).filter(|&entry| occurs[entry as usize / 64] >> (entry % 64) & 1 == 1);
        Some(Self { width: 2, entries: entries.collect() })
    }

    /// Bytes of the longest stored form.
    pub(crate) const MOST_BYTES: usize = MOST_ENTRIES * 8;

    /// Bytes per element.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The entries as little-endian numbers.
    pub(crate) fn entries(&self) -> &[u64] {
        &self.entries
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The stored form: the entries one after the other.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.entries.iter().flat_map(|entry| entry.to_le_bytes().into_iter().take(self.width)).collect()
    }

    /// Reads the stored form.
    pub(crate) fn from_bytes(bytes: &[u8], width: usize) -> Result<Self> {
        if !matches!(width, 2 | 4 | 8) || !bytes.len().is_multiple_of(width) {
            return Err(Error::corrupt("a palette holds whole elements of 2, 4 or 8 bytes"));
        }
        let entries: Vec<u64> = bytes.chunks_exact(width).map(number).collect();
        let ascending = entries.is_sorted_by(|a, b| a < b);
        if entries.is_empty() || entries.len() > MOST_ENTRIES || !ascending {
            return Err(Error::corrupt("a palette has between 1 and 4096 entries in ascending order"));
        }
        Ok(Self { width, entries })
    }

    /// The indices of a block of the tensor that the palette was made from. `None` if an element is not in
    /// the palette.
    pub(crate) fn encode(&self, elements: &[u8]) -> Option<Indices> {
        if self.width == 2 {
            return self.encode_directly(elements);
        }
        let mut lookup = EntryIndices::new(self.entries.len());
        for (index, &entry) in self.entries.iter().enumerate() {
            lookup.insert(entry);
            lookup.set_index(entry, index as u16);
        }
        let indices = elements.chunks_exact(self.width).map(|element| lookup.index(number(element)));
        let indices: Vec<u16> = indices.collect::<Option<_>>()?;
        let high = if self.len() > 256 {
            indices.iter().map(|index| (index >> 8) as u8).collect()
        } else {
            Vec::new()
        };
        Some(Indices { low: indices.iter().map(|&index| index as u8).collect(), high })
    }

    /// The indices of elements of two bytes, which are looked up without a search.
    fn encode_directly(&self, elements: &[u8]) -> Option<Indices> {
        const ABSENT: u16 = u16::MAX;
        let mut places = vec![ABSENT; 1 << 16];
        for (index, &entry) in self.entries.iter().enumerate() {
            places[entry as usize & 0xffff] = index as u16;
        }
        let mut unknown = 0;
        let mut place = |&element: &[u8; 2]| {
            let place = places[usize::from(u16::from_le_bytes(element))];
            unknown |= place;
            place
        };
        let (elements, _) = elements.as_chunks::<2>();
        let indices = if self.len() <= 256 {
            Indices { low: elements.iter().map(|element| place(element) as u8).collect(), high: Vec::new() }
        } else {
            let places: Vec<u16> = elements.iter().map(place).collect();
            let [low, high] = [0, 8].map(|shift| places.iter().map(|place| (place >> shift) as u8).collect());
            Indices { low, high }
        };
        // Indices are below 4096, so that only what is absent has the highest bit.
        (unknown >> 15 == 0).then_some(indices)
    }

    /// Puts the elements of a block back.
    pub(crate) fn decode(&self, low: &[u8], high: &[u8], out: &mut [u8]) -> Result<()> {
        let count = out.len() / self.width;
        let high_length = if self.len() > 256 { count } else { 0 };
        if low.len() != count || high.len() != high_length || !out.len().is_multiple_of(self.width) {
            return Err(Error::corrupt("every element of a palette block has its index"));
        }
        match self.width {
            2 => self.decode_width::<2>(low, high, out),
            4 => self.decode_width::<4>(low, high, out),
            _ => self.decode_width::<8>(low, high, out),
        }
    }

    fn decode_width<const WIDTH: usize>(&self, low: &[u8], high: &[u8], out: &mut [u8]) -> Result<()> {
        let table: Vec<[u8; WIDTH]> = self
            .entries
            .iter()
            .map(|entry| {
                let bytes = entry.to_le_bytes();
                std::array::from_fn(|byte| bytes[byte])
            })
            .collect();
        let beyond = || Error::corrupt("an index lies beyond its palette");
        let elements = out.as_chunks_mut::<WIDTH>().0.iter_mut().zip(low);
        if high.is_empty() {
            let largest = low.iter().max().copied().map_or(0, usize::from);
            if largest >= table.len() {
                return Err(beyond());
            }
            for (element, &low) in elements {
                *element = table[usize::from(low)];
            }
        } else {
            for ((element, &low), &high) in elements.zip(high) {
                *element = *table.get(usize::from(low) | usize::from(high) << 8).ok_or_else(beyond)?;
            }
        }
        Ok(())
    }
}

/// An element of up to eight bytes as a number.
#[inline(always)]
fn number(element: &[u8]) -> u64 {
    element.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A small open-addressed hash table from elements to indices. It never holds more than a palette and one
/// element, so there is always a free slot.
struct EntryIndices {
    slots: Vec<Option<(u64, u16)>>,
}

impl EntryIndices {
    /// A table for this many entries, at most a quarter full.
    fn new(most: usize) -> Self {
        Self { slots: vec![None; 4 * (most + 1).next_power_of_two()] }
    }

    /// The slot of an element: where it is, or where it would be put.
    #[inline(always)]
    fn slot(&self, element: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = (element.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & mask;
        while self.slots[slot].is_some_and(|(other, _)| other != element) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Adds an element; whether it is new.
    fn insert(&mut self, element: u64) -> bool {
        let slot = self.slot(element);
        let new = self.slots[slot].is_none();
        if new {
            self.slots[slot] = Some((element, 0));
        }
        new
    }

    fn set_index(&mut self, element: u64, index: u16) {
        let slot = self.slot(element);
        self.slots[slot] = Some((element, index));
    }

    fn index(&self, element: u64) -> Option<u16> {
        self.slots[self.slot(element)].map(|(_, index)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `count` elements drawn from `distinct` patterns.
    fn drawn(distinct: u64, count: u64, width: usize) -> Vec<u8> {
        let mix = |number: u64| (number ^ number >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let draw = |index: u64| (mix(mix(index + 1)) >> 31) % distinct;
        let pattern = |draw: u64| (draw + 1).wrapping_mul(0xd6e8_feb8_6659_fd93).to_le_bytes();
        (0..count).flat_map(|index| pattern(draw(index)).into_iter().take(width)).collect()
    }

    fn round_trip(elements: &[u8], width: usize) -> Option<Palette> {
        let palette = Palette::detect(elements, width)?;
        let Indices { low, high } = palette.encode(elements).unwrap();
        let stored = Palette::from_bytes(&palette.to_bytes(), width).unwrap();
        assert_eq!(stored, palette);
        let mut out = vec![0xcc; elements.len()];
        stored.decode(&low, &high, &mut out).unwrap();
        assert!(out == elements);
        Some(palette)
    }

    #[test]
    fn few_distinct_elements_are_found_and_come_back() {
        for width in [2, 4, 8] {
            for distinct in [1, 2, 3, 16, 255, 256] {
                assert_eq!(
                    round_trip(&drawn(distinct, 20_000, width), width).unwrap().len() as u64,
                    distinct
                );
            }
        }
        assert_eq!(round_trip(&drawn(4096, 100_000, 4), 4).unwrap().len(), 4096);
        assert_eq!(round_trip(&drawn(257, 10_000, 8), 8).unwrap().len(), 257);
    }

    #[test]
    fn many_distinct_elements_are_refused() {
        assert_eq!(Palette::detect(&drawn(1025, 20_000, 2), 2), None);
        assert_eq!(Palette::detect(&drawn(5000, 100_000, 4), 4), None);
        assert_eq!(Palette::detect(&drawn(1 << 30, 100_000, 4), 4), None);
        assert_eq!(Palette::detect(&drawn(50, 60, 4), 4), None);
        assert_eq!(Palette::detect(&[], 4), None);
        assert_eq!(Palette::detect(&[1; 100], 1), None);
    }

    #[test]
    fn an_element_outside_the_palette_is_noticed() {
        let mut elements = drawn(10, 5000, 4);
        let palette = Palette::detect(&elements, 4).unwrap();
        elements[400..404].copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!(palette.encode(&elements), None);
    }

    #[test]
    fn hostile_tables_and_indices_are_refused() {
        for (bytes, width) in [(&[][..], 2), (&[1], 2), (&[1, 0, 1, 0], 2), (&[2, 0, 1, 0], 2), (&[0; 3], 3)]
        {
            assert!(Palette::from_bytes(bytes, width).is_err());
        }
        let palette = Palette::from_bytes(&[1, 0, 2, 0], 2).unwrap();
        let mut out = [0; 4];
        assert!(palette.decode(&[0, 1], &[], &mut out).is_ok());
        assert!(palette.decode(&[0, 2], &[], &mut out).is_err());
        assert!(palette.decode(&[0], &[], &mut out).is_err());
        assert!(palette.decode(&[0, 1], &[0, 0], &mut out).is_err());
        assert!(palette.decode(&[0], &[], &mut out[..3]).is_err());
        let large: Vec<u8> = (0..300_u32).flat_map(u32::to_le_bytes).collect();
        let palette = Palette::from_bytes(&large, 4).unwrap();
        assert!(palette.decode(&[43], &[1], &mut out).is_ok());
        assert!(palette.decode(&[44], &[1], &mut out).is_err());
    }

    proptest! {
        #[test]
        fn whatever_is_found_comes_back(bytes in prop::collection::vec(0_u8..4, 0..4000), width in 0_usize..3) {
            let width = 2 << width;
            let whole = bytes.len() / width * width;
            round_trip(&bytes[..whole], width);
        }
    }
}
