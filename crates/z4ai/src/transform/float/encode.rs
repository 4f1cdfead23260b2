//! Floats to symbols, escapes and planes, one block at a time.

use super::model::FloatModel;
use super::scale::{STEPS, Scales};
use super::{CENTRE, CHUNK, ESCAPE_STRETCH, EXPONENT_PARTS, JOINT_BITS, low_bits};
use crate::arch::Kernel;
use crate::dtype::FloatLayout;
use crate::entropy::{plane, rans};
use crate::error::Result;
use crate::frame::wire::put_length;
use std::cell::RefCell;

/// The exponent parts that have symbols; all others are escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    pub first: i16,
    pub last: i16,
}

impl Parts {
    /// All that a symbol can express.
    pub const ALL: Self = Self { first: 1, last: EXPONENT_PARTS as i16 - 1 };
}

/// The temporaries of one chunk. Each thread has one, since setting it up takes longer than transforming a small tensor.
#[derive(Debug)]
pub(super) struct SymbolScratch {
    heads: Heads,
    symbols: [u8; CHUNK],
    contexts: [u8; CHUNK],
}

/// The heads of one chunk and what is expected of them.
#[derive(Debug)]
struct Heads {
    length: usize,
    heads: [u16; CHUNK],
    expected: [i16; CHUNK],
    fields: [u16; CHUNK],
}

thread_local! {
    static SCRATCH: RefCell<Box<SymbolScratch>> = RefCell::new(Box::new(SymbolScratch {
        heads: Heads { length: 0, heads: [0; CHUNK], expected: [0; CHUNK], fields: [0; CHUNK] },
        symbols: [0; CHUNK],
        contexts: [0; CHUNK],
    }));
}

/// What a block becomes before it is written. Kept per thread, for the same reason.
#[derive(Debug, Default)]
struct BlockScratch {
    symbols: Vec<u8>,
    contexts: Vec<u8>,
    escapes: Vec<u8>,
    low: Vec<u8>,
}

thread_local! {
    static BLOCK: RefCell<BlockScratch> = RefCell::default();
}

impl SymbolScratch {
    /// Runs `work` with this thread's scratch.
    pub fn with<R>(work: impl FnOnce(&mut Self) -> R) -> R {
        SCRATCH.with_borrow_mut(|scratch| work(scratch))
    }

    /// Computes the symbols and contexts of the elements in `chunk`, the first of which is element `start` of the section.
    #[inline(always)]
    pub fn transform(&mut self, layout: FloatLayout, scales: &Scales, chunk: &[u8], start: usize) {
        self.heads.read(layout, scales, chunk, start);
        self.heads.symbols(layout, Parts::ALL, &mut self.symbols, &mut self.contexts);
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
        self.length = (chunk.len() / layout.width).min(CHUNK);
        layout.read_heads(chunk, &mut self.heads[..self.length]);
        scales.fill(start, &mut self.expected[..self.length]);
    }

    /// Computes their symbols and contexts. Exponent parts outside `parts` become escapes.
    #[inline(always)]
    fn symbols(&self, layout: FloatLayout, parts: Parts, symbols: &mut [u8], contexts: &mut [u8]) {
        let mantissa_bits = layout.head_mantissa_bits();
        let joint_mask = (1u16 << JOINT_BITS) - 1;
        let (heads, expected) = (&self.heads[..self.length], &self.expected[..self.length]);
        for ((symbol, context), (&head, &expected)) in
            symbols.iter_mut().zip(contexts).zip(heads.iter().zip(expected))
        {
            let exponent = ((head & 0x7fff) >> mantissa_bits) as i16;
            let part = exponent - (expected >> STEPS.trailing_zeros()) + CENTRE as i16;
            let inside = part >= parts.first && part <= parts.last;
            let part = if inside { part } else { 0 };
            let joint = head >> (mantissa_bits - JOINT_BITS) & joint_mask;
            *symbol = (part << JOINT_BITS) as u8 | joint as u8;
            *context = (expected & (STEPS - 1) as i16) as u8;
        }
    }
}

impl FloatModel {
    /// Appends the block of whole elements `bytes`, the first of which is element `start` of the section.
    pub fn encode(&self, bytes: &[u8], start: usize, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        let width = self.layout.width;
        BLOCK.with_borrow_mut(|block| -> Result<()> {
            self.transform(bytes, start, kernel, block);
            let lanes = self.lanes(block.symbols.len());
            rans::encode_in(lanes, self.tables.encoder(), &block.symbols, &block.contexts, kernel, out);
            put_length(out, block.escapes.len());
            plane::write_bytes(&block.escapes, kernel, out)?;
            out.extend_from_slice(&block.low);
            Ok(())
        })?;
        self.tails.encode(bytes, width, start, kernel, out);
        self.signs.encode(self.layout, bytes, &self.scales, start, kernel, out)
    }

    /// Computes the symbols, contexts, escapes and verbatim bits of a block.
    fn transform(&self, bytes: &[u8], start: usize, kernel: Kernel, block: &mut BlockScratch) {
        let count = bytes.len() / self.layout.width;
        block.symbols.resize(count, 0);
        block.contexts.resize(count, 0);
        block.escapes.clear();
        block.low.clear();
        let pieces = block.symbols.chunks_mut(CHUNK).zip(block.contexts.chunks_mut(CHUNK));
        SymbolScratch::with(|scratch| {
            let heads = &mut scratch.heads;
            for (index, (chunk, (symbols, contexts))) in
                bytes.chunks(CHUNK * self.layout.width).zip(pieces).enumerate()
            {
                kernel.vectorised(
                    #[inline(always)]
                    || {
                        heads.read(self.layout, &self.scales, chunk, start + index * CHUNK);
                        heads.symbols(self.layout, self.parts, symbols, contexts);
                        self.collect_escapes(heads, symbols, &mut block.escapes);
                        self.pack_low_bits(heads, &mut block.low);
                    },
                );
            }
        });
        if !self.has_contexts() {
            block.contexts.clear();
        }
    }

    /// Appends the exponents of the chunk's escapes, which are rare: most stretches are passed over by one comparison.
    #[inline(always)]
    fn collect_escapes(&self, heads: &Heads, symbols: &[u8], escapes: &mut Vec<u8>) {
        for (symbols, heads) in symbols.chunks(ESCAPE_STRETCH).zip(heads.heads.chunks(ESCAPE_STRETCH)) {
            if symbols.iter().fold(u8::MAX, |least, &symbol| least.min(symbol)) >> JOINT_BITS != 0 {
                continue;
            }
            for (_, head) in symbols.iter().zip(heads).filter(|(symbol, _)| *symbol >> JOINT_BITS == 0) {
                let exponent = (head & 0x7fff) >> self.layout.head_mantissa_bits();
                escapes.extend_from_slice(&exponent.to_le_bytes()[..self.escape_bytes()]);
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
