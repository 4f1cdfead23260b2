//! The nested coder with NEON. There is no bit deposit, so a word of 32 fields goes through a register byte
//! by byte: each byte finds its bits by the number of fields that are chosen before it, and moves them to its
//! own chosen fields. Symbols and ranks are looked up sixteen at a time.

use super::Neon;
use crate::arch::Portable;
use crate::transform::nested::Steps;
use std::arch::aarch64::*;

/// Words with fewer chosen fields than this are dealt out field by field. With 4, fast decoding takes 9.7
/// instructions per element in `make bench-arm`; other numbers were not tried.
const FEW_FIELDS: u32 = 4;

impl Steps for Neon {
    #[inline(always)]
    fn deposit<const WIDTH: u32>(self, bits: u64, escapes: u64) -> u64 {
        if escapes.count_ones() < FEW_FIELDS {
            return Portable.deposit::<WIDTH>(bits, escapes);
        }
        // SAFETY: a `Neon` exists only where the CPU has these instructions.
        unsafe { deposit::<WIDTH>(bits, escapes) }
    }

    #[inline(always)]
    fn extract<const WIDTH: u32>(self, fields: u64, escapes: u64) -> u64 {
        if escapes.count_ones() < FEW_FIELDS {
            return Portable.extract::<WIDTH>(fields, escapes);
        }
        // SAFETY: a `Neon` exists only where the CPU has these instructions.
        unsafe { extract::<WIDTH>(fields, escapes) }
    }

    #[inline(always)]
    fn symbols_of_ranks(self, low: &[u64; 4], high: &[u64; 4], symbols: &[u8; 16], out: &mut [u8; 128]) {
        // SAFETY: a `Neon` exists only where the CPU has these instructions; the loads and stores take
        // exactly the 32 bytes of `low` and `high`, the 16 of `symbols` and the 128 of `out`.
        unsafe {
            let (table, nibble) = (vld1q_u8(symbols.as_ptr()), vdupq_n_u8(15));
            let out = out.as_mut_ptr();
            for half in [0, 16] {
                let low = vld1q_u8(low.as_ptr().cast::<u8>().add(half));
                let high = vld1q_u8(high.as_ptr().cast::<u8>().add(half));
                vst1q_u8(out.add(half), vqtbl1q_u8(table, vandq_u8(low, nibble)));
                vst1q_u8(out.add(half + 32), vqtbl1q_u8(table, vandq_u8(high, nibble)));
                vst1q_u8(out.add(half + 64), vqtbl1q_u8(table, vshrq_n_u8::<4>(low)));
                vst1q_u8(out.add(half + 96), vqtbl1q_u8(table, vshrq_n_u8::<4>(high)));
            }
        }
    }

    #[inline(always)]
    fn ranks_of(self, table: &[u8; 256], symbols: &[u8], ranks: &mut [u8]) {
        let (pieces, rest) = symbols.as_chunks::<16>();
        let (made, last) = ranks.split_at_mut(symbols.len() - rest.len());
        // SAFETY: a `Neon` exists only where the CPU has these instructions; the loads and stores take
        // exactly 64 bytes of the table and 16 of each piece.
        unsafe {
            let [a, b, c, d] = [0, 64, 128, 192].map(|quarter| vld1q_u8_x4(table.as_ptr().add(quarter)));
            let quarter = vdupq_n_u8(64);
            for (symbols, ranks) in pieces.iter().zip(made.as_chunks_mut::<16>().0) {
                // An index outside of a quarter leaves what the others found.
                let first = vld1q_u8(symbols.as_ptr());
                let second = vsubq_u8(first, quarter);
                let third = vsubq_u8(second, quarter);
                let found = vqtbx4q_u8(vqtbl4q_u8(a, first), b, second);
                let found = vqtbx4q_u8(vqtbx4q_u8(found, c, third), d, vsubq_u8(third, quarter));
                vst1q_u8(ranks.as_mut_ptr(), found);
            }
        }
        last.iter_mut().zip(rest).for_each(|(rank, &symbol)| *rank = table[usize::from(symbol)]);
    }
}

/// The low bit of every byte.
const EACH_BYTE: u64 = 0x0101_0101_0101_0101;

/// How many fields are chosen in each byte.
#[inline(always)]
fn chosen_in_bytes(escapes: u64) -> u64 {
    let pairs = (escapes & 0x3333_3333_3333_3333) + (escapes >> 2 & 0x3333_3333_3333_3333);
    (pairs + (pairs >> 4)) & 0x0f0f_0f0f_0f0f_0f0f
}

/// All bits of the chosen two-bit fields.
#[inline(always)]
fn whole_fields(escapes: u64) -> u64 {
    escapes | escapes << 1
}

/// [`Steps::deposit`] of many fields.
#[inline]
#[target_feature(enable = "neon")]
fn deposit<const WIDTH: u32>(bits: u64, escapes: u64) -> u64 {
    // Where the bits of each byte begin: behind those of all bytes before it.
    let begins = vcreate_u8((chosen_in_bytes(escapes) * u64::from(WIDTH)).wrapping_mul(EACH_BYTE << 8));
    let (source, place) = (vcombine_u8(vcreate_u8(bits), vdup_n_u8(0)), vshr_n_u8::<3>(begins));
    let low = vqtbl1_u8(source, place);
    let high = vqtbl1_u8(source, vadd_u8(place, vdup_n_u8(1)));
    let skipped = vreinterpret_s8_u8(vand_u8(begins, vdup_n_u8(7)));
    let low = vshl_u8(low, vneg_s8(skipped));
    let mut bytes = vorr_u8(low, vshl_u8(high, vsub_s8(vdup_n_s8(8), skipped)));
    if WIDTH == 1 {
        // Single bits are in every other place.
        bytes = vand_u8(bytes, vdup_n_u8(0x0f));
        bytes = vand_u8(vorr_u8(bytes, vshl_n_u8::<2>(bytes)), vdup_n_u8(0x33));
        bytes = vorr_u8(bytes, vshl_n_u8::<1>(bytes));
    }
    // A field that is not chosen makes room: those from it on move up by one.
    let chosen = vcreate_u8(escapes);
    let bytes = vbsl_u8(vtst_u8(chosen, vdup_n_u8(1)), bytes, vshl_n_u8::<2>(bytes));
    let stays = vorr_u8(vtst_u8(chosen, vdup_n_u8(4)), vdup_n_u8(0x03));
    let bytes = vbsl_u8(stays, bytes, vshl_n_u8::<2>(bytes));
    let stays = vorr_u8(vtst_u8(chosen, vdup_n_u8(16)), vdup_n_u8(0x0f));
    let bytes = vbsl_u8(stays, bytes, vshl_n_u8::<2>(bytes));
    let fields = vget_lane_u64::<0>(vreinterpret_u64_u8(bytes));
    fields & if WIDTH == 1 { escapes } else { whole_fields(escapes) }
}

/// [`Steps::extract`] of many fields.
#[inline]
#[target_feature(enable = "neon")]
fn extract<const WIDTH: u32>(fields: u64, escapes: u64) -> u64 {
    let mut bytes = vcreate_u8(fields & if WIDTH == 1 { escapes } else { whole_fields(escapes) });
    // A field that is not chosen is filled: those above it move down by one.
    let chosen = vcreate_u8(escapes);
    let stays = vorr_u8(vtst_u8(chosen, vdup_n_u8(16)), vdup_n_u8(0x0f));
    bytes = vbsl_u8(stays, bytes, vshr_n_u8::<2>(bytes));
    let stays = vorr_u8(vtst_u8(chosen, vdup_n_u8(4)), vdup_n_u8(0x03));
    bytes = vbsl_u8(stays, bytes, vshr_n_u8::<2>(bytes));
    bytes = vbsl_u8(vtst_u8(chosen, vdup_n_u8(1)), bytes, vshr_n_u8::<2>(bytes));
    if WIDTH == 1 {
        bytes = vand_u8(vorr_u8(bytes, vshr_n_u8::<1>(bytes)), vdup_n_u8(0x33));
        bytes = vand_u8(vorr_u8(bytes, vshr_n_u8::<2>(bytes)), vdup_n_u8(0x0f));
    }
    // Neighbours are put together: bytes to words of 16 bits, these to words of 32, and those to one of 64.
    let counts = vcreate_u16(chosen_in_bytes(escapes) * u64::from(WIDTH));
    let (words, byte) = (vreinterpret_u16_u8(bytes), vdup_n_u16(0xff));
    let below = vand_u16(counts, byte);
    let above = vshl_u16(vshr_n_u16::<8>(words), vreinterpret_s16_u16(below));
    let words = vreinterpret_u32_u16(vorr_u16(vand_u16(words, byte), above));
    let counts = vreinterpret_u32_u16(vadd_u16(below, vshr_n_u16::<8>(counts)));
    let (below, word) = (vand_u32(counts, vdup_n_u32(0xffff)), vdup_n_u32(0xffff));
    let above = vshl_u32(vshr_n_u32::<16>(words), vreinterpret_s32_u32(below));
    let halves = vget_lane_u64::<0>(vreinterpret_u64_u32(vorr_u32(vand_u32(words, word), above)));
    let below = vget_lane_u32::<0>(below) + (vget_lane_u32::<0>(counts) >> 16);
    (halves & 0xffff_ffff) | (halves >> 32) << below
}
