//! Chunks as the encoder sees them: differences and their class, and how often each symbol occurs in each
//! class and with each exponent of the reference.

use super::classes::Classes;
use super::decay::Decay;
use super::element::Word;
use super::steps::Steps;
use super::symbols::Alphabet;
use super::{CHUNK_CLASSES, EXPONENT_NUMBERS, ElementFields, REFERENCE_CHUNK, listed};
use crate::arch::{self, dispatch};
use crate::entropy::table::{Histogram, SYMBOLS};

/// What the differences of a section are taken from and how exponents are told apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pub fields: ElementFields,
    pub decay: Decay,
    /// The exponent from which numbers are counted downwards; all above share its number.
    pub top_exponent: usize,
}

/// One chunk, transformed.
#[derive(Debug)]
pub(crate) struct ChunkScratch<W> {
    pub differences: [W; REFERENCE_CHUNK],
    pub symbols: [u8; REFERENCE_CHUNK],
    /// The exponents' numbers, below [`EXPONENT_NUMBERS`].
    pub exponents: [u8; REFERENCE_CHUNK],
    pub length: usize,
}

impl<W: Word> Default for ChunkScratch<W> {
    fn default() -> Self {
        Self {
            differences: [W::default(); REFERENCE_CHUNK],
            symbols: [0; REFERENCE_CHUNK],
            exponents: [0; REFERENCE_CHUNK],
            length: 0,
        }
    }
}

/// How elements move from those of the reference, for kernels: the numbers of a [`View`] whose exponents fit
/// a byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Movement {
    pub rate: i32,
    pub mantissa_bits: u32,
    pub top_exponent: u8,
}

impl View {
    pub fn movement(self) -> Movement {
        Movement {
            rate: self.decay.rate,
            mantissa_bits: self.fields.mantissa_bits,
            top_exponent: self.top_exponent.min(255) as u8,
        }
    }
}

impl<W: Word> ChunkScratch<W> {
    /// Transforms a chunk of at most [`REFERENCE_CHUNK`] elements and returns how many bits the differences
    /// have in all. If that is zero, symbols and exponents are undefined.
    pub fn transform(&mut self, bytes: &[u8], reference: &[u8], view: View) -> u32 {
        self.length = (bytes.len() / W::BYTES).min(REFERENCE_CHUNK);
        if view.decay.rate == 0 && bytes == reference {
            return 0;
        }
        dispatch!(kernel => kernel.differences(view, bytes, reference, self))
    }

    /// Transforms the elements from `done` on, one by one, and says how many bits their differences have.
    pub fn transform_from(&mut self, done: usize, bytes: &[u8], reference: &[u8], view: View) -> u32 {
        let Self { differences, symbols, exponents, length } = self;
        if done >= *length {
            return 0;
        }
        let alphabet = Alphabet::of_width(W::BYTES);
        let (bytes, reference) = (&bytes[done * W::BYTES..], &reference[done * W::BYTES..]);
        let rest = &mut differences[done..*length];
        let elements = bytes.chunks_exact(W::BYTES).zip(reference.chunks_exact(W::BYTES));
        for (difference, (current, base)) in rest.iter_mut().zip(elements) {
            *difference = W::difference::<true>(W::from_bytes(current), W::from_bytes(base), view.decay);
        }
        for (symbol, &difference) in symbols[done..].iter_mut().zip(&*rest) {
            *symbol = alphabet.symbol(difference);
        }
        exponent_numbers::<W>(reference, view, &mut exponents[done..]);
        rest.iter().map(|difference| difference.length()).sum::<u32>()
    }
}

/// The numbers of the exponents of at most [`REFERENCE_CHUNK`] elements.
#[inline(always)]
pub(super) fn exponent_numbers<W: Word>(reference: &[u8], view: View, numbers: &mut [u8]) {
    let exponents = reference.chunks_exact(W::BYTES).map(
        #[inline(always)]
        |base| W::from_bytes(base).exponent(view.fields.mantissa_bits),
    );
    if view.fields.exponents() > 256 {
        for (number, exponent) in numbers.iter_mut().zip(exponents) {
            // Exponents 255 and more below the top have the last number anyway.
            *number = exponent_number(view.top_exponent.saturating_sub(exponent).min(255) as u8);
        }
        return;
    }
    // In two steps, each of which has as many elements in a register as it can.
    for (number, exponent) in numbers.iter_mut().zip(exponents) {
        *number = exponent as u8;
    }
    let top = view.top_exponent as u8;
    for number in numbers {
        *number = exponent_number(top.saturating_sub(*number));
    }
}

/// The number of an exponent so far below the top: each its own at first, then four and then eight together,
/// so that optimizer states have numbers too.
#[inline(always)]
fn exponent_number(below: u8) -> u8 {
    below.min(16) + below.saturating_sub(16).min(32) / 4 + below.saturating_sub(48).min(56) / 8
}

/// The exponent that only few elements exceed.
pub(super) fn top_exponent<W: Word>(reference: &[u8], fields: ElementFields) -> usize {
    let mut counts = vec![0u32; fields.exponents()];
    let stride = (reference.len() / W::BYTES).div_ceil(EXPONENT_SAMPLE) | 1;
    let mut sampled = 0;
    for base in reference.chunks_exact(W::BYTES).step_by(stride) {
        if let Some(count) = counts.get_mut(W::from_bytes(base).exponent(fields.mantissa_bits)) {
            *count += 1;
        }
        sampled += 1;
    }
    let mut rare = sampled / 2000;
    let top = counts.iter().rposition(|&count| {
        let kept = count > rare;
        rare -= count.min(rare);
        kept
    });
    top.unwrap_or(0)
}

/// Elements looked at for the range of exponents. Deltas: half and double change less than 0.001 %.
const EXPONENT_SAMPLE: usize = 1 << 14;

/// How often each symbol occurs with each exponent's number.
type Cells = [Histogram; EXPONENT_NUMBERS];

/// How often each symbol occurs, by class and exponent.
#[derive(Debug)]
pub(super) struct Counts {
    /// The cells of each class that occurs.
    cells: [Option<Vec<Histogram>>; CHUNK_CLASSES],
    /// How many chunks have each class.
    pub classes: Histogram,
    /// Bits that are no symbols: those below symbols, and the sets of elements that chunks list.
    pub raw_bits: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self { cells: Default::default(), classes: [0; SYMBOLS], raw_bits: 0 }
    }
}

/// Tables that neighbours are counted in by turns: where most symbols are equal, the increments in a single
/// table would each wait for the store before.
const BANKS: usize = 4;

/// These tables for one class.
type Banks = Vec<Cells>;

impl Counts {
    /// Counts the chunks of a stretch of whole elements.
    pub fn of<W: Word>(bytes: &[u8], reference: &[u8], view: View, classes: &Classes) -> Self {
        let alphabet = Alphabet::of_width(W::BYTES);
        let mut counts = Self::default();
        let mut banks: [Option<Banks>; CHUNK_CLASSES] = Default::default();
        let mut scratch = ChunkScratch::<W>::default();
        let length = REFERENCE_CHUNK * W::BYTES;
        for (chunk, base) in bytes.chunks(length).zip(reference.chunks(length)) {
            let bits = scratch.transform(chunk, base, view);
            let symbols = &scratch.symbols[..scratch.length];
            let class = classes.of(bits, symbols);
            counts.classes[usize::from(class)] += 1;
            if let Some(count) = listed::count_of(class) {
                counts.raw_bits += listed::cost_1024(count).div_ceil(1024);
                continue;
            }
            if class == 0 {
                continue;
            }
            counts.raw_bits += arch::vectorised(
                #[inline(always)]
                || alphabet.all_raw_bits(symbols),
            );
            let banks = banks[usize::from(class) % CHUNK_CLASSES].get_or_insert_with(empty_banks);
            count(banks, symbols, &scratch.exponents);
        }
        for (cells, banks) in counts.cells.iter_mut().zip(banks) {
            *cells = banks.map(|banks| {
                let mut cells = vec![[0; SYMBOLS]; EXPONENT_NUMBERS];
                banks.iter().for_each(|bank| add(&mut cells, bank));
                cells
            });
        }
        counts
    }

    pub fn merge(mut self, other: Self) -> Self {
        for (mine, theirs) in self.cells.iter_mut().zip(other.cells) {
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => add(mine, &theirs),
                (mine, theirs) => *mine = mine.take().or(theirs),
            }
        }
        self.classes.iter_mut().zip(other.classes).for_each(|(mine, theirs)| *mine += theirs);
        self.raw_bits += other.raw_bits;
        self
    }

    /// The cells that occur, by class and exponent number.
    pub fn used(&self) -> impl Iterator<Item = (usize, usize, &Histogram)> {
        let cells = self.cells.iter().enumerate().flat_map(|(class, cells)| {
            let cells = cells.iter().flatten().enumerate();
            cells.map(move |(exponent, histogram)| (class, exponent, histogram))
        });
        cells.filter(|(_, _, histogram)| histogram.iter().any(|&count| count > 0))
    }
}

fn empty_banks() -> Banks {
    vec![[[0; SYMBOLS]; EXPONENT_NUMBERS]; BANKS]
}

fn add(mine: &mut [Histogram], theirs: &[Histogram]) {
    mine.as_flattened_mut().iter_mut().zip(theirs.as_flattened()).for_each(|(sum, count)| *sum += count);
}

fn count(banks: &mut Banks, symbols: &[u8], exponents: &[u8; REFERENCE_CHUNK]) {
    let Some(banks) = banks.first_chunk_mut::<BANKS>() else { return };
    let (groups, rest) = symbols.as_chunks::<BANKS>();
    let (numbers, _) = exponents.as_chunks::<BANKS>();
    for (symbols, numbers) in groups.iter().zip(numbers) {
        for bank in 0..BANKS {
            banks[bank][usize::from(numbers[bank]) % EXPONENT_NUMBERS][usize::from(symbols[bank])] += 1;
        }
    }
    for (&symbol, &number) in rest.iter().zip(&exponents[symbols.len() - rest.len()..]) {
        banks[0][usize::from(number) % EXPONENT_NUMBERS][usize::from(symbol)] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Kernel;
    use crate::dtype::Dtype;
    use proptest::prelude::*;

    /// All kernels, and the arithmetic of one element, agree about a chunk.
    fn agree<W: Word + PartialEq + std::fmt::Debug>(
        elements: &[(u64, u64, u32)],
        dtype: Dtype,
        rate: i32,
        top: usize,
    ) {
        let fields = ElementFields::of(dtype).unwrap();
        let view = View { fields, decay: Decay::new(rate, fields), top_exponent: top % fields.exponents() };
        let bytes = |value: u64| value.to_le_bytes()[..W::BYTES].to_vec();
        let base: Vec<u8> = elements.iter().flat_map(|&(base, ..)| bytes(base)).collect();
        let moved = |&(base, change, shift): &(u64, u64, u32)| bytes(base.wrapping_add(change >> shift));
        let current: Vec<u8> = elements.iter().flat_map(moved).collect();
        for kernel in Kernel::available() {
            kernel.run(|| {
                let mut scratch = ChunkScratch::<W>::default();
                let bits = scratch.transform(&current, &base, view);
                let mut numbers = [0; REFERENCE_CHUNK];
                exponent_numbers::<W>(&base, view, &mut numbers);
                let mut sum = 0;
                for (index, (current, base)) in
                    current.chunks(W::BYTES).zip(base.chunks(W::BYTES)).enumerate()
                {
                    let (current, base) = (W::from_bytes(current), W::from_bytes(base));
                    let difference = W::difference::<true>(current, base, view.decay);
                    sum += difference.length();
                    if bits > 0 {
                        assert_eq!(scratch.differences[index], difference);
                        assert_eq!(scratch.symbols[index], Alphabet::of_width(W::BYTES).symbol(difference));
                        assert_eq!(scratch.exponents[index], numbers[index]);
                    }
                }
                assert_eq!(bits, sum);
            });
        }
    }

    proptest! {
        #[test]
        fn kernels_agree_on_differences(
            elements in prop::collection::vec((any::<u64>(), any::<u64>(), 0u32..64), 0..REFERENCE_CHUNK),
            rate in prop_oneof![Just(0), any::<i32>(), -100_000..100_000i32],
            top in 0usize..256,
        ) {
            agree::<u8>(&elements, Dtype::F8E4M3, rate, top);
            agree::<u16>(&elements, Dtype::Bf16, rate, top);
            agree::<u16>(&elements, Dtype::F16, rate, top);
            agree::<u32>(&elements, Dtype::F32, rate, top);
            agree::<u64>(&elements, Dtype::F64, rate, top);
        }
    }
}
