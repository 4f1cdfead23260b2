//! Floats to symbols, escapes and planes, one block at a time.

use super::model::FloatModel;
use super::scale::{STEPS, Scales};
use super::{CENTRE, CHUNK, EXPONENT_PARTS, JOINT_BITS, low_bits};
use crate::arch::Kernel;
use crate::dtype::FloatLayout;
use crate::entropy::rans;
use crate::error::Result;
use crate::frame::wire::put_length;

/// The temporaries of one chunk.
#[derive(Debug)]
pub(super) struct SymbolScratch {
    length: usize,
    heads: [u16; CHUNK],
    expected: [i16; CHUNK],
    symbols: [u8; CHUNK],
    contexts: [u8; CHUNK],
}

impl Default for SymbolScratch {
    fn default() -> Self {
        Self { length: 0, heads: [0; CHUNK], expected: [0; CHUNK], symbols: [0; CHUNK], contexts: [0; CHUNK] }
    }
}

impl SymbolScratch {
    /// Computes the symbols and contexts of the elements in `chunk`, the first of which is element `start` of the section.
    #[inline(always)]
    pub fn transform(&mut self, layout: FloatLayout, scales: &Scales, chunk: &[u8], start: usize) {
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
            let inside = part > 0 && part < EXPONENT_PARTS as i16;
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
    pub fn negative(&self) -> u64 {
        self.heads[..self.length].iter().map(|head| u32::from(head >> 15)).sum::<u32>().into()
    }
}

impl FloatModel {
    /// Appends the block of whole elements `bytes`, the first of which is element `start` of the section.
    pub fn encode(&self, bytes: &[u8], start: usize, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        let width = self.layout.width;
        let count = bytes.len() / width;
        let mantissa_bits = self.layout.head_mantissa_bits();
        let mantissa_mask = (1u16 << (mantissa_bits - JOINT_BITS)) - 1;
        let sign_shift = 15 - (mantissa_bits - JOINT_BITS);
        let (mut symbols, mut contexts) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut escapes, mut low) = (Vec::new(), Vec::new());
        let mut scratch = SymbolScratch::default();
        let mut fields = [0u16; CHUNK];
        for (index, chunk) in bytes.chunks(CHUNK * width).enumerate() {
            kernel.vectorised(
                #[inline(always)]
                || scratch.transform(self.layout, &self.scales, chunk, start + index * CHUNK),
            );
            let begin = symbols.len();
            let (chunk_symbols, chunk_contexts) = scratch.symbols();
            symbols.extend_from_slice(chunk_symbols);
            contexts.extend_from_slice(chunk_contexts);
            for ((symbol, &context), head) in
                symbols[begin..].iter_mut().zip(chunk_contexts).zip(&scratch.heads)
            {
                if *symbol >> JOINT_BITS == 0 || !self.has_symbol(context, *symbol) {
                    *symbol &= (1 << JOINT_BITS) - 1;
                    escapes.push((head & 0x7fff) >> mantissa_bits);
                }
            }
            let fields = &mut fields[..scratch.length];
            let constant_sign = self.constant_sign.is_some();
            let bits = self.low_bits();
            kernel.vectorised(
                #[inline(always)]
                || {
                    for (field, head) in fields.iter_mut().zip(&scratch.heads) {
                        let sign = if constant_sign { 0 } else { (head & 0x8000) >> sign_shift };
                        *field = head & mantissa_mask | sign;
                    }
                    low_bits::pack(fields, bits, &mut low);
                },
            );
        }
        if !self.has_contexts() {
            contexts.clear();
        }
        let mut stream = Vec::with_capacity(count);
        rans::encode(&self.encoder, &symbols, &contexts, &mut stream);
        put_length(out, stream.len());
        out.extend_from_slice(&stream);
        put_length(out, escapes.len());
        // An exponent of more than eight bits takes two bytes.
        let wide = self.layout.exponent_bits > 8;
        for escape in escapes {
            out.extend_from_slice(&escape.to_le_bytes()[..1 + usize::from(wide)]);
        }
        out.extend_from_slice(&low);
        let mut plane = Vec::with_capacity(count);
        for (tail, model) in self.tails.iter().enumerate() {
            plane.clear();
            plane.extend(bytes.chunks_exact(width).map(|element| element[tail]));
            model.encode(&plane, out);
        }
        Ok(())
    }
}
