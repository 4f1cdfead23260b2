//! rANS with AVX-512: sixteen lanes per register.

mod encode;
mod encode_contexts;
pub(in crate::arch) mod step;

use super::Avx512;
use crate::entropy::rans::{self, DecoderTables, EncoderTables, LANES, MOST_LANES, Steps, SymbolDecoder};
use crate::error::Result;
use std::arch::x86_64::*;
use step::{SpilledIndices, TableLookup};

impl Steps for Avx512 {
    fn decode_symbols(self, stream: &mut SymbolDecoder, offsets: &[u16], out: &mut [u8]) -> Result<()> {
        rans::decode_by_groups(self, stream, offsets, out, |tables, states, words, out| {
            // SAFETY: an `Avx512` exists only where the CPU has these instructions.
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
        let Some(compact) = tables.compact().filter(|_| lanes >= LANES) else {
            return self.0.encode_symbols(tables, lanes, states, symbols, contexts, words);
        };
        let precision = tables.precision();
        let groups = |states: &mut [u32], symbols: &[u8], contexts: &[u8], words: &mut [u8], end| {
            // SAFETY: an `Avx512` exists only where the CPU has these instructions, and those of AVX2.
            unsafe {
                let start = encode::encode_groups(compact, precision, states, symbols, contexts, words, end);
                start.unwrap_or_else(|| {
                    super::super::avx2::encode_groups(tables, states, symbols, contexts, words, end)
                })
            }
        };
        rans::encode_by_groups(tables, lanes, states, symbols, contexts, words, groups)
    }
}

/// Bytes of words that a group of so many symbols may look at: it reads at most one word per lane, and no
/// load reaches further than the words of its own lanes.
pub(in crate::arch) const fn reach(lanes: usize) -> usize {
    2 * lanes
}

/// Decodes whole groups while the words certainly suffice for the next; there are [`LANES`] or twice as many
/// states.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi2,popcnt")]
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

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi2,popcnt")]
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
    let index_mask = _mm512_set1_epi32((tables.slots().len() - 1) as i32);
    let mut registers = load_states::<PARTS>(states);
    let (mut group, mut bytes) = (0, 0usize);
    while group < groups && words.len() - bytes >= reach(lanes) {
        for (vector, state) in registers.as_flattened_mut().iter_mut().enumerate() {
            let start = group * lanes + 16 * vector;
            // SAFETY: `group` is below the number of whole groups in `offsets` (if it is used) and `out`;
            // each refill takes at most 32 bytes of words, of which there were enough for all lanes of the
            // group.
            unsafe {
                let offset = if OFFSETS {
                    let offsets = _mm256_loadu_si256(offsets.as_ptr().add(start).cast());
                    _mm512_and_si512(_mm512_cvtepu16_epi32(offsets), index_mask)
                } else {
                    _mm512_setzero_si512()
                };
                let mut places = SpilledIndices::default();
                places.store(lookup.index(*state, offset));
                let entries = lookup.entries(&places);
                *state = lookup.refill(lookup.without(*state, entries), words.as_ptr(), &mut bytes);
                _mm_storeu_si128(out.as_mut_ptr().add(start).cast(), _mm512_cvtepi32_epi8(entries));
            }
        }
        group += 1;
    }
    store_states(&registers, states);
    (group * lanes, bytes)
}

/// States in registers, by parts of [`LANES`].
pub(in crate::arch) type States<const PARTS: usize> = [[__m512i; LANES / 16]; PARTS];

#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::arch) fn load_states<const PARTS: usize>(states: &[u32]) -> States<PARTS> {
    let mut registers = [[_mm512_setzero_si512(); LANES / 16]; PARTS];
    for (register, lanes) in registers.as_flattened_mut().iter_mut().zip(states.chunks_exact(16)) {
        // SAFETY: `lanes` holds sixteen u32.
        *register = unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) };
    }
    registers
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::arch) fn store_states<const PARTS: usize>(registers: &States<PARTS>, states: &mut [u32]) {
    for (register, lanes) in registers.as_flattened().iter().zip(states.chunks_exact_mut(16)) {
        // SAFETY: `lanes` holds sixteen u32.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), *register) };
    }
}
