//! Floats to nested streams and planes.

use super::code::Code;
use super::element_count;
use super::geometry::FloatFields;
use super::model::NestedModel;
use super::shifts::Shifts;
use super::steps::Steps;
use super::streams::{BitStream, LOOKAHEAD, NESTED_CHUNK};
use super::tail::{self, TailWord};
use crate::arch::{Instructions, dispatch};
use crate::error::Result;
use crate::frame::wire::put_length;

/// Bytes that the length of a block of the usual size takes.
const LIKELY_LENGTH: usize = 3;

impl NestedModel {
    /// Appends a block.
    pub(super) fn encode_block(&self, bytes: &[u8], start: usize, out: &mut Vec<u8>) -> Result<()> {
        // The length comes first but is known last; with as many bytes as are likely, nothing has to move.
        let place = out.len();
        out.extend_from_slice(&[0; LIKELY_LENGTH]);
        encode(bytes, self.geometry, self.shifts(start), out)?;
        let mut length = Vec::with_capacity(LIKELY_LENGTH);
        put_length(&mut length, out.len() - place - LIKELY_LENGTH);
        out.splice(place..place + LIKELY_LENGTH, length);
        Ok(())
    }
}

/// Appends the nested form of whole elements.
pub(super) fn encode(
    elements: &[u8],
    geometry: FloatFields,
    shifts: Shifts<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    dispatch!(kernel => kernel.vectorised(
        #[inline(always)]
        || encode_with(kernel, elements, geometry, shifts, out),
    ))
}

#[inline(always)]
fn encode_with<K: Steps>(
    kernel: K,
    elements: &[u8],
    geometry: FloatFields,
    shifts: Shifts<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    match geometry.width {
        1 => encode_words::<K, u8>(kernel, elements, geometry, shifts, out),
        2 => encode_words::<K, u16>(kernel, elements, geometry, shifts, out),
        _ => encode_words::<K, u32>(kernel, elements, geometry, shifts, out),
    }
}

#[inline(always)]
fn encode_words<K: Steps, T: TailWord>(
    kernel: K,
    elements: &[u8],
    geometry: FloatFields,
    shifts: Shifts<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let count = element_count(elements.len(), geometry, &shifts)?;
    let mut symbols = vec![0; count];
    let chunk_bytes = NESTED_CHUNK * T::BYTES;
    let mut tails = Vec::with_capacity(count.div_ceil(NESTED_CHUNK));
    // A loop rather than a closure, which would not be compiled for the kernel's instructions.
    for (elements, symbols) in elements.chunks(chunk_bytes).zip(symbols.chunks_mut(NESTED_CHUNK)) {
        tails.push(tail::split::<T>(elements, geometry, symbols));
    }
    shifts.subtract(0, &mut symbols);
    let code = Code::design(&kernel.histogram(&symbols));
    let mut levels: Vec<BitStream> =
        code.widths.iter().map(|&width| BitStream::with_room_for(count * width as usize)).collect();
    let mut spelled = Vec::new();
    kernel.encode_nested(&symbols, &code, &mut levels, &mut spelled);

    let mut levels = levels.into_iter().map(BitStream::finish);
    let first = levels.next().unwrap_or_default();
    let deeper: Vec<Vec<u8>> = levels.collect();
    let spelled = code.spelled.then_some(spelled);
    code.write(out);
    for stream in deeper.iter().chain(&spelled) {
        out.extend_from_slice(&(stream.len() as u32).to_le_bytes());
    }
    out.extend(tails.iter().map(|tail| tail.to_byte()));
    for stream in deeper.iter().chain(&spelled).chain([&first]) {
        out.extend_from_slice(stream);
    }
    for (elements, &tail) in elements.chunks(chunk_bytes).zip(&tails) {
        kernel.store_tail::<T>(elements, tail, out);
    }
    out.extend_from_slice(&[0; LOOKAHEAD]);
    Ok(())
}
