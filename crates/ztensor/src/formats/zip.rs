//! The members of a zip archive with their byte ranges, for the formats that live in one (`.pt`, `.npz`, `.keras`). The listing is strict, because
//! readers that disagree about an archive are how hostile files hide: local headers must agree with the central directory, members may
//! not overlap, names are unique, and a deflated member may not announce more than deflate can expand to.

use std::borrow::Cow;
use std::collections::HashSet;

use rawzip::{
    CompressionMethod, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ReaderAt, ZipArchive, ZipFileHeaderRecord,
    ZipLocator,
};

use crate::encoding;
use crate::error::{Error, Kind, Result};
use crate::index::{Data, FileId, PackedMember, Packing, Span};
use crate::limits::Budget;
use crate::source::Source;

/// Deflate codes at most 258 bytes in two bits.
const MOST_EXPANSION: u64 = 1032;

/// A local header's name and extra field are at most 64 KiB each.
const LOCAL_BUFFER: usize = 2 << 16;

/// How a member's bytes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Stored,
    Deflated,
    Bzip2,
    Lzma,
    /// Another compression method, by its number.
    Other(u16),
    Encrypted,
}

/// One member of an archive. Its range has been checked to lie in the file.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub name: String,
    /// The first byte of the stored data.
    pub offset: u64,
    /// Bytes as stored.
    pub length: u64,
    /// Bytes once decoded, as announced.
    pub decoded_length: u64,
    pub method: Method,
    /// CRC-32 of the decoded bytes, as announced. Not every writer fills it in.
    #[allow(dead_code, reason = "each format decides whether its writers can be trusted to fill it in")]
    pub crc32: u32,
}

impl Member {
    /// The member's bytes as an encoding of a file; unsupported methods are an error.
    pub fn data(&self, file: FileId) -> Result<Data> {
        let span = Span { file, offset: self.offset, length: self.length };
        match self.method {
            Method::Stored => Ok(Data::Raw(span)),
            Method::Deflated => Ok(Data::Deflate(span)),
            Method::Bzip2 => Ok(self.packed(Packing::Bzip2, span)),
            Method::Lzma => Ok(self.packed(Packing::Lzma, span)),
            Method::Other(number) => Err(Error::unsupported(format!(
                "the archive member \"{}\" uses compression method {number}; deflate, bzip2 and LZMA are read",
                self.name
            ))),
            Method::Encrypted => {
                Err(Error::unsupported(format!("the archive member \"{}\" is encrypted", self.name)))
            }
        }
    }

    fn packed(&self, packing: Packing, span: Span) -> Data {
        Data::PackedMember(Box::new(PackedMember { packing, span, skip: 0, crc32: self.crc32 }))
    }

    /// The whole decoded member, for headers and metadata. Its size is charged before it is inflated.
    pub fn read<'a>(&self, source: &'a Source, budget: &mut Budget) -> Result<Cow<'a, [u8]>> {
        budget.check_header(self.decoded_length)?;
        match self.data(FileId(0))? {
            Data::Raw(span) => source.bytes(span.offset, span.length),
            data => {
                budget.charge(self.decoded_length)?;
                let mut decoded = encoding::allocate(self.decoded_length)?;
                let stored = source.bytes(self.offset, self.length)?;
                match data {
                    Data::PackedMember(packed) => encoding::unpack_member(&stored, &packed, &mut decoded),
                    _ => encoding::inflate(&stored, &mut decoded),
                }
                .map_err(|error| error.with_offset(self.offset))?;
                Ok(Cow::Owned(decoded))
            }
        }
    }
}

/// Whether the first bytes are those of a zip archive.
pub(crate) fn matches(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06")
}

/// Whether a file ends as an archive does: with a directory that has a member, where readers look for one.
#[cfg(feature = "pytorch")]
pub(crate) fn ends_with_one(source: &Source) -> bool {
    /// The end of a directory, behind which a comment of 64 KiB may stand.
    const END: u64 = 22 + (64 << 10);
    let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let locator = ZipLocator::new().max_search_space(END);
    let located = locator.locate_in_reader(Positioned(source), &mut buffer, source.len());
    located.is_ok_and(|archive| matches!(archive.entries(&mut buffer).next_entry(), Ok(Some(_))))
}

/// Whether any member's name in the central directory satisfies a condition: enough to tell the formats apart. Archives that
/// cannot be listed have none; `members` says why.
pub(crate) fn any_name(source: &Source, mut condition: impl FnMut(&[u8]) -> bool) -> bool {
    let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let Ok(archive) = locate(source, &mut buffer) else { return false };
    let mut entries = archive.entries(&mut buffer);
    while let Ok(Some(entry)) = entries.next_entry() {
        if condition(entry.file_path().as_bytes()) {
            return true;
        }
    }
    false
}

/// All members in the order of the central directory, without directories.
pub(crate) fn members(source: &Source, budget: &mut Budget) -> Result<Vec<Member>> {
    let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let mut local_buffer = vec![0; LOCAL_BUFFER];
    let archive = locate(source, &mut buffer)?;
    let directory = archive.directory_offset();
    let mut members = Vec::new();
    let mut ranges = Vec::new();
    let mut entries = archive.entries(&mut buffer);
    let mut count = 0u64;
    while let Some(entry) = entries.next_entry().map_err(|cause| damaged(cause, directory))? {
        count += 1;
        let (member, end) = member(&archive, &entry, &mut local_buffer)?;
        if end > directory {
            return Err(Error::malformed(format!(
                "the archive member \"{}\" runs into the directory",
                member.name
            ))
            .with_offset(member.offset));
        }
        budget.charge((size_of::<Member>() + 2 * size_of::<u64>() + member.name.len()) as u64)?;
        ranges.push((entry.local_header_offset(), end));
        if !entry.is_dir() {
            members.push(member);
        }
    }
    if count != archive.entries_hint() {
        return Err(Error::malformed(format!(
            "the archive announces {} members, but its directory has {count}",
            archive.entries_hint()
        ))
        .with_offset(directory));
    }
    check_overlaps(&mut ranges)?;
    check_names(&members)?;
    Ok(members)
}

fn locate<'a>(source: &'a Source, buffer: &mut [u8]) -> Result<ZipArchive<Positioned<'a>>> {
    ZipLocator::new().locate_in_reader(Positioned(source), buffer, source.len()).map_err(|(_, cause)| {
        Error::truncated("the zip archive has no readable central directory at its end").with_cause(cause)
    })
}

/// Reads one member's local header and checks it against the directory; returns the member and where its data ends.
fn member(
    archive: &ZipArchive<Positioned<'_>>,
    entry: &ZipFileHeaderRecord<'_>,
    buffer: &mut [u8],
) -> Result<(Member, u64)> {
    let name = String::from_utf8_lossy(entry.file_path().as_bytes()).into_owned();
    let header = entry.local_header_offset();
    let found = archive.get_entry(entry.wayfinder()).map_err(|cause| damaged(cause, header))?;
    let local = found.local_header(buffer).map_err(|cause| damaged(cause, header))?;
    let rule =
        |rule: &str| Error::malformed(format!("the archive member \"{name}\": {rule}")).with_offset(header);

    if local.file_path().as_bytes() != entry.file_path().as_bytes() {
        return Err(rule("its local header has another name than the directory"));
    }
    if local.compression_method() != entry.compression_method() {
        return Err(rule("its local header has another compression method than the directory"));
    }
    let (length, decoded_length) = (entry.compressed_size_hint(), entry.uncompressed_size_hint());
    let same = local.compressed_size_hint() == length
        && local.uncompressed_size_hint() == decoded_length
        && local.crc32() == entry.crc32();
    if !same && !local.flags().has_data_descriptor() {
        return Err(rule("its local header has other sizes than the directory"));
    }
    let method = match entry.compression_method() {
        _ if entry.flags().is_encrypted() || local.flags().is_encrypted() => Method::Encrypted,
        CompressionMethod::STORE => Method::Stored,
        CompressionMethod::DEFLATE => Method::Deflated,
        CompressionMethod::BZIP2 => Method::Bzip2,
        CompressionMethod::LZMA => Method::Lzma,
        other => Method::Other(other.as_u16()),
    };
    if method == Method::Stored && length != decoded_length {
        return Err(rule("it is stored plainly, but its two sizes differ"));
    }
    if method == Method::Deflated && decoded_length > length.saturating_mul(MOST_EXPANSION) {
        return Err(rule("it announces more bytes than a deflate stream of its length can hold"));
    }
    let (offset, end) = found.compressed_data_range();
    Ok((Member { name, offset, length, decoded_length, method, crc32: entry.crc32() }, end))
}

fn check_overlaps(ranges: &mut [(u64, u64)]) -> Result<()> {
    ranges.sort_unstable();
    match ranges.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => Err(Error::malformed("two archive members overlap").with_offset(pair[1].0)),
        None => Ok(()),
    }
}

fn check_names(members: &[Member]) -> Result<()> {
    let mut names = HashSet::with_capacity(members.len());
    match members.iter().find(|member| !names.insert(member.name.as_str())) {
        Some(twice) => Err(Error::new(
            Kind::Duplicate,
            format!("the archive has two members of the name \"{}\"", twice.name),
        )
        .with_offset(twice.offset)),
        None => Ok(()),
    }
}

fn damaged(cause: rawzip::Error, offset: u64) -> Error {
    Error::malformed("the zip archive is damaged").with_offset(offset).with_cause(cause)
}

/// A source as `rawzip` reads it.
struct Positioned<'a>(&'a Source);

impl ReaderAt for Positioned<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let available = self.0.len().saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (target, _) = buffer.split_at_mut(available);
        self.0.read_into(offset, target).map_err(std::io::Error::other)?;
        Ok(available)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::limits::Limits;

    fn list(bytes: Vec<u8>) -> Result<Vec<Member>> {
        members(&Source::from_bytes(bytes), &mut Budget::new(Limits::default()))
    }

    fn archive(files: &[(&str, &[u8], CompressionMethod)]) -> Vec<u8> {
        let mut archive = rawzip::ZipArchiveWriter::new(Vec::new());
        for (name, content, method) in files {
            let (mut entry, config) = archive.new_file(*name).compression_method(*method).start().unwrap();
            let descriptor = if *method == CompressionMethod::DEFLATE {
                let encoder = flate2::write::DeflateEncoder::new(&mut entry, flate2::Compression::default());
                let mut writer = config.wrap(encoder);
                writer.write_all(content).unwrap();
                let (encoder, descriptor) = writer.finish().unwrap();
                encoder.finish().unwrap();
                descriptor
            } else {
                let mut writer = config.wrap(&mut entry);
                writer.write_all(content).unwrap();
                writer.finish().unwrap().1
            };
            entry.finish(descriptor).unwrap();
        }
        archive.finish().unwrap()
    }

    fn sample() -> Vec<u8> {
        let long = [7u8; 600];
        archive(&[
            ("a/plain", b"0123456789", CompressionMethod::STORE),
            ("a/packed", &long, CompressionMethod::DEFLATE),
            ("empty", b"", CompressionMethod::STORE),
        ])
    }

    #[test]
    fn members_are_listed_with_their_ranges_and_read_back() {
        let bytes = sample();
        let source = Source::from_bytes(bytes.clone());
        let mut budget = Budget::new(Limits::default());
        let members = members(&source, &mut budget).unwrap();
        let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["a/plain", "a/packed", "empty"]);
        let plain = &members[0];
        assert_eq!(&bytes[plain.offset as usize..][..plain.length as usize], b"0123456789");
        assert_eq!(*members[1].read(&source, &mut budget).unwrap(), [7; 600]);
        assert!(any_name(&source, |name| name == b"empty"));
        assert!(!any_name(&source, |name| name == b"missing"));
    }

    #[test]
    fn truncations_and_flipped_bytes_never_panic() {
        let bytes = sample();
        for end in 0..bytes.len() {
            assert!(list(bytes[..end].to_vec()).is_err(), "{end}");
        }
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 0xFF;
            let source = Source::from_bytes(changed);
            let mut budget = Budget::new(Limits::default());
            if let Ok(members) = members(&source, &mut budget) {
                for member in members {
                    let _ = member.read(&source, &mut budget);
                }
            }
        }
    }

    #[test]
    fn a_second_name_and_overlapping_members_are_refused() {
        let twice = archive(&[("x", b"1", CompressionMethod::STORE), ("x", b"2", CompressionMethod::STORE)]);
        assert_eq!(list(twice).unwrap_err().kind(), Kind::Duplicate);

        // Both directory entries point at the first member.
        let mut overlapping =
            archive(&[("x", b"1", CompressionMethod::STORE), ("x", b"1", CompressionMethod::STORE)]);
        let second = overlapping.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
        overlapping[second + 42..second + 46].fill(0);
        let error = list(overlapping).unwrap_err();
        assert!(error.message().contains("overlap"), "{error}");
    }

    #[test]
    fn a_local_header_that_disagrees_is_refused() {
        let mut bytes = sample();
        let name = bytes.windows(7).position(|window| window == b"a/plain").unwrap();
        bytes[name] = b'b';
        let error = list(bytes).unwrap_err();
        assert!(error.message().contains("another name"), "{error}");
    }

    #[test]
    fn a_deflated_member_cannot_announce_the_impossible() {
        let mut bytes = sample();
        let entry =
            bytes.windows(4).enumerate().filter(|(_, window)| *window == b"PK\x01\x02").nth(1).unwrap().0;
        bytes[entry + 24..entry + 28].copy_from_slice(&(1u32 << 30).to_le_bytes());
        let error = list(bytes).unwrap_err();
        assert!(error.message().contains("more bytes than"), "{error}");
    }
}
