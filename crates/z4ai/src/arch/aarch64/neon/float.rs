//! Float heads with NEON: rANS symbols, scales and verbatim bits put together in registers.

use super::Neon;
use super::rans::{TableLookup, load_states, reach, refill, store_states};
use super::words::low_halves;
use crate::arch::heads::{BitField, Checked, HeadCall, HeadLoops, LowBits, decode_chunk, position};
use crate::entropy::rans::LANES;
use crate::error::Result;
use crate::transform::float::{HeadChunk, HeadFormat, HeadInputs, HeadSign, JOINT_BITS, Steps};
use std::arch::aarch64::*;

impl Steps for Neon {
    fn decode_heads(self, chunk: &mut HeadChunk, heads: &mut [u16]) -> Result<()> {
        // SAFETY: a `Neon` exists only where the CPU has these instructions.
        unsafe { decode_chunk::<HeadLoopSet>(self, chunk, heads) }
    }
}

/// The loops for this instruction set.
struct HeadLoopSet;

impl HeadLoops for HeadLoopSet {
    unsafe fn decode<const PARTS: usize, const CONTEXTS: bool, const GROUPS: bool, const BITS: usize>(
        call: HeadCall,
    ) -> (usize, usize) {
        // SAFETY: the caller vouches for the instructions.
        unsafe { decode::<PARTS, CONTEXTS, GROUPS, BITS>(call) }
    }
}

#[target_feature(enable = "neon")]
fn decode<const PARTS: usize, const CONTEXTS: bool, const GROUPS: bool, const BITS: usize>(
    call: HeadCall,
) -> (usize, usize) {
    let Checked { octaves, offsets, line_octaves, line_places } =
        call.check::<PARTS, CONTEXTS, GROUPS, BITS>();
    let HeadCall { tables, inputs: HeadInputs { format, packed, .. }, states, words, range, escaped, heads } =
        call;
    let (count, lanes) = (heads.len(), PARTS * LANES);
    let lookup = TableLookup::new(tables);
    let assembly = Assembly::<BITS>::new(format);
    let mut registers = load_states::<PARTS>(states);
    let mut parts = low_bits_from::<BITS>(count, range.start);
    let (mut done, mut bytes) = (range.start, 0usize);
    while done < range.end && words.len() - bytes >= reach(lanes) {
        for state in &mut registers {
            if done == parts.end {
                parts = low_bits_from(count, done);
            }
            // SAFETY: `done` is a multiple of 32 below `count`, the length of `heads`, with which those of
            // `octaves`, `escaped` and the places agree; from the place of a group on there are as many
            // octaves and offsets as the group needs; there were words for all parts, and each refill takes
            // at most 16 bytes of them; `packed` holds `count` fields, and `done` is between where the parts
            // begin and end.
            unsafe {
                let group = done / LANES;
                let place = if GROUPS { group } else { *line_places.get_unchecked(group) as usize };
                let mut symbols = [vdupq_n_u16(0); LANES / 8];
                for (vector, (state, symbols)) in state.iter_mut().zip(&mut symbols).enumerate() {
                    let offset = match (CONTEXTS, GROUPS) {
                        (false, _) => [vdupq_n_u32(0); 2],
                        (true, false) => {
                            let offset = vld1q_u16(offsets.as_ptr().add(place + 8 * vector));
                            [vmovl_u16(vget_low_u16(offset)), vmovl_high_u16(offset)]
                        }
                        (true, true) => [vdupq_n_u32(u32::from(*offsets.get_unchecked(place))); 2],
                    };
                    let (entry, rest) = lookup.entry(*state, offset);
                    *state = refill(rest, words.as_ptr(), &mut bytes);
                    *symbols = vandq_u16(low_halves(entry), vdupq_n_u16(0xff));
                }
                *escaped.get_unchecked_mut(group) = escapes_of(symbols);

                let octave = vdupq_n_s16(*octaves.get_unchecked(group));
                let fields = low_bits(&parts, packed, done);
                for (vector, (symbols, field)) in symbols.into_iter().zip(fields).enumerate() {
                    let octave = if GROUPS {
                        octave
                    } else {
                        vaddq_s16(octave, vld1q_s16(line_octaves.as_ptr().add(place + 8 * vector)))
                    };
                    let head = assembly.head(symbols, field, vreinterpretq_u16_s16(octave));
                    vst1q_u16(heads.as_mut_ptr().add(done + 8 * vector), head);
                }
            }
            done += LANES;
        }
    }
    store_states(&registers, states);
    (done, bytes)
}

/// One bit for each of 32 symbols: whether its exponent is an escape.
#[inline]
#[target_feature(enable = "neon")]
fn escapes_of(symbols: [uint16x8_t; 4]) -> u32 {
    const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
    let [a, b, c, d] = symbols.map(|symbols| vreinterpretq_u8_u16(symbols));
    let first = vdupq_n_u8(1 << JOINT_BITS);
    // SAFETY: there are sixteen bytes.
    let bits = unsafe { vld1q_u8(BITS.as_ptr()) };
    let low = vandq_u8(vcltq_u8(vuzp1q_u8(a, b), first), bits);
    let high = vandq_u8(vcltq_u8(vuzp1q_u8(c, d), first), bits);
    // Neighbours are added until the eight bits of each byte are together.
    let pairs = vpaddq_u8(low, high);
    let fours = vpaddq_u8(pairs, pairs);
    vgetq_lane_u32::<0>(vreinterpretq_u32_u8(vpaddq_u8(fours, fours)))
}

/// The verbatim bits from field `start` of `count` on.
#[inline]
#[target_feature(enable = "neon")]
fn low_bits_from<const BITS: usize>(count: usize, start: usize) -> LowBits<int8x16_t, BITS> {
    // Negative shifts to the left are shifts to the right.
    LowBits::new(count, start, |bits| vdupq_n_s8(-(bits as i8)))
}

/// The 32 fields from `field` on.
///
/// # Safety
///
/// `packed` must hold the fields, and `field` must lie between where `parts` begins and ends.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn low_bits<const BITS: usize>(
    parts: &LowBits<int8x16_t, BITS>,
    packed: &[u8],
    field: usize,
) -> [uint16x8_t; 4] {
    let zero = vdupq_n_u8(0);
    let mut fields = [vdupq_n_u16(0); 4];
    for (half, fields) in fields.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let field = field + 16 * half;
        // SAFETY: the caller vouches for the fields.
        let (low, above) = unsafe {
            let one = part::<BITS, 1>(&parts.ones, packed, field);
            if BITS >= 8 {
                (part::<BITS, 8>(&parts.eights, packed, field), one)
            } else {
                let fours = part::<BITS, 4>(&parts.fours, packed, field);
                (vorrq_u8(vorrq_u8(fours, part::<BITS, 2>(&parts.twos, packed, field)), one), zero)
            }
        };
        let (first, second) = (vzip1q_u8(low, above), vzip2q_u8(low, above));
        *fields = [vreinterpretq_u16_u8(first), vreinterpretq_u16_u8(second)];
    }
    fields
}

/// The parts of WIDTH bits of the 16 fields from `field` on, in their place below bit 8, or at bit 0 if that
/// is bit 8; zero if there are none.
///
/// # Safety
///
/// `packed` must hold the fields, and `field` must lie between where `parts` begins and ends.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn part<const BITS: usize, const WIDTH: usize>(
    parts: &BitField<int8x16_t>,
    packed: &[u8],
    field: usize,
) -> uint8x16_t {
    if BITS & WIDTH == 0 {
        return vdupq_n_u8(0);
    }
    // SAFETY: the caller vouches for the fields, of which these are 16.
    let stored = unsafe { vld1q_u8(parts.bytes(packed, field)) };
    let bits = vandq_u8(vshlq_u8(stored, parts.shift), vdupq_n_u8(((1u16 << WIDTH) - 1) as u8));
    vshlq_u8(bits, vdupq_n_s8((position(BITS, WIDTH) & 7) as i8))
}

/// How heads of BITS stored bits are put together.
struct Assembly<const BITS: usize> {
    /// The constant sign.
    sign: uint16x8_t,
}

impl<const BITS: usize> Assembly<BITS> {
    /// Two, five or eight mantissa bits are stored, and the sign above them or not.
    const HAS_SIGN: bool = BITS.is_multiple_of(3);
    const LOW: usize = BITS - Self::HAS_SIGN as usize;

    #[target_feature(enable = "neon")]
    fn new(format: HeadFormat) -> Self {
        let sign = if let HeadSign::Constant(true) = format.sign { 0x8000 } else { 0 };
        Self { sign: vdupq_n_u16(sign) }
    }

    /// Eight heads. Octaves are above as many zero bits as symbols have mantissa bits, so that they can be
    /// added as they are.
    #[inline]
    #[target_feature(enable = "neon")]
    fn head(&self, symbols: uint16x8_t, fields: uint16x8_t, octaves: uint16x8_t) -> uint16x8_t {
        let shift_left = |numbers, bits: usize| vshlq_u16(numbers, vdupq_n_s16(bits as i16));
        let top = shift_left(vaddq_u16(symbols, octaves), Self::LOW);
        let low = (1u16 << Self::LOW) - 1;
        if !Self::HAS_SIGN {
            // The fields end where the top begins.
            return vbslq_u16(vdupq_n_u16(0x8000), self.sign, vorrq_u16(top, fields));
        }
        // The sign is the field's top bit. In wide fields the bits below it must not go along.
        let signs = if BITS < 8 { fields } else { vbicq_u16(fields, vdupq_n_u16(low)) };
        let fields = vorrq_u16(shift_left(signs, 15 - Self::LOW), fields);
        vbslq_u16(vdupq_n_u16(low | 0x8000), fields, top)
    }
}
