//! Few distinct elements: the section shares their table and the code of the indices. That is an entropy coder's, or zstd's where indices repeat those before them, as in the
//! second moments of an optimizer, whose rows and columns each have few values.

use crate::arch::Kernel;
use crate::decompress::zeroed;
use crate::entropy::plane::{self, PlaneModel};
use crate::entropy::table::{Histogram, SYMBOLS, entropy_bits};
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};
use crate::threads;
use crate::transform::opaque;
use crate::transform::palette::{Indices, Palette};

/// The distinct elements of a section, and how the planes of indices are coded.
#[derive(Debug)]
pub(crate) struct PaletteModel {
    palette: Palette,
    low: IndexCode,
    high: PlaneModel,
}

/// How the low bytes of indices are coded.
#[derive(Debug)]
enum IndexCode {
    Plane(PlaneModel),
    /// With zstd, in each block anew; the level only concerns the encoder.
    Repeating {
        level: i32,
    },
}

/// The byte of [`IndexCode::Repeating`], where a plane's model would begin with a smaller one.
const REPEATING: u8 = 3;
/// The level of zstd that is the fastest.
const FASTEST: i32 = 1;
/// Indices on which zstd is tried.
const SAMPLE: usize = 1 << 16;

impl IndexCode {
    /// The better one for a section with these counts, of whose indices `sample` is a part.
    fn choose(histogram: &Histogram, sample: &[u8], level: i32) -> Result<Self> {
        let total: u64 = histogram.iter().map(|&count| u64::from(count)).sum();
        let share = u128::from(entropy_bits(histogram)) * sample.len() as u128 / u128::from(total.max(1));
        // It decodes more slowly, so a little is not enough.
        let enough = share * 16 / 17;
        let repeating = |level: i32| Ok::<_, Error>(8 * opaque::encode(sample, level, false)?.len() as u128);
        // At its fastest it is not much worse, and much sooner refused.
        if repeating(FASTEST)? < enough * 5 / 4 && repeating(level)? < enough {
            return Ok(Self::Repeating { level });
        }
        Ok(Self::Plane(PlaneModel::choose(histogram, 4)?))
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Plane(model) => model.write(out),
            Self::Repeating { .. } => out.push(REPEATING),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self> {
        if reader.peek().first() == Some(&REPEATING) {
            reader.u8()?;
            return Ok(Self::Repeating { level: 0 });
        }
        Ok(Self::Plane(PlaneModel::read(reader)?))
    }

    fn encode(&self, indices: &[u8], kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Plane(model) => model.encode(indices, kernel, out),
            Self::Repeating { level } => {
                let encoded = opaque::encode(indices, *level, false)?;
                put_length(out, encoded.len());
                out.extend(encoded);
            }
        }
        Ok(())
    }

    fn decode(&self, reader: &mut Reader, count: usize, kernel: Kernel) -> Result<Vec<u8>> {
        match self {
            Self::Plane(model) => model.decode(reader, count, kernel),
            Self::Repeating { .. } => {
                let length = reader.length()?;
                let mut indices = zeroed(count)?;
                opaque::decode(reader.take(length)?, &mut indices)?;
                Ok(indices)
            }
        }
    }
}

impl PaletteModel {
    /// Makes the model for a section of whole elements, if they are few. `level` is that of zstd, should indices repeat.
    pub fn fit(bytes: &[u8], width: usize, block: usize, level: i32) -> Result<Option<Self>> {
        let Some(palette) = Palette::detect(bytes, width) else { return Ok(None) };
        let histograms = threads::map(bytes.chunks(block), |part| -> Result<_> {
            let indices = indices(&palette, part)?;
            Ok([indices.low, indices.high].map(|indices| plane::histogram_of(&indices)))
        });
        let mut sums = [[0; SYMBOLS]; 2];
        for histograms in histograms {
            sums.iter_mut().flatten().zip(histograms?.iter().flatten()).for_each(|(sum, more)| *sum += more);
        }
        let sample = &bytes[..bytes.len().min(SAMPLE * width)];
        let low = IndexCode::choose(&sums[0], &indices(&palette, sample)?.low, level)?;
        Ok(Some(Self { palette, low, high: PlaneModel::choose(&sums[1], 4)? }))
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
        Ok(Self { palette, low: IndexCode::read(reader)?, high: PlaneModel::read(reader)? })
    }

    /// Appends a block.
    pub fn encode(&self, bytes: &[u8], kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        let indices = indices(&self.palette, bytes)?;
        self.low.encode(&indices.low, kernel, out)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_that_repeat_are_found_and_survive() {
        // Each row has two of the values, in an order that the next rows repeat.
        let element =
            |row: usize, column: usize| (row / 8 % 60 * 3) as u16 + (column * column / 7 % 2) as u16;
        let rows = (0..600).flat_map(|row| (0..100).map(move |column| element(row, column)));
        let bytes: Vec<u8> = rows.flat_map(u16::to_le_bytes).collect();
        let (kernel, block) = (Kernel::detect(), 40_000);
        let model = PaletteModel::fit(&bytes, 2, block, 5).unwrap().unwrap();
        assert!(matches!(model.low, IndexCode::Repeating { .. }));
        let mut described = Vec::new();
        model.write(kernel, &mut described).unwrap();
        let read = PaletteModel::read(&mut Reader::new(&described, "test"), 2, kernel).unwrap();
        for part in bytes.chunks(block) {
            let (mut encoded, mut decoded) = (Vec::new(), vec![0; part.len()]);
            model.encode(part, kernel, &mut encoded).unwrap();
            assert!(encoded.len() < part.len() / 20);
            let mut reader = Reader::new(&encoded, "test");
            read.decode(&mut reader, kernel, &mut decoded).unwrap();
            reader.finish().unwrap();
            assert!(decoded == part);
            // Cut short, it is an error.
            let mut reader = Reader::new(&encoded[..encoded.len() - 1], "test");
            assert!(read.decode(&mut reader, kernel, &mut decoded).is_err());
        }
    }
}
