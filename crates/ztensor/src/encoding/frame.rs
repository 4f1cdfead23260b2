//! z4ai components: one frame each, cut into blocks, so that a range decodes only the blocks it touches.

use z4ai::{Dtype, Effort, Options};

use crate::error::{Error, Hints, Kind, Result};
use crate::index::Span;
use crate::source::Source;
use crate::tensor::{ElementType, Known, Shape};

/// Decodes a frame into a buffer of exactly its length.
pub(super) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<()> {
    z4ai::Frame::open(stored).and_then(|frame| frame.read_all_into(out)).map_err(failure)
}

/// Decodes the bytes from `start` on, as many as the buffer takes, of the frame in `span` of a source. Where that is not in memory, only what they need is read.
pub(super) fn decompress_range(source: &Source, span: Span, start: u64, out: &mut [u8]) -> Result<()> {
    let range = start..start + out.len() as u64;
    source.check(span.offset, span.length)?;
    match source.slice(span.offset, span.length) {
        Some(frame) => {
            z4ai::Frame::open(frame).and_then(|frame| frame.read_into(range, out)).map_err(failure)
        }
        None => {
            let read = |offset: u64, bytes: &mut [u8]| source.read_into(span.offset + offset, bytes);
            z4ai::Frame::open(z4ai::Fetch::new(span.length, read))?.read_into(range, out)
        }
    }
}

/// Encodes elements as [`options`] describes them.
pub(crate) fn compress(bytes: &[u8], options: &Options) -> Result<Vec<u8>> {
    z4ai::compress(bytes, options).map_err(failure)
}

/// The same; `progress` is told the bytes of each part that is done.
pub(crate) fn compress_watched(
    bytes: &[u8],
    options: &Options,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Vec<u8>> {
    z4ai::compress_watched(bytes, options, progress)
}

/// What the codec is told of some elements; the shape lets it follow the scale of rows and columns.
pub fn options(bytes: &[u8], element: &ElementType, shape: &Shape, effort: Effort) -> Options {
    let dtype = codec_dtype(element);
    let length = shape.elements().and_then(|count| element.byte_length(count));
    let told = length == Some(bytes.len() as u64) && dtype.is_some();
    let shape = told.then(|| shape.to_vec()).filter(|shape| shape.len() <= z4ai::MAX_DIMENSIONS);
    Options { dtype, shape, effort, ..Options::default() }
}

/// The codec's name for an element type; `None` for types it treats as plain bytes.
pub fn codec_dtype(element: &ElementType) -> Option<Dtype> {
    Known::of(element)?.names.codec
}

impl From<z4ai::Error> for Error {
    fn from(cause: z4ai::Error) -> Self {
        failure(cause)
    }
}

pub(crate) fn failure(cause: z4ai::Error) -> Error {
    let kind = match cause.kind() {
        z4ai::ErrorKind::ChecksumMismatch => Kind::Checksum,
        z4ai::ErrorKind::Truncated => Kind::Truncated,
        z4ai::ErrorKind::OutOfMemory => Kind::Limit,
        z4ai::ErrorKind::WrongReference => Kind::WrongBase,
        z4ai::ErrorKind::UnsupportedVersion => Kind::Unsupported,
        _ => Kind::Malformed,
    };
    if kind == Kind::WrongBase {
        let message = "what it is stored against is not what the delta was made against: the digests differ";
        return Error::new(kind, message).with_cause(cause).with_hints(Hints::new(
            "`archive::find` tells which file the base is.",
            "`ztensor delta info` tells which file the base is; name that one with base=.",
            "`ztensor delta info` tells which file the base is; name that one with --base.",
        ));
    }
    Error::new(kind, format!("the z4ai frame cannot be decoded: {cause}")).with_cause(cause)
}
