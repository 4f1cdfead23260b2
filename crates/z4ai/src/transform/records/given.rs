//! Elements of a field in contexts that follow from fields before it: the levels of quantised weights with
//! offsets, whose distribution has its centre at the level that stands for zero, and offsets, which are
//! larger where scales are.

use crate::entropy::rans::{self, Tables, most_lanes_for};
use crate::entropy::table::{FrequencyTable, Histogram, MAX_PRECISION, MIN_PRECISION, SYMBOLS, entropy_bits};
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length, put_signed};
use crate::record::{Given, RecordLayout};
use crate::transform::grid::{Format, Fp16};

/// The most contexts that the format has, and those that are used: the decoder's tables of so many fit the
/// first-level cache together, at four bytes for each of the 2^10 slots. Not compared with fewer.
const MOST_CONTEXTS: usize = 16;
const GIVEN_CONTEXTS: usize = 8;
/// The precision of levels' tables, which have few symbols. Q4_K: another bit -0.01 %.
const USED_PRECISION: u32 = 10;
/// Exponents of the power of two that a context may span, as the format has them.
const SHIFTS: std::ops::RangeInclusive<i64> = -8..=8;
/// Those that are tried; what quantisers write needs no others.
const TRIED_SHIFTS: std::ops::RangeInclusive<i64> = -2..=5;
/// The furthest from zero that the window of contexts may begin, as the format says.
const FURTHEST_FIRST: i64 = 4096;
/// Numbers are limited to this magnitude, as the format says.
const LARGEST: f32 = 16384.0;
/// About how many bits a frequency takes in a table's description.
const GIVEN_FREQUENCY_BITS: u64 = 6;
/// One part in so many is what contexts must save, since a single table decodes faster. A round number.
const GIVEN_GAIN: u64 = 256;

/// The shared description of a field's elements.
#[derive(Debug)]
pub(crate) struct GivenModel {
    given: Given,
    /// Elements that have a context together.
    group: usize,
    contexts: GivenContexts,
    tables: Tables,
}

/// Which context a number has.
#[derive(Debug, Clone, Copy)]
struct GivenContexts {
    shift: i64,
    first: i64,
    count: usize,
}

impl GivenContexts {
    fn of(self, number: i16) -> usize {
        (i64::from(number) - self.first).clamp(0, self.count as i64 - 1) as usize
    }
}

/// The number of each group of some records, times `2^-shift` and rounded down. `sources` are the elements of
/// fields.
fn numbers(given: Given, sources: &[Vec<u8>], shift: i64) -> Vec<i16> {
    let factor = f32::from_bits(((127 - shift) as u32) << 23);
    let whole = |number: f32| {
        let number = number * factor;
        let number = if number.is_nan() { 0.0 } else { number };
        number.clamp(-LARGEST, LARGEST).floor() as i16
    };
    match given {
        Given::Field(source) => sources[source].iter().map(|&byte| whole(f32::from(byte))).collect(),
        Given::ZeroPoint { scales, offsets, scale_factor, offset_factor } => {
            let factors = sources[scale_factor]
                .as_chunks::<2>()
                .0
                .iter()
                .zip(sources[offset_factor].as_chunks::<2>().0);
            let groups = sources[scales].len() / factors.len().max(1);
            let groups = sources[scales].chunks(groups.max(1)).zip(sources[offsets].chunks(groups.max(1)));
            let mut out = Vec::with_capacity(sources[scales].len());
            for ((scale, offset), (scales, offsets)) in factors.zip(groups) {
                let (scale, offset) = (Fp16::value(Fp16::read(scale)), Fp16::value(Fp16::read(offset)));
                let number = |(&s, &o): (&u8, &u8)| whole((offset * f32::from(o)) / (scale * f32::from(s)));
                out.extend(scales.iter().zip(offsets).map(number));
            }
            out
        }
    }
}

impl GivenModel {
    /// The first byte of the model.
    pub const TAG: u8 = 15;

    /// Makes the model for the elements of a field, if what others say saves something.
    pub fn fit(
        layout: &RecordLayout,
        field: usize,
        elements: &[u8],
        sources: &[Vec<u8>],
    ) -> Result<Option<Self>> {
        let Some(given) = layout.hint(field) else { return Ok(None) };
        let Ok(groups) = layout.groups(field, given) else { return Ok(None) };
        let group = layout.fields()[field].count() / groups;
        let mut best: Option<(u64, GivenContexts, Vec<Histogram>)> = None;
        for shift in TRIED_SHIFTS {
            let numbers = numbers(given, sources, shift);
            let contexts = GivenContexts { shift, first: first(&numbers), count: GIVEN_CONTEXTS };
            let mut counts = vec![[0; SYMBOLS]; GIVEN_CONTEXTS];
            for (elements, &number) in elements.chunks(group).zip(&numbers) {
                let counts = &mut counts[contexts.of(number)];
                elements.iter().for_each(|&element| counts[usize::from(element)] += 1);
            }
            let frequencies = counts.iter().flatten().filter(|&&count| count > 0).count() as u64;
            let cost = counts.iter().map(|counts| entropy_bits(counts)).sum::<u64>()
                + GIVEN_FREQUENCY_BITS * frequencies;
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, contexts, counts));
            }
        }
        let Some((cost, contexts, counts)) = best else { return Ok(None) };
        let mut all = [0; SYMBOLS];
        counts.iter().for_each(|counts| all.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count));
        let alone = entropy_bits(&all);
        if cost > alone - alone / GIVEN_GAIN {
            return Ok(None);
        }
        let tables = counts.iter().map(|counts| {
            let mut counts = *counts;
            // A table needs two symbols with a frequency.
            for symbol in 0..2 {
                if counts.iter().filter(|&&count| count > 0).count() < 2 {
                    counts[symbol] = counts[symbol].max(1);
                }
            }
            FrequencyTable::normalise(&counts, USED_PRECISION)
        });
        let tables = Tables::new(tables.collect())?;
        Ok(Some(Self { given, group, contexts, tables }))
    }

    /// The fields that say something.
    pub fn sources(&self) -> Vec<usize> {
        self.given.fields()
    }

    /// Reads what [`Self::write`] wrote, for a field of a layout.
    pub fn read(reader: &mut Reader, layout: &RecordLayout, field: usize) -> Result<Self> {
        let given = match reader.u8()? {
            0 => Given::Field(reader.length()?),
            1 => Given::ZeroPoint {
                scales: reader.length()?,
                offsets: reader.length()?,
                scale_factor: reader.length()?,
                offset_factor: reader.length()?,
            },
            _ => return Err(Error::corrupt("a field depends on others in an unknown way")),
        };
        let groups = layout.groups(field, given).map_err(Error::corrupt)?;
        let flags = reader.u8()?;
        let (contexts, precision) = (1usize << (flags & 7), u32::from(flags >> 3));
        if contexts > MOST_CONTEXTS || !(MIN_PRECISION..=MAX_PRECISION).contains(&precision) {
            return Err(Error::corrupt("a field in too many contexts, or tables of an unknown precision"));
        }
        let (shift, first) = (reader.signed()?, reader.signed()?);
        if !SHIFTS.contains(&shift) || !(-FURTHEST_FIRST..=FURTHEST_FIRST).contains(&first) {
            return Err(Error::corrupt("contexts of a field that are out of range"));
        }
        let tables = (0..contexts).map(|_| FrequencyTable::read_from(reader, precision));
        Ok(Self {
            given,
            group: layout.fields()[field].count() / groups,
            contexts: GivenContexts { shift, first, count: contexts },
            tables: Tables::new(tables.collect::<Result<_>>()?)?,
        })
    }

    /// Appends the model without its tag.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(matches!(self.given, Given::ZeroPoint { .. })));
        self.sources().into_iter().for_each(|source| put_length(out, source));
        let contexts = self.contexts;
        out.push(contexts.count.trailing_zeros() as u8 | (self.tables.precision() as u8) << 3);
        put_signed(out, contexts.shift);
        put_signed(out, contexts.first);
        self.tables.frequencies().iter().for_each(|table| table.write(out));
    }

    /// Appends the block of `elements`.
    pub fn encode(&self, elements: &[u8], sources: &[Vec<u8>], out: &mut Vec<u8>) {
        let mut contexts = Vec::with_capacity(elements.len());
        for number in numbers(self.given, sources, self.contexts.shift) {
            contexts.extend(std::iter::repeat_n(self.contexts.of(number) as u8, self.group));
        }
        rans::encode_in(most_lanes_for(elements.len()), self.tables.encoder(), elements, &contexts, out);
    }

    /// Decodes what [`Self::encode`] wrote.
    pub fn decode(&self, reader: &mut Reader, sources: &[Vec<u8>], out: &mut [u8]) -> Result<()> {
        /// Elements whose contexts are made at a time.
        const PIECE: usize = 1 << 12;
        let tables = self.tables.decoder();
        let mut stream = rans::SymbolDecoder::open_in(most_lanes_for(out.len()), tables, reader)?;
        let numbers = numbers(self.given, sources, self.contexts.shift);
        // Whole groups of the coder's lanes, all of one length but the last.
        let mut offsets = vec![0; PIECE.min(out.len())];
        let mut start = 0;
        for piece in out.chunks_mut(PIECE) {
            let offsets = &mut offsets[..piece.len()];
            let mut rest = &mut offsets[..];
            while !rest.is_empty() {
                let (number, inside) = (start / self.group, start % self.group);
                let length = (self.group - inside).min(rest.len());
                let number = numbers.get(number).copied().unwrap_or(0);
                let (these, after) = rest.split_at_mut(length);
                these.fill((self.contexts.of(number) as u16) << tables.precision());
                (rest, start) = (after, start + length);
            }
            stream.decode(offsets, piece)?;
        }
        stream.finish()
    }
}

/// Where the contexts begin that have most of the numbers.
fn first(numbers: &[i16]) -> i64 {
    let mut counts = std::collections::BTreeMap::<i16, usize>::new();
    numbers.iter().for_each(|&number| *counts.entry(number).or_default() += 1);
    let window = |&first: &i16| {
        let end = first.saturating_add(GIVEN_CONTEXTS as i16);
        counts.range(first..end).map(|(_, &count)| count).sum::<usize>()
    };
    let best = counts.keys().copied().max_by_key(|first| (window(first), std::cmp::Reverse(*first)));
    best.map_or(0, i64::from).clamp(-FURTHEST_FIRST, FURTHEST_FIRST)
}
