//! Changing a finished file: removing tensors (by writing a new file) and replacing the bytes of one tensor in place.

use std::collections::HashMap;
use std::path::Path;

use super::append::{open_for_writing, write_at};
use super::cbor::Encoder;
use super::manifest::{self, Item, Manifest};
use super::read::{ALIGNMENT, FOOTER};
use super::write::Writer;
use super::{MAGIC, repair, rules};
use crate::archive::Description;
use crate::decode::Hasher;
use crate::error::{Error, Hints, Kind, Result};
use crate::index::{
    Component, Components, Coverage, Data, Digest, DigestValue, FileId, Format, Object, Span,
};
use crate::limits::{Budget, Limits};
use crate::open::OpenOptions;
use crate::output::write_error;
use crate::tensor::ElementType;

/// What to do with a file of another format than the one that can be changed.
pub(super) const CONVERT_FIRST: Hints = Hints::new(
    "Convert it first: `ztensor::convert::copy_into`.",
    "Load it and save it as .zt first: load_file, save_file.",
    "Convert it first: `ztensor convert`.",
);

/// Writes a copy of a `.zt` file without some of its tensors. Encodings, checksums and attributes of the others are kept, bytes that several
/// tensors share stay shared, and `output` may be the same file as `input`.
pub fn remove_tensors(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    names: &[impl AsRef<str>],
) -> Result<()> {
    let input = input.as_ref();
    let reader = OpenOptions::default().open(input)?;
    if reader.format() != Format::Zt {
        return Err(Error::argument(format!(
            "this is a {} file; tensors are removed from .zt files",
            reader.format()
        ))
        .with_path(input)
        .with_hints(CONVERT_FIRST));
    }
    let missing: Vec<&str> = names.iter().map(AsRef::as_ref).filter(|name| !reader.contains(name)).collect();
    if !missing.is_empty() {
        let list = missing.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        return Err(Error::new(Kind::NoSuchTensor, format!("the file has no tensor {list}")).with_path(input));
    }
    if let Some(skipped) = reader.skipped().first() {
        return Err(Error::unsupported(format!(
            "rewriting would lose what is not understood: {}",
            skipped.reason
        ))
        .with_path(input)
        .with_tensor(&skipped.name));
    }
    let removed: std::collections::HashSet<&str> = names.iter().map(AsRef::as_ref).collect();
    let mut writer = Writer::create(output)?;
    for (key, value) in reader.attributes() {
        writer.set_attribute(key.clone(), value.clone());
    }
    let mut placed: HashMap<Span, Component> = HashMap::new();
    for (name, object) in reader.objects().filter(|(name, _)| !removed.contains(name)) {
        let mut copy = Object { components: Components::new(), ..object.clone() };
        for (role, component) in &object.components {
            let span = component
                .data
                .only_span()
                .ok_or_else(|| Error::unsupported("a scattered component").with_tensor(name))?;
            let component = match placed.get(&span) {
                Some(known) => Component { data: known.data.clone(), ..component.clone() },
                None => {
                    let source = reader.sources().get(span.file.0 as usize);
                    let source = source.ok_or_else(|| Error::malformed("no source").with_tensor(name))?;
                    let copied = writer.copy_stored(component, &source.bytes(span.offset, span.length)?)?;
                    placed.insert(span, copied.clone());
                    copied
                }
            };
            copy.components.push((role.clone(), component));
        }
        writer.insert_placed(name, copy);
    }
    writer.finish().map(drop)
}

/// Replaces the bytes of a dense, raw tensor inside a `.zt` file. The new bytes must be as many as the old; a stored checksum is computed anew.
///
/// The new bytes are first written behind the file with a complete manifest of their own, then copied into place: whenever the process is
/// killed, the tensor is the old one or the new one. A blob that several tensors share is not overwritten; this tensor gets its own.
pub fn replace_tensor(path: impl AsRef<Path>, name: &str, element: &ElementType, bytes: &[u8]) -> Result<()> {
    let path = path.as_ref();
    let named = |error: Error| error.with_path(path).with_tensor(name);
    let file = open_for_writing(path)?;
    repair::repair_open(&file, path)?;
    let (old_manifest, tail) = repair::last_manifest(path)?;
    let manifest = Manifest::parse(&old_manifest, &mut Budget::new(Limits::default()))
        .and_then(|parsed| Description::refuse_change(&parsed.attributes).map(|()| parsed))
        .map_err(|error| error.with_path(path))?;
    let target = Replacement::find(&manifest, name, element, bytes).map_err(named)?;
    let fail = |cause| write_error(path, cause);

    // Behind the file: the new bytes and a manifest that points at them. From here on the new state is on disk.
    let journal = (tail.end() + ALIGNMENT).next_multiple_of(4096);
    let moved = target.encode(&manifest, &old_manifest, journal)?;
    write_at(&file, bytes, journal).map_err(fail)?;
    let moved_at = (journal + bytes.len() as u64).next_multiple_of(ALIGNMENT);
    write_at(&file, &moved, moved_at).map_err(fail)?;
    file.sync_all().map_err(fail)?;
    if target.shared {
        // The old tail is now a gap between blobs, and gaps are zero bytes.
        return write_at(&file, &vec![0; (tail.end() - tail.offset) as usize], tail.offset).map_err(fail);
    }
    // Into place; then the file is cut back to its old length.
    let settled = target.encode(&manifest, &old_manifest, target.span.offset)?;
    let end = tail.offset + settled.len() as u64;
    if end > journal {
        return Err(named(Error::malformed("the manifest grew while it was rewritten")));
    }
    write_at(&file, bytes, target.span.offset).map_err(fail)?;
    write_at(&file, &settled, tail.offset).map_err(fail)?;
    file.sync_all().map_err(fail)?;
    file.set_len(end).and_then(|()| file.sync_all()).map_err(fail)
}

/// A replacement that has been checked against the manifest.
struct Replacement<'a> {
    name: &'a str,
    object: Object,
    span: Span,
    digest: Option<Digest>,
    shared: bool,
}

impl<'a> Replacement<'a> {
    fn find(manifest: &Manifest, name: &'a str, element: &ElementType, bytes: &[u8]) -> Result<Self> {
        let entry = manifest.entries.iter().find(|entry| entry.name == name);
        let entry =
            entry.ok_or_else(|| Error::new(Kind::NoSuchTensor, "the file has no tensor of this name"))?;
        let object = entry.object.as_ref().map_err(|reason| Error::unsupported(reason.clone()))?;
        let component = match (&object.layout, object.component("data")) {
            (crate::tensor::Layout::Dense, Some(component)) => component,
            (layout, _) => {
                return Err(Error::mismatch(format!(
                    "this is a {layout} tensor; only dense ones are replaced in place"
                )));
            }
        };
        let Data::Raw(span) = component.data else {
            return Err(Error::mismatch(
                "the tensor is stored compressed; only raw ones are replaced in place",
            )
            .with_hint("Remove it and append it anew."));
        };
        if component.length != bytes.len() as u64 {
            return Err(Error::mismatch(format!(
                "the tensor has {} bytes, the replacement {}",
                component.length,
                bytes.len()
            )));
        }
        if component.element.storage != element.storage {
            return Err(Error::mismatch(format!(
                "the tensor holds {}, the replacement {element}",
                component.element
            )));
        }
        let digest = component.digest.as_ref().map(|digest| {
            let mut hasher = match digest.value {
                DigestValue::Crc32c(_) => Hasher::crc32c(),
                DigestValue::Sha256(_) => Hasher::sha256(),
                DigestValue::Xxh3(_) => Hasher::xxh3(),
            };
            hasher.update(bytes);
            Digest { value: hasher.finish(), over: Coverage::Stored }
        });
        let others = manifest
            .entries
            .iter()
            .filter(|entry| entry.name != name)
            .filter_map(|entry| entry.object.as_ref().ok());
        let shared = others.flat_map(rules::spans).any(|other| other == span);
        Ok(Replacement { name, object: object.clone(), span, digest, shared })
    }

    /// Manifest and footer with the tensor's bytes at `offset`; every other object is copied as it stands.
    fn encode(&self, manifest: &Manifest, old: &[u8], offset: u64) -> Result<Vec<u8>> {
        let mut object = self.object.clone();
        for (_, component) in &mut object.components {
            component.data = Data::Raw(Span { file: FileId(0), offset, length: self.span.length });
            component.digest.clone_from(&self.digest);
        }
        let mut encoder = Encoder::new();
        manifest::encode_object(&mut encoder, &object)?;
        let changed = encoder.finish();
        let items = manifest.entries.iter().map(|entry| {
            let raw = if entry.name == self.name { &changed } else { &old[entry.raw.clone()] };
            (entry.name.as_str(), Item::Raw(raw))
        });
        let mut bytes = manifest::encode(&manifest.attributes, items, &manifest.unknown)?;
        let length = bytes.len() as u64;
        bytes.reserve(FOOTER as usize);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(MAGIC);
        Ok(bytes)
    }
}
