//! Pieces that are computed: a delta against what a recipe makes of tensors of the base, of other pieces, and of fields that are stored with the
//! piece. A range is computed from ranges.

use std::sync::Arc;

use super::decoding_cost;
use super::table::BaseTensor;
use crate::error::{Error, Kind, Result};
use crate::index::Span;
use crate::reader::Reader;
use crate::recipe::{Operands, Recipe};
use crate::source::Source;
use crate::source::assembly::{Announcement, Piece};

/// Bytes that are decoded at once: the reference of as many is in memory.
const AT_ONCE: usize = 16 << 20;
/// Fields that have at most this many times the bytes that are read are decoded before.
const FIELDS: u64 = 4;

/// What a recipe is applied to.
pub(super) enum Operand {
    Base {
        reader: Arc<Reader>,
        tensor: BaseTensor,
        length: u64,
    },
    Piece(Arc<dyn Piece>),
    /// What is stored with the piece.
    Field(Arc<dyn Piece>),
}

impl Operand {
    fn length(&self) -> u64 {
        match self {
            Operand::Base { length, .. } => *length,
            Operand::Piece(piece) | Operand::Field(piece) => piece.length(),
        }
    }
}

pub(super) struct Derived {
    /// The recipe; where it is not supported, why.
    recipe: std::result::Result<Recipe, String>,
    operands: Vec<Operand>,
    lengths: Vec<u64>,
    length: u64,
    files: Arc<Vec<Arc<Source>>>,
    /// The delta.
    span: Span,
}

impl Derived {
    pub(super) fn new(
        recipe: &[u8],
        operands: Vec<Operand>,
        length: u64,
        files: Arc<Vec<Arc<Source>>>,
        span: Span,
    ) -> Result<Derived> {
        let lengths: Vec<u64> = operands.iter().map(Operand::length).collect();
        let recipe = match Recipe::decode(recipe) {
            Ok(recipe) => {
                let found = recipe.length(&lengths)?;
                if found != length {
                    return Err(Error::malformed(format!(
                        "a recipe yields {found} bytes instead of {length}"
                    )));
                }
                Ok(recipe)
            }
            // One tensor that cannot be read; the others can.
            Err(error) if error.kind() == Kind::Unsupported => Err(error.message().to_owned()),
            Err(error) => return Err(error),
        };
        Ok(Derived { recipe, operands, lengths, length, files, span })
    }

    fn known(&self) -> Result<&Recipe> {
        self.recipe
            .as_ref()
            .map_err(|message| Error::unsupported(message.clone()).with_hint("Update ztensor."))
    }

    fn file(&self) -> Result<&Source> {
        let file = self.files.get(self.span.file.0 as usize);
        file.map(Arc::as_ref).ok_or_else(|| Error::malformed("a byte range names a file that is not open"))
    }

    /// The operands, with those fields decoded that are not much longer than what is read: the reference is computed in many parts, twice where its
    /// digest is checked, and a frame of a few blocks would be decoded for each.
    fn with_fields(&self, wanted: u64) -> Result<WithFields<'_>> {
        let decoded = self.operands.iter().map(|operand| match operand {
            Operand::Field(piece) if piece.held().is_none() && piece.length() / FIELDS <= wanted => {
                let mut bytes = vec![0; piece.length() as usize];
                piece.read(0, &mut bytes)?;
                Ok(Some(bytes))
            }
            _ => Ok(None),
        });
        Ok(WithFields { derived: self, decoded: decoded.collect::<Result<_>>()? })
    }

    fn decode(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let (recipe, file) = (self.known()?, self.file()?);
        file.check(self.span.offset, self.span.length)?;
        let operands = self.with_fields(out.len() as u64)?;
        let compute = |offset: u64, bytes: &mut [u8]| recipe.apply(&operands, &self.lengths, offset, bytes);
        let fetch = |offset: u64, bytes: &mut [u8]| file.read_into(self.span.offset + offset, bytes);
        let delta = || {
            z4ai::Frame::open(z4ai::Fetch::new(self.span.length, fetch))?
                .against(z4ai::Fetch::new(self.length, compute))
        };
        let (mut start, trusted) = (start, delta()?.trusted());
        for part in out.chunks_mut(AT_ONCE) {
            let range = start..start + part.len() as u64;
            start = range.end;
            match trusted.read_into(range.clone(), part) {
                // Whether the operands are wrong, or the delta, their digest tells.
                Err(error) if matches!(error.kind(), Kind::Checksum | Kind::Malformed | Kind::Truncated) => {
                    return Err(delta()?.read_into(range, part).err().unwrap_or(error));
                }
                other => other?,
            }
        }
        Ok(())
    }
}

/// Operands some of whose fields are decoded.
struct WithFields<'a> {
    derived: &'a Derived,
    decoded: Vec<Option<Vec<u8>>>,
}

impl Operands for WithFields<'_> {
    fn read(&self, number: usize, start: u64, out: &mut [u8]) -> Result<()> {
        self.derived.read_operand(number, start, out)
    }

    fn lent(&self, number: usize) -> Option<&[u8]> {
        match self.decoded.get(number) {
            Some(Some(bytes)) => Some(bytes),
            _ => self.derived.lent_operand(number),
        }
    }
}

impl Derived {
    fn read_operand(&self, number: usize, start: u64, out: &mut [u8]) -> Result<()> {
        match self.operands.get(number) {
            Some(Operand::Base { reader, tensor, .. }) => reader
                .component_range_into(&tensor.name, &tensor.role, start, out)
                .map_err(|error| error.with_context(&format!("tensor \"{}\" of the base", tensor.name))),
            Some(Operand::Piece(piece) | Operand::Field(piece)) => piece.read(start, out),
            None => Err(Error::malformed("an operand is missing")),
        }
    }

    fn lent_operand(&self, number: usize) -> Option<&[u8]> {
        match self.operands.get(number)? {
            Operand::Base { reader, tensor, .. } => {
                let view = reader.component_view(&tensor.name, &tensor.role).ok()??;
                view.strides.is_none().then_some(view.bytes)
            }
            Operand::Piece(piece) | Operand::Field(piece) => piece.held(),
        }
    }
}

impl Piece for Derived {
    fn length(&self) -> u64 {
        self.length
    }

    fn stored(&self) -> u64 {
        let frames = self.operands.iter().map(|operand| match operand {
            Operand::Field(piece) => piece.stored(),
            Operand::Base { .. } | Operand::Piece(_) => 0,
        });
        frames.fold(self.span.length, u64::saturating_add)
    }

    fn encoding(&self) -> &'static str {
        "derived"
    }

    fn recipe(&self) -> Option<String> {
        Some(match &self.recipe {
            Ok(recipe) => recipe.describe(),
            Err(message) => message.clone(),
        })
    }

    fn weight(&self) -> u64 {
        self.lengths.iter().fold(self.span.length, |sum, length| sum.saturating_add(*length))
    }

    fn cost(&self, start: u64, length: u64) -> Result<u64> {
        let computed = self.known()?.cost(&self.lengths, start, length)?;
        Ok(decoding_cost(self.file()?, self.span, start, length)?.saturating_add(computed))
    }

    fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        self.decode(start, out)
    }

    fn announce(&self, announcement: &mut Announcement) {
        if let Some(file) = self.files.get(self.span.file.0 as usize) {
            announcement.add(file, self.span.offset..self.span.offset + self.span.length);
        }
        for operand in &self.operands {
            match operand {
                Operand::Base { reader, tensor, .. } => {
                    reader.announce_component(&tensor.name, &tensor.role, announcement);
                }
                Operand::Piece(piece) | Operand::Field(piece) => piece.announce(announcement),
            }
        }
    }
}
