//! Byte planes for elements that are not wide floats (integers, 8-bit floats): the n-th bytes of all elements together, each plane with the model that
//! suits it. The high bytes of small integers vanish, and 8-bit floats are entropy coded whole.

use crate::arch::Kernel;
use crate::entropy::plane::{self, PlaneModel};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// The widest element with planes.
const MAX_WIDTH: usize = 8;
/// Bytes decoded per plane before they are interleaved.
const CHUNK: usize = 4096;

/// One model per byte of an element, least significant first.
#[derive(Debug)]
pub(crate) struct PlanesModel {
    planes: Vec<PlaneModel>,
}

impl PlanesModel {
    /// Makes the model for whole elements of `width` bytes, and estimates the bits it codes them in.
    pub fn fit(bytes: &[u8], width: usize) -> Result<Self> {
        let mut plane = Vec::with_capacity(bytes.len() / width);
        let plane = |offset: usize| {
            plane.clear();
            plane.extend(bytes.chunks_exact(width).map(|element| element[offset]));
            PlaneModel::choose(&plane::histogram_of(&plane), 4)
        };
        Ok(Self { planes: (0..width.min(MAX_WIDTH)).map(plane).collect::<Result<_>>()? })
    }

    /// Appends the model.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.planes.iter().for_each(|plane| plane.write(out));
    }

    /// Reads the model for elements of `width` bytes.
    pub fn read(reader: &mut Reader, width: usize) -> Result<Self> {
        if !(1..=MAX_WIDTH).contains(&width) {
            return Err(Error::corrupt(format!("byte planes of {width}-byte elements")));
        }
        Ok(Self { planes: (0..width).map(|_| PlaneModel::read(reader)).collect::<Result<_>>()? })
    }

    /// Appends a block of whole elements.
    pub fn encode(&self, bytes: &[u8], kernel: Kernel, out: &mut Vec<u8>) {
        let width = self.planes.len();
        let mut plane = Vec::with_capacity(bytes.len() / width);
        for (offset, model) in self.planes.iter().enumerate() {
            plane.clear();
            plane.extend(bytes.chunks_exact(width).map(|element| element[offset]));
            model.encode(&plane, kernel, out);
        }
    }

    /// Decodes a block of whole elements.
    pub fn decode(&self, reader: &mut Reader, kernel: Kernel, out: &mut [u8]) -> Result<()> {
        let width = self.planes.len();
        let mut buffer = [0u8; CHUNK];
        for (offset, model) in self.planes.iter().enumerate() {
            let mut decoder = model.decoder(reader, out.len() / width, kernel)?;
            for chunk in out.chunks_mut(CHUNK * width) {
                let bytes = decoder.next(chunk.len() / width, &mut buffer)?;
                for (element, &byte) in chunk.chunks_exact_mut(width).zip(bytes) {
                    element[offset] = byte;
                }
            }
            decoder.finish()?;
        }
        Ok(())
    }

    /// The planes of a block of `elements` elements, by name and encoded length.
    pub fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        let part = |(index, model): (usize, &PlaneModel)| {
            Ok((format!("byte {index}"), model.skip(reader, elements)?))
        };
        self.planes.iter().enumerate().map(part).collect()
    }
}
