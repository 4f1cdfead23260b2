//! What all blocks of a section share: the decay, which exponents are told apart, the contexts, and how the
//! classes of chunks are coded.

use super::classes::Classes;
use super::contexts::Contexts;
use super::counts::{Movement, View};
use super::decay::Decay;
use super::symbols::Alphabet;
use super::{CHUNK_CLASSES, EXPONENT_NUMBERS, ElementFields, REFERENCE_CHUNK};
use crate::entropy::plane::PlaneModel;
use crate::entropy::rans::DecoderTables;
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length, put_signed};
use crate::transform::{Contents, Position, Transform};

/// The shared description of a section of floats against a reference.
#[derive(Debug)]
pub(crate) struct ReferenceModel {
    pub(super) view: View,
    /// Which classes the encoder gives to chunks; the decoder need not know.
    pub(super) levels: Classes,
    pub(super) contexts: Contexts,
    pub(super) classes: PlaneModel,
}

impl ReferenceModel {
    /// How elements move from those of the reference.
    pub fn movement(&self) -> Movement {
        self.view.movement()
    }

    /// The contexts of each class by the number of an exponent.
    pub fn context_rows(&self) -> &[[u8; EXPONENT_NUMBERS]; CHUNK_CLASSES] {
        self.contexts.rows()
    }

    /// The tables of all contexts.
    pub fn decoder_tables(&self) -> &DecoderTables {
        self.contexts.tables.decoder()
    }
}

impl Transform for ReferenceModel {
    const TAG: u8 = 9;
    const NAME: &'static str = "reference";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        let fields = section.dtype.and_then(ElementFields::of);
        let fields =
            fields.ok_or_else(|| Error::corrupt("float differences of a dtype that is not a float"))?;
        let rate = i32::try_from(reader.signed()?);
        let rate = rate.map_err(|_| Error::corrupt("a decay of more than one half"))?;
        let top_exponent = reader.length()?;
        if top_exponent >= fields.exponents() {
            return Err(Error::corrupt("an exponent that the dtype does not have"));
        }
        let view = View { fields, decay: Decay::new(rate, fields), top_exponent };
        let symbols = Alphabet::of_width(fields.width).symbols(fields.width);
        let (contexts, classes) = (Contexts::read(reader, symbols)?, PlaneModel::read(reader)?);
        Ok(Self { view, levels: Classes::default(), contexts, classes })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        put_signed(out, self.view.decay.rate.into());
        put_length(out, self.view.top_exponent);
        self.contexts.write(out)?;
        self.classes.write(out);
        Ok(())
    }

    fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, at.reference, out)
    }

    fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, at.reference, out)
    }

    fn prefers_pairs(&self) -> bool {
        self.has_fast_pairs()
    }

    fn decode_pair(&self, readers: [&mut Reader; 2], at: [Position; 2], out: [&mut [u8]; 2]) -> Result<()> {
        self.decode_two_blocks(readers, at.map(|at| at.reference), out)
    }

    fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        let classes = self.classes.skip(reader, elements.div_ceil(REFERENCE_CHUNK))?;
        let sets = reader.length()?;
        reader.take(sets)?;
        let stream = if reader.u8()? == 0 { 0 } else { reader.length()? };
        reader.take(stream)?;
        let parts = [
            ("classes of chunks", classes),
            ("sets of elements", sets),
            ("differences", stream),
            ("raw low bits", reader.remaining()),
        ];
        Ok(parts.map(|(name, length)| (name.to_owned(), length)).to_vec())
    }
}
