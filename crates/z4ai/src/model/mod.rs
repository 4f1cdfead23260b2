//! Models: what the blocks of a section share, that is a transform with its parameters and the tables of the entropy coders behind it. The planner makes a
//! model from the data, the section header carries it, and every block is encoded and decoded with it.

mod difference;
mod fast;
mod grid;
mod palette;
mod sparse;

pub(crate) use difference::{DifferenceModel, differences};
pub(crate) use fast::FastModel;
pub(crate) use grid::GridModel;
pub(crate) use palette::PaletteModel;
pub(crate) use sparse::SparseModel;

use crate::arch::Kernel;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::frame::STORED;
use crate::frame::wire::Reader;
use crate::transform::float::{AdaptiveModel, FloatModel};
use crate::transform::opaque;
use crate::transform::planes::PlanesModel;
use crate::transform::reference::{Fields, ReferenceModel};
use crate::transform::subnormal::SubnormalModel;

const OPAQUE: u8 = 1;
const FLOAT: u8 = 2;
const PLANES: u8 = 3;
const FAST: u8 = 4;
const PALETTE: u8 = 5;
const GRID: u8 = 6;
const SPARSE: u8 = 7;
const DIFFERENCE: u8 = 8;
const REFERENCE: u8 = 9;
const ADAPTIVE: u8 = 10;
const SUBNORMAL: u8 = 11;

/// How the blocks of a section are coded.
#[derive(Debug)]
pub(crate) enum Model {
    /// As they are.
    Stored,
    /// With zstd; the level and long-distance matching only concern the encoder.
    Opaque { level: i32, long: bool },
    /// As floats with scales.
    Float(Box<FloatModel>),
    /// As floats with scales that are learnt on the way.
    Adaptive(Box<AdaptiveModel>),
    /// As floats that are mostly below the least exponent.
    Subnormal(Box<SubnormalModel>),
    /// As byte planes of elements.
    Planes(PlanesModel),
    /// As floats with nested bit planes.
    Fast(FastModel),
    /// As indices into the few distinct elements.
    Palette(PaletteModel),
    /// As levels and scales of group-quantised weights.
    Grid(GridModel),
    /// As a bitmap of the zeros and the other elements.
    Sparse(SparseModel),
    /// As differences from the elements of the reference.
    Difference(DifferenceModel),
    /// As floats in the context of those of the reference.
    Reference(Box<ReferenceModel>),
}

impl Model {
    /// The transform's name, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Opaque { .. } => "opaque",
            Self::Float(_) => "float",
            Self::Adaptive(_) => "adaptive",
            Self::Subnormal(_) => "subnormal",
            Self::Planes(_) => "planes",
            Self::Fast(_) => "fast",
            Self::Palette(_) => "palette",
            Self::Grid(_) => "grid",
            Self::Sparse(_) => "sparse",
            Self::Difference(_) => "difference",
            Self::Reference(_) => "reference",
        }
    }

    /// Appends the model.
    pub fn write(&self, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        let tag = |out: &mut Vec<u8>, tag: u8| out.push(tag);
        match self {
            Self::Stored => tag(out, STORED),
            Self::Opaque { .. } => tag(out, OPAQUE),
            Self::Float(model) => {
                tag(out, FLOAT);
                model.write(kernel, out)?;
            }
            Self::Adaptive(model) => {
                tag(out, ADAPTIVE);
                model.write(kernel, out)?;
            }
            Self::Subnormal(model) => {
                tag(out, SUBNORMAL);
                model.write(kernel, out)?;
            }
            Self::Planes(model) => {
                tag(out, PLANES);
                model.write(out);
            }
            Self::Fast(model) => {
                tag(out, FAST);
                model.write(kernel, out)?;
            }
            Self::Palette(model) => {
                tag(out, PALETTE);
                model.write(kernel, out)?;
            }
            Self::Grid(model) => {
                tag(out, GRID);
                model.write(out);
            }
            Self::Sparse(model) => {
                tag(out, SPARSE);
                model.write(kernel, out)?;
            }
            Self::Difference(model) => {
                tag(out, DIFFERENCE);
                model.write(kernel, out)?;
            }
            Self::Reference(model) => {
                tag(out, REFERENCE);
                model.write(kernel, out)?;
            }
        }
        Ok(())
    }

    /// Reads the model of a section of `length` bytes.
    pub fn read(bytes: &[u8], dtype: Option<Dtype>, length: usize, kernel: Kernel) -> Result<Self> {
        let mut reader = Reader::new(bytes, "section model");
        let model = Self::read_from(&mut reader, dtype, length, kernel)?;
        reader.finish()?;
        Ok(model)
    }

    fn read_from(reader: &mut Reader, dtype: Option<Dtype>, length: usize, kernel: Kernel) -> Result<Self> {
        let width = dtype.map_or(1, Dtype::scalar_width);
        Ok(match reader.u8()? {
            STORED => Self::Stored,
            OPAQUE => Self::Opaque { level: 0, long: false },
            FLOAT => {
                let layout = dtype.and_then(Dtype::float_layout);
                let layout =
                    layout.ok_or_else(|| Error::corrupt("float planes of a dtype that is not a float"))?;
                Self::Float(Box::new(FloatModel::read(layout, reader, length / width, kernel)?))
            }
            ADAPTIVE => {
                let layout =
                    dtype.and_then(Dtype::float_layout).filter(|&layout| AdaptiveModel::supports(layout));
                let layout =
                    layout.ok_or_else(|| Error::corrupt("adaptive floats of a dtype without them"))?;
                Self::Adaptive(Box::new(AdaptiveModel::read(layout, reader, length / width, kernel)?))
            }
            SUBNORMAL if dtype == Some(Dtype::F16) => {
                Self::Subnormal(Box::new(SubnormalModel::read(reader, length / width, kernel)?))
            }
            PLANES => Self::Planes(PlanesModel::read(reader, width)?),
            FAST => Self::Fast(FastModel::read(reader, dtype, length / width, kernel)?),
            PALETTE => Self::Palette(PaletteModel::read(reader, width, kernel)?),
            GRID => Self::Grid(GridModel::read(reader, dtype)?),
            SPARSE => Self::Sparse(SparseModel::read(reader, dtype, length, kernel)?),
            DIFFERENCE => Self::Difference(DifferenceModel::read(reader, dtype, length, kernel)?),
            REFERENCE => {
                let fields = dtype.and_then(Fields::of);
                let fields = fields
                    .ok_or_else(|| Error::corrupt("float differences of a dtype that is not a float"))?;
                Self::Reference(Box::new(ReferenceModel::read(fields, reader, kernel)?))
            }
            tag => return Err(Error::corrupt(format!("unknown transform {tag}"))),
        })
    }

    /// Encodes a block of whole elements, the first of which is element `start` of the section. `reference` has the elements that they are coded against, or
    /// is empty.
    pub fn encode(
        &self,
        bytes: &[u8],
        start: usize,
        reference: &[u8],
        kernel: Kernel,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self {
            Self::Stored => out.extend_from_slice(bytes),
            Self::Opaque { level, long } => out.extend(opaque::encode(bytes, *level, *long)?),
            Self::Float(model) => model.encode(bytes, start, kernel, out)?,
            Self::Adaptive(model) => model.encode(bytes, start, kernel, out)?,
            Self::Subnormal(model) => model.encode(bytes, start, kernel, out),
            Self::Planes(model) => model.encode(bytes, kernel, out),
            Self::Fast(model) => model.encode(bytes, start, kernel, out)?,
            Self::Palette(model) => model.encode(bytes, kernel, out)?,
            Self::Grid(model) => model.encode(bytes, start, kernel, out)?,
            Self::Sparse(model) => model.encode(bytes, kernel, out)?,
            Self::Difference(model) => model.encode(bytes, start, reference, kernel, out)?,
            Self::Reference(model) => model.encode(bytes, reference, kernel, out)?,
        }
        Ok(())
    }

    /// Decodes what [`Model::encode`] wrote; `out` has the same length as `bytes` had.
    pub fn decode(
        &self,
        reader: &mut Reader,
        start: usize,
        reference: &[u8],
        kernel: Kernel,
        out: &mut [u8],
    ) -> Result<()> {
        match self {
            Self::Stored => out.copy_from_slice(reader.take(out.len())?),
            Self::Opaque { .. } => opaque::decode(reader.rest(), out)?,
            Self::Float(model) => model.decode(reader, start, kernel, out)?,
            Self::Adaptive(model) => model.decode(reader, start, kernel, out)?,
            Self::Subnormal(model) => model.decode(reader, start, kernel, out)?,
            Self::Planes(model) => model.decode(reader, kernel, out)?,
            Self::Fast(model) => model.decode(reader, start, kernel, out)?,
            Self::Palette(model) => model.decode(reader, kernel, out)?,
            Self::Grid(model) => model.decode(reader, start, kernel, out)?,
            Self::Sparse(model) => model.decode(reader, kernel, out)?,
            Self::Difference(model) => model.decode(reader, start, reference, kernel, out)?,
            Self::Reference(model) => model.decode(reader, reference, kernel, out)?,
        }
        Ok(())
    }

    /// The planes of a block of `elements` elements, by name and encoded length.
    pub fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        let whole = |name: &str, reader: &Reader| vec![(name.to_owned(), reader.remaining())];
        match self {
            Self::Float(model) => model.parts(reader, elements),
            Self::Adaptive(model) => model.parts(reader, elements),
            Self::Subnormal(model) => model.parts(reader),
            Self::Planes(model) => model.parts(reader, elements),
            Self::Palette(_) => Ok(whole("palette indices", reader)),
            Self::Grid(model) => model.parts(reader),
            Self::Sparse(model) => model.parts(reader, elements),
            Self::Difference(model) => model.parts(reader, elements),
            Self::Reference(model) => model.parts(reader, elements),
            Self::Fast(_) => Ok(whole("nested planes", reader)),
            Self::Opaque { .. } | Self::Stored => Ok(whole("bytes", reader)),
        }
    }
}
