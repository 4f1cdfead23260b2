//! The version 2 reader: footer, hash, manifest, and the placement of every blob in this file and in its shards.

use std::path::Path;

use super::super::rules;
use super::manifest::{Entry, Manifest, Shard};
use super::{ALIGNMENT, FOOTER, MAGIC, VERSION};
use crate::error::{Error, Kind, Result};
use crate::formats::Input;
use crate::index::{FileId, Format, Index, Object, Span};
use crate::source::Source;
use crate::tensor::{DType, ElementType, Layout};

/// What the footer says.
struct Footer {
    offset: u64,
    length: u64,
    hash: u64,
}

/// Indexes a version 2 file.
pub(crate) fn index(input: &mut Input) -> Result<Index> {
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
    if twox_hash::XxHash3_64::oneshot(&bytes) != footer.hash {
        return Err(
            Error::new(Kind::Checksum, "the manifest does not match its hash").with_offset(footer.offset)
        );
    }
    let manifest =
        Manifest::parse(&bytes, &mut input.budget).map_err(|error| error.with_offset(footer.offset))?;
    let files = open_shards(input, &manifest.shards)?;
    let mut index = Index::new(Format::Zt, "2");
    index.attributes = manifest.attributes;
    let digests = manifest.shards.into_iter().zip(&files);
    index.file_digests = digests.filter_map(|(shard, &file)| Some((file, shard.digest?))).collect();
    let mut objects = manifest.objects;
    for Entry { name, object, .. } in &mut objects {
        // The manifest numbers shards by their place in the table; the index by the file that was opened.
        for (_, component) in &mut object.components {
            if let Some(span) = component.data.span_mut()
                && span.file != FileId(0)
                && let Some(file) = files.get(span.file.0 as usize - 1)
            {
                span.file = *file;
            }
        }
        check_object(object).map_err(|error| error.with_tensor(name))?;
    }
    let mut blobs: Vec<_> =
        objects.iter().flat_map(|entry| rules::blobs(&entry.name, &entry.object)).collect();
    let manifest_blob = Span { file: FileId(0), offset: footer.offset, length: footer.length };
    blobs.push((manifest_blob, "(the manifest)"));
    check_placement(input, blobs, &files)?;

    index.objects.reserve(objects.len());
    for Entry { name, object, unreadable } in objects {
        match unreadable {
            None => index.insert(name, object)?,
            Some(reason) => index.skip(name, reason),
        }
    }
    Ok(index)
}

/// Checks the blobs of the file and of each shard.
fn check_placement(input: &Input, mut blobs: Vec<(Span, &str)>, shards: &[FileId]) -> Result<()> {
    for &shard in shards {
        let (inside, rest): (Vec<_>, Vec<_>) = blobs.into_iter().partition(|(span, _)| span.file == shard);
        rules::check_blobs(
            inside.into_iter(),
            ALIGNMENT..input.file(shard)?.len().saturating_sub(FOOTER),
            ALIGNMENT,
        )?;
        blobs = rest;
    }
    rules::check_blobs(blobs.into_iter(), ALIGNMENT..input.source().len().saturating_sub(FOOTER), ALIGNMENT)
}

fn check_object(object: &Object) -> Result<()> {
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
    rules::check_object(object)?;
    match object.layout {
        Layout::SparseCsr => check_indices(object, &["indices", "indptr"]),
        Layout::SparseCoo if object.shape.is_empty() => {
            Err(Error::malformed("a sparse tensor of coordinates without dimensions"))
        }
        Layout::SparseCoo => check_indices(object, &["coords"]),
        _ => Ok(()),
    }
}

/// Indices are plain unsigned integers of 32 or 64 bits, all of one type.
fn check_indices(object: &Object, roles: &[&str]) -> Result<()> {
    let mut types = roles.iter().filter_map(|role| object.component(role)).map(|part| &part.element);
    let first = types.next();
    let plain = [DType::U32, DType::U64].map(ElementType::plain);
    if !first.is_some_and(|element| plain.contains(element)) || types.any(|element| Some(element) != first) {
        return Err(Error::malformed(format!(
            "the indices of a {} tensor are not of one type u32 or u64",
            object.layout
        )));
    }
    Ok(())
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
    let footer = Footer { offset: number(0), length: number(8), hash: number(16) };
    if footer.length == 0 && (footer.offset, footer.hash) != (0, 0) {
        return Err(
            Error::malformed("a footer without a manifest, but with its place or hash").with_offset(start)
        );
    }
    if *source.bytes(0, MAGIC.len() as u64)? != *MAGIC {
        return Err(Error::malformed("the file does not begin with its magic number").with_offset(0));
    }
    Ok(footer)
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
