//! Reversible changes of representation that bring out what the entropy coders can use. A [`Model`] is what the blocks of a section share; `plan` chooses it.

pub(crate) mod float;
pub(crate) mod grid;
pub(crate) mod opaque;
pub(crate) mod palette;
pub(crate) mod planes;
pub(crate) mod sparse;

use crate::arch::Kernel;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::frame::STORED;
use crate::frame::wire::Reader;
use float::FloatModel;
use planes::PlanesModel;

const OPAQUE: u8 = 1;
const FLOAT: u8 = 2;
const PLANES: u8 = 3;

/// How the blocks of a section are coded.
#[derive(Debug)]
pub(crate) enum Model {
    /// As they are.
    Stored,
    /// With zstd; the level and long-distance matching only concern the encoder.
    Opaque { level: i32, long: bool },
    /// As floats with scales.
    Float(Box<FloatModel>),
    /// As byte planes of elements.
    Planes(PlanesModel),
}

impl Model {
    /// The transform's name, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Opaque { .. } => "opaque",
            Self::Float(_) => "float",
            Self::Planes(_) => "planes",
        }
    }

    /// Appends the model.
    pub fn write(&self, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Stored => out.push(STORED),
            Self::Opaque { .. } => out.push(OPAQUE),
            Self::Float(model) => {
                out.push(FLOAT);
                model.write(kernel, out)?;
            }
            Self::Planes(model) => {
                out.push(PLANES);
                model.write(out);
            }
        }
        Ok(())
    }

    /// Reads the model of a section of `length` bytes.
    pub fn read(bytes: &[u8], dtype: Option<Dtype>, length: usize, kernel: Kernel) -> Result<Self> {
        let mut reader = Reader::new(bytes, "section model");
        let model = match reader.u8()? {
            STORED => Self::Stored,
            OPAQUE => Self::Opaque { level: 0, long: false },
            FLOAT => {
                let layout = dtype.and_then(Dtype::float_layout);
                let layout =
                    layout.ok_or_else(|| Error::corrupt("float planes of a dtype that is not a float"))?;
                let elements = length / layout.width;
                Self::Float(Box::new(FloatModel::read(layout, &mut reader, elements, kernel)?))
            }
            PLANES => Self::Planes(PlanesModel::read(&mut reader, dtype.map_or(1, Dtype::scalar_width))?),
            tag => return Err(Error::corrupt(format!("unknown transform {tag}"))),
        };
        reader.finish()?;
        Ok(model)
    }

    /// Encodes a block of whole elements, the first of which is element `start` of the section.
    pub fn encode(&self, bytes: &[u8], start: usize, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Stored => out.extend_from_slice(bytes),
            Self::Opaque { level, long } => out.extend(opaque::encode(bytes, *level, *long)?),
            Self::Float(model) => model.encode(bytes, start, kernel, out)?,
            Self::Planes(model) => model.encode(bytes, kernel, out),
        }
        Ok(())
    }

    /// Decodes what [`Model::encode`] wrote; `out` has the same length as `bytes` had.
    pub fn decode(&self, reader: &mut Reader, start: usize, kernel: Kernel, out: &mut [u8]) -> Result<()> {
        match self {
            Self::Stored => out.copy_from_slice(reader.take(out.len())?),
            Self::Opaque { .. } => opaque::decode(reader.rest(), out)?,
            Self::Float(model) => model.decode(reader, start, kernel, out)?,
            Self::Planes(model) => model.decode(reader, kernel, out)?,
        }
        Ok(())
    }
}
