//! Dequantising by name, for every file that holds ggml blocks: a GGUF file, or a `.zt` file that carries
//! their layout.

use std::borrow::Cow;

use super::Reader;
use crate::error::{Error, Hints, Kind, Result};
use crate::formats::gguf::{BlockType, Real, dequantize};

impl Reader {
    /// Reads a tensor of ggml blocks as f32.
    pub fn dequantize(&self, name: &str) -> Result<Vec<f32>> {
        self.dequantize_as(name)
    }

    /// Reads a tensor of ggml blocks as f32, f16 or bf16.
    pub fn dequantize_as<T: Real>(&self, name: &str) -> Result<Vec<T>> {
        let (block, blocks) = self.blocks(name)?;
        let elements = blocks.len() / block.bytes() * block.elements();
        // Zeroed by the operating system, so the memory is touched once, by the decoder.
        let mut out = bytemuck::allocation::try_zeroed_slice_box(elements)
            .map_err(|()| {
                Error::new(Kind::Limit, format!("not enough memory for {elements} elements"))
                    .with_tensor(name)
            })?
            .into_vec();
        dequantize(block, &blocks, &mut out).map_err(|error| error.with_tensor(name))?;
        Ok(out)
    }

    /// Reads a tensor of ggml blocks into a buffer of as many elements as its shape has.
    pub fn dequantize_into<T: Real>(&self, name: &str, out: &mut [T]) -> Result<()> {
        let (block, blocks) = self.blocks(name)?;
        dequantize(block, &blocks, out).map_err(|error| error.with_tensor(name))
    }

    /// A tensor's blocks, as many as its shape needs.
    fn blocks(&self, name: &str) -> Result<(BlockType, Cow<'_, [u8]>)> {
        let object = self.object(name)?;
        let block = BlockType::of(&object.layout).ok_or_else(|| {
            Error::mismatch(format!("this is a {} tensor, not one of known ggml blocks", object.layout))
                .with_tensor(name)
                .with_hints(Hints::new(
                    "Use `Reader::read_as` or `Reader::read_object`.",
                    "Read it without dequantize.",
                    "Leave out --dequantize.",
                ))
        })?;
        let blocks = self.component_bytes(name, "data")?;
        let elements = (blocks.len() / block.bytes() * block.elements()) as u64;
        if !blocks.len().is_multiple_of(block.bytes()) || object.shape.elements() != Some(elements) {
            return Err(Error::malformed(format!(
                "shape {} does not take {} bytes of {} blocks",
                object.shape,
                blocks.len(),
                block.name()
            ))
            .with_tensor(name));
        }
        Ok((block, blocks))
    }
}
