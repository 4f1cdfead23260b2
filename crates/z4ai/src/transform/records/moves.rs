//! The moves of bits between the records and the elements of a field: a layout's slices, joined to runs of
//! bytes that vector registers take at once.

use crate::arch;
use crate::record::Field;

/// Records whose moves are made together: they and their elements stay in the first-level cache. A round
/// number: at 210 bytes, as Q6_K has, that is 3 KiB.
const TOGETHER: usize = 16;

/// Bits that move from some bytes of a record to as many bytes of its elements, or back. Offsets are those in
/// the first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Move {
    record: BitPlace,
    elements: BitPlace,
    mask: u8,
    /// Bytes side by side.
    count: usize,
    /// The bits of one byte of the record, one for each of eight elements, which count as one byte.
    spread: bool,
}

/// A byte and a bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BitPlace {
    byte: usize,
    shift: u32,
}

impl BitPlace {
    fn of(bit: usize) -> Self {
        Self { byte: bit / 8, shift: (bit % 8) as u32 }
    }

    /// Whether this place is so many bytes after another, at the same bit.
    fn follows(self, other: Self, bytes: usize) -> bool {
        self.shift == other.shift && self.byte == other.byte + bytes
    }
}

/// All moves of a field.
#[derive(Debug)]
pub(super) struct FieldMoves {
    moves: Vec<Move>,
    /// Bytes of a record, and of its elements.
    record: usize,
    elements: usize,
}

impl FieldMoves {
    /// The moves of a field of records of so many bytes.
    pub fn of(field: &Field, record: usize) -> Self {
        let mut runs: Vec<Move> = Vec::new();
        for placed in field.slices() {
            let mask = (0xffu16 >> (8 - placed.bits)) as u8;
            let next = Move {
                record: BitPlace::of(placed.in_record),
                elements: BitPlace::of(placed.in_elements),
                mask,
                count: 1,
                spread: false,
            };
            match runs.last_mut() {
                Some(run)
                    if run.mask == mask
                        && next.record.follows(run.record, run.count)
                        && next.elements.follows(run.elements, run.count) =>
                {
                    run.count += 1;
                }
                _ => runs.push(next),
            }
        }
        let mut moves = Vec::with_capacity(runs.len());
        let mut rest = &runs[..];
        while let Some((first, after)) = rest.split_first() {
            let (whole, taken) = spread(rest).unwrap_or((*first, 1));
            moves.push(whole);
            rest = if taken == 1 { after } else { &rest[taken..] };
        }
        Self { moves, record, elements: field.count() * field.dtype.width() }
    }

    /// Bytes of the elements of so many bytes of records.
    pub fn elements_length(&self, records: usize) -> usize {
        records / self.record * self.elements
    }

    /// Takes the elements from whole records. `elements` are zeros.
    pub fn gather(&self, records: &[u8], elements: &mut [u8]) {
        arch::vectorised(
            #[inline(always)]
            || {
                let records = records.chunks(TOGETHER * self.record);
                for (records, elements) in records.zip(elements.chunks_mut(TOGETHER * self.elements)) {
                    for step in &self.moves {
                        let sides = (records, self.record, step.record, step.elements);
                        match step.spread {
                            true => split_bits(sides, elements, self.elements),
                            false => step.run(sides, elements, self.elements),
                        }
                    }
                }
            },
        );
    }

    /// Puts the elements into whole records, whose bits of this field are zeros.
    pub fn scatter(&self, elements: &[u8], records: &mut [u8]) {
        arch::vectorised(
            #[inline(always)]
            || {
                let elements = elements.chunks(TOGETHER * self.elements);
                for (elements, records) in elements.zip(records.chunks_mut(TOGETHER * self.record)) {
                    for step in &self.moves {
                        let sides = (elements, self.elements, step.elements, step.record);
                        match step.spread {
                            true => join_bits(sides, records, self.record),
                            false => step.run(sides, records, self.record),
                        }
                    }
                }
            },
        );
    }
}

/// Where bits come from, in groups of so many bytes, and the places on both sides.
type Sides<'a> = (&'a [u8], usize, BitPlace, BitPlace);

/// The first eight moves as one, if they are the bits of one byte of the record for eight elements side by
/// side.
fn spread(moves: &[Move]) -> Option<(Move, usize)> {
    let eight = moves.first_chunk::<8>()?;
    let first = eight[0];
    let fits = eight.iter().enumerate().all(|(bit, step)| {
        (step.mask, step.count, step.record)
            == (1, 1, BitPlace { byte: first.record.byte, shift: bit as u32 })
            && step.elements.follows(first.elements, bit)
    });
    fits.then_some((Move { spread: true, ..first }, 8))
}

impl Move {
    /// Moves the bits of all records at hand. Counts that block types have are constants, so that loops
    /// have no remainders.
    #[inline(always)]
    fn run(&self, sides: Sides, to: &mut [u8], group: usize) {
        match self.count {
            16 => self.run_of::<16>(sides, to, group),
            32 => self.run_of::<32>(sides, to, group),
            64 => self.run_of::<64>(sides, to, group),
            128 => self.run_of::<128>(sides, to, group),
            count => {
                let (from, from_group, source, target) = sides;
                for (to, from) in to.chunks_exact_mut(group).zip(from.chunks_exact(from_group)) {
                    let (to, from) = (to[target.byte..].iter_mut(), &from[source.byte..]);
                    for (to, from) in to.zip(from).take(count) {
                        *to |= (from >> source.shift & self.mask) << target.shift;
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn run_of<const COUNT: usize>(
        &self,
        (from, from_group, source, target): Sides,
        to: &mut [u8],
        group: usize,
    ) {
        let (is_whole, mask) = (self.mask == 0xff, u64::from(self.mask) * LOWEST);
        for (to, from) in to.chunks_exact_mut(group).zip(from.chunks_exact(from_group)) {
            let to = to.get_mut(target.byte..).and_then(|to| to.first_chunk_mut::<COUNT>());
            let from = from.get(source.byte..).and_then(|from| from.first_chunk::<COUNT>());
            let (Some(to), Some(from)) = (to, from) else { return };
            if is_whole {
                *to = *from;
                continue;
            }
            // Eight bytes at a time: what crosses from one into the next is masked out.
            for (to, from) in to.as_chunks_mut::<8>().0.iter_mut().zip(from.as_chunks::<8>().0) {
                let bits = u64::from_le_bytes(*from).wrapping_shr(source.shift) & mask;
                *to = (u64::from_le_bytes(*to) | bits.wrapping_shl(target.shift)).to_le_bytes();
            }
        }
    }
}

/// The lowest bit of each byte of eight.
const LOWEST: u64 = 0x0101_0101_0101_0101;

/// The bits of a byte of each record become those of eight elements.
#[inline(always)]
fn split_bits((records, record, source, target): Sides, elements: &mut [u8], group: usize) {
    for (elements, record) in elements.chunks_exact_mut(group).zip(records.chunks_exact(record)) {
        let Some(eight) = elements.get_mut(target.byte..).and_then(|rest| rest.first_chunk_mut::<8>()) else {
            return;
        };
        // A copy of the byte in each of eight, of which each keeps another bit.
        let kept = (u64::from(record[source.byte]) * LOWEST) & 0x8040_2010_0804_0201;
        let bits = ((kept + 0x7f7f_7f7f_7f7f_7f7f) >> 7) & LOWEST;
        *eight = (u64::from_le_bytes(*eight) | bits << target.shift).to_le_bytes();
    }
}

/// The reverse of [`split_bits`].
#[inline(always)]
fn join_bits((elements, group, source, target): Sides, records: &mut [u8], record: usize) {
    for (record, elements) in records.chunks_exact_mut(record).zip(elements.chunks_exact(group)) {
        let Some(eight) = elements.get(source.byte..).and_then(|rest| rest.first_chunk::<8>()) else {
            return;
        };
        let bits = u64::from_le_bytes(*eight) >> source.shift & LOWEST;
        // The product's top byte gathers the eight bits, the first as its lowest.
        record[target.byte] |= (bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Kernel;
    use crate::dtype::Dtype;
    use crate::record::{BitArray, BitSlice, RecordLayout};

    /// Levels of five bits: a nibble and, for a half, a bit of a word; a scale; nibbles that are split from
    /// bits between them.
    fn layout() -> RecordLayout {
        let levels = BitArray::new([2, 16], [BitSlice::new(4, 48, [4, 8]), BitSlice::new(1, 16, [16, 1])]);
        let six = BitArray::new([4], [BitSlice::new(4, 176, [8]), BitSlice::new(2, 180, [8])]);
        let rest = BitArray::new([4], [BitSlice::new(2, 182, [8])]);
        RecordLayout::new(
            26,
            [
                Field::number(Dtype::F16, 0),
                Field::new(Dtype::U8, [levels]),
                Field::new(Dtype::U8, [six, rest]),
            ],
        )
        .unwrap()
    }

    #[test]
    fn bits_come_back_and_mean_what_the_layout_says() {
        let records: Vec<u8> = (0..26 * 37u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
        let layout = layout();
        for kernel in Kernel::available() {
            kernel.run(|| {
                let mut back = vec![0; records.len()];
                for field in layout.fields() {
                    let moves = FieldMoves::of(field, 26);
                    let mut elements = vec![0; moves.elements_length(records.len())];
                    moves.gather(&records, &mut elements);
                    moves.scatter(&elements, &mut back);
                    let mut expected = vec![0; elements.len()];
                    for (index, record) in records.chunks_exact(26).enumerate() {
                        let first = 8 * index * moves.elements;
                        for placed in field.slices() {
                            for bit in 0..placed.bits {
                                let value = record[(placed.in_record + bit) / 8]
                                    >> ((placed.in_record + bit) % 8)
                                    & 1;
                                let place = first + placed.in_elements + bit;
                                expected[place / 8] |= value << (place % 8);
                            }
                        }
                    }
                    assert!(elements == expected, "{field:?}");
                }
                assert!(back == records);
            });
        }
    }

    #[test]
    fn runs_are_joined() {
        let moves = FieldMoves::of(&layout().fields()[1], 26).moves;
        assert_eq!(moves.iter().filter(|step| step.spread).count(), 4);
        assert_eq!(moves.iter().filter(|step| step.count == 16).count(), 2);
        assert_eq!(moves.len(), 6);
        assert_eq!(FieldMoves::of(&Field::bytes(2, 32), 34).moves.len(), 1);
    }
}
