//! Floats to symbols, escapes and planes, one block at a time.

use super::model::FloatModel;
use super::scale::{STEPS, Scales};
use super::signs::Signs;
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
    length: usize,
    heads: [u16; CHUNK],
    expected: [i16; CHUNK],
    fields: [u16; CHUNK],
    symbols: [u8; CHUNK],
    contexts: [u8; CHUNK],
}

thread_local! {
    static SCRATCH: RefCell<Box<SymbolScratch>> = RefCell::new(Box::new(SymbolScratch {
        length: 0,
        heads: [0; CHUNK],
        expected: [0; CHUNK],
        fields: [0; CHUNK],
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

    /// Computes the symbols and contexts of the elements in `chunk`, the first of which is element `start` of the section. Exponent parts outside `parts`
    /// become escapes.
    #[inline(always)]
    pub fn transform(
        &mut self,
        layout: FloatLayout,
        scales: &Scales,
        parts: Parts,
        chunk: &[u8],
        start: usize,
    ) {
        self.length = (chunk.len() / layout.width).min(CHUNK);
        let heads = &mut self.heads[..self.length];
        let expected = &mut self.expected[..self.length];
        layout.read_heads(chunk, heads);
        scales.fill(start, expected);
        let mantissa_bits = layout.head_mantissa_bits();
        let joint_mask = (1u16 << JOINT_BITS) - 1;
        let symbols = self.symbols.iter_mut().zip(&mut self.contexts);
        for ((symbol, context), (&head, &expected)) in symbols.zip(heads.iter().zip(expected.iter())) {
            let exponent = ((head & 0x7fff) >> mantissa_bits) as i16;
            let part = exponent - (expected >> STEPS.trailing_zeros()) + CENTRE as i16;
            let inside = part >= parts.first && part <= parts.last;
            let part = if inside { part } else { 0 };
            let joint = head >> (mantissa_bits - JOINT_BITS) & joint_mask;
            *symbol = (part << JOINT_BITS) as u8 | joint as u8;
            *context = (expected & (STEPS - 1) as i16) as u8;
        }
    }

    /// The symbols and contexts of the chunk.
    pub fn symbols(&self) -> (&[u8], &[u8]) {
        (&self.symbols[..self.length], &self.contexts[..self.length])
    }

    /// How many elements of the chunk have their sign bit set.
    #[inline(always)]
    pub fn negative(&self) -> u64 {
        self.heads[..self.length].iter().map(|head| u32::from(head >> 15)).sum::<u32>().into()
    }
}

impl FloatModel {
    /// Appends the block of whole elements `bytes`, the first of which is element `start` of the section.
    pub fn encode(&self, bytes: &[u8], start: usize, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        let width = self.layout.width;
        BLOCK.with_borrow_mut(|block| -> Result<()> {
            self.transform(bytes, start, kernel, block);
            rans::encode(self.tables.encoder(), &block.symbols, &block.contexts, kernel, out);
            put_length(out, block.escapes.len());
            plane::write_bytes(&block.escapes, kernel, out)?;
            out.extend_from_slice(&block.low);
            Ok(())
        })?;
        self.tails.encode(bytes, width, start, kernel, out);
        if let Signs::Context(contexts) = &self.signs {
            contexts.encode(self.layout, bytes, &self.scales, start, kernel, out)?;
        }
        Ok(())
    }

    /// Computes the symbols, contexts, escapes and verbatim bits of a block.
    fn transform(&self, bytes: &[u8], start: usize, kernel: Kernel, block: &mut BlockScratch) {
        let BlockScratch { symbols, contexts, escapes, low } = block;
        [&mut *symbols, contexts, escapes, low].into_iter().for_each(|plane| plane.clear());
        SymbolScratch::with(|scratch| {
            for (index, chunk) in bytes.chunks(CHUNK * self.layout.width).enumerate() {
                let start = start + index * CHUNK;
                kernel.vectorised(
                    #[inline(always)]
                    || {
                        scratch.transform(self.layout, &self.scales, self.parts, chunk, start);
                        self.collect_escapes(scratch, escapes);
                        self.pack_low_bits(scratch, low);
                    },
                );
                let (chunk_symbols, chunk_contexts) = scratch.symbols();
                symbols.extend_from_slice(chunk_symbols);
                if self.has_contexts() {
                    contexts.extend_from_slice(chunk_contexts);
                }
            }
        });
    }

    /// Appends the exponents of the chunk's escapes, which are rare: most stretches are passed over by one comparison.
    #[inline(always)]
    fn collect_escapes(&self, scratch: &SymbolScratch, escapes: &mut Vec<u8>) {
        let (symbols, _) = scratch.symbols();
        for (symbols, heads) in symbols.chunks(ESCAPE_STRETCH).zip(scratch.heads.chunks(ESCAPE_STRETCH)) {
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
    fn pack_low_bits(&self, scratch: &mut SymbolScratch, low: &mut Vec<u8>) {
        let verbatim = self.layout.head_mantissa_bits() - JOINT_BITS;
        let mantissa_mask = (1u16 << verbatim) - 1;
        let sign_mask = if self.signs.verbatim_bits() == 0 { 0 } else { 0x8000 };
        let fields = &mut scratch.fields[..scratch.length];
        for (field, head) in fields.iter_mut().zip(&scratch.heads) {
            *field = head & mantissa_mask | (head & sign_mask) >> (15 - verbatim);
        }
        low_bits::pack(fields, self.low_bits(), low);
    }
}
