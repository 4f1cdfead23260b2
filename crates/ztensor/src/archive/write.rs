//! Making archives.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use xxhash_rust::xxh3::xxh3_64;
use z4ai::Effort;

use super::description::{ATTRIBUTE, Description, PieceEntry, SKELETON};
use super::digest::sha256_of;
use crate::error::{Error, Result};
use crate::index::{Data, FileId, Span};
use crate::open::OpenOptions;
use crate::reader::Reader;
use crate::source::Source;
use crate::tensor::{DType, ElementType, Shape};
use crate::zt::{Checksum, Compression, TensorInput, Writer};

/// How an archive is made.
#[derive(Clone, Debug, Default)]
pub struct ArchiveOptions {
    /// The trade between size and speed.
    pub effort: Effort,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Bytes of the original.
    pub original: u64,
    /// Bytes of the archive.
    pub stored: u64,
    /// Tensors found in the original.
    pub tensors: usize,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Archives a model file of any format. The archive appears only when it is complete.
pub fn archive(
    input: &Path,
    output: &Path,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Stats> {
    let reader = OpenOptions::default().open(input)?;
    let started = Instant::now();
    let mut writer = Writer::create(output)?;
    let mut stats = fill(&mut writer, &reader, options, progress).map_err(|error| error.with_path(input))?;
    stats.stored = writer.finish()?;
    stats.seconds = started.elapsed().as_secs_f64();
    Ok(stats)
}

/// The same, in memory.
pub fn archive_bytes(
    input: impl AsRef<[u8]> + Send + Sync + 'static,
    options: &ArchiveOptions,
) -> Result<(Vec<u8>, Stats)> {
    let reader = OpenOptions::default().open_bytes(input)?;
    let started = Instant::now();
    let mut writer = Writer::in_memory()?;
    let mut stats = fill(&mut writer, &reader, options, &mut |_| {})?;
    let bytes = writer.into_bytes()?;
    stats.stored = bytes.len() as u64;
    stats.seconds = started.elapsed().as_secs_f64();
    Ok((bytes, stats))
}

/// A run of plain tensor bytes in the original.
struct Run {
    span: Span,
    /// The object's name in the archive.
    object: String,
    element: ElementType,
    shape: Shape,
}

fn fill(
    writer: &mut Writer,
    reader: &Reader,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Stats> {
    let [source] = reader.sources() else {
        return Err(
            Error::argument("the model is spread over several files").with_hint("Archive each of them.")
        );
    };
    let runs = runs(reader);
    let mut pieces = Vec::with_capacity(runs.len());
    let mut known: HashMap<u64, Vec<(Span, String)>> = HashMap::new();
    for run in runs {
        let bytes = source.bytes(run.span.offset, run.span.length)?;
        let twins = known.entry(xxh3_64(&bytes)).or_default();
        let object = match twin_of(source, &bytes, twins)? {
            Some(twin) => twin,
            None => {
                let input = TensorInput::dense(run.shape, run.element, &bytes);
                writer.write_object(
                    &run.object,
                    &input,
                    Compression::Z4ai(options.effort),
                    Checksum::None,
                )?;
                twins.push((run.span, run.object.clone()));
                run.object
            }
        };
        progress(run.span.length);
        pieces.push(PieceEntry { offset: run.span.offset, length: run.span.length, object });
    }
    let skeleton = skeleton(source, &pieces)?;
    if !skeleton.is_empty() {
        let input = TensorInput::dense([skeleton.len() as u64], DType::U8, &skeleton);
        writer.write_object(SKELETON, &input, Compression::Z4ai(options.effort), Checksum::None)?;
    }
    let description = Description {
        format: reader.format().name().to_owned(),
        length: source.len(),
        sha256: sha256_of(source)?,
        pieces,
    };
    writer.set_attribute(ATTRIBUTE, description.to_value());
    Ok(Stats { original: source.len(), tensors: reader.len(), ..Stats::default() })
}

/// The tensors' bytes that lie plainly in the file, by offset, each once.
fn runs(reader: &Reader) -> Vec<Run> {
    let mut runs = Vec::new();
    for (name, object) in reader.objects() {
        for (role, component) in &object.components {
            let (data, whole) = match &component.data {
                Data::Strided(strided) => (&strided.inner, false),
                data => (data, true),
            };
            let Data::Raw(span) = data else { continue };
            if span.length == 0 || span.file != FileId(0) {
                continue;
            }
            let shape = object.component_shape(role).filter(|_| whole);
            let fits = |shape: &Shape| {
                shape.elements().and_then(|count| component.element.byte_length(count)) == Some(span.length)
            };
            let (element, shape) = match shape.filter(fits) {
                Some(shape) => (component.element.clone(), shape),
                None => {
                    let width = component.element.storage.width() as u64;
                    let plain =
                        if span.length.is_multiple_of(width) { component.element.storage } else { DType::U8 };
                    (plain.into(), Shape::from([span.length / plain.width() as u64]))
                }
            };
            let object = if role == "data" { name.to_owned() } else { format!("{name}/{role}") };
            runs.push(Run { span: *span, object, element, shape });
        }
    }
    runs.sort_by_key(|run| (run.span, !run.shape.is_empty()));
    let mut end = 0;
    let mut names = std::collections::HashSet::new();
    runs.retain(|run| {
        let free = run.span.offset >= end && run.object != SKELETON && names.insert(run.object.clone());
        if free {
            end = run.span.offset + run.span.length;
        }
        free
    });
    runs
}

/// The object that already holds the same bytes. Equal hashes make a candidate; only equal bytes are shared.
fn twin_of(source: &Source, bytes: &[u8], candidates: &[(Span, String)]) -> Result<Option<String>> {
    for (span, object) in candidates {
        if *source.bytes(span.offset, span.length)? == *bytes {
            return Ok(Some(object.clone()));
        }
    }
    Ok(None)
}

/// Everything between the pieces.
fn skeleton(source: &Source, pieces: &[PieceEntry]) -> Result<Vec<u8>> {
    let mut bones = Vec::new();
    let mut position = 0;
    for piece in pieces {
        bones.extend_from_slice(&source.bytes(position, piece.offset - position)?);
        position = piece.offset + piece.length;
    }
    bones.extend_from_slice(&source.bytes(position, source.len() - position)?);
    Ok(bones)
}
