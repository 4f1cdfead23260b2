//! What all blocks of a section of floats share: scales, frequency tables, the sign if it is constant, and
//! how the tail planes are coded.

use super::JOINT_BITS;
use super::encode::ExponentParts;
use super::expected::RowLines;
use super::low_bits;
use super::scale::Scales;
use super::shape::{EscapeRate, Shape};
use super::signs::Signs;
use super::tails::Tails;
use crate::dtype::{Dtype, FloatLayout};
use crate::entropy::plane;
use crate::entropy::rans::{Tables, lanes_for, most_lanes_for};
use crate::entropy::table::{FrequencyTable, MAX_PRECISION, MIN_PRECISION};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::{Contents, Position, Transform};
use std::sync::OnceLock;

/// The shared description of a section of floats.
#[derive(Debug)]
pub(crate) struct FloatModel {
    pub layout: FloatLayout,
    pub(super) scales: Scales,
    /// Which exponent parts have symbols; the decoder need not know.
    pub(super) parts: ExponentParts,
    pub(super) signs: Signs,
    pub(super) tables: Tables,
    /// What the tables follow from, if they do.
    pub(super) shape: Option<(Shape, EscapeRate)>,
    pub(super) tails: Tails,
    /// What the decoder makes of the columns' scales.
    pub(super) row_lines: OnceLock<RowLines>,
}

/// How many contexts the tables have, by the fraction of the expected scale.
pub(super) const FLOAT_CONTEXTS: usize = 4;

impl FloatModel {
    pub(super) fn new(
        layout: FloatLayout,
        scales: Scales,
        signs: Signs,
        tables: Vec<FrequencyTable>,
        shape: Option<(Shape, EscapeRate)>,
        tails: Tails,
    ) -> Result<Self> {
        let (tables, row_lines) = (Tables::new(tables)?, OnceLock::new());
        Ok(Self { layout, scales, parts: ExponentParts::ALL, signs, tables, shape, tails, row_lines })
    }

    /// Elements per row, if columns were found to differ.
    pub fn row_length(&self) -> Option<usize> {
        (!self.scales.columns.is_empty()).then_some(self.scales.row_length)
    }

    /// Whether symbols are coded in the contexts of the scale's fraction.
    pub(super) fn has_contexts(&self) -> bool {
        self.tables.frequencies().len() > 1
    }

    /// How many lanes the symbols of so many elements have. The time of wider elements goes into their tails,
    /// so that more lanes for their heads would not pay.
    pub(super) fn lanes(&self, count: usize) -> usize {
        if self.layout.width == 2 { most_lanes_for(count) } else { lanes_for(count) }
    }

    /// Bytes of an escaped exponent.
    pub(super) fn escape_bytes(&self) -> usize {
        1 + usize::from(self.layout.exponent_bits > 8)
    }

    /// Bits of the head that are stored verbatim, per element.
    pub(super) fn low_bits(&self) -> u32 {
        self.layout.head_mantissa_bits() - JOINT_BITS + self.signs.verbatim_bits()
    }
}

impl Transform for FloatModel {
    const TAG: u8 = 2;
    const NAME: &'static str = "float";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        let layout = section.dtype.and_then(Dtype::float_layout);
        let layout = layout.ok_or_else(|| Error::corrupt("float planes of a dtype that is not a float"))?;
        let elements = section.elements();
        let flags = reader.u8()?;
        let precision = u32::from(flags >> 3);
        let is_shaped = flags >> 3 == SHAPE;
        if !is_shaped && !(MIN_PRECISION..=MAX_PRECISION).contains(&precision) {
            return Err(Error::corrupt("a table's precision is out of range"));
        }
        let scales = Scales::read(reader, elements)?;
        let signs = Signs::read(flags & 3, reader)?;
        let (tables, shape) = if is_shaped {
            let (shape, rate) = (Shape::read(reader)?, EscapeRate::read(reader)?);
            (shape_tables(shape, rate), Some((shape, rate)))
        } else {
            let contexts = if flags & 4 != 0 { FLOAT_CONTEXTS } else { 1 };
            let tables = (0..contexts).map(|_| FrequencyTable::read_from(reader, precision));
            (tables.collect::<Result<_>>()?, None)
        };
        let tails = Tails::read(layout, reader, elements)?;
        Self::new(layout, scales, signs, tables, shape, tails)
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        let precision = if self.shape.is_some() { SHAPE } else { self.tables.precision() as u8 };
        out.push(self.signs.to_code() | u8::from(self.has_contexts()) << 2 | precision << 3);
        self.scales.write(out)?;
        self.signs.write(out);
        match &self.shape {
            Some((shape, rate)) => {
                shape.write(out);
                rate.write(out);
            }
            None => self.tables.frequencies().iter().for_each(|table| table.write(out)),
        }
        self.tails.write(out)
    }

    fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, at.start, out)
    }

    fn encode_within(&self, bytes: &[u8], at: Position, memory: &mut Vec<u8>) -> Result<usize> {
        self.encode_block_within(bytes, at.start, memory)
    }

    fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, at.start, out)
    }

    fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        let start = reader.position();
        let length = reader.length()?;
        reader.take(length)?;
        let escape_bytes = reader.length()?;
        plane::skip_bytes(reader, escape_bytes)?;
        let mut parts = vec![("exponent".to_owned(), reader.position() - start)];
        let low = low_bits::packed_len(elements, self.low_bits());
        reader.take(low)?;
        parts.push(("sign and mantissa".to_owned(), low));
        parts.extend(self.tails.parts(reader, elements)?);
        if self.signs.are_apart() {
            parts.push(("sign".to_owned(), reader.remaining()));
        }
        Ok(parts)
    }
}

/// In place of a precision: tables that follow from a shape.
const SHAPE: u8 = 0;

/// The tables of all contexts, which are quarters of an octave apart.
pub(super) fn shape_tables(shape: Shape, rate: EscapeRate) -> Vec<FrequencyTable> {
    (0..FLOAT_CONTEXTS).map(|context| shape.table((16 / FLOAT_CONTEXTS * context) as i32, rate)).collect()
}
