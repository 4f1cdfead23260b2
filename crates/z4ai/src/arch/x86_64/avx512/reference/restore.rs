//! Floats of two bytes from those of a reference with AVX-512: contexts, rANS symbols, raw bits and the
//! elements themselves, 32 at a time and in registers, of two blocks in turn.
#![allow(unsafe_code)]

use super::differences::{ExponentNumbering, NUMBERS, look_up, short_decay};
use super::raw_bits::{RawRegisters, RawSplit};
use crate::arch::x86_64::avx2::{ChunkWalk, prefetch_piece};
use crate::arch::x86_64::avx512::rans::step::{SpilledIndices, TableLookup};
use crate::entropy::rans::{DecoderTables, LANES, SymbolDecoder};
use crate::transform::reference::{
    Alphabet, CHUNK_CLASSES, CodedBlock, EXPONENT_NUMBERS, Movement, RAW_LANES, RAW_PIECE, REFERENCE_CHUNK,
    RawReader, ReferenceModel, read_differences,
};
use std::arch::x86_64::*;

/// Bytes of an element.
const ELEMENT_BYTES: usize = 2;

/// Bytes of words that a piece may look at: it reads at most one word per lane.
const GROUP_REACH: usize = 2 * LANES;

/// Bytes of raw bits that a piece may look at: at most one word per element, and each load reaches 16 bytes.
const RAW_REACH: usize = 2 * RAW_PIECE + 16;

/// Makes the next elements of two blocks of the same model, which have two bytes, in turn until one of the
/// blocks has no more pieces or words: the latency of one block's entropy coder is hidden by the other's
/// work.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt")]
pub(in crate::arch) fn restore_two(blocks: &mut [CodedBlock; 2], bases: [&[u8]; 2], out: [&mut [u8]; 2]) {
    let model = blocks[0].model;
    if !std::ptr::eq(model, blocks[1].model) {
        return;
    }
    let Some(shared) = BlockConstants::new(model) else { return };
    let made = if shared.movement.rate == 0 {
        decode_two::<false>(&shared, blocks, bases, out)
    } else {
        decode_two::<true>(&shared, blocks, bases, out)
    };
    for (block, (made, bytes)) in blocks.iter_mut().zip(made) {
        block.made += made;
        block.stream.iter_mut().for_each(|stream| stream.skip_words(bytes));
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt")]
fn decode_two<const DECAY: bool>(
    shared: &BlockConstants,
    [first, second]: &mut [CodedBlock; 2],
    bases: [&[u8]; 2],
    [out, second_out]: [&mut [u8]; 2],
) -> [(usize, usize); 2] {
    let (mut first_places, mut second_places) =
        ([SpilledIndices::default(); 2], [SpilledIndices::default(); 2]);
    let (Some(mut first), Some(mut second)) = (
        BlockStream::new(shared, first, bases[0], out, &mut first_places),
        BlockStream::new(shared, second, bases[1], second_out, &mut second_places),
    ) else {
        return [(0, 0); 2];
    };
    while first.has_next() && second.has_next() {
        // SAFETY: both have.
        unsafe {
            first.step::<DECAY, 2>(shared, &mut first_places);
            second.step::<DECAY, 3>(shared, &mut second_places);
        }
    }
    [first.finish::<DECAY, 4>(shared), second.finish::<DECAY, 5>(shared)]
}

/// What the blocks of a section share.
struct BlockConstants<'a> {
    lookup: TableLookup<'a>,
    contexts: ContextRegisters,
    split: RawSplit,
    movement: Movement,
}

impl<'a> BlockConstants<'a> {
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn new(model: &'a ReferenceModel) -> Option<Self> {
        let (tables, movement) = (model.decoder_tables(), model.movement());
        Some(Self {
            lookup: TableLookup::new(tables),
            contexts: ContextRegisters::new(tables, model.context_rows(), movement)?,
            split: RawSplit::new(Alphabet::of_width(ELEMENT_BYTES)),
            movement,
        })
    }
}

/// A block being decoded, software-pipelined: the symbols of a piece are decoded in one step and its elements
/// made in the next.
struct BlockStream<'b, 'r> {
    walk: ChunkWalk<'b>,
    base: &'b [u8],
    words: &'b [u8],
    /// How many bytes of the words were read.
    bytes: usize,
    raw: &'b mut RawReader<'r>,
    lanes: RawRegisters,
    /// How many bytes of raw bits were read; the lanes and this number are the reader's only after
    /// [`give_back`].
    raw_bytes: usize,
    states: &'b mut [u32; LANES],
    first: __m512i,
    second: __m512i,
    /// The entries of the piece before, and where that begins.
    symbols: [__m512i; 2],
    before: usize,
    /// How many pieces were decoded, and how many there are.
    piece: usize,
    pieces: usize,
    out: &'b mut [u8],
}

impl<'b, 'r> BlockStream<'b, 'r> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn new(
        shared: &BlockConstants,
        block: &'b mut CodedBlock<'_, 'r>,
        base: &'b [u8],
        out: &'b mut [u8],
        places: &mut [SpilledIndices; 2],
    ) -> Option<Self> {
        const { assert!(RAW_PIECE == LANES && REFERENCE_CHUNK.is_multiple_of(RAW_PIECE)) };
        let CodedBlock { chunks, made, stream, raw, .. } = block;
        let SymbolDecoder { states, words, .. } = stream.as_mut()?;
        let states = states.first_chunk_mut::<LANES>()?;
        let whole = out.len().min(base.len()) / (REFERENCE_CHUNK * ELEMENT_BYTES);
        let whole = chunks.iter().take_while(|chunk| (chunk.number as usize) < whole).count();
        let (begin, pieces) = (*made / RAW_PIECE, whole * (REFERENCE_CHUNK / RAW_PIECE));
        let pieces = pieces.saturating_sub(begin);
        let walk = ChunkWalk::new(
            if pieces > 0 { &chunks[..whole] } else { &[] },
            if pieces > 0 { begin } else { 0 },
        );
        // SAFETY: there are twice sixteen states; if there is a piece, it is inside a whole chunk of `base`.
        let (first, second) = unsafe {
            let place = states.as_ptr().cast::<__m512i>();
            let (first, second) = (_mm512_loadu_si512(place), _mm512_loadu_si512(place.add(1)));
            if pieces > 0 {
                let base = base.as_ptr().add(walk.element * ELEMENT_BYTES);
                let offsets = shared.contexts.offsets(walk.class, base);
                places[0].store(shared.lookup.index(first, offsets[0]));
                places[1].store(shared.lookup.index(second, offsets[1]));
            }
            (first, second)
        };
        // Software pipelining: the first iteration writes garbage over its own piece, which the second
        // overwrites.
        let (symbols, before) = ([_mm512_setzero_si512(); 2], walk.element);
        let lanes = RawRegisters::load(&raw.state);
        Some(Self {
            walk,
            base,
            words,
            bytes: 0,
            raw,
            lanes,
            raw_bytes: 0,
            states,
            first,
            second,
            symbols,
            before,
            piece: 0,
            pieces,
            out,
        })
    }

    /// Whether there is a piece, and certainly enough words for it.
    #[inline(always)]
    fn has_next(&self) -> bool {
        self.piece < self.pieces && self.words.len() - self.bytes >= GROUP_REACH
    }

    /// Decodes the symbols of the next piece, and makes the elements of the one before. `SITE` makes each
    /// call that of another function, which is inlined then.
    ///
    /// # Safety
    ///
    /// There must be a piece, and `places` must be those that the stream was made or last stepped with.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt")]
    unsafe fn step<const DECAY: bool, const SITE: usize>(
        &mut self,
        shared: &BlockConstants,
        places: &mut [SpilledIndices; 2],
    ) {
        let lookup = &shared.lookup;
        let element = self.walk.element;
        self.walk.go_on();
        // SAFETY: REACH bytes of words are left, of which each refill takes at most half; the places are made
        // with offsets that end inside the table; `base` and `out` have the piece before, and `base` the
        // next.
        unsafe {
            let a = lookup.entries(&places[0]);
            let b = lookup.entries(&places[1]);
            let base = self.base.as_ptr().add(self.walk.element * ELEMENT_BYTES);
            prefetch_piece::<u16>(base);
            prefetch_piece::<u16>(self.out.as_ptr().wrapping_add(self.walk.element * ELEMENT_BYTES));
            let offsets = shared.contexts.offsets(self.walk.class, base);
            self.make::<DECAY, SITE>(shared);
            let words = self.words.as_ptr();
            self.first = lookup.refill(lookup.without(self.first, a), words, &mut self.bytes);
            places[0].store(lookup.index(self.first, offsets[0]));
            self.second = lookup.refill(lookup.without(self.second, b), words, &mut self.bytes);
            places[1].store(lookup.index(self.second, offsets[1]));
            self.symbols = [a, b];
        }
        self.before = element;
        self.piece += 1;
    }

    /// Makes the elements of the last piece, and says how many were made in all and how many bytes of words
    /// were read.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt")]
    fn finish<const DECAY: bool, const SITE: usize>(mut self, shared: &BlockConstants) -> (usize, usize) {
        // SAFETY: `base` and `out` have the last piece; there are twice sixteen states.
        unsafe {
            if self.piece > 0 {
                self.make::<DECAY, SITE>(shared);
            }
            let place = self.states.as_mut_ptr().cast::<__m512i>();
            _mm512_storeu_si512(place, self.first);
            _mm512_storeu_si512(place.add(1), self.second);
        }
        give_back(self.lanes, self.raw_bytes, self.raw);
        (self.piece * RAW_PIECE, self.bytes)
    }

    /// Makes the elements of the piece before from their symbols.
    ///
    /// # Safety
    ///
    /// `base` and `out` must have the elements of this piece.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt")]
    unsafe fn make<const DECAY: bool, const SITE: usize>(&mut self, shared: &BlockConstants) {
        let byte = _mm512_set1_epi32(0xff);
        let [a, b] = self.symbols;
        let mut differences = [_mm512_and_si512(a, byte), _mm512_and_si512(b, byte)];
        // SAFETY: the caller vouches for the piece, which takes a register; RAW_REACH bytes of raw bits are
        // left where they are read.
        unsafe {
            let old = self.base.as_ptr().add(self.before * ELEMENT_BYTES).cast::<__m512i>();
            let place = self.out.as_mut_ptr().add(self.before * ELEMENT_BYTES).cast::<__m512i>();
            if !shared.split.are_direct(_mm512_or_si512(a, b)) {
                if self.raw.lanes == RAW_LANES && self.raw.words.len() - self.raw_bytes >= RAW_REACH {
                    let words = self.raw.words.as_ptr();
                    for difference in &mut differences {
                        let symbols = *difference;
                        *difference = self.lanes.read(&shared.split, symbols, words, &mut self.raw_bytes);
                    }
                } else {
                    give_back(self.lanes, self.raw_bytes, self.raw);
                    self.raw_bytes = 0;
                    (differences, self.lanes) = read_last(&shared.split, self.lanes, self.raw, differences);
                }
            }
            let packed = _mm512_permutex2var_epi16(differences[0], even_words(), differences[1]);
            _mm512_storeu_si512(place, short::<DECAY>(packed, _mm512_loadu_si512(old), shared.movement));
        }
    }
}

/// Gives the reader of raw bits back what was taken from it.
#[inline]
#[target_feature(enable = "avx2")]
fn give_back(lanes: RawRegisters, bytes: usize, raw: &mut RawReader) {
    lanes.store(&mut raw.state);
    raw.skip_words(bytes);
}

/// Where the contexts of elements begin in the decoder's table.
struct ContextRegisters {
    /// The second byte of the offset for each class and place in [`NUMBERS`].
    rows: [[u8; NUMBERS.len()]; CHUNK_CLASSES],
    numbering: ExponentNumbering,
}

impl ContextRegisters {
    /// Nothing if a context is not in the table, or offsets are not of one byte.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn new(
        tables: &DecoderTables,
        contexts: &[[u8; EXPONENT_NUMBERS]; CHUNK_CLASSES],
        movement: Movement,
    ) -> Option<Self> {
        let last = contexts.as_flattened().iter().fold(0, |last, &context| last.max(context));
        let shift = tables.precision().checked_sub(8)?;
        let fits = last.leading_zeros() >= shift
            && (usize::from(last) + 1) << tables.precision() <= tables.slots().len();
        let rows = contexts
            .map(|row| NUMBERS.map(|number| row[usize::from(number) % EXPONENT_NUMBERS] << (shift & 7)));
        fits.then(|| Self { rows, numbering: ExponentNumbering::new(movement) })
    }

    /// The offsets of the elements of a piece.
    ///
    /// # Safety
    ///
    /// A piece must be readable at `base`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn offsets(&self, class: u8, base: *const u8) -> [__m512i; 2] {
        // SAFETY: the caller vouches for the piece, which takes a register.
        let exponents = self.numbering.short_exponents(unsafe { _mm512_loadu_si512(base.cast()) });
        let exponents = _mm512_castsi256_si512(_mm512_cvtepi16_epi8(exponents));
        let row = &self.rows[usize::from(class) % CHUNK_CLASSES];
        let found = look_up(row, self.numbering.places(exponents));
        // Each becomes the second byte of four.
        let seconds = 0x2222_2222_2222_2222;
        [
            _mm512_maskz_permutexvar_epi8(seconds, quarters(0), found),
            _mm512_maskz_permutexvar_epi8(seconds, quarters(16), found),
        ]
    }
}

/// Sixteen bytes' indices from this one on, each four times.
#[inline]
#[target_feature(enable = "avx512f")]
fn quarters(first: i32) -> __m512i {
    let numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(first));
    _mm512_mullo_epi32(numbers, _mm512_set1_epi32(0x0101_0101))
}

/// The differences with these symbols, whose raw bits are in a single lane or end soon, and the lanes after
/// them.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2,popcnt")]
fn read_last(
    split: &RawSplit,
    mut lanes: RawRegisters,
    raw: &mut RawReader,
    mut symbols: [__m512i; 2],
) -> ([__m512i; 2], RawRegisters) {
    if raw.lanes == RAW_LANES {
        let mut padded = [0; 2 * RAW_REACH];
        padded.iter_mut().zip(raw.words.iter().take(RAW_REACH)).for_each(|(padded, word)| *padded = *word);
        let mut bytes = 0;
        for symbols in &mut symbols {
            // SAFETY: a piece looks at no more than RAW_REACH bytes.
            *symbols = unsafe { lanes.read(split, *symbols, padded.as_ptr(), &mut bytes) };
        }
        raw.skip_words(bytes);
        return (symbols, lanes);
    }
    let mut bytes = [0u8; RAW_PIECE];
    let mut differences = [0u16; RAW_PIECE];
    for (bytes, symbols) in bytes.as_chunks_mut::<16>().0.iter_mut().zip(symbols) {
        // SAFETY: the array has sixteen bytes.
        unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(symbols)) };
    }
    read_differences(raw, &bytes, &mut differences);
    let wide = differences.map(u32::from);
    // SAFETY: the array has twice sixteen numbers.
    let differences = unsafe {
        [_mm512_loadu_si512(wide.as_ptr().cast()), _mm512_loadu_si512(wide.as_ptr().add(16).cast())]
    };
    (differences, RawRegisters::load(&raw.state))
}

/// The indices of every other word of two registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn even_words() -> __m512i {
    const INDICES: [u16; 32] = {
        let (mut indices, mut at) = ([0; 32], 0);
        while at < 32 {
            indices[at] = 2 * at as u16;
            at += 1;
        }
        indices
    };
    // SAFETY: the array is as long as a register.
    unsafe { _mm512_loadu_si512(INDICES.as_ptr().cast()) }
}

/// 32 elements of two bytes with these differences from their base.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn short<const DECAY: bool>(differences: __m512i, base: __m512i, movement: Movement) -> __m512i {
    let (zero, one) = (_mm512_setzero_si512(), _mm512_set1_epi16(1));
    let odd = _mm512_sub_epi16(zero, _mm512_and_si512(differences, one));
    let mut steps = _mm512_xor_si512(_mm512_srli_epi16::<1>(differences), odd);
    if DECAY {
        steps = _mm512_add_epi16(steps, short_decay(base, movement));
    }
    let moved = _mm512_add_epi16(base, steps);
    // A magnitude that fell below zero has changed the sign, and is to be counted from there.
    let below = _mm512_srai_epi16::<15>(_mm512_xor_si512(moved, base));
    _mm512_xor_si512(moved, _mm512_srli_epi16::<1>(below))
}
