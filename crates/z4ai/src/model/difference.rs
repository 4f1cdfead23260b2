//! Elements that are not floats, against a reference: the difference of each from its predecessor there, modulo the width, coded with whatever model suits the
//! differences.

use super::Model;
use crate::arch::Kernel;
use crate::decompress::zeroed;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// The model of a section's differences.
#[derive(Debug)]
pub(crate) struct DifferenceModel {
    width: usize,
    inner: Box<Model>,
}

impl DifferenceModel {
    /// Wraps the model that was made for the [`differences`] of a section.
    pub fn new(width: usize, inner: Model) -> Self {
        Self { width, inner: Box::new(inner) }
    }

    /// Appends the model.
    pub fn write(&self, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        self.inner.write(kernel, out)
    }

    /// Reads the model of a section of `length` bytes.
    pub fn read(reader: &mut Reader, dtype: Option<Dtype>, length: usize, kernel: Kernel) -> Result<Self> {
        if let Some(&(super::DIFFERENCE | super::REFERENCE | super::STORED)) = reader.peek().first() {
            return Err(Error::corrupt("differences are coded with a model that needs no reference"));
        }
        let inner = Model::read_from(reader, dtype, length, kernel)?;
        Ok(Self::new(dtype.map_or(1, Dtype::scalar_width), inner))
    }

    /// Appends a block.
    pub fn encode(
        &self,
        bytes: &[u8],
        start: usize,
        reference: &[u8],
        kernel: Kernel,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let differences = differences(bytes, reference, self.width, kernel)?;
        self.inner.encode(&differences, start, &[], kernel, out)
    }

    /// Decodes a block.
    pub fn decode(
        &self,
        reader: &mut Reader,
        start: usize,
        reference: &[u8],
        kernel: Kernel,
        out: &mut [u8],
    ) -> Result<()> {
        if reference.len() != out.len() {
            return Err(Error::corrupt("differences from elements that the reference does not have"));
        }
        self.inner.decode(reader, start, &[], kernel, out)?;
        kernel.vectorised(
            #[inline(always)]
            || {
                combine(
                    out,
                    reference,
                    self.width,
                    u8::wrapping_add,
                    u16::wrapping_add,
                    u32::wrapping_add,
                    u64::wrapping_add,
                )
            },
        );
        Ok(())
    }

    /// The planes of a block of `elements` elements, by name and encoded length.
    pub fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        self.inner.parts(reader, elements)
    }
}

/// Each element of `bytes` minus the one of `reference`, which is as long.
pub(crate) fn differences(bytes: &[u8], reference: &[u8], width: usize, kernel: Kernel) -> Result<Vec<u8>> {
    let mut differences = zeroed(bytes.len())?;
    differences.copy_from_slice(bytes);
    kernel.vectorised(
        #[inline(always)]
        || {
            combine(
                &mut differences,
                reference,
                width,
                u8::wrapping_sub,
                u16::wrapping_sub,
                u32::wrapping_sub,
                u64::wrapping_sub,
            )
        },
    );
    Ok(differences)
}

/// Replaces each element of `target` by a function of it and the one of `other`.
#[inline(always)]
fn combine(
    target: &mut [u8],
    other: &[u8],
    width: usize,
    bytes: impl Fn(u8, u8) -> u8,
    shorts: impl Fn(u16, u16) -> u16,
    words: impl Fn(u32, u32) -> u32,
    longs: impl Fn(u64, u64) -> u64,
) {
    match width {
        1 => each(target, other, |a: [u8; 1], b| [bytes(a[0], b[0])]),
        2 => each(target, other, |a, b| shorts(u16::from_le_bytes(a), u16::from_le_bytes(b)).to_le_bytes()),
        4 => each(target, other, |a, b| words(u32::from_le_bytes(a), u32::from_le_bytes(b)).to_le_bytes()),
        _ => each(target, other, |a, b| longs(u64::from_le_bytes(a), u64::from_le_bytes(b)).to_le_bytes()),
    }
}

#[inline(always)]
fn each<const WIDTH: usize>(
    target: &mut [u8],
    other: &[u8],
    f: impl Fn([u8; WIDTH], [u8; WIDTH]) -> [u8; WIDTH],
) {
    let (target, _) = target.as_chunks_mut::<WIDTH>();
    let (other, _) = other.as_chunks::<WIDTH>();
    for (target, &other) in target.iter_mut().zip(other) {
        *target = f(*target, other);
    }
}
