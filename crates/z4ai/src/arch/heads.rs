//! What the decoders of float heads share on all instruction sets: which loop runs, where the words of a
//! stream end, and where the verbatim bits are.
#![allow(unsafe_code)]

use crate::entropy::rans::{DecoderTables, LANES, MOST_LANES, SymbolDecoder};
use crate::error::{Error, Result};
use crate::transform::float::{self, ExpectedRest, HeadChunk, HeadInputs, HeadSign};
use std::ops::Range;

/// Elements that are decoded at a time where the words end, since loops read further than they need.
const LAST_HEADS: usize = 2 * MOST_LANES;

/// Decodes the heads of a chunk with the loops of `L`; `kernel` decodes those that have no loop.
///
/// # Safety
///
/// The CPU must have the instructions of `L`.
pub(super) unsafe fn decode_chunk<L: HeadLoops>(
    kernel: impl float::Steps,
    chunk: &mut HeadChunk,
    heads: &mut [u16],
) -> Result<()> {
    let whole = chunk.symbols.lanes >= LANES && heads.len().is_multiple_of(8 * LANES);
    if !whole || !has_loop(chunk) {
        return float::decode_heads(kernel, chunk, heads);
    }
    let (symbols, inputs, escaped) = chunk.inputs(heads.len());
    let SymbolDecoder { tables, states, lanes, words } = symbols;
    let (states, count) = (&mut states[..*lanes], heads.len());
    let mut decode_from = |words: &[u8], range| {
        // SAFETY: the caller vouches for the instructions.
        unsafe { decode_heads::<L>(HeadCall { tables, inputs, states, words, range, escaped, heads }) }
    };
    let (mut done, bytes) = decode_from(words, 0..count);
    *words = words.get(bytes..).unwrap_or_default();
    while done < count {
        let mut padded = [0; 4 * LAST_HEADS];
        let rest = words.len().min(2 * LAST_HEADS);
        padded.iter_mut().zip(&words[..rest]).for_each(|(padded, &word)| *padded = word);
        let (next, bytes) = decode_from(&padded, done..count.min(done + LAST_HEADS));
        if next <= done || bytes > rest {
            return Err(Error::truncated("entropy-coded stream"));
        }
        *words = words.get(bytes..).unwrap_or_default();
        done = next;
    }
    Ok(())
}

/// Whether there is a loop for this number of verbatim bits; the layouts of floats have no others.
fn has_loop(chunk: &HeadChunk) -> bool {
    matches!(chunk.format().low_mantissa, 2 | 5 | 8)
}

/// A call of one of the loops. It returns up to where heads were made and how many bytes of words were read.
#[derive(Debug)]
pub(super) struct HeadCall<'a> {
    pub tables: &'a DecoderTables,
    pub inputs: HeadInputs<'a>,
    /// [`LANES`] or twice as many.
    pub states: &'a mut [u32],
    pub words: &'a [u8],
    /// Which elements of the chunk.
    pub range: Range<usize>,
    /// A bit for each element of the chunk.
    pub escaped: &'a mut [u32],
    /// All of the chunk, a multiple of 256.
    pub heads: &'a mut [u16],
}

/// The loops of a kernel that makes heads, one for each form that heads have.
pub(super) trait HeadLoops {
    /// Makes heads of BITS stored bits from streams of PARTS times [`LANES`] lanes, with or without CONTEXTS,
    /// in GROUPS of which the same is expected or not.
    ///
    /// # Safety
    ///
    /// The CPU must have the kernel's instructions.
    unsafe fn decode<const PARTS: usize, const CONTEXTS: bool, const GROUPS: bool, const BITS: usize>(
        call: HeadCall,
    ) -> (usize, usize);
}

/// Calls the loop for the number of bits that the layout has, with or without a sign.
///
/// # Safety
///
/// The CPU must have the kernel's instructions.
unsafe fn decode_heads<L: HeadLoops>(call: HeadCall) -> (usize, usize) {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        match (call.inputs.format.low_mantissa, call.inputs.format.sign) {
            (2, HeadSign::Constant(_)) => choose::<L, 2>(call),
            (2, HeadSign::Stored) => choose::<L, 3>(call),
            (5, HeadSign::Constant(_)) => choose::<L, 5>(call),
            (5, HeadSign::Stored) => choose::<L, 6>(call),
            (8, HeadSign::Constant(_)) => choose::<L, 8>(call),
            (8, HeadSign::Stored) => choose::<L, 9>(call),
            _ => (call.range.start, 0),
        }
    }
}

/// # Safety
///
/// The CPU must have the instructions of `L`.
unsafe fn choose<L: HeadLoops, const BITS: usize>(call: HeadCall) -> (usize, usize) {
    let contexts = call.tables.slots().len() > 1 << call.tables.precision();
    let groups = matches!(call.inputs.expected.rest(), ExpectedRest::Same(_));
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        match (call.states.len() > LANES, contexts, groups) {
            (false, false, false) => L::decode::<1, false, false, BITS>(call),
            (false, false, true) => L::decode::<1, false, true, BITS>(call),
            (false, true, false) => L::decode::<1, true, false, BITS>(call),
            (false, true, true) => L::decode::<1, true, true, BITS>(call),
            (true, false, false) => L::decode::<2, false, false, BITS>(call),
            (true, false, true) => L::decode::<2, false, true, BITS>(call),
            (true, true, false) => L::decode::<2, true, false, BITS>(call),
            (true, true, true) => L::decode::<2, true, true, BITS>(call),
        }
    }
}

/// What is expected of the heads of a call whose lengths agree, which kernels rely on.
pub(super) struct Checked<'a> {
    pub octaves: &'a [i16],
    pub offsets: &'a [u16],
    pub line_octaves: &'a [i16],
    pub line_places: &'a [u32],
}

impl<'a> HeadCall<'a> {
    /// Makes sure that there is as much of everything as the loop with these parameters looks at.
    #[inline(always)]
    pub(super) fn check<const PARTS: usize, const CONTEXTS: bool, const GROUPS: bool, const BITS: usize>(
        &self,
    ) -> Checked<'a> {
        let HeadInputs { expected, packed, .. } = self.inputs;
        let (octaves, offsets, line_octaves, line_places) = match expected.rest() {
            ExpectedRest::Same(offsets) => (expected.octaves(), offsets, &[][..], &[][..]),
            ExpectedRest::Lines { lines, places } => {
                (expected.octaves(), lines.offsets(), lines.octaves(), places)
            }
        };
        let (count, lanes, range) = (self.heads.len(), PARTS * LANES, &self.range);
        assert!(count.is_multiple_of(8 * LANES) && self.escaped.len() == count / LANES);
        assert!(range.start.is_multiple_of(lanes) && range.end <= count && range.end.is_multiple_of(lanes));
        assert!(self.states.len() == lanes && octaves.len() == count / LANES);
        if GROUPS {
            assert!(!CONTEXTS || offsets.len() == octaves.len());
        } else {
            let last = line_octaves.len().checked_sub(LANES);
            assert!(line_places.len() == octaves.len() && (!CONTEXTS || offsets.len() == line_octaves.len()));
            let furthest = line_places.iter().fold(0, |most, &place| place.max(most));
            assert!(last.is_some_and(|last| furthest as usize <= last));
        }
        // Slots and offsets below a power of two are still below it when they are combined with `or`.
        assert!(!CONTEXTS || expected.slots() <= self.tables.slots().len());
        assert!(packed.len() >= count / 8 * BITS);
        Checked { octaves, offsets, line_octaves, line_places }
    }
}

/// Where the parts of packed fields of BITS bits are, for as many fields as the shifts stay the same. See
/// `low_bits` for how fields are stored. `S` is what an instruction set shifts a register by.
pub(super) struct LowBits<S, const BITS: usize> {
    pub eights: BitField<S>,
    pub fours: BitField<S>,
    pub twos: BitField<S>,
    pub ones: BitField<S>,
    /// The first field that this is not true for.
    pub end: usize,
}

impl<S, const BITS: usize> LowBits<S, BITS> {
    /// The parts of `count` fields, a multiple of 256, from field `start` on, a multiple of 32.
    #[inline(always)]
    pub fn new(count: usize, start: usize, shift: impl Fn(usize) -> S) -> Self {
        // Narrower parts are in fewer bytes, and go over to the next bits of these sooner.
        let narrowest = BITS & BITS.wrapping_neg();
        let stride = (count / 8 * narrowest).max(1);
        let part = |width: usize| {
            let stride = (count / 8 * width).max(1);
            let turn = start / stride;
            let begin = (count / 8 * position(BITS, width)) as isize - (turn * stride) as isize;
            BitField { start: begin, shift: shift(turn * width) }
        };
        Self {
            eights: part(8),
            fours: part(4),
            twos: part(2),
            ones: part(1),
            end: (start / stride + 1) * stride,
        }
    }
}

/// Where a part of `width` bits is in fields of so many bits that have one; wider parts are below it.
pub(super) const fn position(bits: usize, width: usize) -> usize {
    bits & !(2 * width - 1)
}

/// Where the parts of one width are.
pub(super) struct BitField<S> {
    /// Where the byte of field 0 would be, if its bits were in the place of these; may lie before the packed
    /// fields.
    start: isize,
    /// By how much the bits of a byte are moved to the right.
    pub shift: S,
}

impl<S> BitField<S> {
    /// The bytes of the parts of `field` and those after it.
    ///
    /// # Safety
    ///
    /// Fields must have such a part, `packed` must hold as many fields as this was made for, and `field` must
    /// lie between where this begins and ends.
    #[inline(always)]
    pub unsafe fn bytes(&self, packed: &[u8], field: usize) -> *const u8 {
        // SAFETY: wider parts take their bits of each field and come first; the bytes that follow are inside.
        unsafe { packed.as_ptr().offset(self.start + field as isize) }
    }
}
