//! From a component's elements to the bytes that are stored.

use std::borrow::Cow;

use super::input::{Compression, TensorInput, Version};
use crate::encoding;
use crate::error::{Error, Result};
use crate::formats::gguf::BlockType;
use crate::index::{Data, Span};
use crate::tensor::{ElementType, Layout, Shape};

/// A component's bytes as they will be stored.
pub(super) struct Encoded<'a> {
    pub bytes: Cow<'a, [u8]>,
    pub decoded: u64,
    pub place: fn(Span) -> Data,
}

/// Encodes the components of a tensor. `progress` is told the bytes of parts that are done, where there are several.
pub(super) fn encode<'a>(
    tensor: &TensorInput<'a>,
    compression: Compression,
    version: Version,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Encoded<'a>>> {
    let encode = |(role, element, bytes): &(Cow<'a, str>, ElementType, &'a [u8])| {
        let whole = tensor.layout == Layout::Dense && role == "data";
        let blocks = BlockType::of(&tensor.layout).filter(|_| role == "data");
        let told = (whole.then_some(&tensor.shape), blocks);
        encode_component(bytes, element, told, compression, version, progress)
    };
    tensor.components.iter().map(encode).collect()
}

fn encode_component<'a>(
    bytes: &'a [u8],
    element: &ElementType,
    (shape, blocks): (Option<&Shape>, Option<BlockType>),
    compression: Compression,
    version: Version,
    progress: &mut dyn FnMut(u64),
) -> Result<Encoded<'a>> {
    let decoded = bytes.len() as u64;
    let raw = Encoded { bytes: Cow::Borrowed(bytes), decoded, place: Data::Raw };
    match compression {
        Compression::None => Ok(raw),
        Compression::Zstd(level) if !(1..=22).contains(&level) => {
            Err(Error::argument(format!("zstd levels go from 1 to 22, not {level}")))
        }
        Compression::Zstd(level) => {
            let (packed, place): (_, fn(Span) -> Data) = match version {
                Version::One => (encoding::compress_zstd(bytes, level)?, Data::Zstd),
                Version::Two => (encoding::compress_seekable(bytes, level)?, Data::ZstdSeekable),
            };
            // What does not shrink is stored as it is, and stays zero-copy.
            let shrunk = packed.len() < bytes.len();
            Ok(if shrunk { Encoded { bytes: Cow::Owned(packed), decoded, place } } else { raw })
        }
        Compression::Z4ai(effort) => {
            let flat = Shape::from([decoded / element.storage.width() as u64]);
            let records = blocks.and_then(|blocks| blocks.record_layout(effort).ok());
            let options = encoding::z4ai_options(bytes, element, shape.unwrap_or(&flat), effort);
            let options = z4ai::Options { records, ..options };
            let mut told = |bytes| {
                progress(bytes);
                Ok(())
            };
            let packed = encoding::compress_z4ai_watched(bytes, &options, &mut told)?;
            let shrunk = packed.len() < bytes.len();
            Ok(if shrunk { Encoded { bytes: Cow::Owned(packed), decoded, place: Data::Z4ai } } else { raw })
        }
    }
}
