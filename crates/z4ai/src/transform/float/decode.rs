//! Symbols, escapes and planes back to floats, one block at a time.

use super::model::FloatModel;
use super::scale::STEPS;
use super::{CENTRE, CHUNK, ESCAPE_STRETCH, JOINT_BITS, low_bits};
use crate::arch::Kernel;
use crate::entropy::plane::PlaneDecoder;
use crate::entropy::rans;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// The temporaries of one chunk.
struct Scratch {
    expected: [i16; CHUNK],
    offsets: [u16; CHUNK],
    symbols: [u8; CHUNK],
    fields: [u16; CHUNK],
    heads: [u16; CHUNK],
    tails: [[u8; CHUNK]; 6],
}

impl FloatModel {
    /// Decodes a block into `out`, whole elements of which the first is element `start` of the section.
    pub fn decode(&self, reader: &mut Reader, start: usize, kernel: Kernel, out: &mut [u8]) -> Result<()> {
        let width = self.layout.width;
        let count = out.len() / width;
        let mut symbols = rans::Decoder::open(&self.decoder, reader, count, kernel)?;
        let escape_bytes = reader.length()?.checked_mul(self.escape_bytes());
        let mut escapes = reader.take(escape_bytes.ok_or_else(|| Error::truncated("escapes"))?)?;
        let bits = self.low_bits();
        let mut low = reader.take(low_bits::packed_len(count, bits))?;
        let mut tails: Vec<PlaneDecoder> =
            self.tails.iter().map(|model| model.decoder(reader, count, kernel)).collect::<Result<_>>()?;
        let mut scratch = Scratch {
            expected: [0; CHUNK],
            offsets: [0; CHUNK],
            symbols: [0; CHUNK],
            fields: [0; CHUNK],
            heads: [0; CHUNK],
            tails: [[0; CHUNK]; 6],
        };
        for (index, chunk) in out.chunks_mut(CHUNK * width).enumerate() {
            let elements = chunk.len() / width;
            kernel.vectorised(
                #[inline(always)]
                || self.expect(start + index * CHUNK, elements, &mut scratch),
            );
            let offsets = if self.has_contexts() { &scratch.offsets[..elements] } else { &[] };
            symbols.decode(offsets, &mut scratch.symbols[..elements])?;
            let (packed, rest) = low.split_at(low_bits::packed_len(elements, bits).min(low.len()));
            low = rest;
            kernel.vectorised(
                #[inline(always)]
                || {
                    low_bits::unpack(packed, bits, &mut scratch.fields[..elements]);
                    self.assemble(elements, &mut scratch);
                    self.place_escapes(elements, &mut scratch, &mut escapes)
                },
            )?;
            let mut planes: [&[u8]; 6] = [&[]; 6];
            for ((plane, decoder), buffer) in planes.iter_mut().zip(&mut tails).zip(&mut scratch.tails) {
                *plane = decoder.next(elements, buffer)?;
            }
            let heads = &scratch.heads[..elements];
            kernel.vectorised(
                #[inline(always)]
                || interleave(width, heads, &planes, chunk),
            );
        }
        if !escapes.is_empty() {
            return Err(Error::corrupt("a block has more escapes than escape symbols"));
        }
        symbols.finish()?;
        tails.iter().try_for_each(PlaneDecoder::finish)
    }

    /// Expected exponents (into `expected`) and where the slots of their contexts begin, for the next elements.
    #[inline(always)]
    fn expect(&self, start: usize, elements: usize, scratch: &mut Scratch) {
        let expected = &mut scratch.expected[..elements];
        let precision = self.decoder.precision();
        self.scales.fill(start, expected);
        for (expected, offset) in expected.iter_mut().zip(&mut scratch.offsets) {
            *offset = ((*expected & (STEPS - 1) as i16) as u16) << precision;
            *expected = (*expected >> STEPS.trailing_zeros()) - CENTRE as i16;
        }
    }

    /// Heads from symbols and fields, with garbage for escaped exponents.
    #[inline(always)]
    fn assemble(&self, elements: usize, scratch: &mut Scratch) {
        let mantissa_bits = self.layout.head_mantissa_bits();
        let low_mantissa = mantissa_bits - JOINT_BITS;
        let exponent_mask = (1u16 << self.layout.exponent_bits) - 1;
        let mantissa_mask = (1u16 << low_mantissa) - 1;
        let joint_mask = (1u16 << JOINT_BITS) - 1;
        let sign = if self.constant_sign == Some(true) { 0x8000 } else { 0 };
        let heads = scratch.heads[..elements].iter_mut();
        let inputs = scratch.symbols.iter().zip(&scratch.fields).zip(&scratch.expected);
        for (head, ((&symbol, &field), &expected)) in heads.zip(inputs) {
            let symbol = u16::from(symbol);
            let exponent = (symbol >> JOINT_BITS).wrapping_add(expected as u16) & exponent_mask;
            *head = (field & !mantissa_mask) << (15 - low_mantissa)
                | sign
                | exponent << mantissa_bits
                | (symbol & joint_mask) << low_mantissa
                | field & mantissa_mask;
        }
    }

    /// Replaces the exponents that were escaped.
    #[inline(always)]
    fn place_escapes(&self, elements: usize, scratch: &mut Scratch, escapes: &mut &[u8]) -> Result<()> {
        let mantissa_bits = self.layout.head_mantissa_bits();
        let exponent_mask = (1u16 << self.layout.exponent_bits) - 1;
        let stretches = scratch.symbols[..elements].chunks(ESCAPE_STRETCH);
        for (symbols, heads) in stretches.zip(scratch.heads.chunks_mut(ESCAPE_STRETCH)) {
            if symbols.iter().fold(u8::MAX, |least, &symbol| least.min(symbol)) >> JOINT_BITS != 0 {
                continue;
            }
            for (_, head) in symbols.iter().zip(heads).filter(|(symbol, _)| *symbol >> JOINT_BITS == 0) {
                let (escape, rest) = escapes
                    .split_at_checked(self.escape_bytes())
                    .ok_or_else(|| Error::corrupt("a block has fewer escapes than escape symbols"))?;
                *escapes = rest;
                let exponent = escape.iter().rev().fold(0u16, |value, &byte| value << 8 | u16::from(byte));
                *head = *head & !(exponent_mask << mantissa_bits) | (exponent & exponent_mask) << mantissa_bits;
            }
        }
        Ok(())
    }
}

/// Writes whole elements from their heads and tail planes.
#[inline(always)]
fn interleave(width: usize, heads: &[u16], planes: &[&[u8]; 6], out: &mut [u8]) {
    match width {
        2 => {
            for (element, head) in out.chunks_exact_mut(2).zip(heads) {
                element.copy_from_slice(&head.to_le_bytes());
            }
        }
        4 => {
            let tails = planes[0].iter().zip(planes[1]);
            for ((element, head), (&first, &second)) in out.chunks_exact_mut(4).zip(heads).zip(tails) {
                let value = u32::from(*head) << 16 | u32::from(second) << 8 | u32::from(first);
                element.copy_from_slice(&value.to_le_bytes());
            }
        }
        _ => {
            for (index, (element, head)) in out.chunks_exact_mut(8).zip(heads).enumerate() {
                let tail = planes.iter().rev().fold(0u64, |value, plane| {
                    value << 8 | u64::from(plane.get(index).copied().unwrap_or(0))
                });
                element.copy_from_slice(&(u64::from(*head) << 48 | tail).to_le_bytes());
            }
        }
    }
}
