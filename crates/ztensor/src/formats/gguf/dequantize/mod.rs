//! From blocks to floats. Each family's decoders turn one block, an array of known size, into an array of known size, so that the
//! compiler drops every bounds check and vectorises the loops; [`run`] drives them over a tensor, on all cores when it is large.
//! Results are bit for bit those of ggml's reference: the same operations on f32 in the same order.

pub(super) mod grids;
pub(super) mod k_quants;
pub(super) mod lattice;
pub(super) mod microscaling;
pub(super) mod nonlinear;
pub(super) mod simple;
pub(super) mod ternary;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;

use super::BlockType;
use crate::error::{Error, Result};
use crate::tensor::Element;

/// Elements one task decodes: enough to outweigh its start, few enough to share out a small tensor.
const TASK: usize = 1 << 16;

/// Decodes whole blocks into floats.
///
/// ```
/// use ztensor::formats::gguf::{BlockType, dequantize};
///
/// let block = BlockType::from_layout("gguf.q8_0/1").ok_or(ztensor::Error::argument("no such layout"))?;
/// let mut blocks = vec![0; block.bytes()];
/// blocks[..2].copy_from_slice(&half::f16::from_f32(0.5).to_le_bytes());
/// blocks[2] = 3;
/// let mut values = vec![0f32; block.elements()];
/// dequantize(block, &blocks, &mut values)?;
/// assert_eq!(values[..2], [1.5, 0.0]);
/// # Ok::<(), ztensor::Error>(())
/// ```
pub fn dequantize<T: Real>(block: BlockType, blocks: &[u8], out: &mut [T]) -> Result<()> {
    let count = blocks.len() / block.bytes();
    if !blocks.len().is_multiple_of(block.bytes()) || count.checked_mul(block.elements()) != Some(out.len()) {
        return Err(Error::mismatch(format!(
            "{} bytes of {} blocks do not make {} elements",
            blocks.len(),
            block.name(),
            out.len()
        )));
    }
    block.decode(blocks, out);
    Ok(())
}

/// An element type that blocks decode to. Decoding is in f32; narrower types are rounded to nearest, ties to even.
pub trait Real: Element + sealed::Sealed {
    /// Lets `decode` fill a block's worth of elements.
    #[doc(hidden)]
    fn fill<const ELEMENTS: usize>(out: &mut [Self; ELEMENTS], decode: impl FnOnce(&mut [f32; ELEMENTS]));
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

impl Real for f32 {
    #[inline]
    fn fill<const ELEMENTS: usize>(out: &mut [f32; ELEMENTS], decode: impl FnOnce(&mut [f32; ELEMENTS])) {
        decode(out);
    }
}

macro_rules! narrow {
    ($($half:ty),*) => {
        $(impl Real for $half {
            #[inline]
            fn fill<const ELEMENTS: usize>(out: &mut [$half; ELEMENTS], decode: impl FnOnce(&mut [f32; ELEMENTS])) {
                let mut wide = [0.0; ELEMENTS];
                decode(&mut wide);
                out.convert_from_f32_slice(&wide);
            }
        })*
    };
}

narrow!(f16, bf16);

/// Decodes all blocks with one decoder.
pub(super) fn run<const BYTES: usize, const ELEMENTS: usize, T: Real>(
    decode: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]) + Sync,
    blocks: &[u8],
    out: &mut [T],
) {
    let decode_all = |blocks: &[u8], out: &mut [T]| {
        for (block, out) in blocks.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
            T::fill(out, |wide| decode(block, wide));
        }
    };
    if out.len() <= TASK {
        return decode_all(blocks, out);
    }
    let per_task = TASK / ELEMENTS;
    blocks
        .par_chunks(per_task * BYTES)
        .zip(out.par_chunks_mut(per_task * ELEMENTS))
        .for_each(|(blocks, out)| decode_all(blocks, out));
}

/// The f16 at `at`.
#[inline(always)]
fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_bits(u16_at(block, at)).to_f32_const()
}

/// The little-endian u16 at `at`.
#[inline(always)]
fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

/// The little-endian u32 at `at`.
#[inline(always)]
fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}
