//! Transforms: reversible changes of representation that bring out what the entropy coders can use, one
//! folder for each, with the same file names. `model.rs` has what the blocks of a section share, as it is on
//! disk; `fit.rs` makes it from the data; `encode.rs` and `decode.rs` are the two directions of one block;
//! `steps.rs` has the hot loops that `arch/` overrides. To add a transform, add its folder and a line below.

pub(crate) mod adaptive;
pub(crate) mod cast;
pub(crate) mod difference;
pub(crate) mod float;
pub(crate) mod grid;
pub(crate) mod nested;
pub(crate) mod opaque;
pub(crate) mod palette;
pub(crate) mod planes;
pub(crate) mod records;
pub(crate) mod reference;
mod scale_contexts;
pub(crate) mod scaled;
pub(crate) mod sparse;
pub(crate) mod stored;
pub(crate) mod subnormal;

use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// The model of a section, and with it how its blocks are coded.
pub(crate) trait Transform: Sized {
    /// The first byte of the model in a frame.
    const TAG: u8;
    /// The name for people.
    const NAME: &'static str;
    /// Whether blocks begin with a mode byte, so that a block may be verbatim, constant or unchanged instead
    /// of coded.
    const HAS_MODES: bool = true;
    /// Whether a coded block holds the bytes of an unfinished last element too, which otherwise follow it
    /// verbatim.
    const TAKES_ALL_BYTES: bool = false;

    /// Reads what [`Transform::write`] wrote after the tag.
    fn read(reader: &mut Reader, section: Contents) -> Result<Self>;

    /// Appends the model without its tag.
    fn write(&self, out: &mut Vec<u8>) -> Result<()>;

    /// Appends a block of whole elements.
    fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()>;

    /// Encodes a block in place of whatever is in `memory`. Returns where it begins, at byte 1 or later: the
    /// mode goes before it. For transforms whose blocks grow towards both ends.
    fn encode_within(&self, bytes: &[u8], at: Position, memory: &mut Vec<u8>) -> Result<usize> {
        memory.clear();
        memory.push(0);
        memory.reserve(bytes.len() / 4 * 3);
        self.encode(bytes, at, memory)?;
        Ok(1)
    }

    /// Decodes what [`Transform::encode`] wrote; `out` is as long as `bytes` was.
    fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()>;

    /// Whether [`Transform::decode_pair`] is faster than two calls of [`Transform::decode`] on this CPU.
    fn prefers_pairs(&self) -> bool {
        false
    }

    /// Decodes two blocks, interleaved where that hides latency.
    fn decode_pair(
        &self,
        [first, second]: [&mut Reader; 2],
        [first_at, second_at]: [Position; 2],
        [first_out, second_out]: [&mut [u8]; 2],
    ) -> Result<()> {
        self.decode(first, first_at, first_out)?;
        self.decode(second, second_at, second_out)
    }

    /// The planes of a block of `elements` elements, by name and encoded length.
    fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>>;
}

/// What a section holds, as far as the frame says it outside the model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contents {
    pub dtype: Option<Dtype>,
    /// Decoded bytes of all blocks.
    pub length: usize,
}

impl Contents {
    /// Bytes per element.
    pub fn width(self) -> usize {
        self.dtype.map_or(1, Dtype::scalar_width)
    }

    /// Whole elements of all blocks.
    pub fn elements(self) -> usize {
        self.length / self.width()
    }
}

/// Where a block lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position<'a> {
    /// Its first element, counted from the start of the section.
    pub start: usize,
    /// The elements that it is coded against; empty where there is no reference.
    pub reference: &'a [u8],
}

impl Position<'_> {
    /// A block that begins with this element of its section.
    pub const fn element(start: usize) -> Self {
        Self { start, reference: &[] }
    }
}

/// Makes the enum over all transforms, which passes every call on to the one that it holds.
macro_rules! transforms {
    ($($(#[$doc:meta])* $name:ident($model:ty),)*) => {
        /// A model of any transform.
        #[derive(Debug)]
        pub(crate) enum Model {
            $($(#[$doc])* $name(Box<$model>),)*
        }

        $(impl From<$model> for Model {
            fn from(model: $model) -> Self {
                Self::$name(Box::new(model))
            }
        })*

        impl Model {
            /// The tags of all transforms.
            #[cfg(test)]
            const TAGS: &[u8] = &[$(<$model>::TAG,)*];

            /// The transform's name, for people.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => <$model>::NAME,)* }
            }

            /// See [`Transform::HAS_MODES`].
            pub fn has_modes(&self) -> bool {
                match self { $(Self::$name(_) => <$model>::HAS_MODES,)* }
            }

            /// See [`Transform::TAKES_ALL_BYTES`].
            pub fn takes_all_bytes(&self) -> bool {
                match self { $(Self::$name(_) => <$model>::TAKES_ALL_BYTES,)* }
            }

            /// Reads a model with its tag.
            pub fn read_from(reader: &mut Reader, section: Contents) -> Result<Self> {
                match reader.u8()? {
                    $(<$model>::TAG => <$model>::read(reader, section).map(Self::from),)*
                    tag => Err(Error::corrupt(format!("unknown transform {tag}"))),
                }
            }

            /// Appends the model with its tag.
            pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
                match self { $(Self::$name(model) => {
                    out.push(<$model>::TAG);
                    Transform::write(&**model, out)
                })* }
            }

            /// See [`Transform::encode`].
            pub fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
                match self { $(Self::$name(model) => Transform::encode(&**model, bytes, at, out),)* }
            }

            /// See [`Transform::encode_within`].
            pub fn encode_within(&self, bytes: &[u8], at: Position, memory: &mut Vec<u8>) -> Result<usize> {
                match self { $(Self::$name(model) => Transform::encode_within(&**model, bytes, at, memory),)* }
            }

            /// See [`Transform::decode`].
            pub fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
                match self { $(Self::$name(model) => Transform::decode(&**model, reader, at, out),)* }
            }

            /// See [`Transform::prefers_pairs`].
            pub fn prefers_pairs(&self) -> bool {
                match self { $(Self::$name(model) => Transform::prefers_pairs(&**model),)* }
            }

            /// See [`Transform::decode_pair`].
            pub fn decode_pair(
                &self,
                readers: [&mut Reader; 2],
                at: [Position; 2],
                out: [&mut [u8]; 2],
            ) -> Result<()> {
                match self { $(Self::$name(model) => Transform::decode_pair(&**model, readers, at, out),)* }
            }

            /// See [`Transform::parts`].
            pub fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
                match self { $(Self::$name(model) => Transform::parts(&**model, reader, elements),)* }
            }
        }
    };
}

transforms! {
    /// The data as it is.
    Stored(stored::StoredModel),
    /// Bytes of unknown structure, with zstd.
    Opaque(opaque::OpaqueModel),
    /// Floats with the scales of rows and columns.
    Float(float::FloatModel),
    /// Byte planes of elements.
    Planes(planes::PlanesModel),
    /// Floats as nested bit planes.
    Nested(nested::NestedModel),
    /// Indices into the few distinct elements.
    Palette(palette::PaletteModel),
    /// Levels and scales of group-quantised weights.
    Grid(grid::GridModel),
    /// A bitmap of the zeros and the other elements.
    Sparse(sparse::SparseModel),
    /// Differences from the elements of the reference.
    Difference(difference::DifferenceModel),
    /// Floats in the context of those of the reference.
    Reference(reference::ReferenceModel),
    /// Floats with scales that are learnt on the way.
    Adaptive(adaptive::AdaptiveModel),
    /// Floats that are mostly below the least exponent.
    Subnormal(subnormal::SubnormalModel),
    /// Floats as those of the narrower type that they were cast from.
    Cast(cast::CastModel),
    /// The fields of records.
    Records(records::RecordsModel),
    /// Bytes in the context of their row and column.
    Scaled(scaled::ScaledModel),
}

impl Model {
    /// Reads the model of a section, which is all of `bytes`.
    pub fn read(bytes: &[u8], section: Contents) -> Result<Self> {
        let mut reader = Reader::new(bytes, "section model");
        let model = Self::read_from(&mut reader, section)?;
        reader.finish()?;
        Ok(model)
    }
}

/// The parts of a block that is one plane.
pub(crate) fn one_part(name: &str, reader: &Reader) -> Vec<(String, usize)> {
    vec![(name.to_owned(), reader.remaining())]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transform or a dtype without a golden frame could change its bytes unnoticed.
    #[test]
    fn every_transform_and_dtype_is_among_the_forms_that_golden_frames_have() {
        let forms: Vec<&str> = include_str!("../../tests/cases/forms.txt").lines().collect();
        let models = Model::TAGS.iter().map(|tag| format!("model {tag}"));
        let dtypes = Dtype::all().map(|dtype| format!("dtype {}", Dtype::to_code(Some(dtype))));
        let missing: Vec<String> = models.chain(dtypes).filter(|form| !forms.contains(&&form[..])).collect();
        assert!(missing.is_empty(), "add to tests/cases/forms.txt: {missing:?}");
    }
}
