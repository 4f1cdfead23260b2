//! The raw bits of differences with NEON: the eight lanes in two registers.

use super::super::words::{Eight, load, low_halves, next_words, put_words, set_of, store, widened};
use crate::transform::reference::{
    Alphabet, RAW_LANES, RAW_PIECE, RawLanes, RawReader, RawWords, WORD_BITS, Word,
};
use std::arch::aarch64::*;

/// Reads whole pieces of differences of two or four bytes and returns how many differences those have. Stops
/// at a piece whose raw bits are in a single lane, or might not all be there.
#[target_feature(enable = "neon")]
pub(super) fn read<W: Word>(
    alphabet: Alphabet,
    symbols: &[u8],
    raw: &mut RawReader,
    differences: &mut [W],
) -> usize {
    /// A piece takes at most one word for each 16 bits of an element, and each load reaches 16 bytes.
    const RAW_REACH: usize = 4 * RAW_PIECE + 16;
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
            let most = vmaxvq_u8(vmaxq_u8(vld1q_u8(place), vld1q_u8(place.add(16))));
            let direct = u32::from(most) < alphabet.direct();
            if !direct && (raw.lanes != RAW_LANES || raw.words.len() - bytes < RAW_REACH) {
                break;
            }
            for group in (0..RAW_PIECE).step_by(RAW_LANES) {
                let mut numbers = widened(vld1_u8(place.add(group)));
                if !direct {
                    numbers = lanes.read::<W>(&split, numbers, raw.words.as_ptr(), &mut bytes);
                }
                store_differences(out.add(group), numbers);
            }
        }
        piece += 1;
    }
    lanes.store(&mut raw.state);
    raw.words = raw.words.get(bytes..).unwrap_or_default();
    piece * RAW_PIECE
}

/// Puts the raw bits of whole groups of differences of two or four bytes before those that the eight lanes
/// hold.
#[target_feature(enable = "neon")]
pub(super) fn write<W: Word>(
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
        let (symbols, differences) = unsafe {
            (vld1_u8(symbols.as_ptr().add(place)), load_differences(differences.as_ptr().add(place)))
        };
        if u32::from(vmaxv_u8(symbols)) < alphabet.direct() {
            continue;
        }
        let (widths, _) = split.widths(widened(symbols));
        let values = each(|at| {
            let above = vshlq_u32(right(differences[at], widths[at]), vreinterpretq_s32_u32(widths[at]));
            veorq_u32(differences[at], above)
        });
        let word = vdupq_n_u32(WORD_BITS);
        if W::BYTES == 4 {
            let more = each(|at| vqsubq_u32(widths[at], word));
            if any(more) {
                lanes.put(more, each(|at| vshrq_n_u32::<16>(values[at])), words);
            }
        }
        let widths = each(|at| vminq_u32(widths[at], word));
        lanes.put(widths, each(|at| vandq_u32(values[at], vdupq_n_u32(0xffff))), words);
    }
    lanes.store(state);
}

/// Both registers of eight numbers.
#[inline(always)]
fn each(mut make: impl FnMut(usize) -> uint32x4_t) -> Eight {
    [make(0), make(1)]
}

/// Whether any of eight numbers has a bit set.
#[inline]
#[target_feature(enable = "neon")]
fn any([low, high]: Eight) -> bool {
    vmaxvq_u32(vorrq_u32(low, high)) != 0
}

/// Numbers shifted to the right.
#[inline]
#[target_feature(enable = "neon")]
fn right(numbers: uint32x4_t, bits: uint32x4_t) -> uint32x4_t {
    vshlq_u32(numbers, vnegq_s32(vreinterpretq_s32_u32(bits)))
}

/// Splits symbols into the leading bits of a difference and the number of raw bits below these.
struct RawSplit {
    /// The largest symbol without raw bits.
    last_direct: uint32x4_t,
    /// A difference with raw bits begins with a one (`top_one`) and the low bits of its symbol (`top_mask`).
    top_mask: uint32x4_t,
    top_one: uint32x4_t,
    /// A shift to the right by the number of low bits, which NEON writes as a negative shift to the left.
    top_bits: int32x4_t,
    /// A symbol without its low bits, minus this, is the number of raw bits.
    bias: uint32x4_t,
}

impl RawSplit {
    #[target_feature(enable = "neon")]
    fn new(alphabet: Alphabet) -> Self {
        let (top, direct) = (1 << alphabet.top_bits, alphabet.direct());
        Self {
            last_direct: vdupq_n_u32(direct - 1),
            top_mask: vdupq_n_u32(top - 1),
            top_one: vdupq_n_u32(top),
            top_bits: vdupq_n_s32(-(alphabet.top_bits as i32)),
            bias: vdupq_n_u32(direct / top - (alphabet.direct_bits - alphabet.top_bits)),
        }
    }

    /// How many raw bits eight symbols have, and which have any.
    #[inline]
    #[target_feature(enable = "neon")]
    fn widths(&self, symbols: Eight) -> (Eight, Eight) {
        let large = each(|at| vcgtq_u32(symbols[at], self.last_direct));
        let width = |at| vsubq_u32(vshlq_u32(symbols[at], self.top_bits), self.bias);
        (each(|at| vandq_u32(width(at), large[at])), large)
    }

    /// The differences with these symbols and zeros for raw bits.
    #[inline]
    #[target_feature(enable = "neon")]
    fn first(&self, symbols: Eight, widths: Eight, large: Eight) -> Eight {
        // Symbols with raw bits begin at a multiple of `1 << top_bits`, so that their low bits are those
        // below the leading one of the difference.
        each(|at| {
            let top = vorrq_u32(vandq_u32(symbols[at], self.top_mask), self.top_one);
            vbslq_u32(large[at], vshlq_u32(top, vreinterpretq_s32_u32(widths[at])), symbols[at])
        })
    }
}

/// The lanes in registers.
struct RawRegisters {
    bits: Eight,
    counts: Eight,
}

impl RawRegisters {
    #[target_feature(enable = "neon")]
    fn load(lanes: &RawLanes) -> Self {
        // SAFETY: both arrays hold eight u32.
        unsafe { Self { bits: load(lanes.bits.as_ptr()), counts: load(lanes.counts.as_ptr()) } }
    }

    #[target_feature(enable = "neon")]
    fn store(&self, lanes: &mut RawLanes) {
        // SAFETY: both arrays hold eight u32.
        unsafe {
            store(lanes.bits.as_mut_ptr(), self.bits);
            store(lanes.counts.as_mut_ptr(), self.counts);
        }
    }

    /// The differences with these eight symbols.
    ///
    /// # Safety
    ///
    /// 32 bytes must be readable at `words + bytes`; `bytes` grows by at most that.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn read<W: Word>(
        &mut self,
        split: &RawSplit,
        symbols: Eight,
        words: *const u8,
        bytes: &mut usize,
    ) -> Eight {
        let word = vdupq_n_u32(WORD_BITS);
        let (widths, large) = split.widths(symbols);
        let mut differences = split.first(symbols, widths, large);
        // Differences of two bytes have fewer raw bits than a word.
        let low = if W::BYTES == 2 { widths } else { each(|at| vminq_u32(widths[at], word)) };
        // SAFETY: the caller vouches for the words of both steps.
        let low = unsafe { self.take(low, words, bytes) };
        differences = each(|at| vorrq_u32(differences[at], low[at]));
        if W::BYTES == 4 {
            let more = each(|at| vqsubq_u32(widths[at], word));
            if any(more) {
                // SAFETY: the caller vouches for the words of both steps.
                let high = unsafe { self.take(more, words, bytes) };
                differences = each(|at| vorrq_u32(differences[at], vshlq_n_u32::<16>(high[at])));
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
    #[target_feature(enable = "neon")]
    unsafe fn take(&mut self, widths: Eight, words: *const u8, bytes: &mut usize) -> Eight {
        let word = vdupq_n_u32(WORD_BITS);
        let bits = each(|at| right(self.bits[at], widths[at]));
        let counts = each(|at| vsubq_u32(self.counts[at], widths[at]));
        let taken =
            each(|at| veorq_u32(vshlq_u32(bits[at], vreinterpretq_s32_u32(widths[at])), self.bits[at]));
        let few = each(|at| vcgtq_u32(word, counts[at]));
        // SAFETY: the caller vouches for the words.
        let fresh = unsafe { next_words(set_of(few), words, bytes) };
        let fresh = [vmovl_u16(vget_low_u16(fresh)), vmovl_high_u16(fresh)];
        self.bits = each(|at| vorrq_u32(bits[at], vshlq_u32(fresh[at], vreinterpretq_s32_u32(counts[at]))));
        self.counts = each(|at| vaddq_u32(counts[at], vandq_u32(few[at], word)));
        taken
    }

    /// Puts values of so many bits, at most 16, before those of each lane.
    #[inline]
    #[target_feature(enable = "neon")]
    fn put(&mut self, widths: Eight, values: Eight, words: &mut RawWords) {
        assert!(words.start <= words.bytes.len() && words.start >= RawWords::MARGIN);
        let word = vdupq_n_u32(WORD_BITS);
        let full = each(|at| vcgeq_u32(vaddq_u32(self.counts[at], widths[at]), vdupq_n_u32(2 * WORD_BITS)));
        let left = each(|at| vsubq_u32(self.counts[at], word));
        let leaving = each(|at| right(self.bits[at], left[at]));
        // SAFETY: there are as many bytes before the words as are written (see above).
        unsafe { put_words(set_of(full), low_halves(leaving), words.bytes.as_mut_ptr(), &mut words.start) };
        let gone = |at| vandq_u32(vshlq_u32(leaving[at], vreinterpretq_s32_u32(left[at])), full[at]);
        let kept = each(|at| vsubq_u32(self.bits[at], gone(at)));
        let counts = each(|at| vsubq_u32(self.counts[at], vandq_u32(full[at], word)));
        self.bits = each(|at| vorrq_u32(vshlq_u32(kept[at], vreinterpretq_s32_u32(widths[at])), values[at]));
        self.counts = each(|at| vaddq_u32(counts[at], widths[at]));
    }
}

/// Eight differences as numbers.
///
/// # Safety
///
/// Eight differences, of two or four bytes each, must be readable.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_differences<W: Word>(place: *const W) -> Eight {
    // SAFETY: the caller vouches for eight differences.
    unsafe {
        if W::BYTES == 2 {
            let words = vld1q_u16(place.cast());
            [vmovl_u16(vget_low_u16(words)), vmovl_high_u16(words)]
        } else {
            load(place.cast())
        }
    }
}

/// Stores eight differences, of which those of two bytes keep their low ones.
///
/// # Safety
///
/// Eight differences, of two or four bytes each, must be writable.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store_differences<W: Word>(place: *mut W, numbers: Eight) {
    // SAFETY: the caller vouches for eight differences.
    unsafe {
        if W::BYTES == 2 {
            vst1q_u16(place.cast(), low_halves(numbers));
        } else {
            store(place.cast(), numbers);
        }
    }
}
