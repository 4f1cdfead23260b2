//! Compressed members of zip archives. Deflate has a file of its own; bzip2 and LZMA, which `zipfile` can write, are rare enough to be streams of any
//! kind. The output length is known in advance, so that a bomb cannot expand past it.

use std::io::Read;

use super::{allocate, deflate};
use crate::error::{Error, Kind, Result};
use crate::index::{PackedMember, Packing};

/// Version of the compressor and length of the properties, as zip archives have it before an LZMA stream.
const LZMA_HEADER: usize = 4;

/// Decodes a member, leaves out its first bytes and checks the whole against its checksum.
pub(crate) fn unpack(stored: &[u8], member: &PackedMember, out: &mut [u8]) -> Result<()> {
    if member.packing == Packing::Deflate {
        return deflate::inflate_tail(stored, member, out);
    }
    let total = member.skip.saturating_add(out.len() as u64);
    let mut stream = stream(member.packing, stored, total, total)?;
    let mut head = allocate(member.skip)?;
    stream.read_exact(&mut head).and_then(|()| stream.read_exact(out)).map_err(damaged)?;
    if stream.read(&mut [0]).map_err(damaged)? != 0 {
        return Err(Error::malformed("the compressed stream is longer than its announced length"));
    }
    member.check(&head, out)
}

/// Decodes the first `wanted` bytes of a member of `length` that is not deflated, fewer if there are fewer.
#[cfg(any(feature = "npz", feature = "pytorch"))]
pub(crate) fn start(packing: Packing, stored: &[u8], length: u64, wanted: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    stream(packing, stored, length, wanted)?.take(wanted).read_to_end(&mut out).map_err(damaged)?;
    Ok(out)
}

/// A stream of `length` decoded bytes, of which the first `wanted` are read.
fn stream<'a>(packing: Packing, stored: &'a [u8], length: u64, wanted: u64) -> Result<Box<dyn Read + 'a>> {
    if packing == Packing::Bzip2 {
        return Ok(Box::new(bzip2::read::BzDecoder::new(stored)));
    }
    let wrong = || Error::malformed("the LZMA stream has no properties of the known form");
    let (header, rest) = stored.split_first_chunk::<LZMA_HEADER>().ok_or_else(wrong)?;
    let ([_, _, 5, 0], Some((&[properties, size @ ..], rest))) = (header, rest.split_first_chunk::<5>())
    else {
        return Err(wrong());
    };
    // A dictionary reaches back no further than the first byte, whatever the stream asks memory for.
    let most = u32::try_from(wanted.max(4096)).unwrap_or(u32::MAX);
    let dictionary = u32::from_le_bytes(size).min(most);
    let reader = lzma_rust2::LzmaReader::new_with_props(rest, length, properties, dictionary, None);
    Ok(Box::new(reader.map_err(damaged)?))
}

fn damaged(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::malformed("the compressed stream is damaged or ends early").with_cause(cause)
}

impl PackedMember {
    /// Compares the checksum of all decoded bytes: those that were left out, and the others.
    pub(super) fn check(&self, head: &[u8], rest: &[u8]) -> Result<()> {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(head);
        hasher.update(rest);
        if hasher.finalize() == self.crc32 {
            return Ok(());
        }
        Err(Error::new(Kind::Checksum, "the checksum of the zip member does not match its content")
            .with_hint("The data is damaged; fetch the file again or restore it from a backup."))
    }
}
