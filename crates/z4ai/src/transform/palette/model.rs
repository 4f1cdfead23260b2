//! The table of elements and how the planes of indices are coded.

use super::table::Palette;
use crate::entropy::plane::{self, PlaneModel};
use crate::entropy::table::SYMBOLS;
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};
use crate::transform::scaled::ScaledModel;
use crate::transform::{Contents, Position, Transform, one_part};

/// The distinct elements of a section, and how the planes of indices are coded.
#[derive(Debug)]
pub(crate) struct PaletteModel {
    pub(super) palette: Palette,
    pub(super) low: IndexCode,
    pub(super) high: PlaneModel,
}

/// How the low bytes of indices are coded.
#[derive(Debug)]
pub(super) enum IndexCode {
    Plane(PlaneModel),
    /// With zstd, in each block anew; the level only concerns the encoder.
    Repeating {
        level: i32,
    },
    /// In the contexts of rows and columns.
    Scaled(Box<ScaledModel>),
}

/// The bytes of [`IndexCode::Repeating`] and [`IndexCode::Scaled`], where a plane's model would begin with a
/// smaller one.
const REPEATING: u8 = 3;
const SCALED: u8 = 4;

impl IndexCode {
    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Plane(model) => model.write(out),
            Self::Repeating { .. } => out.push(REPEATING),
            Self::Scaled(model) => {
                out.push(SCALED);
                model.write(out)?;
            }
        }
        Ok(())
    }

    /// Reads the code of so many indices.
    fn read(reader: &mut Reader, elements: usize) -> Result<Self> {
        match reader.peek().first() {
            Some(&REPEATING) => {
                reader.u8()?;
                Ok(Self::Repeating { level: 0 })
            }
            Some(&SCALED) => {
                reader.u8()?;
                let bytes = Contents { dtype: None, length: elements };
                Ok(Self::Scaled(Box::new(ScaledModel::read(reader, bytes)?)))
            }
            _ => Ok(Self::Plane(PlaneModel::read(reader)?)),
        }
    }
}

impl PaletteModel {
    /// Whether an index is a single byte.
    pub fn has_one_plane(&self) -> bool {
        self.palette.len() <= SYMBOLS
    }

    /// How many distinct elements there are.
    pub fn entries(&self) -> usize {
        self.palette.len()
    }
}

impl Transform for PaletteModel {
    const TAG: u8 = 5;
    const NAME: &'static str = "palette";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        let length = reader.length()?;
        if length > Palette::MOST_BYTES {
            return Err(Error::corrupt("a palette with too many entries"));
        }
        let palette = Palette::from_bytes(&plane::read_bytes(reader, length)?, section.width())?;
        Ok(Self {
            palette,
            low: IndexCode::read(reader, section.elements())?,
            high: PlaneModel::read(reader)?,
        })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        let table = self.palette.to_bytes();
        put_length(out, table.len());
        plane::write_bytes(&table, out)?;
        self.low.write(out)?;
        self.high.write(out);
        Ok(())
    }

    fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, at, out)
    }

    fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, at, out)
    }

    fn parts(&self, reader: &mut Reader, _: usize) -> Result<Vec<(String, usize)>> {
        Ok(one_part("palette indices", reader))
    }
}
