//! rANS with AVX2: eight lanes per register.

pub(in crate::arch) mod encode;

use super::Avx2;
use crate::entropy::rans::{
    self, DecoderTables, EncoderTables, LANES, MOST_LANES, STATE_MIN, Steps, SymbolDecoder,
};
use crate::error::Result;
use std::arch::asm;
use std::arch::x86_64::*;

impl Steps for Avx2 {
    fn decode_symbols(self, stream: &mut SymbolDecoder, offsets: &[u16], out: &mut [u8]) -> Result<()> {
        rans::decode_by_groups(self, stream, offsets, out, |tables, states, words, out| {
            // SAFETY: an `Avx2` exists only where the CPU has these instructions.
            unsafe { decode_groups(tables, states, offsets, words, out) }
        })
    }

    fn encode_symbols(
        self,
        tables: &EncoderTables,
        lanes: usize,
        states: &mut [u32; MOST_LANES],
        symbols: &[u8],
        contexts: &[u8],
        words: &mut [u8],
    ) -> usize {
        if lanes < LANES {
            return rans::encode_symbols(self, tables, lanes, states, symbols, contexts, words);
        }
        let groups = |states: &mut [u32], symbols: &[u8], contexts: &[u8], words: &mut [u8], end| {
            // SAFETY: an `Avx2` exists only where the CPU has these instructions.
            unsafe { encode::encode_groups(tables, states, symbols, contexts, words, end) }
        };
        rans::encode_by_groups(tables, lanes, states, symbols, contexts, words, groups)
    }
}

/// For each mask of eight lanes: the byte shuffle that refills these lanes with the next words, and moves
/// zeros to the others.
pub(in crate::arch) static WORDS_TO_LANES: [RefillShuffle; 256] = words_to_lanes();

/// A byte shuffle, aligned so that none lies in two cache lines.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(in crate::arch) struct RefillShuffle([u8; 32]);

const fn words_to_lanes() -> [RefillShuffle; 256] {
    let mut table = [RefillShuffle([0x80; 32]); 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut place) = (0, 0);
        while lane < 8 {
            if mask >> lane & 1 == 1 {
                table[mask].0[4 * lane] = place;
                table[mask].0[4 * lane + 1] = place + 1;
                place += 2;
            }
            lane += 1;
        }
        mask += 1;
    }
    table
}

/// Bytes of words that a group of [`LANES`] symbols may look at: it reads at most one word per lane, and each
/// load reaches 16 bytes.
pub(in crate::arch) const GROUP_REACH: usize = reach(LANES);

/// Bytes of words that a group of so many symbols may look at.
pub(in crate::arch) const fn reach(lanes: usize) -> usize {
    2 * lanes + 16
}

/// Decodes whole groups while the words certainly suffice for the next; there are [`LANES`] or twice as many
/// states.
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn decode_groups(
    tables: &DecoderTables,
    states: &mut [u32],
    offsets: &[u16],
    words: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    match (states.len() > LANES, offsets.is_empty()) {
        (false, true) => decode::<1, false>(tables, states, offsets, words, out),
        (false, false) => decode::<1, true>(tables, states, offsets, words, out),
        (true, true) => decode::<2, false>(tables, states, offsets, words, out),
        (true, false) => decode::<2, true>(tables, states, offsets, words, out),
    }
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
fn decode<const PARTS: usize, const OFFSETS: bool>(
    tables: &DecoderTables,
    states: &mut [u32],
    offsets: &[u16],
    words: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    let lanes = PARTS * LANES;
    let mut groups = out.len() / lanes;
    if OFFSETS {
        groups = groups.min(offsets.len() / lanes);
    }
    let lookup = TableLookup::new(tables);
    let mut registers = load_states::<PARTS>(states);
    let (mut group, mut bytes) = (0, 0usize);
    while group < groups && words.len() - bytes >= reach(lanes) {
        for (part, state) in registers.iter_mut().enumerate() {
            let start = group * lanes + part * LANES;
            // SAFETY: `group` is below the number of whole groups in `offsets` (if it is used) and `out`;
            // each refill takes at most 16 bytes of words, of which there were enough for all parts of the
            // group.
            unsafe {
                let offset = |vector: usize| {
                    if !OFFSETS {
                        return _mm256_setzero_si256();
                    }
                    let place = offsets.as_ptr().add(start + 8 * vector);
                    lookup.masked(_mm256_cvtepu16_epi32(_mm_loadu_si128(place.cast())))
                };
                let a = lookup.entry(state[0], offset(0));
                let b = lookup.entry(state[1], offset(1));
                let c = lookup.entry(state[2], offset(2));
                let d = lookup.entry(state[3], offset(3));
                state[0] = lookup.refill(a.1, words.as_ptr(), &mut bytes);
                state[1] = lookup.refill(b.1, words.as_ptr(), &mut bytes);
                state[2] = lookup.refill(c.1, words.as_ptr(), &mut bytes);
                state[3] = lookup.refill(d.1, words.as_ptr(), &mut bytes);
                let found = pack_symbols([a.0, b.0, c.0, d.0]);
                _mm256_storeu_si256(out.as_mut_ptr().add(start).cast(), found);
            }
        }
        group += 1;
    }
    store_states(&registers, states);
    (group * lanes, bytes)
}

/// States in registers, by parts of [`LANES`].
pub(in crate::arch) type States<const PARTS: usize> = [[__m256i; LANES / 8]; PARTS];

#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn load_states<const PARTS: usize>(states: &[u32]) -> States<PARTS> {
    let mut registers = [[_mm256_setzero_si256(); LANES / 8]; PARTS];
    for (register, lanes) in registers.as_flattened_mut().iter_mut().zip(states.chunks_exact(8)) {
        // SAFETY: `lanes` holds eight u32.
        *register = unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) };
    }
    registers
}

#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn store_states<const PARTS: usize>(registers: &States<PARTS>, states: &mut [u32]) {
    for (register, lanes) in registers.as_flattened().iter().zip(states.chunks_exact_mut(8)) {
        // SAFETY: `lanes` holds eight u32.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), *register) };
    }
}

/// The low bytes of 32 entries.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn pack_symbols(entries: [__m256i; 4]) -> __m256i {
    let byte = _mm256_set1_epi32(0xff);
    let [a, b, c, d] = entries;
    let (a, b) = (_mm256_and_si256(a, byte), _mm256_and_si256(b, byte));
    let (c, d) = (_mm256_and_si256(c, byte), _mm256_and_si256(d, byte));
    // Packing works per 128-bit half; the permutation puts the groups of four back in order.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let packed = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    _mm256_permutevar8x32_epi32(packed, order)
}

/// `table[index]` for eight indices. Plain loads beat the gather instruction on the CPUs where that is
/// microcoded, and are not slower elsewhere.
///
/// # Safety
///
/// `table + index` must be readable for each index, as numbers without a sign.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) unsafe fn look_up<N: Copy + Into<i32>>(table: *const N, index: __m256i) -> __m256i {
    let [a, b, c, d] = pairs_of(index);
    // SAFETY: the caller vouches for the indices.
    let number = |index: u64| unsafe { table.add(index as u32 as usize).read() }.into();
    _mm256_setr_epi32(
        number(a),
        number(a >> 32),
        number(b),
        number(b >> 32),
        number(c),
        number(c >> 32),
        number(d),
        number(d >> 32),
    )
}

/// Eight numbers of 32 bits as four of 64. Compilers take such moves apart into one for each half, of which
/// CPUs do no more than one per cycle; with them the moves would take as long as all the rest of a step.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn pairs_of(numbers: __m256i) -> [u64; 4] {
    let (low, high) = (_mm256_castsi256_si128(numbers), _mm256_extracti128_si256::<1>(numbers));
    let (first, second, third, fourth): (u64, u64, u64, u64);
    // SAFETY: these instructions, which AVX has, move from register to register.
    unsafe {
        asm!("vmovq {}, {}", out(reg) first, in(xmm_reg) low, options(pure, nomem, nostack, preserves_flags));
        asm!("vpextrq {}, {}, 1", out(reg) second, in(xmm_reg) low, options(pure, nomem, nostack, preserves_flags));
        asm!("vmovq {}, {}", out(reg) third, in(xmm_reg) high, options(pure, nomem, nostack, preserves_flags));
        asm!("vpextrq {}, {}, 1", out(reg) fourth, in(xmm_reg) high, options(pure, nomem, nostack, preserves_flags));
    }
    [first, second, third, fourth]
}

/// Eight table indices, spilled to memory: loading an index from there takes fewer instructions than
/// extracting it from a register, and stored early, the dependent loads overlap with the next group's
/// arithmetic.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(32))]
pub(in crate::arch) struct SpilledIndices([u32; 8]);

impl SpilledIndices {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn store(&mut self, index: __m256i) {
        // SAFETY: there are as many numbers, aligned like a register. Compilers would move what is not
        // volatile out of the register all the same.
        unsafe { self.0.as_mut_ptr().cast::<__m256i>().write_volatile(index) }
    }

    #[inline(always)]
    fn read(&self, at: usize) -> usize {
        // SAFETY: a reference to a number can be read from.
        unsafe { std::ptr::from_ref(&self.0[at % 8]).read_volatile() as usize }
    }
}

/// The decoder's table with the constants of a step.
pub(in crate::arch) struct TableLookup<'a> {
    slots: &'a [u32],
    index_mask: __m256i,
    slot_mask: __m256i,
    precision: __m128i,
}

impl<'a> TableLookup<'a> {
    #[target_feature(enable = "avx2")]
    pub fn new(tables: &'a DecoderTables) -> Self {
        let slots = tables.slots();
        assert!(slots.len().is_power_of_two() && slots.len() >= 1 << tables.precision());
        Self {
            slots,
            index_mask: _mm256_set1_epi32((slots.len() - 1) as i32),
            slot_mask: _mm256_set1_epi32((1 << tables.precision()) - 1),
            precision: _mm_cvtsi32_si128(tables.precision() as i32),
        }
    }

    /// Any offsets, masked so that they lie inside the table.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn masked(&self, offsets: __m256i) -> __m256i {
        _mm256_and_si256(offsets, self.index_mask)
    }

    /// The table's entries for eight states whose contexts begin at these offsets, and the states without the
    /// symbol.
    ///
    /// # Safety
    ///
    /// The offsets must come from [`TableLookup::masked`], or be zero.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn entry(&self, state: __m256i, offset: __m256i) -> (__m256i, __m256i) {
        // SAFETY: slot and offset have no bits beyond those of an index.
        let entry = unsafe { look_up(self.slots.as_ptr().cast::<i32>(), self.index(state, offset)) };
        (entry, self.without(state, entry))
    }

    /// Where the entries of eight states are whose contexts begin at these offsets.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn index(&self, state: __m256i, offset: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_and_si256(state, self.slot_mask), offset)
    }

    /// The states after their symbols, which have these entries, have been decoded.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn without(&self, state: __m256i, entry: __m256i) -> __m256i {
        let frequency = _mm256_srli_epi32::<20>(entry);
        // An entry without its symbol is `frequency << 12 | offset`. Rather than masking the frequency out,
        // 2^12 is taken off its factor, the quotient, which is ready before the entry is.
        let quotient = _mm256_sub_epi32(_mm256_srl_epi32(state, self.precision), _mm256_set1_epi32(1 << 12));
        let rest = _mm256_mullo_epi32(frequency, quotient);
        _mm256_add_epi32(rest, _mm256_srli_epi32::<8>(entry))
    }

    /// [`TableLookup::entry`] of eight states whose entries are at these places.
    ///
    /// # Safety
    ///
    /// The places must have been made by [`TableLookup::index`] with offsets of contexts that the table has.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn entry_at(&self, state: __m256i, places: &SpilledIndices) -> (__m256i, __m256i) {
        // SAFETY: the caller vouches for the places.
        let number = |at: usize| unsafe { self.slots.as_ptr().cast::<i32>().add(places.read(at)).read() };
        let entry = _mm256_setr_epi32(
            number(0),
            number(1),
            number(2),
            number(3),
            number(4),
            number(5),
            number(6),
            number(7),
        );
        (entry, self.without(state, entry))
    }

    /// Refills the states that are too small with a word from the stream.
    ///
    /// # Safety
    ///
    /// 16 bytes must be readable at `words + bytes`; `bytes` grows by at most 16.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    pub unsafe fn refill(&self, state: __m256i, words: *const u8, bytes: &mut usize) -> __m256i {
        // States are below 2^31, so the signed comparison is right.
        let small = _mm256_cmpgt_epi32(_mm256_set1_epi32(STATE_MIN as i32), state);
        let mask = _mm256_movemask_ps(_mm256_castsi256_ps(small)) as usize;
        // SAFETY: the caller vouches for the words; the table has an entry for each mask.
        let (fresh, order) = unsafe {
            (
                _mm_loadu_si128(words.add(*bytes).cast()),
                _mm256_loadu_si256(WORDS_TO_LANES.as_ptr().add(mask).cast()),
            )
        };
        let word = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(fresh), order);
        *bytes += 2 * mask.count_ones() as usize;
        let shift = _mm256_and_si256(small, _mm256_set1_epi32(16));
        _mm256_or_si256(_mm256_sllv_epi32(state, shift), word)
    }
}
