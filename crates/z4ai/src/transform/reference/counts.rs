//! Chunks as the encoder sees them: differences and their class, and how often each symbol occurs in each class and with each exponent of the reference.

use super::classes::Classes;
use super::decay::Decay;
use super::element::Word;
use super::symbols::Alphabet;
use super::{CHUNK, CLASSES, EXPONENTS, Fields};
use crate::arch::Kernel;
use crate::entropy::table::{Histogram, SYMBOLS};

/// What the differences of a section are taken from and how exponents are told apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub fields: Fields,
    pub decay: Decay,
    /// The exponent from which numbers are counted downwards; all above share its number.
    pub top_exponent: usize,
}

/// One chunk, transformed.
#[derive(Debug)]
pub(super) struct ChunkScratch<W> {
    pub differences: [W; CHUNK],
    pub symbols: [u8; CHUNK],
    /// The exponents' numbers, below [`EXPONENTS`].
    pub exponents: [u8; CHUNK],
    pub length: usize,
}

impl<W: Word> Default for ChunkScratch<W> {
    fn default() -> Self {
        Self { differences: [W::default(); CHUNK], symbols: [0; CHUNK], exponents: [0; CHUNK], length: 0 }
    }
}

impl<W: Word> ChunkScratch<W> {
    /// Transforms a chunk of at most [`CHUNK`] elements and says its class; symbols are made unless that is 0.
    #[inline(always)]
    pub fn transform(
        &mut self,
        bytes: &[u8],
        reference: &[u8],
        view: View,
        classes: &Classes,
        kernel: Kernel,
    ) -> u8 {
        let class = classes.of(self.subtract(bytes, reference, view));
        if class > 0 {
            kernel.symbols(Alphabet::of_width(W::BYTES), &self.differences, &mut self.symbols);
            exponent_numbers::<W>(reference, view, &mut self.exponents);
        }
        class
    }

    /// Computes the differences of a chunk and says how many bits they have in all.
    #[inline(always)]
    pub fn subtract(&mut self, bytes: &[u8], reference: &[u8], view: View) -> u32 {
        let differences = &mut self.differences[..bytes.len() / W::BYTES];
        self.length = differences.len();
        let elements = bytes.chunks_exact(W::BYTES).zip(reference.chunks_exact(W::BYTES));
        let pairs = elements.map(
            #[inline(always)]
            |(current, base)| (W::from_bytes(current), W::from_bytes(base)),
        );
        if view.decay.rate == 0 {
            for (difference, (current, base)) in differences.iter_mut().zip(pairs) {
                *difference = W::difference::<false>(current, base, view.decay);
            }
        } else {
            for (difference, (current, base)) in differences.iter_mut().zip(pairs) {
                *difference = W::difference::<true>(current, base, view.decay);
            }
        }
        differences.iter().map(|difference| difference.length()).sum()
    }
}

/// The numbers of the exponents of at most [`CHUNK`] elements.
#[inline(always)]
pub(super) fn exponent_numbers<W: Word>(reference: &[u8], view: View, numbers: &mut [u8; CHUNK]) {
    let exponents = reference.chunks_exact(W::BYTES).map(
        #[inline(always)]
        |base| W::from_bytes(base).exponent(view.fields.mantissa_bits),
    );
    if view.fields.exponents() > 256 {
        for (number, exponent) in numbers.iter_mut().zip(exponents) {
            // Beyond the last number they are all the same.
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

/// The number of an exponent so far below the top: each its own at first, then four and then eight together, so that optimizer states have numbers too.
#[inline(always)]
fn exponent_number(below: u8) -> u8 {
    below.min(16) + below.saturating_sub(16).min(32) / 4 + below.saturating_sub(48).min(56) / 8
}

/// The exponent that only few elements exceed.
pub(super) fn top_exponent<W: Word>(reference: &[u8], fields: Fields) -> usize {
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

/// Elements looked at for the range of exponents.
const EXPONENT_SAMPLE: usize = 1 << 14;

/// How often each symbol occurs with each exponent's number.
type Cells = [Histogram; EXPONENTS];

/// How often each symbol occurs, by class and exponent.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    cells: Vec<Cells>,
    /// How many chunks have each class.
    pub classes: Histogram,
    pub raw_bits: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self { cells: vec![[[0; SYMBOLS]; EXPONENTS]; CLASSES], classes: [0; SYMBOLS], raw_bits: 0 }
    }
}

/// Neighbours are counted in so many tables in turn: where most are equal, each increment of a single one would wait for the one before.
const BANKS: usize = 4;

impl Counts {
    /// Counts the chunks of a stretch of whole elements.
    pub fn of<W: Word>(
        bytes: &[u8],
        reference: &[u8],
        view: View,
        classes: &Classes,
        kernel: Kernel,
    ) -> Self {
        let alphabet = Alphabet::of_width(W::BYTES);
        let mut counts = Self::default();
        let mut banks: Vec<[Cells; BANKS]> = vec![[[[0; SYMBOLS]; EXPONENTS]; BANKS]; CLASSES];
        let mut scratch = ChunkScratch::<W>::default();
        let length = CHUNK * W::BYTES;
        for (chunk, base) in bytes.chunks(length).zip(reference.chunks(length)) {
            let class = kernel.vectorised(
                #[inline(always)]
                || scratch.transform(chunk, base, view, classes, kernel),
            );
            counts.classes[usize::from(class)] += 1;
            if class == 0 {
                continue;
            }
            let symbols = &scratch.symbols[..scratch.length];
            counts.raw_bits += kernel.vectorised(
                #[inline(always)]
                || alphabet.all_raw_bits(symbols),
            );
            count(&mut banks[usize::from(class) % CLASSES], symbols, &scratch.exponents);
        }
        for ((cells, banks), _) in
            counts.cells.iter_mut().zip(&banks).zip(counts.classes).filter(|(_, chunks)| *chunks > 0)
        {
            banks.iter().for_each(|bank| add(cells, bank));
        }
        counts
    }

    pub fn merge(mut self, other: &Self) -> Self {
        for ((mine, theirs), _) in
            self.cells.iter_mut().zip(&other.cells).zip(other.classes).filter(|(_, chunks)| *chunks > 0)
        {
            add(mine, theirs);
        }
        self.classes.iter_mut().zip(other.classes).for_each(|(mine, theirs)| *mine += theirs);
        self.raw_bits += other.raw_bits;
        self
    }

    /// The cells that occur, by class and exponent number.
    pub fn used(&self) -> impl Iterator<Item = (usize, usize, &Histogram)> {
        let classes = self.cells.iter().enumerate().filter(|(class, _)| self.classes[*class] > 0);
        let cells = classes.flat_map(|(class, cells)| {
            cells.iter().enumerate().map(move |(exponent, histogram)| (class, exponent, histogram))
        });
        cells.filter(|(_, _, histogram)| histogram.iter().any(|&count| count > 0))
    }
}

fn add(mine: &mut Cells, theirs: &Cells) {
    mine.as_flattened_mut().iter_mut().zip(theirs.as_flattened()).for_each(|(sum, count)| *sum += count);
}

fn count(banks: &mut [Cells; BANKS], symbols: &[u8], exponents: &[u8; CHUNK]) {
    let (groups, rest) = symbols.as_chunks::<BANKS>();
    let (numbers, _) = exponents.as_chunks::<BANKS>();
    for (symbols, numbers) in groups.iter().zip(numbers) {
        for bank in 0..BANKS {
            banks[bank][usize::from(numbers[bank]) % EXPONENTS][usize::from(symbols[bank])] += 1;
        }
    }
    for (&symbol, &number) in rest.iter().zip(&exponents[symbols.len() - rest.len()..]) {
        banks[0][usize::from(number) % EXPONENTS][usize::from(symbol)] += 1;
    }
}
