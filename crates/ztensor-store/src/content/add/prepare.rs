//! How one piece is stored: as an equal one that is there, as a difference to a relative in the store or in this checkpoint, or by itself.

use std::ops::Range;

use sha2::{Digest as _, Sha256};

use super::Builder;
use super::derive::Ancestry;
use crate::content::chain::{buffer, read_entry};
use crate::content::cost;
use crate::content::kin::{Relative, middle};
use crate::content::known::{Base, Place};
use crate::content::similar::{Question, nearest};
use ztensor::archive::Run;
use ztensor::{Result, Shape};

/// Larger pieces are never stored raw: the blocks of a frame have checksums of their own.
const LARGEST_RAW: usize = 64 << 10;
/// Shorter pieces are not worth a base.
const SHORTEST: u64 = 64;
/// Bytes that an entry for a base takes in the manifest.
const REFERENCE: usize = 80;
/// Bytes that are encoded to see which of two bases is better.
const TRIAL: u64 = 64 << 10;
/// Up to this size a piece is always tried without its base as well.
const SMALL: usize = 64 << 10;

/// A piece, ready to be taken into the manifest.
pub(super) enum Prepared {
    /// An earlier piece has the same bytes.
    Own,
    /// An entry of the store has.
    Twin(Place),
    Raw,
    Frame(Vec<u8>),
    Delta {
        base: Place,
        frame: Vec<u8>,
    },
    /// A difference to another tensor of this checkpoint.
    Kin {
        part: usize,
        frame: Vec<u8>,
    },
    /// A difference to what a recipe yields.
    Derived(Derived),
}

impl Prepared {
    /// Bytes that go into a pack.
    fn stored(&self, bytes: &[u8]) -> usize {
        match self {
            Prepared::Own | Prepared::Twin(_) => 0,
            Prepared::Raw => bytes.len(),
            Prepared::Frame(frame) | Prepared::Delta { frame, .. } | Prepared::Kin { frame, .. } => {
                frame.len()
            }
            Prepared::Derived(derived) => derived.frame.len(),
        }
    }
}

/// A piece as a difference to what a recipe yields.
pub(super) struct Derived {
    pub recipe: Vec<u8>,
    pub operands: Vec<Ingredient>,
    pub frame: Vec<u8>,
    /// About so many bytes the piece takes by itself.
    pub alone: u64,
}

/// What a recipe is applied to.
pub(super) enum Ingredient {
    /// Entries of the store, one after the other.
    Stored(Vec<Place>),
    /// Another tensor of this checkpoint, or some parts of one.
    Own(Range<usize>),
    /// Fields of the piece itself.
    Field { length: u64, frame: Vec<u8> },
}

/// Where a piece comes from.
pub(super) struct Origin<'a> {
    pub path: &'a str,
    pub key: String,
    pub named: bool,
    /// Its place in a file that holds no tensors.
    pub stretch: Option<usize>,
    /// Its place among the tensors and parts of this checkpoint.
    pub own: usize,
    /// What its file may be computed from, and the number of its run there.
    pub ancestry: Option<(&'a Ancestry<'a>, usize)>,
}

impl Builder<'_> {
    /// Decides how a piece is stored, and encodes it.
    pub(super) fn prepare(
        &self,
        bytes: &[u8],
        run: &Run,
        origin: &Origin<'_>,
    ) -> Result<([u8; 32], Prepared)> {
        let digest: [u8; 32] = Sha256::digest(bytes).into();
        if self.by_digest.contains_key(&digest) {
            return Ok((digest, Prepared::Own));
        }
        if let Some(place) = self.known.twin(&digest, bytes.len() as u64)? {
            return Ok((digest, Prepared::Twin(place)));
        }
        let codec = run.codec_options(bytes, self.options.effort);
        if run.length >= SHORTEST && self.options.deepest > 0 {
            let plain = !origin.named;
            let dtype = run.element.to_string();
            let (mut candidates, named) =
                self.known.candidates(&origin.key, origin.path, &dtype, &run.shape, plain);
            if plain {
                candidates.truncate(1);
            }
            let question = Question { bytes, width: run.element.storage.width(), named };
            let base = nearest(self.protocol, self.known, &question, &candidates, self.options.deepest)?;
            let relative = match (origin.named, &self.options.base) {
                (false, _) | (_, Base::None) => None,
                _ => self.family.nearest(origin.own, bytes)?,
            };
            let trial = Trial::new(bytes, run, self.options.effort);
            let relative = match relative {
                Some(relative) => self.is_better(&trial, &relative, base)?.then_some(relative),
                None => None,
            };
            let nearest = match (&relative, base) {
                (Some(relative), _) => Some(Nearest::Kin(relative)),
                (None, base) => base.map(Nearest::Stored),
            };
            if let Some(derived) = self.derive(bytes, run, origin.ancestry, &codec, (&trial, nearest))? {
                return Ok((digest, Prepared::Derived(derived)));
            }
            if let Some(relative) = relative {
                return Ok((digest, self.beside(bytes, relative, &codec)?));
            }
            let prepared = match base {
                Some(base) => self.against(bytes, base, &codec)?,
                None => raw_or_frame(bytes, z4ai::compress(bytes, &codec)?),
            };
            let moved = self.moved(bytes, origin, prepared.stored(bytes), &codec)?;
            return Ok((digest, moved.map_or(prepared, Prepared::Derived)));
        }
        let frame = z4ai::compress(bytes, &codec)?;
        Ok((digest, raw_or_frame(bytes, frame)))
    }

    /// Whether a relative in this checkpoint is a better base than one of the store, or none.
    fn is_better(&self, trial: &Trial<'_>, relative: &Relative, base: Option<Place>) -> Result<bool> {
        let other = match base {
            None => trial.alone()?,
            Some(base) => match self.try_nearest(trial, &Nearest::Stored(base))? {
                Some(other) => other,
                None => return Ok(true),
            },
        };
        Ok(self.try_nearest(trial, &Nearest::Kin(relative))?.is_some_and(|inside| inside < other))
    }

    /// What the trial takes against a base; `None` where that does not lie side by side with it.
    pub(super) fn try_nearest(&self, trial: &Trial<'_>, nearest: &Nearest<'_>) -> Result<Option<usize>> {
        let (start, length) = (trial.start, trial.bytes.len() as u64);
        match nearest {
            Nearest::Kin(relative) => trial.against(&self.family.read(relative, start, length)?).map(Some),
            Nearest::Stored(base) if self.known.entry(*base).length != trial.whole => Ok(None),
            Nearest::Stored(base) => {
                let mut reference = buffer(length)?;
                read_entry(self.protocol, self.known.manifest(*base), base.entry, start, &mut reference)?;
                trial.against(&reference).map(Some)
            }
        }
    }

    /// Stores a piece as the difference to another tensor of this checkpoint, or to what a recipe makes of it.
    fn beside(&self, bytes: &[u8], relative: Relative, codec: &z4ai::Options) -> Result<Prepared> {
        let reference = self.family.read(&relative, 0, bytes.len() as u64)?;
        let (frame, is_delta) = z4ai::compress_delta_if_useful(bytes, &reference, codec)?;
        Ok(match relative.recipe {
            _ if !is_delta => raw_or_frame(bytes, frame),
            None => Prepared::Kin { part: relative.parts.start, frame },
            Some(recipe) => Prepared::Derived(Derived {
                recipe: recipe.encode(),
                operands: vec![Ingredient::Own(relative.parts)],
                frame,
                alone: bytes.len() as u64,
            }),
        })
    }

    /// Stores a piece as the difference to another, where that helps.
    fn against(&self, bytes: &[u8], base: Place, codec: &z4ai::Options) -> Result<Prepared> {
        let mut reference = buffer(self.known.entry(base).length)?;
        read_entry(self.protocol, self.known.manifest(base), base.entry, 0, &mut reference)?;
        let (frame, is_delta) = z4ai::compress_delta_if_useful(bytes, &reference, codec)?;
        if !is_delta {
            return Ok(raw_or_frame(bytes, frame));
        }
        // What the piece takes by itself is found out where it is cheap to, and where the base says that the delta saves little.
        let expected = cost::alone(&self.known.manifest(base).entries, base.entry);
        if bytes.len() <= SMALL || saves_little(frame.len() as u64, expected) {
            let alone = z4ai::compress(bytes, codec)?;
            let least = alone.len().min(bytes.len());
            if least <= frame.len() + REFERENCE || saves_little(frame.len() as u64, least as u64) {
                return Ok(raw_or_frame(bytes, alone));
            }
        }
        Ok(Prepared::Delta { base, frame })
    }
}

/// A stretch in the middle of a piece, on which bases are compared.
pub(super) struct Trial<'a> {
    start: u64,
    bytes: &'a [u8],
    whole: u64,
    codec: z4ai::Options,
}

/// The base that was found by name or by samples.
pub(super) enum Nearest<'a> {
    Stored(Place),
    Kin(&'a Relative),
}

impl<'a> Trial<'a> {
    fn new(bytes: &'a [u8], run: &Run, effort: z4ai::Effort) -> Trial<'a> {
        let (start, length) = middle(run.length, TRIAL);
        let ours = &bytes[start as usize..(start + length) as usize];
        let elements = length / run.element.storage.width().max(1) as u64;
        let codec = ztensor::codec_options(ours, &run.element, &Shape::from([elements]), effort);
        Trial { start, bytes: ours, whole: run.length, codec }
    }

    pub(super) fn alone(&self) -> Result<usize> {
        Ok(z4ai::compress(self.bytes, &self.codec)?.len())
    }

    fn against(&self, reference: &[u8]) -> Result<usize> {
        Ok(z4ai::compress_delta(self.bytes, reference, &self.codec)?.len())
    }
}

/// Whether a delta is not worth what its chain costs every reader, and the room that it takes from later deltas.
fn saves_little(delta: u64, alone: u64) -> bool {
    delta.saturating_mul(20) > alone.saturating_mul(19)
}

pub(super) fn raw_or_frame(bytes: &[u8], frame: Vec<u8>) -> Prepared {
    match bytes.len() <= frame.len() && bytes.len() <= LARGEST_RAW {
        true => Prepared::Raw,
        false => Prepared::Frame(frame),
    }
}
