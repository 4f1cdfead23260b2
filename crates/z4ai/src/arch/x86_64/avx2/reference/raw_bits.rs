//! The raw bits of differences with AVX2: eight lanes per register.
#![allow(unsafe_code)]

use super::restore::RAW_REACH;
use crate::arch::shuffles::WORDS_TO_END;
use crate::arch::x86_64::avx2::WORDS_TO_LANES;
use crate::transform::reference::{
    Alphabet, RAW_LANES, RAW_PIECE, RawLanes, RawReader, RawWords, WORD_BITS, Word,
};
use std::arch::x86_64::*;

/// Reads whole pieces of differences and returns how many differences those have. Stops at a piece whose raw
/// bits are in a single lane, or might not all be there.
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(in crate::arch) fn read<W: Word>(
    alphabet: Alphabet,
    symbols: &[u8],
    raw: &mut RawReader,
    differences: &mut [W],
) -> usize {
    if W::BYTES != 2 && W::BYTES != 4 {
        return 0;
    }
    let pieces = symbols.len().min(differences.len()) / RAW_PIECE;
    let split = RawSplit::new(alphabet);
    let mut lanes = RawRegisters::load(&raw.state);
    let (mut piece, mut bytes) = (0, 0);
    while piece < pieces {
        // SAFETY: there are `RAW_PIECE` symbols and differences from this one on; a piece moves `bytes` by at
        // most REACH - 16.
        unsafe {
            let place = symbols.as_ptr().add(piece * RAW_PIECE);
            let out = differences.as_mut_ptr().add(piece * RAW_PIECE);
            let [a, b, c, d] = [0, 8, 16, 24].map(|at| eight(place.add(at)));
            if split.are_direct(_mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d))) {
                store(out, a, b);
                store(out.add(16), c, d);
            } else {
                if raw.lanes != RAW_LANES || raw.words.len() - bytes < RAW_REACH {
                    break;
                }
                let words = raw.words.as_ptr();
                for group in (0..RAW_PIECE).step_by(16) {
                    let low = lanes.read::<W>(&split, eight(place.add(group)), words, &mut bytes);
                    let high = lanes.read::<W>(&split, eight(place.add(group + 8)), words, &mut bytes);
                    store(out.add(group), low, high);
                }
            }
        }
        piece += 1;
    }
    lanes.store(&mut raw.state);
    raw.words = raw.words.get(bytes..).unwrap_or_default();
    piece * RAW_PIECE
}

/// Puts the raw bits of whole groups of differences before those that the eight lanes hold.
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(in crate::arch) fn write<W: Word>(
    alphabet: Alphabet,
    symbols: &[u8],
    differences: &[W],
    state: &mut RawLanes,
    words: &mut RawWords,
) {
    let split = RawSplit::new(alphabet);
    let mut lanes = RawRegisters::load(state);
    for group in (0..symbols.len().min(differences.len()) / RAW_LANES).rev() {
        let place = group * RAW_LANES;
        // SAFETY: there are eight symbols and differences from `place` on.
        let (symbols, differences) =
            unsafe { (eight(symbols.as_ptr().add(place)), load(differences.as_ptr().add(place))) };
        let (widths, large) = split.widths(symbols);
        if _mm256_testz_si256(large, large) == 1 {
            continue;
        }
        let above = _mm256_sllv_epi32(_mm256_srlv_epi32(differences, widths), widths);
        let values = _mm256_xor_si256(differences, above);
        if W::BYTES == 4 {
            let more = _mm256_subs_epu16(widths, _mm256_set1_epi32(WORD_BITS as i32));
            if _mm256_testz_si256(more, more) == 0 {
                lanes.put(more, _mm256_srli_epi32::<16>(values), words);
            }
        }
        let widths = _mm256_min_epi32(widths, _mm256_set1_epi32(WORD_BITS as i32));
        lanes.put(widths, _mm256_and_si256(values, _mm256_set1_epi32(0xffff)), words);
    }
    lanes.store(state);
}

/// Splits symbols into the leading bits of a difference and the number of raw bits below these.
pub(in crate::arch) struct RawSplit {
    /// The largest symbol without raw bits.
    last_direct: __m256i,
    /// The bits that only symbols with raw bits have.
    large_bits: __m256i,
    /// A difference with raw bits begins with a one (`top_one`) and the low bits of its symbol (`top_mask`).
    top_mask: __m256i,
    top_one: __m256i,
    top_bits: __m128i,
    /// A symbol without its low bits, minus this, is the number of raw bits.
    bias: __m256i,
}

impl RawSplit {
    #[target_feature(enable = "avx2")]
    pub fn new(alphabet: Alphabet) -> Self {
        let (top, direct) = (1 << alphabet.top_bits, alphabet.direct() as i32);
        Self {
            last_direct: _mm256_set1_epi32(direct - 1),
            large_bits: _mm256_set1_epi32(0x100 - direct),
            top_mask: _mm256_set1_epi32(top - 1),
            top_one: _mm256_set1_epi32(top),
            top_bits: _mm_cvtsi32_si128(alphabet.top_bits as i32),
            bias: _mm256_set1_epi32(direct / top - (alphabet.direct_bits - alphabet.top_bits) as i32),
        }
    }

    /// Whether no symbol has raw bits; `symbols` is the bitwise *or* of registers of eight.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn are_direct(&self, symbols: __m256i) -> bool {
        _mm256_testz_si256(symbols, self.large_bits) == 1
    }

    /// How many raw bits eight symbols have, and which have any.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn widths(&self, symbols: __m256i) -> (__m256i, __m256i) {
        let large = _mm256_cmpgt_epi32(symbols, self.last_direct);
        let width = _mm256_sub_epi32(_mm256_srl_epi32(symbols, self.top_bits), self.bias);
        (_mm256_and_si256(width, large), large)
    }

    /// The differences with these symbols and zeros for raw bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn first(&self, symbols: __m256i, widths: __m256i, large: __m256i) -> __m256i {
        // Symbols with raw bits begin at a multiple of `1 << top_bits`, so that their low bits are those
        // below the leading one of the difference.
        let top = _mm256_or_si256(_mm256_and_si256(symbols, self.top_mask), self.top_one);
        _mm256_blendv_epi8(symbols, _mm256_sllv_epi32(top, widths), large)
    }
}

/// The lanes in registers.
pub(in crate::arch) struct RawRegisters {
    bits: __m256i,
    counts: __m256i,
}

impl RawRegisters {
    #[target_feature(enable = "avx2")]
    pub fn load(lanes: &RawLanes) -> Self {
        // SAFETY: both arrays hold eight u32.
        unsafe {
            Self {
                bits: _mm256_loadu_si256(lanes.bits.as_ptr().cast()),
                counts: _mm256_loadu_si256(lanes.counts.as_ptr().cast()),
            }
        }
    }

    #[target_feature(enable = "avx2")]
    pub fn store(&self, lanes: &mut RawLanes) {
        // SAFETY: both arrays hold eight u32.
        unsafe {
            _mm256_storeu_si256(lanes.bits.as_mut_ptr().cast(), self.bits);
            _mm256_storeu_si256(lanes.counts.as_mut_ptr().cast(), self.counts);
        }
    }

    /// The differences with these eight symbols.
    ///
    /// # Safety
    ///
    /// 32 bytes must be readable at `words + bytes`; `bytes` grows by at most that.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    pub unsafe fn read<W: Word>(
        &mut self,
        split: &RawSplit,
        symbols: __m256i,
        words: *const u8,
        bytes: &mut usize,
    ) -> __m256i {
        let word = _mm256_set1_epi32(WORD_BITS as i32);
        let (widths, large) = split.widths(symbols);
        let mut differences = split.first(symbols, widths, large);
        // SAFETY: the caller vouches for the words of both steps.
        unsafe {
            // Differences of two bytes have fewer raw bits than a word.
            let low = if W::BYTES == 2 { widths } else { _mm256_min_epi32(widths, word) };
            let low = self.take(low, words, bytes);
            differences = _mm256_or_si256(differences, low);
            if W::BYTES == 4 {
                let more = _mm256_subs_epu16(widths, word);
                if _mm256_testz_si256(more, more) == 0 {
                    let high = self.take(more, words, bytes);
                    differences = _mm256_or_si256(differences, _mm256_slli_epi32::<16>(high));
                }
            }
        }
        differences
    }

    /// Takes so many bits, at most 16, of each lane.
    ///
    /// # Safety
    ///
    /// 16 bytes must be readable at `words + bytes`; `bytes` grows by at most that.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn take(&mut self, widths: __m256i, words: *const u8, bytes: &mut usize) -> __m256i {
        let word = _mm256_set1_epi32(WORD_BITS as i32);
        let (bits, counts) = (_mm256_srlv_epi32(self.bits, widths), _mm256_sub_epi32(self.counts, widths));
        let taken = _mm256_xor_si256(_mm256_sllv_epi32(bits, widths), self.bits);
        let few = _mm256_cmpgt_epi32(word, counts);
        let mask = _mm256_movemask_ps(_mm256_castsi256_ps(few)) as usize;
        // SAFETY: the caller vouches for the words; the table has an entry for each mask.
        let (fresh, order) = unsafe {
            (
                _mm_loadu_si128(words.add(*bytes).cast()),
                _mm256_loadu_si256(WORDS_TO_LANES.as_ptr().add(mask).cast()),
            )
        };
        let fresh = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(fresh), order);
        *bytes += 2 * mask.count_ones() as usize;
        self.bits = _mm256_or_si256(bits, _mm256_sllv_epi32(fresh, counts));
        self.counts = _mm256_add_epi32(counts, _mm256_and_si256(few, word));
        taken
    }

    /// Puts values of so many bits, at most 16, before those of each lane.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    fn put(&mut self, widths: __m256i, values: __m256i, words: &mut RawWords) {
        assert!(words.start <= words.bytes.len() && words.start >= RawWords::MARGIN);
        let word = _mm256_set1_epi32(WORD_BITS as i32);
        let full = _mm256_cmpgt_epi32(
            _mm256_add_epi32(self.counts, widths),
            _mm256_set1_epi32(2 * WORD_BITS as i32 - 1),
        );
        let mask = _mm256_movemask_ps(_mm256_castsi256_ps(full)) as usize;
        let left = _mm256_sub_epi32(self.counts, word);
        let leaving = _mm256_srlv_epi32(self.bits, left);
        let packed =
            _mm_packus_epi32(_mm256_castsi256_si128(leaving), _mm256_extracti128_si256::<1>(leaving));
        // SAFETY: the table has 256 entries of 16 bytes, and there are as many before the words.
        unsafe {
            let order = _mm_loadu_si128(WORDS_TO_END.as_ptr().add(mask).cast());
            let place = words.bytes.as_mut_ptr().add(words.start - RawWords::MARGIN);
            _mm_storeu_si128(place.cast(), _mm_shuffle_epi8(packed, order));
        }
        words.start -= 2 * mask.count_ones() as usize;
        let gone = _mm256_and_si256(_mm256_sllv_epi32(leaving, left), full);
        let bits = _mm256_sub_epi32(self.bits, gone);
        let counts = _mm256_sub_epi32(self.counts, _mm256_and_si256(full, word));
        self.bits = _mm256_or_si256(_mm256_sllv_epi32(bits, widths), values);
        self.counts = _mm256_add_epi32(counts, widths);
    }
}

/// Eight bytes as numbers.
///
/// # Safety
///
/// Eight bytes must be readable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn eight(place: *const u8) -> __m256i {
    // SAFETY: the caller vouches for eight bytes.
    _mm256_cvtepu8_epi32(unsafe { _mm_loadl_epi64(place.cast()) })
}

/// Eight differences as numbers.
///
/// # Safety
///
/// Eight differences, of two or four bytes each, must be readable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load<W: Word>(place: *const W) -> __m256i {
    // SAFETY: the caller vouches for eight differences.
    unsafe {
        if W::BYTES == 2 {
            _mm256_cvtepu16_epi32(_mm_loadu_si128(place.cast()))
        } else {
            _mm256_loadu_si256(place.cast())
        }
    }
}

/// Stores sixteen differences, of which those of two bytes keep their low ones.
///
/// # Safety
///
/// Sixteen differences, of two or four bytes each, must be writable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store<W: Word>(place: *mut W, low: __m256i, high: __m256i) {
    // SAFETY: the caller vouches for sixteen differences.
    unsafe {
        if W::BYTES == 2 {
            let short = _mm256_set1_epi32(0xffff);
            let packed = _mm256_packus_epi32(_mm256_and_si256(low, short), _mm256_and_si256(high, short));
            _mm256_storeu_si256(place.cast(), _mm256_permute4x64_epi64::<0b11_01_10_00>(packed));
        } else {
            _mm256_storeu_si256(place.cast(), low);
            _mm256_storeu_si256(place.cast::<__m256i>().add(1), high);
        }
    }
}
