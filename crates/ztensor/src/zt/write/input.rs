//! What a caller hands to a writer: tensors, and how they are to be stored.

use std::borrow::Cow;

use z4ai::Effort;

use crate::encoding::Hasher;
use crate::error::{Error, Result};
use crate::tensor::{Attributes, ElementType, Layout, Shape};

/// Which generation of the container is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// 1.2, which every reader of the 1.x series opens.
    #[default]
    One,
    /// 2: every blob on pages of its own, every digest over decoded bytes. Canonical when tensors come sorted by name and raw.
    Two,
}

/// How a component's bytes are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// zstd at a level from 1 to 22.
    Zstd(i32),
    /// z4ai, which knows how weights are made. Readers of other makes do not know it yet.
    Z4ai(Effort),
}

impl Compression {
    /// `z4ai`, `fast` or `max`: z4ai at its default, fastest or smallest; `zstd`; `none`.
    pub fn parse(name: &str) -> Result<Compression> {
        match name {
            "none" | "raw" => Ok(Compression::None),
            "zstd" => Ok(Compression::Zstd(3)),
            "z4ai" | "default" | "balanced" => Ok(Compression::Z4ai(Effort::Default)),
            "fast" => Ok(Compression::Z4ai(Effort::Fast)),
            "max" => Ok(Compression::Z4ai(Effort::Max)),
            other => Err(Error::argument(format!(
                "compression must be \"none\", \"zstd\", \"z4ai\", \"fast\" or \"max\", not \"{other}\""
            ))),
        }
    }
}

/// Which checksum is stored with a component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Checksum {
    #[default]
    None,
    Crc32c,
    Sha256,
}

impl Checksum {
    /// `none`, `crc32c` or `sha256`.
    pub fn parse(name: &str) -> Result<Checksum> {
        match name {
            "none" => Ok(Checksum::None),
            "crc32c" => Ok(Checksum::Crc32c),
            "sha256" => Ok(Checksum::Sha256),
            other => Err(Error::argument(format!(
                "checksum must be \"none\", \"crc32c\" or \"sha256\", not \"{other}\""
            ))),
        }
    }

    pub(super) fn hasher(self) -> Option<Hasher> {
        match self {
            Checksum::None => None,
            Checksum::Crc32c => Some(Hasher::crc32c()),
            Checksum::Sha256 => Some(Hasher::sha256()),
        }
    }
}

/// A tensor to be written: any layout, with the bytes of each component.
#[derive(Clone, Debug)]
pub struct TensorInput<'a> {
    /// The logical shape.
    pub shape: Shape,
    /// How the components make one tensor.
    pub layout: Layout,
    /// The object's own metadata.
    pub attributes: Attributes,
    /// Role, element type and bytes (little-endian, row-major) of each component.
    pub components: Vec<(Cow<'a, str>, ElementType, &'a [u8])>,
}

impl<'a> TensorInput<'a> {
    /// A dense tensor.
    pub fn dense(shape: impl Into<Shape>, element: impl Into<ElementType>, bytes: &'a [u8]) -> Self {
        TensorInput {
            shape: shape.into(),
            layout: Layout::Dense,
            attributes: Attributes::new(),
            components: vec![(Cow::Borrowed("data"), element.into(), bytes)],
        }
    }

    pub(super) fn byte_length(&self) -> u64 {
        self.components.iter().map(|(_, _, bytes)| bytes.len() as u64).sum()
    }
}
