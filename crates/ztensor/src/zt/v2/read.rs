//! The version 2 reader: footer, hash, manifest, and the placement of every blob in this file and in its shards.

use std::path::Path;

use super::super::rules;
use super::manifest::{Manifest, Shard};
use super::{ALIGNMENT, FOOTER, MAGIC, VERSION};
use crate::error::{Error, Kind, Result};
use crate::formats::Input;
use crate::index::{FileId, Format, Index, Span};
use crate::source::Source;
use crate::tensor::Layout;

/// What the footer says.
struct Footer {
    offset: u64,
    length: u64,
    hash: u64,
}

/// Indexes a version 2 file.
pub(in crate::zt) fn index(input: &mut Input) -> Result<Index> {
    let source = input.source();
    let footer = footer(&source)?;
    if footer.length == 0 {
        return Err(Error::new(Kind::Unsupported, "this is a data shard; it describes nothing by itself")
            .with_hint("Open the root file of the model instead."));
    }
    input.budget.check_header(footer.length)?;
    let data_end = source.len() - FOOTER;
    let inside = footer.offset.checked_add(footer.length).is_some_and(|end| end <= data_end);
    if footer.length > super::super::read::LARGEST_MANIFEST
        || footer.offset < ALIGNMENT
        || !footer.offset.is_multiple_of(ALIGNMENT)
        || !inside
    {
        return Err(Error::malformed("the manifest is misplaced").with_offset(data_end));
    }
    let bytes = source.bytes(footer.offset, footer.length)?;
    if xxhash_rust::xxh3::xxh3_64(&bytes) != footer.hash {
        return Err(
            Error::new(Kind::Checksum, "the manifest does not match its hash").with_offset(footer.offset)
        );
    }
    let manifest =
        Manifest::parse(&bytes, &mut input.budget).map_err(|error| error.with_offset(footer.offset))?;
    let files = open_shards(input, &manifest.shards)?;
    let mut index = Index::new(Format::Zt, "2");
    index.attributes = manifest.attributes;
    for (name, object) in manifest.objects {
        match object {
            Ok(mut object) => {
                // The manifest numbers shards by their place in the table; the index by the file that was opened.
                for (_, component) in &mut object.components {
                    if let Some(span) = component.data.span_mut()
                        && span.file != FileId(0)
                        && let Some(file) = files.get(span.file.0 as usize - 1)
                    {
                        span.file = *file;
                    }
                }
                check_object(&object).map_err(|error| error.with_tensor(&name))?;
                index.insert(name, object)?;
            }
            Err(reason) => index.skip(name, reason),
        }
    }
    for file in std::iter::once(FileId(0)).chain(files) {
        let length = input.file(file)?.len();
        let in_file = |name, object| rules::blobs(name, object).filter(move |(span, _)| span.file == file);
        let manifest = Span { file, offset: footer.offset, length: footer.length };
        let manifest = (file == FileId(0)).then_some((manifest, "(the manifest)"));
        let blobs = index.objects.iter().flat_map(|(name, object)| in_file(name, object)).chain(manifest);
        rules::check_blobs(blobs, ALIGNMENT..length.saturating_sub(FOOTER), ALIGNMENT)?;
    }
    Ok(index)
}

fn check_object(object: &crate::index::Object) -> Result<()> {
    let parts = object.components.len();
    let wanted = match object.layout {
        Layout::Dense => 1,
        Layout::SparseCsr => 3,
        Layout::SparseCoo => 2,
        _ => parts,
    };
    if parts != wanted {
        return Err(Error::malformed(format!("a {} tensor with {parts} parts", object.layout)));
    }
    rules::check_object(object)
}

fn footer(source: &Source) -> Result<Footer> {
    let start = source.len().checked_sub(FOOTER).filter(|start| *start >= MAGIC.len() as u64);
    let start = start.ok_or_else(|| Error::truncated("the file is too short for a footer"))?;
    let bytes = source.bytes(start, FOOTER)?;
    let number =
        |at: usize| bytes.get(at..at + 8).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b));
    if bytes.get(32..) != Some(MAGIC) {
        return Err(Error::truncated(
            "the footer is missing: the file was cut off, or a write was interrupted",
        )
        .with_offset(start));
    }
    let version = number(24) as u32;
    if version != VERSION {
        return Err(Error::unsupported(format!(
            "this is version {version} of the container; versions 0.1, 1.x and 2 are read"
        ))
        .with_hint("Update ztensor."));
    }
    Ok(Footer { offset: number(0), length: number(8), hash: number(16) })
}

/// Opens `<stem>-<shard>.zt` beside the root for each shard, and checks its size and footer.
fn open_shards(input: &mut Input, shards: &[Shard]) -> Result<Vec<FileId>> {
    let stem = input
        .path()
        .and_then(Path::file_stem)
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    let mut files = Vec::with_capacity(shards.len());
    for shard in shards {
        let name = format!("{stem}-{}.zt", shard.name);
        let file = input.sibling(&name)?;
        let source = input.file(file)?;
        if source.len() != shard.size {
            let message =
                format!("shard \"{name}\" has {} bytes, the manifest says {}", source.len(), shard.size);
            return Err(Error::new(Kind::Truncated, message));
        }
        footer(source).map_err(|error| error.with_context(&format!("shard \"{name}\"")))?;
        files.push(file);
    }
    Ok(files)
}
