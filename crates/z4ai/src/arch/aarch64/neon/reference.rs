//! Floats against a reference with NEON: contexts from a table in registers, and raw bits for eight lanes at
//! a time.

mod raw_bits;

use super::Neon;
use crate::transform::reference::{
    self, Alphabet, EXPONENT_NUMBERS, RAW_LANES, RawDifferences, RawLanes, RawReader, RawWords, Steps, Word,
};
use std::arch::aarch64::*;

impl Steps for Neon {
    fn write_raw_bits<W: Word>(self, raw: RawDifferences<W>, state: &mut RawLanes, words: &mut RawWords) {
        if raw.lanes != RAW_LANES || !has_raw_loop::<W>() {
            return raw.write(state, words);
        }
        let (pieces, last) = raw.split();
        last.write(state, words);
        // SAFETY: a `Neon` exists only where the CPU has these instructions.
        unsafe { raw_bits::write(pieces.alphabet, pieces.symbols, pieces.differences, state, words) };
    }

    fn read_differences<W: Word>(self, raw: &mut RawReader, symbols: &[u8], differences: &mut [W]) {
        if !has_raw_loop::<W>() {
            return reference::read_differences(raw, symbols, differences);
        }
        let (alphabet, mut done) = (Alphabet::of_width(W::BYTES), 0);
        while done < symbols.len() {
            // SAFETY: a `Neon` exists only where the CPU has these instructions.
            done += unsafe { raw_bits::read(alphabet, &symbols[done..], raw, &mut differences[done..]) };
            // It stops where raw bits are in one lane, or about to end.
            done = raw.read_piece(done, symbols, differences);
        }
    }

    fn contexts(self, row: &[u8; EXPONENT_NUMBERS], numbers: &[u8], contexts: &mut [u8]) {
        // SAFETY: a `Neon` exists only where the CPU has these instructions.
        let done = unsafe { look_up(row, numbers, contexts) };
        reference::contexts_from(done, row, numbers, contexts);
    }
}

/// Whether elements of this width have a loop for raw bits.
fn has_raw_loop<W: Word>() -> bool {
    matches!(W::BYTES, 2 | 4)
}

/// `table[index % 32]` for whole registers of indices; returns how many bytes those were.
#[target_feature(enable = "neon")]
fn look_up(table: &[u8; EXPONENT_NUMBERS], indices: &[u8], found: &mut [u8]) -> usize {
    let (mut done, modulus) = (0, vdupq_n_u8(EXPONENT_NUMBERS as u8 - 1));
    // SAFETY: the table has 32 bytes.
    let table = unsafe { vld1q_u8_x2(table.as_ptr()) };
    for (indices, found) in indices.chunks_exact(16).zip(found.chunks_exact_mut(16)) {
        // SAFETY: both pieces have 16 bytes.
        unsafe {
            let index = vandq_u8(vld1q_u8(indices.as_ptr()), modulus);
            vst1q_u8(found.as_mut_ptr(), vqtbl2q_u8(table, index));
        }
        done += 16;
    }
    done
}
