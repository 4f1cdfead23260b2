//! Floats to symbols, escapes and planes, one block at a time.

use super::model::FloatModel;
use super::scale::{STEPS_PER_OCTAVE, Scales};
use super::{CENTRE, ESCAPE_STRETCH, EXPONENT_PARTS, FLOAT_CHUNK, JOINT_BITS, low_bits};
use crate::arch;
use crate::dtype::FloatLayout;
use crate::entropy::{plane, rans};
use crate::error::Result;
use crate::frame::wire::put_length;
use std::cell::{Cell, RefCell};

/// The exponent parts that have symbols; all others are escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::transform) struct ExponentParts {
    pub first: i16,
    pub last: i16,
}

impl ExponentParts {
    /// All that a symbol can express.
    pub const ALL: Self = Self { first: 1, last: EXPONENT_PARTS as i16 - 1 };
}

/// The temporaries of one chunk. Each thread has one, since setting it up takes longer than transforming a
/// small tensor.
#[derive(Debug)]
pub(super) struct SymbolScratch {
    heads: Heads,
    symbols: [u8; FLOAT_CHUNK],
    contexts: [u8; FLOAT_CHUNK],
}

/// The heads of one chunk and what is expected of them.
#[derive(Debug)]
struct Heads {
    length: usize,
    heads: [u16; FLOAT_CHUNK],
    expected: [i16; FLOAT_CHUNK],
    fields: [u16; FLOAT_CHUNK],
}

thread_local! {
    static SYMBOL_SCRATCH: RefCell<Box<SymbolScratch>> = RefCell::new(Box::new(SymbolScratch {
        heads: Heads { length: 0, heads: [0; FLOAT_CHUNK], expected: [0; FLOAT_CHUNK], fields: [0; FLOAT_CHUNK] },
        symbols: [0; FLOAT_CHUNK],
        contexts: [0; FLOAT_CHUNK],
    }));
}

/// Bytes of escapes that blocks have room for; where they are more, the block is moved. A round number: an
/// eighth of a block of floats.
const FEW_ESCAPES: usize = 1 << 14;

/// What a block becomes before it is written. Each thread keeps one, as it does a [`SymbolScratch`].
#[derive(Debug, Default)]
struct FloatScratch {
    symbols: Vec<u8>,
    contexts: Vec<u8>,
    escapes: Vec<u8>,
    /// The escapes as they are written.
    coded_escapes: Vec<u8>,
}

thread_local! {
    static BLOCK: RefCell<FloatScratch> = RefCell::default();
    /// A block that is made to be copied.
    static COPIED_BLOCK: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl SymbolScratch {
    /// Runs `work` with this thread's scratch.
    pub fn with<R>(work: impl FnOnce(&mut Self) -> R) -> R {
        SYMBOL_SCRATCH.with_borrow_mut(|scratch| work(scratch))
    }

    /// Computes the symbols and contexts of the elements in `chunk`, the first of which is element `start` of
    /// the section.
    #[inline(always)]
    pub fn transform(&mut self, layout: FloatLayout, scales: &Scales, chunk: &[u8], start: usize) {
        self.heads.read(layout, scales, chunk, start);
        self.heads.symbols(layout, ExponentParts::ALL, &mut self.symbols, &mut self.contexts);
        let codes = self.symbols.iter().zip(&self.contexts);
        for (code, (&symbol, &context)) in self.heads.fields[..self.heads.length].iter_mut().zip(codes) {
            *code = u16::from_le_bytes([symbol, context]);
        }
    }

    /// The symbols of the chunk with their contexts as the high bytes.
    pub fn codes(&self) -> &[u16] {
        &self.heads.fields[..self.heads.length]
    }

    /// How many elements of the chunk have their sign bit set.
    #[inline(always)]
    pub fn negative(&self) -> u64 {
        let heads = &self.heads.heads[..self.heads.length];
        heads.iter().map(|head| u32::from(head >> 15)).sum::<u32>().into()
    }
}

impl Heads {
    /// Takes in the elements of `chunk`, the first of which is element `start` of the section.
    #[inline(always)]
    fn read(&mut self, layout: FloatLayout, scales: &Scales, chunk: &[u8], start: usize) {
        self.length = (chunk.len() / layout.width).min(FLOAT_CHUNK);
        layout.read_heads(chunk, &mut self.heads[..self.length]);
        scales.fill(start, &mut self.expected[..self.length]);
    }

    /// Computes their symbols and contexts. Exponent parts outside `parts` become escapes.
    #[inline(always)]
    fn symbols(&self, layout: FloatLayout, parts: ExponentParts, symbols: &mut [u8], contexts: &mut [u8]) {
        let mantissa_bits = layout.head_mantissa_bits();
        let joint_mask = (1u16 << JOINT_BITS) - 1;
        let (heads, expected) = (&self.heads[..self.length], &self.expected[..self.length]);
        for ((symbol, context), (&head, &expected)) in
            symbols.iter_mut().zip(contexts).zip(heads.iter().zip(expected))
        {
            let exponent = ((head & 0x7fff) >> mantissa_bits) as i16;
            let part = exponent - (expected >> STEPS_PER_OCTAVE.trailing_zeros()) + CENTRE as i16;
            let inside = part >= parts.first && part <= parts.last;
            let part = if inside { part } else { 0 };
            let joint = head >> (mantissa_bits - JOINT_BITS) & joint_mask;
            *symbol = (part << JOINT_BITS) as u8 | joint as u8;
            *context = (expected & (STEPS_PER_OCTAVE - 1) as i16) as u8;
        }
    }
}

impl FloatModel {
    /// Appends the block of whole elements `bytes`, the first of which is element `start` of the section.
    pub(super) fn encode_block(&self, bytes: &[u8], start: usize, out: &mut Vec<u8>) -> Result<()> {
        let mut memory = COPIED_BLOCK.take();
        let begin = self.encode_block_within(bytes, start, &mut memory)?;
        out.extend_from_slice(&memory[begin..]);
        COPIED_BLOCK.set(memory);
        Ok(())
    }

    /// Makes the block in place of whatever is in `memory`, and returns where it begins; it ends where the
    /// memory does, and there is room for a byte before it. Symbols are coded from the last to the first, so
    /// the block grows from the verbatim bits to both ends, and nothing has to be moved.
    pub(super) fn encode_block_within(
        &self,
        bytes: &[u8],
        start: usize,
        memory: &mut Vec<u8>,
    ) -> Result<usize> {
        let (width, count) = (self.layout.width, bytes.len() / self.layout.width);
        let begin = BLOCK.with_borrow_mut(|block| -> Result<usize> {
            let mut end = 1 + rans::room_for(count) + FEW_ESCAPES;
            memory.resize(end, 0);
            self.transform(bytes, start, block, memory);
            let escapes = &mut block.coded_escapes;
            escapes.clear();
            put_length(escapes, block.escapes.len());
            plane::write_bytes(&block.escapes, escapes)?;
            if let Some(missing @ 1..) = escapes.len().checked_sub(FEW_ESCAPES) {
                memory.splice(..0, std::iter::repeat_n(0, missing));
                end += missing;
            }
            let room = &mut memory[..end];
            let (room, place) = room.split_at_mut(end - escapes.len());
            place.copy_from_slice(escapes);
            let (lanes, tables) = (self.lanes(count), self.tables.encoder());
            Ok(rans::encode_before(lanes, tables, &block.symbols, &block.contexts, room))
        })?;
        self.tails.encode(bytes, width, start, memory);
        self.signs.encode(self.layout, bytes, memory);
        Ok(begin)
    }

    /// Computes the symbols, contexts and escapes of a block, and appends its verbatim bits.
    fn transform(&self, bytes: &[u8], start: usize, block: &mut FloatScratch, low: &mut Vec<u8>) {
        let count = bytes.len() / self.layout.width;
        block.symbols.resize(count, 0);
        block.contexts.resize(count, 0);
        block.escapes.clear();
        let pieces = block.symbols.chunks_mut(FLOAT_CHUNK).zip(block.contexts.chunks_mut(FLOAT_CHUNK));
        SymbolScratch::with(|scratch| {
            let heads = &mut scratch.heads;
            for (index, (chunk, (symbols, contexts))) in
                bytes.chunks(FLOAT_CHUNK * self.layout.width).zip(pieces).enumerate()
            {
                arch::vectorised(
                    #[inline(always)]
                    || {
                        heads.read(self.layout, &self.scales, chunk, start + index * FLOAT_CHUNK);
                        heads.symbols(self.layout, self.parts, symbols, contexts);
                        self.collect_escapes(heads, symbols, &mut block.escapes);
                        self.pack_low_bits(heads, low);
                    },
                );
            }
        });
        if !self.has_contexts() {
            block.contexts.clear();
        }
    }

    /// Appends the exponents of the chunk's escapes, which are rare: most stretches are passed over by one
    /// comparison.
    #[inline(always)]
    fn collect_escapes(&self, heads: &Heads, symbols: &[u8], escapes: &mut Vec<u8>) {
        for (symbols, heads) in symbols.chunks(ESCAPE_STRETCH).zip(heads.heads.chunks(ESCAPE_STRETCH)) {
            if symbols.iter().fold(u8::MAX, |least, &symbol| least.min(symbol)) >> JOINT_BITS != 0 {
                continue;
            }
            for (symbols, heads) in symbols.chunks(8).zip(heads.chunks(8)) {
                let mut escaped = escaped_places(symbols);
                while escaped != 0 {
                    let head = heads[escaped.trailing_zeros() as usize / 8 % heads.len()];
                    let exponent = (head & 0x7fff) >> self.layout.head_mantissa_bits();
                    escapes.extend_from_slice(&exponent.to_le_bytes()[..self.escape_bytes()]);
                    escaped &= escaped - 1;
                }
            }
        }
    }

    /// Appends the chunk's verbatim bits.
    #[inline(always)]
    fn pack_low_bits(&self, heads: &mut Heads, low: &mut Vec<u8>) {
        let verbatim = self.layout.head_mantissa_bits() - JOINT_BITS;
        let mantissa_mask = (1u16 << verbatim) - 1;
        let sign_mask = if self.signs.verbatim_bits() == 0 { 0 } else { 0x8000 };
        let fields = &mut heads.fields[..heads.length];
        for (field, head) in fields.iter_mut().zip(&heads.heads) {
            *field = head & mantissa_mask | (head & sign_mask) >> (15 - verbatim);
        }
        low_bits::pack(fields, self.low_bits(), low);
    }
}

/// The highest bit of each byte that stands for an escape among eight symbols or fewer, the first of which is
/// the lowest byte.
#[inline(always)]
fn escaped_places(symbols: &[u8]) -> u64 {
    const HIGHEST: u64 = 0x8080_8080_8080_8080;
    let mut bytes = [u8::MAX; 8];
    bytes[..symbols.len()].copy_from_slice(symbols);
    let parts = u64::from_le_bytes(bytes) >> JOINT_BITS & 0x3f3f_3f3f_3f3f_3f3f;
    // Exponent parts are below the highest bit, which a subtraction takes from those that are zero only.
    !((parts | HIGHEST) - (HIGHEST >> 7)) & HIGHEST
}
