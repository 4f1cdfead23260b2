//! One member of an `.npz`: its header is read from the start of the member, inflating no more than that.

use std::borrow::Cow;

use flate2::{Decompress, FlushDecompress};

use super::array::{self, Storage};
use super::header::{Header, Preamble};
use crate::encoding;
use crate::error::{Error, Result};
use crate::formats::zip::Member;
use crate::index::{Data, FileId, Object, PackedMember, Packing, Span};
use crate::source::Source;

/// Bytes to begin with; NumPy pads headers to a multiple of 64, and nearly all take 128.
const START: u64 = 256;

/// Compressed bytes from which the first of a member can be decoded: bzip2 sorts up to 900 kB before it codes them.
const LARGEST_BLOCK: u64 = 1 << 20;

/// Reads headers of members one after the other. The state of the decompressor is large, so it is kept between members.
#[derive(Default)]
pub(super) struct Headers {
    stream: Option<Decompress>,
}

impl Headers {
    /// The array in a member. An error of the kind *unsupported* concerns this member alone.
    pub(super) fn object(&mut self, source: &Source, member: &Member) -> Result<Object> {
        if !member.name.ends_with(".npy") {
            return Err(Error::unsupported("a member of the archive that is not an .npy array"));
        }
        match member.data(FileId(0))? {
            Data::Raw(span) => {
                let (preamble, header) = read(|length| source.bytes(span.offset, length.min(span.length)))?;
                array::object(header, preamble.data, Storage::Plain(span))
            }
            data => {
                let packing = match data {
                    Data::PackedMember(packed) => packed.packing,
                    _ => Packing::Deflate,
                };
                let (preamble, header) =
                    read(|length| self.start(source, member, packing, length).map(Cow::Owned))?;
                let span = Span { file: FileId(0), offset: member.offset, length: member.length };
                let packed = PackedMember { packing, span, skip: preamble.data, crc32: member.crc32 };
                array::object(header, preamble.data, Storage::Packed(packed, member.decoded_length))
            }
        }
    }

    /// Decodes the first bytes of a member, fewer if the member is shorter.
    fn start(&mut self, source: &Source, member: &Member, packing: Packing, length: u64) -> Result<Vec<u8>> {
        if packing == Packing::Deflate {
            return self.inflate_start(source, member, length);
        }
        let wanted = length.min(member.decoded_length);
        let stored = source.bytes(member.offset, member.length.min(wanted + LARGEST_BLOCK))?;
        encoding::member_start(packing, &stored, member.decoded_length, wanted)
    }

    /// Inflates the first bytes of a member, fewer if the member is shorter.
    fn inflate_start(&mut self, source: &Source, member: &Member, length: u64) -> Result<Vec<u8>> {
        let length = length.min(member.decoded_length) as usize;
        let stream = self.stream.get_or_insert_with(|| Decompress::new(false));
        stream.reset(false);
        let mut out = vec![0; length];
        // Deflate grows incompressible data by a fraction of a per cent, and a block starts with a few hundred bytes of tables at most.
        let input = source.bytes(member.offset, member.length.min(length as u64 + 1024))?;
        stream
            .decompress(&input, &mut out, FlushDecompress::None)
            .map_err(|cause| Error::malformed("the deflate stream is damaged").with_cause(cause))?;
        out.truncate(stream.total_out() as usize);
        Ok(out)
    }
}

/// Reads a header with a function that gives the first bytes of the array; a second time if the first bytes were too few.
fn read<'a>(mut start: impl FnMut(u64) -> Result<Cow<'a, [u8]>>) -> Result<(Preamble, Header)> {
    let mut bytes = start(START)?;
    let preamble = Preamble::parse(&bytes)?;
    if preamble.data > bytes.len() as u64 {
        bytes = start(preamble.data)?;
    }
    Ok((preamble, Header::parse(preamble, &bytes)?))
}
