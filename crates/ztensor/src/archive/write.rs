//! Making archives.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use indexmap::IndexSet;
use rayon::prelude::*;
use twox_hash::XxHash3_64;
use z4ai::Effort;

use super::derive::{Derivation, Operand};
use super::description::{ATTRIBUTE, BaseDescription, Description, PIECES, RESTORE_FIRST, SKELETON, TABLE};
use super::opening::OpenOptions;
use super::original::Original;
use super::runs::{Run, runs_of_files};
use super::table::{BaseTensor, OperandEntry, PieceEntry, Stored, Table};
use crate::encoding;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::reader::Reader;
use crate::source::Source;
use crate::tensor::DType;
use crate::zt::{Checksum, Compression, TensorInput, Writer};

/// Bytes of pieces that are compressed side by side before they are written.
const WINDOW: u64 = 64 << 20;
/// Larger pieces are never stored raw: a frame has a checksum for each of its blocks, so that a part of it can be trusted without the rest.
const LARGEST_RAW: usize = 64 << 10;

/// How an archive is made.
#[derive(Clone, Debug, Default)]
pub struct ArchiveOptions {
    /// The trade between size and speed.
    pub effort: Effort,
    /// The zstd level for what is not coded as floats; by default one that fits the effort.
    pub level: Option<i32>,
    /// Worker threads; 0 uses all cores.
    pub threads: usize,
    /// What the file may cost that is archived: it may be an archive itself.
    pub limits: Limits,
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
    /// Pieces that equal a tensor of the base.
    pub copied: usize,
    /// Pieces stored as a difference to a tensor of the base.
    pub deltas: usize,
    /// Pieces stored as a difference to what a recipe makes of other tensors.
    pub derived: usize,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl Stats {
    /// The same with the time that has passed.
    pub(crate) fn since(self, started: Instant) -> Stats {
        Stats { seconds: started.elapsed().as_secs_f64(), ..self }
    }
}

/// Archives an opened model, with all of its files. The archive appears only when it is complete.
pub fn archive_reader(
    reader: &Reader,
    output: &Path,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Stats> {
    let started = Instant::now();
    Ok(write_file(output, reader, &Alone, options, progress)?.since(started))
}

/// The same, of a file that need not be one: a source in memory, for instance.
pub fn archive_source(
    source: Source,
    output: &Path,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Stats> {
    archive_reader(&OpenOptions::within(&options.limits).open_source(source)?, output, options, progress)
}

/// The same, from memory to memory.
pub fn archive_bytes(
    input: impl AsRef<[u8]> + Send + Sync + 'static,
    options: &ArchiveOptions,
) -> Result<(Vec<u8>, Stats)> {
    let started = Instant::now();
    let reader = OpenOptions::within(&options.limits).open_bytes(input)?;
    let (bytes, stats) = write_memory(&reader, &Alone, options)?;
    Ok((bytes, stats.since(started)))
}

/// Writes an archive or a delta to a file, which appears only when it is complete.
pub(crate) fn write_file(
    output: &Path,
    reader: &Reader,
    encoder: &dyn Encoder,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Stats> {
    let mut writer = Writer::create(output)?;
    let stats = write(&mut writer, reader, encoder, options, progress)?;
    Ok(Stats { stored: writer.finish()?, ..stats })
}

/// Writes an archive or a delta to memory.
pub(crate) fn write_memory(
    reader: &Reader,
    encoder: &dyn Encoder,
    options: &ArchiveOptions,
) -> Result<(Vec<u8>, Stats)> {
    let mut writer = Writer::in_memory()?;
    let stats = write(&mut writer, reader, encoder, options, &mut |_| Ok(()))?;
    let bytes = writer.into_bytes()?;
    let stored = bytes.len() as u64;
    Ok((bytes, Stats { stored, ..stats }))
}

/// A way to store a run of the original, if there is one that beats a frame of its own.
pub(crate) trait Encoder: Sync {
    /// What runs are stored against. All of it is read.
    fn describe(&self) -> Result<Vec<BaseDescription>>;
    /// The opened bases, for recipes.
    fn bases(&self) -> &[Arc<Reader>];
    /// Stores a run against the tensor of a base that has its content, or its name and type; `None` where there is none.
    fn encode(&self, run: &Run, bytes: &[u8], options: &z4ai::Options) -> Result<Option<Encoded>>;
}

/// A piece as it will be stored.
pub(crate) enum Encoded {
    Raw,
    Frame(Vec<u8>),
    Copy { tensor: BaseTensor, digest: [u8; 16] },
    Delta { tensor: BaseTensor, frame: Vec<u8> },
    Derived { recipe: Vec<u8>, operands: Vec<Operand>, frame: Vec<u8> },
}

impl Encoded {
    /// Bytes that are stored.
    pub(crate) fn length(&self, decoded: usize) -> usize {
        match self {
            Encoded::Raw => decoded,
            Encoded::Frame(frame) | Encoded::Delta { frame, .. } => frame.len(),
            Encoded::Copy { .. } => 0,
            Encoded::Derived { operands, frame, .. } => {
                operands.iter().map(Operand::stored).sum::<usize>() + frame.len()
            }
        }
    }
}

/// No base: every piece stands by itself.
pub(crate) struct Alone;

impl Encoder for Alone {
    fn describe(&self) -> Result<Vec<BaseDescription>> {
        Ok(Vec::new())
    }

    fn bases(&self) -> &[Arc<Reader>] {
        &[]
    }

    fn encode(&self, _: &Run, _: &[u8], _: &z4ai::Options) -> Result<Option<Encoded>> {
        Ok(None)
    }
}

/// Writes all of an archive but its end.
pub(crate) fn write(
    writer: &mut Writer,
    reader: &Reader,
    encoder: &dyn Encoder,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Stats> {
    if reader.archived().is_some() {
        return Err(Error::argument("this is an archive already").with_hints(RESTORE_FIRST));
    }
    let (original, format) = (Original::of(reader), reader.format().name());
    write_original(writer, (reader, &original, format), encoder, options, progress)
}

/// Writes all of an archive but its end: of these files, which the reader has opened, and of this format.
pub(super) fn write_original(
    writer: &mut Writer,
    (reader, source, format): (&Reader, &Original, &str),
    encoder: &dyn Encoder,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Stats> {
    reader.check_sources()?;
    let runs = runs_of_files(reader, source);
    let derivation = Derivation::new(reader, source, &runs, encoder.bases())?;
    let identify = || Ok::<_, Error>((source.identify()?, encoder.describe()?));
    let work = (encoder, &derivation);
    // A digest takes one core as long as compressing takes several: both are done at once, unless one thread is all there is.
    let (mut table, ((original, files), bases)) = if options.threads == 1 {
        (write_pieces(writer, source, &runs, work, options, progress)?, identify()?)
    } else {
        let mut identities = None;
        let table = rayon::in_place_scope(|scope| {
            scope.spawn(|_| identities = Some(identify()));
            write_pieces(writer, source, &runs, work, options, progress)
        })?;
        (table, identities.unwrap_or_else(identify)?)
    };
    let count = |wanted: fn(&Stored) -> bool| table.pieces.iter().filter(|p| wanted(&p.stored)).count();
    let stats = Stats {
        original: source.length(),
        tensors: reader.len(),
        copied: count(|stored| matches!(stored, Stored::Copy { .. })),
        deltas: count(|stored| matches!(stored, Stored::Delta { .. })),
        derived: count(|stored| matches!(stored, Stored::Derived { .. })),
        ..Stats::default()
    };
    write_bytes(writer, SKELETON, &skeleton(source, &runs)?, options)?;
    let used = table.renumber_bases();
    let bases = bases.into_iter().enumerate().filter(|(base, _)| used.contains(base));
    let bases: Vec<BaseDescription> = bases.map(|(_, base)| base).collect();
    write_bytes(writer, TABLE, &table.encode(bases.len()), options)?;
    let description =
        Description { format: format.to_owned(), original, files, bases, has_recipes: table.has_recipes() };
    writer.set_attribute(ATTRIBUTE, description.to_value());
    Ok(stats)
}

/// Writes the pieces, in windows whose pieces are compressed side by side.
fn write_pieces(
    writer: &mut Writer,
    source: &Original,
    runs: &[Run],
    work: (&dyn Encoder, &Derivation<'_>),
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Table> {
    let pool = match options.threads {
        0 => None,
        threads => Some(
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .map_err(|cause| Error::argument(format!("cannot start {threads} threads: {cause}")))?,
        ),
    };
    let mut pieces =
        Pieces { source, table: Table::default(), base: IndexSet::new(), known: HashMap::new(), end: 0 };
    let mut stored = writer.bytes(PIECES)?;
    let mut rest = runs;
    let mut first = 0;
    while !rest.is_empty() {
        let (window, later) = rest.split_at(window(rest));
        let mut told = 0;
        let prepared = match (window, &pool) {
            // A large tensor is alone in its window.
            ([run], None) => {
                let tell = &mut |bytes: u64| {
                    told += bytes;
                    progress(bytes)
                };
                vec![pieces.prepare((first, run), work, options, tell)?]
            }
            _ => {
                let encode = || {
                    let prepare =
                        |(number, run)| pieces.prepare((first + number, run), work, options, &mut |_| Ok(()));
                    window.par_iter().enumerate().map(prepare).collect::<Result<Vec<_>>>()
                };
                pool.as_ref().map_or_else(encode, |pool| pool.install(encode))?
            }
        };
        for (run, prepared) in window.iter().zip(prepared) {
            let is_operand = work.1.is_operand(pieces.table.pieces.len());
            stored.write(&pieces.add(run, prepared, is_operand)?)?;
            progress(run.length.saturating_sub(told))?;
        }
        first += window.len();
        rest = later;
    }
    stored.finish();
    pieces.table.base = pieces.base.into_iter().collect();
    Ok(pieces.table)
}

/// How many runs are worked on at once.
fn window(runs: &[Run]) -> usize {
    let mut total = 0;
    let fitting = runs.iter().take_while(|run| {
        total += run.length;
        total <= WINDOW
    });
    fitting.count().max(1)
}

fn write_bytes(writer: &mut Writer, name: &str, bytes: &[u8], options: &ArchiveOptions) -> Result<()> {
    let input = TensorInput::dense([bytes.len() as u64], DType::U8, bytes);
    writer.write_object(name, &input, Compression::Z4ai(options.effort), Checksum::Crc32c)
}

/// The pieces that have been stored so far.
struct Pieces<'a> {
    source: &'a Original,
    table: Table,
    base: IndexSet<BaseTensor>,
    /// Pieces by the hash of their bytes, each with the run it came from.
    known: HashMap<u64, Vec<(u64, usize)>>,
    /// Where the last piece ends in the original.
    end: u64,
}

impl<'a> Pieces<'a> {
    /// Compresses a run, whose number its piece will have, unless an earlier window has a run like it.
    fn prepare(
        &self,
        (number, run): (usize, &Run),
        (encoder, derivation): (&dyn Encoder, &Derivation<'_>),
        options: &ArchiveOptions,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<(u64, Option<Encoded>)> {
        let bytes = self.source.bytes(run.offset, run.length)?;
        let hash = XxHash3_64::oneshot(&bytes);
        if self.twin_of(hash, &bytes, derivation.is_operand(number))?.is_some() {
            return Ok((hash, None));
        }
        let mut codec = run.codec_options(&bytes, options.effort);
        codec.level = options.level;
        let known = encoder.encode(run, &bytes, &codec)?;
        if matches!(known, Some(Encoded::Copy { .. })) {
            return Ok((hash, known));
        }
        let length = known.as_ref().map(|known| known.length(bytes.len()));
        if let Some(encoded) = derivation.encode(number, run, &bytes, &codec, length)?.or(known) {
            return Ok((hash, Some(encoded)));
        }
        let frame = encoding::compress_z4ai_watched(&bytes, &codec, progress)?;
        Ok((hash, Some(raw_or_frame(&bytes, frame))))
    }

    /// Takes a piece into the table. Returns the bytes to store.
    fn add(
        &mut self,
        run: &Run,
        (hash, encoded): (u64, Option<Encoded>),
        is_operand: bool,
    ) -> Result<Cow<'a, [u8]>> {
        let bytes = self.source.bytes(run.offset, run.length)?;
        // Runs of one window were compressed side by side: a twin may have turned up since.
        let twin = self.twin_of(hash, &bytes, is_operand)?;
        let number = self.table.pieces.len();
        let (stored, payload) = match (twin, encoded) {
            (Some(piece), _) => (Stored::Twin { piece }, Cow::Borrowed(&[][..])),
            (None, Some(Encoded::Frame(frame))) => {
                (Stored::Frame { length: frame.len() as u64 }, Cow::Owned(frame))
            }
            (None, Some(Encoded::Copy { tensor, digest })) => {
                (Stored::Copy { tensor: self.base.insert_full(tensor).0, digest }, Cow::Borrowed(&[][..]))
            }
            (None, Some(Encoded::Delta { tensor, frame })) => {
                let tensor = self.base.insert_full(tensor).0;
                (Stored::Delta { tensor, length: frame.len() as u64 }, Cow::Owned(frame))
            }
            (None, Some(Encoded::Derived { recipe, operands, frame })) => {
                let length = frame.len() as u64;
                let mut payload = Vec::new();
                let operands = operands.into_iter().map(|operand| match operand {
                    Operand::Base(tensor) => OperandEntry::Base { tensor: self.base.insert_full(tensor).0 },
                    Operand::Piece(piece) => OperandEntry::Piece { piece },
                    Operand::Frame { length, frame } => {
                        payload.extend_from_slice(&frame);
                        OperandEntry::Frame { length, stored: frame.len() as u64 }
                    }
                });
                let operands = operands.collect();
                payload.extend_from_slice(&frame);
                (Stored::Derived { recipe, operands, length }, Cow::Owned(payload))
            }
            (None, Some(Encoded::Raw) | None) => (Stored::Raw { crc32c: crc32c::crc32c(&bytes) }, bytes),
        };
        if twin.is_none() {
            self.known.entry(hash).or_default().push((run.offset, number));
        }
        self.table.pieces.push(PieceEntry { gap: run.offset - self.end, length: run.length, stored });
        self.end = run.offset + run.length;
        Ok(payload)
    }

    /// The piece that already holds the same bytes. Equal hashes make a candidate; only equal bytes are shared.
    /// What others are made of is no twin of a piece that is made of others itself.
    fn twin_of(&self, hash: u64, bytes: &[u8], is_operand: bool) -> Result<Option<usize>> {
        for (offset, piece) in self.known.get(&hash).into_iter().flatten() {
            let same_length = self.table.pieces.get(*piece).is_some_and(|entry| {
                entry.length == bytes.len() as u64 && !(is_operand && entry.stored.refers_to_pieces())
            });
            if same_length && *self.source.bytes(*offset, bytes.len() as u64)? == *bytes {
                return Ok(Some(*piece));
            }
        }
        Ok(None)
    }
}

/// A piece that stands by itself: a frame, or the bytes as they are where that is shorter.
pub(crate) fn encode_alone(bytes: &[u8], options: &z4ai::Options) -> Result<Encoded> {
    Ok(raw_or_frame(bytes, encoding::compress_z4ai(bytes, options)?))
}

/// The same for a frame that there is already.
pub(crate) fn raw_or_frame(bytes: &[u8], frame: Vec<u8>) -> Encoded {
    if bytes.len() <= frame.len() && bytes.len() <= LARGEST_RAW {
        Encoded::Raw
    } else {
        Encoded::Frame(frame)
    }
}

/// Everything between the pieces.
fn skeleton(original: &Original, runs: &[Run]) -> Result<Vec<u8>> {
    let mut bones = Vec::new();
    let mut runs = runs.iter().peekable();
    for file in &original.files {
        let end = file.start + file.source.len();
        let mut position = file.start;
        while let Some(run) = runs.next_if(|run| run.offset < end) {
            bones.extend_from_slice(&original.bytes(position, run.offset - position)?);
            position = run.offset + run.length;
        }
        // Behind the last byte of a file begins the next.
        bones.extend_from_slice(&file.source.bytes(position - file.start, end - position)?);
    }
    Ok(bones)
}
