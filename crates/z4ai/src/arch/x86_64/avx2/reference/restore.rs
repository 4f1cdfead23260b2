//! Floats from those of a reference with AVX2: contexts, rANS symbols, raw bits and the elements themselves,
//! 32 at a time and in registers. The entropy coder is bound by the latency of look-ups and
//! multiplications; the other work fills the execution units meanwhile.
#![allow(unsafe_code)]

use super::differences::{ExponentNumbering, long_decay, short_decay};
use super::look_up::ContextTable;
use super::raw_bits::{RawRegisters, RawSplit};
use crate::arch::x86_64::avx2::rans::{GROUP_REACH, SpilledIndices, TableLookup, pack_symbols};
use crate::arch::x86_64::{PREFETCHED, prefetch};
use crate::entropy::rans::{DecoderTables, LANES, SymbolDecoder};
use crate::transform::reference::{
    Alphabet, CHUNK_CLASSES, CodedBlock, CodedChunk, EXPONENT_NUMBERS, Movement, RAW_LANES, RAW_PIECE,
    REFERENCE_CHUNK, RawReader, Word, read_differences,
};
use std::arch::x86_64::*;

/// Bytes of raw bits that a piece may look at: at most one word for each 16 bits of an element, and each load
/// reaches 16 bytes.
pub(super) const RAW_REACH: usize = 4 * RAW_PIECE + 16;

/// Makes the next elements of a block, whole groups while the words certainly suffice: those of its stream,
/// or `other_words` in their place. Counts the elements in the block and returns how many bytes of words were
/// read.
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(in crate::arch) fn restore<W: Word>(
    block: &mut CodedBlock,
    other_words: Option<&[u8]>,
    base: &[u8],
    out: &mut [u8],
) -> usize {
    if W::BYTES != 2 && W::BYTES != 4 {
        return 0;
    }
    if block.model.movement().rate == 0 {
        decode::<W, false>(block, other_words, base, out)
    } else {
        decode::<W, true>(block, other_words, base, out)
    }
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
fn decode<W: Word, const DECAY: bool>(
    block: &mut CodedBlock,
    other_words: Option<&[u8]>,
    base: &[u8],
    out: &mut [u8],
) -> usize {
    let (movement, contexts) = (block.model.movement(), block.model.context_rows());
    let CodedBlock { chunks, made, stream, raw, .. } = block;
    let Some(SymbolDecoder { tables, states, words, .. }) = stream else { return 0 };
    let Some(states) = states.first_chunk_mut::<LANES>() else { return 0 };
    let words = other_words.unwrap_or(words);
    const { assert!(RAW_PIECE == LANES && REFERENCE_CHUNK.is_multiple_of(RAW_PIECE)) };
    let whole = out.len().min(base.len()) / (REFERENCE_CHUNK * W::BYTES);
    let whole = chunks.iter().take_while(|chunk| (chunk.number as usize) < whole).count();
    let (begin, pieces) = (*made / RAW_PIECE, whole * (REFERENCE_CHUNK / RAW_PIECE));
    let Some(contexts) = ContextRegisters::new::<W>(tables, contexts, movement).filter(|_| begin < pieces)
    else {
        return 0;
    };
    let mut walk = ChunkWalk::new(&chunks[..whole], begin);
    // SAFETY: a piece inside a whole chunk of `base`.
    let offsets_of = |walk: &ChunkWalk| unsafe {
        contexts.offsets::<W>(walk.class, base.as_ptr().add(walk.element * W::BYTES))
    };
    let lookup = TableLookup::new(tables);
    let mut maker = Maker {
        split: RawSplit::new(Alphabet::of_width(W::BYTES)),
        lanes: RawRegisters::load(&raw.state),
        raw,
        raw_bytes: 0,
        movement,
    };
    let mut state = [_mm256_setzero_si256(); LANES / 8];
    let mut places = [SpilledIndices::default(); LANES / 8];
    let offsets = offsets_of(&walk);
    for (at, lanes) in states.chunks_exact(8).enumerate() {
        // SAFETY: `lanes` holds eight u32.
        state[at] = unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) };
        places[at].store(lookup.index(state[at], offsets[at]));
    }
    let [mut first, mut second, mut third, mut fourth] = state;
    let mut symbols = [_mm256_setzero_si256(); 4];
    // Software pipelining: the first iteration writes garbage over its own piece, which the second
    // overwrites.
    let mut before = walk.element;
    let (mut piece, mut bytes) = (begin, 0usize);
    while piece < pieces && words.len() - bytes >= GROUP_REACH {
        // SAFETY: REACH bytes of words are left, and each refill takes at most 16 of them; the places are
        // made with offsets that end inside the table; `base` and `out` have the piece before.
        unsafe {
            let element = walk.element;
            walk.go_on();
            prefetch_piece::<W>(base.as_ptr().wrapping_add(walk.element * W::BYTES));
            prefetch_piece::<W>(out.as_ptr().wrapping_add(walk.element * W::BYTES));
            let offsets = offsets_of(&walk);
            let a = lookup.entry_at(first, &places[0]);
            let b = lookup.entry_at(second, &places[1]);
            maker.make::<W, DECAY, false>(symbols, base, out, before * W::BYTES);
            first = lookup.refill(a.1, words.as_ptr(), &mut bytes);
            places[0].store(lookup.index(first, offsets[0]));
            let c = lookup.entry_at(third, &places[2]);
            second = lookup.refill(b.1, words.as_ptr(), &mut bytes);
            places[1].store(lookup.index(second, offsets[1]));
            let d = lookup.entry_at(fourth, &places[3]);
            third = lookup.refill(c.1, words.as_ptr(), &mut bytes);
            places[2].store(lookup.index(third, offsets[2]));
            fourth = lookup.refill(d.1, words.as_ptr(), &mut bytes);
            places[3].store(lookup.index(fourth, offsets[3]));
            symbols = [a.0, b.0, c.0, d.0];
            before = element;
        }
        piece += 1;
    }
    if piece > begin {
        // SAFETY: `base` and `out` have the last piece.
        unsafe { maker.make::<W, DECAY, true>(symbols, base, out, before * W::BYTES) };
    }
    maker.finish();
    for (vector, lanes) in [first, second, third, fourth].iter().zip(states.chunks_exact_mut(8)) {
        // SAFETY: `lanes` holds eight u32.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), *vector) };
    }
    *made += (piece - begin) * RAW_PIECE;
    bytes
}

/// Prefetches the piece some distance behind this one: hardware prefetchers stop at the end of a page.
#[inline(always)]
pub(in crate::arch) fn prefetch_piece<W: Word>(piece: *const u8) {
    for line in 0..RAW_PIECE * W::BYTES / 64 {
        prefetch::<_MM_HINT_T0, _>(piece.wrapping_add(PREFETCHED + 64 * line));
    }
}

/// Goes from piece to piece through chunks, and stays with the last.
pub(in crate::arch) struct ChunkWalk<'a> {
    chunks: std::slice::Iter<'a, CodedChunk>,
    /// The first element of the piece.
    pub element: usize,
    pub class: u8,
    /// Pieces of the chunk from this one on.
    left: usize,
}

impl<'a> ChunkWalk<'a> {
    pub fn new(chunks: &'a [CodedChunk], piece: usize) -> Self {
        let mut chunks = chunks[piece / (REFERENCE_CHUNK / RAW_PIECE)..].iter();
        let chunk = chunks.next().copied().unwrap_or_default();
        let made = piece % (REFERENCE_CHUNK / RAW_PIECE);
        let element = chunk.number as usize * REFERENCE_CHUNK + made * RAW_PIECE;
        Self { chunks, element, class: chunk.class, left: REFERENCE_CHUNK / RAW_PIECE - made }
    }

    #[inline(always)]
    pub fn go_on(&mut self) {
        if self.left > 1 {
            self.left -= 1;
            self.element += RAW_PIECE;
        } else if let Some(chunk) = self.chunks.next() {
            self.left = REFERENCE_CHUNK / RAW_PIECE;
            self.element = chunk.number as usize * REFERENCE_CHUNK;
            self.class = chunk.class;
        }
    }
}

/// Where the contexts of elements begin in the decoder's table.
struct ContextRegisters {
    /// The second byte of the offset for each class and number of an exponent.
    rows: [[u8; EXPONENT_NUMBERS]; CHUNK_CLASSES],
    numbering: ExponentNumbering,
}

impl ContextRegisters {
    /// Nothing if a context is not in the table, or offsets are not of one byte.
    #[target_feature(enable = "avx2")]
    fn new<W: Word>(
        tables: &DecoderTables,
        contexts: &[[u8; EXPONENT_NUMBERS]; CHUNK_CLASSES],
        movement: Movement,
    ) -> Option<Self> {
        let last = contexts.as_flattened().iter().fold(0, |last, &context| last.max(context));
        let shift = tables.precision().checked_sub(8)?;
        let fits = last.leading_zeros() >= shift
            && (usize::from(last) + 1) << tables.precision() <= tables.slots().len();
        let rows = contexts.map(|row| row.map(|context| context << (shift & 7)));
        fits.then(|| Self { rows, numbering: ExponentNumbering::new(movement) })
    }

    /// The offsets of the elements of a piece.
    ///
    /// # Safety
    ///
    /// A piece must be readable at `base`.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn offsets<W: Word>(&self, class: u8, base: *const u8) -> [__m256i; 4] {
        let old = base.cast::<__m256i>();
        // SAFETY: the caller vouches for the piece, which takes as many registers as an element has bytes.
        let exponents = unsafe {
            if W::BYTES == 2 {
                let at = |at: usize| self.numbering.short_exponents(_mm256_loadu_si256(old.add(at)));
                let order = _mm256_setr_epi32(0, 4, 2, 6, 1, 5, 3, 7);
                _mm256_permutevar8x32_epi32(_mm256_packus_epi16(at(0), at(1)), order)
            } else {
                let at = |at: usize| self.numbering.long_exponents(_mm256_loadu_si256(old.add(at)));
                _mm256_packus_epi16(_mm256_packus_epi32(at(0), at(1)), _mm256_packus_epi32(at(2), at(3)))
            }
        };
        // Each half has every other group of four elements, which is how unpacking puts eights together.
        let row = &self.rows[usize::from(class) % CHUNK_CLASSES];
        let found = ContextTable::new(row).look_up(self.numbering.numbers(exponents));
        let zero = _mm256_setzero_si256();
        let (low, high) = (_mm256_unpacklo_epi8(zero, found), _mm256_unpackhi_epi8(zero, found));
        [
            _mm256_unpacklo_epi16(low, zero),
            _mm256_unpackhi_epi16(low, zero),
            _mm256_unpacklo_epi16(high, zero),
            _mm256_unpackhi_epi16(high, zero),
        ]
    }
}

/// Makes elements from symbols.
struct Maker<'m, 'a> {
    split: RawSplit,
    lanes: RawRegisters,
    raw: &'m mut RawReader<'a>,
    /// How many bytes of raw bits were read; the lanes and this number are the reader's only after
    /// [`Maker::finish`].
    raw_bytes: usize,
    movement: Movement,
}

impl Maker<'_, '_> {
    /// Makes the piece that begins at byte `start` from the table's entries. `LAST` makes the call after a
    /// loop another function than the one inside, which is inlined then.
    ///
    /// # Safety
    ///
    /// `base` and `out` must have the elements of this piece.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn make<W: Word, const DECAY: bool, const LAST: bool>(
        &mut self,
        entries: [__m256i; 4],
        base: &[u8],
        out: &mut [u8],
        start: usize,
    ) {
        let byte = _mm256_set1_epi32(0xff);
        let [a, b, c, d] = entries;
        let direct = self.split.are_direct(_mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d)));
        let mut differences = entries.map(|entry| _mm256_and_si256(entry, byte));
        // SAFETY: the caller vouches for the piece, which takes as many registers as an element has bytes;
        // RAW_REACH bytes of raw bits are left where they are read.
        unsafe {
            let old = base.as_ptr().add(start).cast::<__m256i>();
            let place = out.as_mut_ptr().add(start).cast::<__m256i>();
            if !direct {
                if self.raw.lanes == RAW_LANES && self.raw.words.len() - self.raw_bytes >= RAW_REACH {
                    let words = self.raw.words.as_ptr();
                    for difference in &mut differences {
                        *difference =
                            self.lanes.read::<W>(&self.split, *difference, words, &mut self.raw_bytes);
                    }
                } else {
                    differences = self.read_last::<W>(differences);
                }
            }
            if W::BYTES == 2 {
                let [a, b, c, d] = differences;
                for (at, [low, high]) in [[a, b], [c, d]].into_iter().enumerate() {
                    let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
                    let base = _mm256_loadu_si256(old.add(at));
                    _mm256_storeu_si256(place.add(at), short::<DECAY>(packed, base, self.movement));
                }
            } else {
                for (at, difference) in differences.into_iter().enumerate() {
                    let base = _mm256_loadu_si256(old.add(at));
                    _mm256_storeu_si256(place.add(at), long::<DECAY>(difference, base, self.movement));
                }
            }
        }
    }

    /// The differences with these symbols, whose raw bits are in a single lane or end soon.
    #[inline(never)]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn read_last<W: Word>(&mut self, mut symbols: [__m256i; 4]) -> [__m256i; 4] {
        self.finish();
        if self.raw.lanes == RAW_LANES {
            let mut padded = [0; 2 * RAW_REACH];
            padded
                .iter_mut()
                .zip(self.raw.words.iter().take(RAW_REACH))
                .for_each(|(padded, word)| *padded = *word);
            let mut bytes = 0;
            for symbols in &mut symbols {
                // SAFETY: a piece looks at no more than RAW_REACH bytes.
                *symbols =
                    unsafe { self.lanes.read::<W>(&self.split, *symbols, padded.as_ptr(), &mut bytes) };
            }
            self.raw.skip_words(bytes);
            return symbols;
        }
        let mut bytes = [0u8; RAW_PIECE];
        let mut differences = [W::default(); RAW_PIECE];
        // SAFETY: the array has 32 bytes.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), pack_symbols(symbols)) };
        read_differences(self.raw, &bytes, &mut differences);
        self.lanes = RawRegisters::load(&self.raw.state);
        let wide = differences.map(|difference| difference.wide() as u32);
        // SAFETY: the array has four times eight numbers.
        [0, 8, 16, 24].map(|at| unsafe { _mm256_loadu_si256(wide.as_ptr().add(at).cast()) })
    }

    /// Gives the reader back what was taken from it.
    #[target_feature(enable = "avx2")]
    fn finish(&mut self) {
        self.lanes.store(&mut self.raw.state);
        self.raw.skip_words(self.raw_bytes);
        self.raw_bytes = 0;
    }
}

/// Moves elements by what decay says, in whole registers; returns how many bytes were made.
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn decay<W: Word>(movement: Movement, base: &[u8], out: &mut [u8]) -> usize {
    let zero = _mm256_setzero_si256();
    if W::BYTES != 2 && W::BYTES != 4 {
        return 0;
    }
    let registers = out.len().min(base.len()) / size_of::<__m256i>();
    for at in 0..registers {
        // SAFETY: both have so many registers.
        unsafe {
            let old = _mm256_loadu_si256(base.as_ptr().cast::<__m256i>().add(at));
            let new = if W::BYTES == 2 {
                short::<true>(zero, old, movement)
            } else {
                long::<true>(zero, old, movement)
            };
            _mm256_storeu_si256(out.as_mut_ptr().cast::<__m256i>().add(at), new);
        }
    }
    registers * size_of::<__m256i>()
}

/// Sixteen elements of two bytes with these differences from their base.
#[inline]
#[target_feature(enable = "avx2")]
fn short<const DECAY: bool>(differences: __m256i, base: __m256i, movement: Movement) -> __m256i {
    let (zero, one) = (_mm256_setzero_si256(), _mm256_set1_epi16(1));
    let odd = _mm256_sub_epi16(zero, _mm256_and_si256(differences, one));
    let mut steps = _mm256_xor_si256(_mm256_srli_epi16::<1>(differences), odd);
    if DECAY {
        steps = _mm256_add_epi16(steps, short_decay(base, movement));
    }
    let moved = _mm256_add_epi16(base, steps);
    // A magnitude that fell below zero has changed the sign, and is to be counted from there.
    let below = _mm256_srai_epi16::<15>(_mm256_xor_si256(moved, base));
    _mm256_xor_si256(moved, _mm256_srli_epi16::<1>(below))
}

/// Eight elements of four bytes with these differences from their base.
#[inline]
#[target_feature(enable = "avx2")]
fn long<const DECAY: bool>(differences: __m256i, base: __m256i, movement: Movement) -> __m256i {
    let (zero, one) = (_mm256_setzero_si256(), _mm256_set1_epi32(1));
    let odd = _mm256_sub_epi32(zero, _mm256_and_si256(differences, one));
    let mut steps = _mm256_xor_si256(_mm256_srli_epi32::<1>(differences), odd);
    if DECAY {
        steps = _mm256_add_epi32(steps, long_decay(base, movement));
    }
    let moved = _mm256_add_epi32(base, steps);
    let below = _mm256_srai_epi32::<31>(_mm256_xor_si256(moved, base));
    _mm256_xor_si256(moved, _mm256_srli_epi32::<1>(below))
}
