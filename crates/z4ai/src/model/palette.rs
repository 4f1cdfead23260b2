//! Few distinct elements: the section shares their table and the code of the indices.

use crate::arch::Kernel;
use crate::entropy::plane::{self, PlaneModel};
use crate::entropy::table::SYMBOLS;
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};
use crate::threads;
use crate::transform::palette::{Indices, Palette};

/// The distinct elements of a section, and how the planes of indices are coded.
#[derive(Debug)]
pub(crate) struct PaletteModel {
    palette: Palette,
    low: PlaneModel,
    high: PlaneModel,
}

impl PaletteModel {
    /// Makes the model for a section of whole elements, if they are few.
    pub fn fit(bytes: &[u8], width: usize, block: usize) -> Result<Option<Self>> {
        let Some(palette) = Palette::detect(bytes, width) else { return Ok(None) };
        let histograms = threads::map(bytes.chunks(block), |part| -> Result<_> {
            let indices = indices(&palette, part)?;
            Ok([indices.low, indices.high].map(plane::histogram))
        });
        let mut sums = [[0; SYMBOLS]; 2];
        for histograms in histograms {
            sums.iter_mut().flatten().zip(histograms?.iter().flatten()).for_each(|(sum, more)| *sum += more);
        }
        let [low, high] = [PlaneModel::choose(&sums[0], 4)?, PlaneModel::choose(&sums[1], 4)?];
        Ok(Some(Self { palette, low, high }))
    }

    /// Whether an index is a single byte.
    pub fn has_one_plane(&self) -> bool {
        self.palette.len() <= SYMBOLS
    }

    /// Appends the model.
    pub fn write(&self, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        let table = self.palette.to_bytes();
        put_length(out, table.len());
        plane::write_bytes(&table, kernel, out)?;
        self.low.write(out);
        self.high.write(out);
        Ok(())
    }

    /// Reads the model for elements of `width` bytes.
    pub fn read(reader: &mut Reader, width: usize, kernel: Kernel) -> Result<Self> {
        let length = reader.length()?;
        if length > Palette::MOST_BYTES {
            return Err(Error::corrupt("a palette with too many entries"));
        }
        let palette = Palette::from_bytes(&plane::read_bytes(reader, length, kernel)?, width)?;
        Ok(Self { palette, low: PlaneModel::read(reader)?, high: PlaneModel::read(reader)? })
    }

    /// Appends a block.
    pub fn encode(&self, bytes: &[u8], kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        let indices = indices(&self.palette, bytes)?;
        self.low.encode(&indices.low, kernel, out);
        if !self.has_one_plane() {
            self.high.encode(&indices.high, kernel, out);
        }
        Ok(())
    }

    /// Decodes a block.
    pub fn decode(&self, reader: &mut Reader, kernel: Kernel, out: &mut [u8]) -> Result<()> {
        let count = out.len() / self.palette.width();
        let low = self.low.decode(reader, count, kernel)?;
        let high = if self.has_one_plane() { Vec::new() } else { self.high.decode(reader, count, kernel)? };
        self.palette.decode(&low, &high, out)
    }
}

fn indices(palette: &Palette, bytes: &[u8]) -> Result<Indices> {
    palette.encode(bytes).ok_or_else(|| Error::corrupt("an element is missing from its palette"))
}
