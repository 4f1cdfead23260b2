//! Floats from those of a reference with AVX2: contexts, rANS symbols, raw bits and the elements themselves, 32 at a time and in registers. The entropy coder waits for memory and
//! multiplications much of the time; the rest of the work fills these gaps.
#![allow(unsafe_code)]

use super::avx2::{Lookup, REACH, pack_symbols};
use super::avx2_differences::{Numbering, long_decay, pack_shorts, short_decay};
use super::avx2_look_up::Table;
use super::avx2_raw_bits::{Lanes, Split};
use super::{Kernel, Restoration};
use crate::entropy::rans::{DecoderTables, LANES};
use crate::transform::reference::{Alphabet, Movement, PIECE, RAW_LANES, RawReader, Word};
use std::arch::x86_64::*;

/// Bytes of raw bits that a piece may look at: at most one word for each 16 bits of an element, and each load reaches 16 bytes.
const RAW_REACH: usize = 4 * PIECE + 16;

/// See [`super::Kernel::restore`].
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(super) fn restore<W: Word>(
    tables: &DecoderTables,
    inputs: Restoration,
    states: &mut [u32; LANES],
    words: &[u8],
    raw: &mut RawReader,
    out: &mut [u8],
) -> (usize, usize) {
    if W::BYTES != 2 && W::BYTES != 4 {
        return (0, 0);
    }
    if inputs.movement.rate == 0 {
        decode::<W, false>(tables, inputs, states, words, raw, out)
    } else {
        decode::<W, true>(tables, inputs, states, words, raw, out)
    }
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
fn decode<W: Word, const DECAY: bool>(
    tables: &DecoderTables,
    inputs: Restoration,
    states: &mut [u32; LANES],
    words: &[u8],
    raw: &mut RawReader,
    out: &mut [u8],
) -> (usize, usize) {
    const { assert!(PIECE == LANES) };
    let Restoration { movement, contexts, base } = inputs;
    let pieces = out.len().min(base.len()) / (PIECE * W::BYTES);
    let (lookup, numbering) = (Lookup::new(tables), Numbering::new(movement));
    let contexts = Table::new(contexts);
    let split = Split::new(Alphabet::of_width(W::BYTES));
    let mut maker = Maker { split, lanes: Lanes::load(&raw.state), raw, raw_bytes: 0, movement };
    let mut state = [_mm256_setzero_si256(); LANES / 8];
    for (vector, lanes) in state.iter_mut().zip(states.chunks_exact(8)) {
        // SAFETY: `lanes` holds eight u32.
        *vector = unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) };
    }
    let [mut first, mut second, mut third, mut fourth] = state;
    let mut symbols = _mm256_setzero_si256();
    let (mut piece, mut bytes) = (0, 0usize);
    loop {
        let more = piece < pieces && words.len() - bytes >= REACH;
        let mut next = symbols;
        if more {
            // SAFETY: there are PIECE elements from this one on in `base`; REACH bytes of words are left, and each refill takes at most 16 of them; contexts come from `offsets`.
            unsafe {
                let old = base.as_ptr().add(piece * PIECE * W::BYTES).cast::<__m256i>();
                let exponents = if W::BYTES == 2 {
                    let at = |at: usize| numbering.short_exponents(_mm256_loadu_si256(old.add(at)));
                    pack_shorts([at(0), at(1)])
                } else {
                    let at = |at: usize| numbering.long_exponents(_mm256_loadu_si256(old.add(at)));
                    pack_symbols([at(0), at(1), at(2), at(3)])
                };
                let offsets = lookup.offsets(contexts.look_up(numbering.numbers(exponents)));
                let a = lookup.entry(first, offsets[0]);
                let b = lookup.entry(second, offsets[1]);
                let c = lookup.entry(third, offsets[2]);
                let d = lookup.entry(fourth, offsets[3]);
                first = lookup.refill(a.1, words.as_ptr(), &mut bytes);
                second = lookup.refill(b.1, words.as_ptr(), &mut bytes);
                third = lookup.refill(c.1, words.as_ptr(), &mut bytes);
                fourth = lookup.refill(d.1, words.as_ptr(), &mut bytes);
                next = pack_symbols([a.0, b.0, c.0, d.0]);
            }
        }
        // The elements of the piece before wait for nothing of this one.
        if let Some(before) = piece.checked_sub(1) {
            // SAFETY: it was one of those that `base` and `out` have.
            unsafe { maker.make::<W, DECAY>(symbols, base, out, before) };
        }
        if !more {
            break;
        }
        symbols = next;
        piece += 1;
    }
    maker.finish();
    for (vector, lanes) in [first, second, third, fourth].iter().zip(states.chunks_exact_mut(8)) {
        // SAFETY: `lanes` holds eight u32.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), *vector) };
    }
    (piece * PIECE, bytes)
}

/// Makes elements from symbols.
struct Maker<'m, 'a> {
    split: Split,
    lanes: Lanes,
    raw: &'m mut RawReader<'a>,
    /// How many bytes of raw bits were read; the lanes and this number are the reader's only after [`Maker::finish`].
    raw_bytes: usize,
    movement: Movement,
}

impl Maker<'_, '_> {
    /// Makes one piece.
    ///
    /// # Safety
    ///
    /// `base` and `out` must have the elements of this piece.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn make<W: Word, const DECAY: bool>(
        &mut self,
        symbols: __m256i,
        base: &[u8],
        out: &mut [u8],
        piece: usize,
    ) {
        let (low, high) = (_mm256_castsi256_si128(symbols), _mm256_extracti128_si256::<1>(symbols));
        // SAFETY: the caller vouches for the piece, which takes as many registers as an element has bytes; RAW_REACH bytes of raw bits are left where they are read.
        unsafe {
            let old = base.as_ptr().add(piece * PIECE * W::BYTES).cast::<__m256i>();
            let place = out.as_mut_ptr().add(piece * PIECE * W::BYTES).cast::<__m256i>();
            let direct = self.split.are_direct(symbols);
            if direct && W::BYTES == 2 {
                for (at, half) in [low, high].into_iter().enumerate() {
                    let (difference, base) = (_mm256_cvtepu8_epi16(half), _mm256_loadu_si256(old.add(at)));
                    _mm256_storeu_si256(place.add(at), short::<DECAY>(difference, base, self.movement));
                }
                return;
            }
            let eights = [low, _mm_srli_si128::<8>(low), high, _mm_srli_si128::<8>(high)];
            let mut differences = eights.map(|eight| _mm256_cvtepu8_epi32(eight));
            if !direct {
                if self.raw.lanes == RAW_LANES && self.raw.words.len() - self.raw_bytes >= RAW_REACH {
                    let words = self.raw.words.as_ptr();
                    for difference in &mut differences {
                        *difference =
                            self.lanes.read::<W>(&self.split, *difference, words, &mut self.raw_bytes);
                    }
                } else {
                    self.finish();
                    differences = read_others::<W>(symbols, self.raw);
                    self.lanes = Lanes::load(&self.raw.state);
                }
            }
            if W::BYTES == 2 {
                let [a, b, c, d] = differences;
                for (at, pair) in [[a, b], [c, d]].into_iter().enumerate() {
                    let [low, high] = pair.map(|wide| _mm256_and_si256(wide, _mm256_set1_epi32(0xffff)));
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

    /// Gives the reader back what was taken from it.
    #[target_feature(enable = "avx2")]
    fn finish(&mut self) {
        self.lanes.store(&mut self.raw.state);
        self.raw.words = self.raw.words.get(self.raw_bytes..).unwrap_or_default();
        self.raw_bytes = 0;
    }
}

/// The differences with these symbols, whose raw bits are in a single lane or end soon.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn read_others<W: Word>(symbols: __m256i, raw: &mut RawReader) -> [__m256i; 4] {
    let mut bytes = [0u8; PIECE];
    let mut differences = [W::default(); PIECE];
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), symbols) };
    raw.read(&bytes, Kernel::PORTABLE, &mut differences);
    let mut wide = [0u32; PIECE];
    wide.iter_mut().zip(differences).for_each(|(wide, difference)| *wide = difference.wide() as u32);
    // SAFETY: the array has four times eight numbers.
    [0, 8, 16, 24].map(|at| unsafe { _mm256_loadu_si256(wide.as_ptr().add(at).cast()) })
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
    let magnitude = _mm256_set1_epi16(i16::MAX);
    let sign = _mm256_srai_epi16::<15>(base);
    let order = _mm256_xor_si256(_mm256_and_si256(base, magnitude), sign);
    let moved = _mm256_add_epi16(order, _mm256_sub_epi16(_mm256_xor_si256(steps, sign), sign));
    let sign = _mm256_srai_epi16::<15>(moved);
    let bits = _mm256_and_si256(_mm256_xor_si256(moved, sign), magnitude);
    _mm256_or_si256(bits, _mm256_andnot_si256(magnitude, sign))
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
    let magnitude = _mm256_set1_epi32(i32::MAX);
    let sign = _mm256_srai_epi32::<31>(base);
    let order = _mm256_xor_si256(_mm256_and_si256(base, magnitude), sign);
    let moved = _mm256_add_epi32(order, _mm256_sub_epi32(_mm256_xor_si256(steps, sign), sign));
    let sign = _mm256_srai_epi32::<31>(moved);
    let bits = _mm256_and_si256(_mm256_xor_si256(moved, sign), magnitude);
    _mm256_or_si256(bits, _mm256_andnot_si256(magnitude, sign))
}
