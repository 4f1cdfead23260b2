//! The one place where an encoding becomes bytes. [`view`] borrows what lies plainly in memory; [`read_into`] produces little-endian, row-major,
//! contiguous elements from any [`Data`], in parallel where there is work.

mod boxes;
mod checksum;
#[cfg(feature = "hdf5")]
mod chunked;
mod content;
#[cfg(feature = "zip")]
mod deflate;
#[cfg(feature = "hdf5")]
mod filter;
mod frame;
#[cfg(feature = "zip")]
mod member;
mod order;
mod seekable;
mod strided;
#[cfg(feature = "onnx")]
mod unravel;
#[cfg(feature = "onnx")]
mod varints;
mod zstandard;

use std::borrow::Cow;
use std::sync::Arc;

use rayon::prelude::*;
use z4ai::pages;

pub(crate) use boxes::region_into;
pub(crate) use checksum::Hasher;
pub(crate) use content::check_last as check_content;
#[cfg(feature = "zip")]
pub(crate) use deflate::inflate;
#[cfg(feature = "pytorch")]
pub(crate) use deflate::inflate_start;
pub use frame::{codec_dtype, options as codec_options};
pub(crate) use frame::{
    compress as compress_z4ai, compress_watched as compress_z4ai_watched, failure as z4ai_failure,
    options as z4ai_options,
};
#[cfg(any(feature = "npz", feature = "pytorch"))]
pub(crate) use member::start as member_start;
#[cfg(feature = "zip")]
pub(crate) use member::unpack as unpack_member;
pub(crate) use seekable::compress as compress_seekable;
#[cfg(feature = "onnx")]
pub(crate) use varints::read_varint;
pub(crate) use zstandard::compress as compress_zstd;

use crate::error::{Error, Kind, Result};
use crate::index::{Component, Content, Coverage, Data, Digest, DigestValue, Span};
use crate::source::Source;

/// The opened files that spans refer to.
pub(crate) type Files = [Arc<Source>];

/// Bytes that lie in memory as they are, perhaps with strides.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// For a contiguous view, the elements; for a strided one, the buffer the strides walk over.
    pub bytes: &'a [u8],
    /// Byte offset of the first element and byte strides per dimension; `None` for contiguous, row-major elements.
    pub strides: Option<(u64, &'a [i64])>,
}

/// Borrows a component's elements without copying, where they lie plainly in memory.
pub(crate) fn view<'a>(files: &'a Files, component: &'a Component) -> Option<View<'a>> {
    match &component.data {
        Data::Strided(strided) => {
            let bytes = borrow(files, &strided.inner)?;
            Some(View { bytes, strides: Some((strided.offset, &strided.strides)) })
        }
        data => Some(View { bytes: borrow(files, data)?, strides: None }),
    }
}

fn borrow<'a>(files: &'a Files, data: &'a Data) -> Option<&'a [u8]> {
    match data {
        Data::Raw(span) => files.get(span.file.0 as usize)?.slice(span.offset, span.length),
        Data::Inline(bytes) => Some(bytes),
        Data::Swapped { width: 1, inner } => borrow(files, inner),
        _ => None,
    }
}

/// Looks at a component's elements in the memory that views are lent from, as long as none is lent.
pub(crate) fn look_at_view<T>(
    files: &Files,
    component: &Component,
    look: impl FnOnce(&[u8]) -> T,
) -> Option<T> {
    let Data::Raw(span) = component.data else { return None };
    files.get(span.file.0 as usize)?.look_at_view(span.offset, span.length, look)
}

/// Whether [`bytes`] borrows a component's elements.
pub(crate) fn is_lent(files: &Files, component: &Component) -> bool {
    let lent = view(files, component).filter(|view| view.strides.is_none());
    lent.is_some_and(|view| view.bytes.len() as u64 == component.length)
}

/// A component's elements: borrowed where they lie plainly, decoded otherwise.
pub(crate) fn bytes<'a>(files: &'a Files, component: &'a Component) -> Result<Cow<'a, [u8]>> {
    match view(files, component) {
        Some(View { bytes, strides: None }) if bytes.len() as u64 == component.length => {
            Ok(Cow::Borrowed(bytes))
        }
        _ => {
            let mut out = allocate(component.length)?;
            read_into(files, component, &mut out)?;
            Ok(Cow::Owned(out))
        }
    }
}

/// Decodes a component into a buffer of exactly its length.
pub(crate) fn read_into(files: &Files, component: &Component, out: &mut [u8]) -> Result<()> {
    if out.len() as u64 != component.length {
        return Err(Error::mismatch(format!(
            "the destination has {} bytes, the tensor has {}",
            out.len(),
            component.length
        )));
    }
    // Plain copies and frames bring in the memory that they fill part by part.
    if !matches!(component.data, Data::Raw(_) | Data::Z4ai(_)) {
        pages::bring_all(out);
    }
    decode(files, &component.data, out, component)
}

/// Decodes the bytes from `start` on, as many as the buffer takes; only those are read where the encoding allows it.
pub(crate) fn range_into(files: &Files, component: &Component, start: u64, out: &mut [u8]) -> Result<()> {
    let end =
        start.checked_add(out.len() as u64).filter(|end| *end <= component.length).ok_or_else(|| {
            Error::argument(format!(
                "{} bytes from byte {start} on, but the tensor has {}",
                out.len(),
                component.length
            ))
        })?;
    match &component.data {
        Data::Raw(span) if span.length == component.length => {
            copy(source(files, *span)?, span.offset + start, out)
        }
        Data::Z4ai(span) => frame::decompress_range(source(files, *span)?, *span, start, out),
        Data::Boxes(boxes) => boxes::range_into(files, boxes, start, out),
        Data::ZstdSeekable(span) => {
            seekable::decompress_range(&stored(files, *span)?, component.length, start, out)
        }
        Data::Zstd(span)
            if zstandard::decompress_range(&stored(files, *span)?, component.length, start, out)? =>
        {
            Ok(())
        }
        _ => {
            let whole = bytes(files, component)?;
            // The range lies inside the component, so both ends fit the memory it was decoded to.
            out.copy_from_slice(&whole[start as usize..end as usize]);
            Ok(())
        }
    }
}

/// Checks a component's stored checksum and what the format says about its values. `decoded` saves decoding again where the caller already
/// has the bytes.
pub(crate) fn verify(files: &Files, component: &Component, decoded: Option<&[u8]>) -> Result<()> {
    if let Some(digest) = &component.digest {
        verify_digest(files, component, digest, decoded)?;
    }
    match (component.content, decoded) {
        (Content::Any, _) => Ok(()),
        (rule, Some(bytes)) => content::check(rule, bytes),
        (rule, None) => content::check(rule, &bytes(files, component)?),
    }
}

fn verify_digest(
    files: &Files,
    component: &Component,
    digest: &Digest,
    decoded: Option<&[u8]>,
) -> Result<()> {
    match (digest.over, decoded) {
        (Coverage::Decoded, Some(bytes)) => digest.value.check(bytes),
        (Coverage::Decoded, None) => digest.value.check(&bytes(files, component)?),
        // What lies plainly is stored as it is.
        (Coverage::Stored, Some(bytes)) if matches!(component.data, Data::Raw(_)) => {
            digest.value.check(bytes)
        }
        (Coverage::Stored, _) => {
            let span = component
                .data
                .only_span()
                .ok_or_else(|| Error::unsupported("a checksum over scattered bytes"))?;
            verify_span(files, span, &digest.value)
        }
    }
}

/// Checks the checksum of a range as it is stored.
pub(crate) fn verify_span(files: &Files, span: Span, digest: &DigestValue) -> Result<()> {
    digest.check_stream(|hasher| in_pieces(files, span, |piece| hasher.update(piece)))
}

fn decode(files: &Files, data: &Data, out: &mut [u8], component: &Component) -> Result<()> {
    match data {
        Data::Raw(span) => {
            if span.length != out.len() as u64 {
                return Err(wrong_length(span.length, out.len()));
            }
            copy(source(files, *span)?, span.offset, out)
        }
        Data::Inline(bytes) if bytes.len() == out.len() => {
            out.copy_from_slice(bytes);
            Ok(())
        }
        Data::Inline(bytes) => Err(wrong_length(bytes.len() as u64, out.len())),
        Data::Fill(element) => order::fill(element, out),
        Data::Pieces(spans) => gather(files, spans, out),
        Data::Zstd(span) => zstandard::decompress(&stored(files, *span)?, out),
        Data::ZstdSeekable(span) => seekable::decompress(&stored(files, *span)?, out),
        Data::Z4ai(span) => frame::decompress(&stored(files, *span)?, out),
        Data::Swapped { width, inner } => {
            decode(files, inner, out, component)?;
            order::swap(out, usize::from(*width));
            Ok(())
        }
        Data::SwappedBlocks(blocks) => {
            decode(files, &blocks.inner, out, component)?;
            order::swap_blocks(out, blocks.block, blocks.fields);
            Ok(())
        }
        Data::Negated { imaginary_only, inner } => {
            decode(files, inner, out, component)?;
            order::negate(out, &component.element, *imaginary_only)
        }
        Data::Boxes(boxes) => boxes::range_into(files, boxes, 0, out),
        Data::Strided(strided) => {
            let owned;
            let buffer = match borrow(files, &strided.inner) {
                Some(buffer) => buffer,
                None => {
                    let mut buffer = allocate(strided.inner_length)?;
                    decode(files, &strided.inner, &mut buffer, component)?;
                    owned = buffer;
                    &owned
                }
            };
            strided::gather(buffer, strided, out)
        }
        #[cfg(feature = "onnx")]
        Data::Varints(runs) => varints::decode(files, runs, &component.element, out),
        #[cfg(feature = "onnx")]
        Data::Unraveled(unraveled) => {
            let positions = unravel::positions(&unraveled.shape, out)?;
            decode(files, &unraveled.inner, positions, component)?;
            unravel::spread(&unraveled.shape, out)
        }
        #[cfg(feature = "zip")]
        Data::PackedMember(packed) => member::unpack(&stored(files, packed.span)?, packed, out),
        #[cfg(feature = "zip")]
        Data::Deflate(span) => inflate(&stored(files, *span)?, out),
        #[cfg(feature = "hdf5")]
        Data::Chunked(chunked) => chunked::decode(files, chunked, out),
        // Only builds without some formats get here.
        #[allow(unreachable_patterns)]
        other => {
            Err(Error::unsupported(format!("this build does not decode \"{}\" data", other.encoding_name())))
        }
    }
}

fn gather(files: &Files, spans: &[Span], mut out: &mut [u8]) -> Result<()> {
    let total = spans.iter().map(|span| span.length).fold(0, u64::saturating_add);
    if total != out.len() as u64 {
        return Err(wrong_length(total, out.len()));
    }
    for span in spans {
        let (piece, rest) = out.split_at_mut(span.length as usize);
        copy(source(files, *span)?, span.offset, piece)?;
        out = rest;
    }
    Ok(())
}

/// Copies a range on all cores: page faults and copies of one large tensor are as much work as those of many small ones. A file that is
/// open is read, because mapping its pages costs about as much as copying them.
fn copy(source: &Source, mut offset: u64, out: &mut [u8]) -> Result<()> {
    const PIECE: usize = 4 << 20;
    let read = |(offset, piece): (u64, &mut [u8])| {
        pages::bring(piece);
        source.read_directly(offset, piece)
    };
    if source.is_assembled() || source.is_remote() {
        return source.read_directly(offset, out);
    }
    if out.len() <= PIECE {
        return read((offset, out));
    }
    source.check(offset, out.len() as u64)?;
    let mut pieces = Vec::new();
    for piece in pages::pieces(out) {
        let start = offset;
        offset += piece.len() as u64;
        pieces.push((start, piece));
    }
    pieces.into_par_iter().try_for_each(read)
}

fn stored(files: &Files, span: Span) -> Result<Cow<'_, [u8]>> {
    source(files, span)?.bytes(span.offset, span.length)
}

fn source(files: &Files, span: Span) -> Result<&Source> {
    files
        .get(span.file.0 as usize)
        .map(|file| &**file)
        .ok_or_else(|| Error::malformed("a byte range names a file that is not open"))
}

/// Walks a range in pieces of a few MiB, so that checking a large file that is not mapped takes little memory.
fn in_pieces(files: &Files, span: Span, mut visit: impl FnMut(&[u8])) -> Result<()> {
    const PIECE: u64 = 4 << 20;
    let source = source(files, span)?;
    if let Some(slice) = source.slice(span.offset, span.length) {
        visit(slice);
        return Ok(());
    }
    let mut done = 0;
    while done < span.length {
        let length = PIECE.min(span.length - done);
        visit(&source.bytes(span.offset + done, length)?);
        done += length;
    }
    Ok(())
}

/// A zeroed buffer whose size came from a file: failure to get the memory is an error, not an abort. The kernel brings the zeros page by page,
/// so that a length nothing stands behind costs nothing.
pub(crate) fn allocate(length: u64) -> Result<Vec<u8>> {
    let too_large = || Error::new(Kind::Limit, format!("not enough memory for a tensor of {length} bytes"));
    let length = usize::try_from(length).map_err(|_| too_large())?;
    bytemuck::allocation::try_zeroed_vec(length).map_err(|()| too_large())
}

fn wrong_length(stored: u64, expected: usize) -> Error {
    Error::malformed(format!("the data has {stored} bytes, but the tensor needs {expected}"))
}
