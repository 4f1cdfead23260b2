//! Changing a finished file: removing tensors (by writing a new file) and replacing the bytes of one tensor. Bytes that a state refers to are
//! never overwritten: a reader that has the file open keeps what it opened.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::exclusive::{Exclusive, State};
use super::write::{Writer, alignment};
use crate::encoding::Hasher;
use crate::error::{Error, Hints, Kind, Result};
use crate::formats::zt::archived::refuse_change;
use crate::formats::zt::cbor::Encoder;
use crate::formats::zt::journal;
use crate::formats::zt::manifest::{self, Item, Manifest};
use crate::formats::zt::read::FOOTER;
use crate::formats::zt::{MAGIC, rules};
use crate::formats::{Input, detect};
use crate::index::{
    Component, Components, Coverage, Data, Digest, DigestValue, Edit, FileId, Format, Object, Span,
};
use crate::limits::Limits;
use crate::output::is_same;
use crate::reader::Reader;
use crate::source::{Io, Source};
use crate::tensor::ElementType;

/// What to do with a file of another format than the one that can be changed.
pub(super) const CONVERT_FIRST: Hints = Hints::new(
    "Convert it first: `ztensor::convert::copy_into`.",
    "Load it and save it as .zt first: load_file, save_file.",
    "Convert it first: `ztensor convert`.",
);

/// Files up to this size are written anew when a tensor is replaced: that takes two syncs, where a change behind the end takes four, and the file
/// does not grow. Tests have small files only.
const SMALL: u64 = if cfg!(test) { 4 << 10 } else { 8 << 20 };

/// Writes a copy of a `.zt` file without some of its tensors. Encodings, checksums and attributes of the others are kept, bytes that several
/// tensors share stay shared, and `output` may be the same file as `input`.
pub fn remove_tensors(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    names: &[impl AsRef<str>],
) -> Result<()> {
    let (input, output) = (input.as_ref(), output.as_ref());
    // Nobody appends to a file that is about to be replaced.
    let _alone = is_same(input, output).then(|| Exclusive::open(input)).transpose()?;
    let reader = read(Source::open(input, Io::Auto)?).map_err(|error| error.with_path(input))?;
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
    let removed: HashSet<&str> = names.iter().map(AsRef::as_ref).collect();
    let mut writer = Writer::create(output)?;
    copy(&reader, &mut writer, |name| !removed.contains(name), None)?;
    writer.finish().map(drop)
}

/// Opens a file whose tensors are to be copied; not one whose tensors are those of an archive.
fn read(source: Source) -> Result<Reader> {
    let limits = Limits::default();
    let mut input = Input::new(source, Io::Auto, limits.clone());
    let index = detect(&mut input)?;
    refuse_change(&index.attributes)?;
    Ok(Reader::new(input.into_files(), index, None, limits, true))
}

/// Copies tensors as they are stored, but one with other bytes. Bytes that several tensors share stay shared.
fn copy(
    reader: &Reader,
    writer: &mut Writer,
    wanted: impl Fn(&str) -> bool,
    replacement: Option<(&Replacement<'_>, &[u8])>,
) -> Result<()> {
    for (key, value) in reader.attributes() {
        writer.set_attribute(key.clone(), value.clone());
    }
    let mut placed: HashMap<Span, Component> = HashMap::new();
    for (name, object) in reader.objects().filter(|(name, _)| wanted(name)) {
        let mut copy = Object { components: Components::new(), ..object.clone() };
        let replacement = replacement.filter(|(replacement, _)| replacement.name == name);
        for (role, component) in &object.components {
            let span = component
                .data
                .only_span()
                .ok_or_else(|| Error::unsupported("a scattered component").with_tensor(name))?;
            let component = match (replacement, placed.get(&span)) {
                (Some((replacement, bytes)), _) => {
                    let changed = Component { digest: replacement.digest.clone(), ..component.clone() };
                    writer.copy_stored(&changed, bytes)?
                }
                (None, Some(known)) => Component { data: known.data.clone(), ..component.clone() },
                (None, None) => {
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
    Ok(())
}

/// Replaces the bytes of a dense, raw tensor of a `.zt` file. The new bytes must be as many as the old; a stored checksum is computed anew.
///
/// They are written behind the file, with a manifest that refers to them, and the old ones become a gap; whenever the process is killed, the tensor is the
/// old one or the new one, and who has the file open keeps the old one. A small file, or one that is gaps for the most part, is written
/// anew instead.
pub fn replace_tensor(path: impl AsRef<Path>, name: &str, element: &ElementType, bytes: &[u8]) -> Result<()> {
    let path = path.as_ref();
    let file = Exclusive::open(path)?;
    let state = file.state()?;
    let target = Replacement::find(&state.manifest, name, element, bytes)
        .map_err(|error| error.with_path(path).with_tensor(name))?;
    if target.is_better_written_anew(&state)? {
        return write_anew(&file, &target, bytes);
    }
    let done =
        file.begin(Edit::Replace, state.tail).and_then(|()| write_behind(&file, &state, &target, bytes));
    if done.is_err() {
        // Should that fail as well, the record stays: readers see the old state, and the next write takes the rest back.
        let _ = file.abandon(state.tail);
    }
    done?;
    // From here on the file holds the old state or the new one, as a whole.
    file.commit()?;
    file.clear(state.tail);
    Ok(())
}

/// Writes the new bytes and a tail that refers to them, each on the disk before what depends on it.
fn write_behind(file: &Exclusive, state: &State, target: &Replacement<'_>, bytes: &[u8]) -> Result<()> {
    let offset = state.tail.end().next_multiple_of(alignment(bytes.len() as u64, true));
    let tail = target.encode(state, offset)?;
    file.write_at(bytes, offset)?;
    file.sync()?;
    file.write_at(&tail, offset + bytes.len() as u64)?;
    file.sync()?;
    if file.is_in_place() { Ok(()) } else { Err(untouched(file)) }
}

/// Writes the whole file anew and puts it in place.
fn write_anew(file: &Exclusive, target: &Replacement<'_>, bytes: &[u8]) -> Result<()> {
    let reader = read(file.source()?.refreshed(true)?)?;
    let mut writer = Writer::create(file.path())?;
    copy(&reader, &mut writer, |_| true, Some((target, bytes)))?;
    if !file.is_in_place() {
        return Err(untouched(file));
    }
    writer.finish().map(drop)
}

fn untouched(file: &Exclusive) -> Error {
    file.displaced().with_hint("Nothing was replaced; try again.")
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
                    "this is a {layout} tensor; only dense ones are replaced"
                )));
            }
        };
        let Data::Raw(span) = component.data else {
            return Err(Error::mismatch("the tensor is stored compressed; only raw ones are replaced")
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

    /// Whether a new file is the better way: it can be one, because all of the old one is known, and either it is small, or the gaps in it would take
    /// more than the tensors.
    fn is_better_written_anew(&self, state: &State) -> Result<bool> {
        let State { tail, manifest, bytes, .. } = state;
        let mut spans = HashSet::new();
        for entry in &manifest.entries {
            let Ok(object) = &entry.object else { return Ok(false) };
            let mut encoder = Encoder::new();
            manifest::encode_object(&mut encoder, object)?;
            if encoder.finish() != bytes[entry.raw.clone()] {
                // Fields that only a newer version knows.
                return Ok(false);
            }
            spans.extend(rules::spans(object));
        }
        let stored = spans.iter().map(|span| span.length).fold(0, u64::saturating_add);
        let gaps = tail.offset.saturating_sub(stored) + if self.shared { 0 } else { self.span.length };
        let known = manifest.unknown.is_empty() && tail.offset >= journal::END;
        Ok(known && (tail.end() <= SMALL || gaps > stored))
    }

    /// Manifest and footer with the tensor's bytes at `offset`; every other object is copied as it stands.
    fn encode(&self, state: &State, offset: u64) -> Result<Vec<u8>> {
        let State { manifest, bytes: old, .. } = state;
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
