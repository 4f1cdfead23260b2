//! From files to a manifest: each is cut into tensors and the rest, what the store has already is referred to, what resembles something is stored as a
//! difference to it, and everything else by itself.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};
use z4ai::Effort;

use super::chain::{buffer, read_entry};
use super::cut::{cut_all, part_key, part_numbers};
use super::known::{Base, Known, Place, plain_key};
use super::pack::PackWriter;
use super::scan::{Found, Scan};
use super::similar::{Question, nearest};
use crate::id::Id;
use crate::protocol::{Pin, Protocol, Slot};
use crate::record::{Encoding, Entry, File, FileKind, Manifest, Pack, Piece};
use ztensor::archive::{Run, runs};
use ztensor::{Attributes, DType, Error, Kind, Reader, Result, Shape, Source};

/// Bytes that are encoded side by side before they are written. It and the size of parts bound what an add and a restore hold, whatever the checkpoint's
/// size: of one tensor of 1.57 GB on 2 cores 74 MiB to add it, 128 MiB to add it as a delta, 260 MiB to restore that (anonymous memory at its peak).
const WINDOW: u64 = 64 << 20;
/// Files that hold no tensors are cut into pieces of this size.
const STRETCH: u64 = 4 << 20;
/// Larger pieces are never stored raw: the blocks of a frame have checksums of their own.
const LARGEST_RAW: usize = 64 << 10;
/// Shorter pieces are not worth a base.
const SHORTEST: u64 = 64;
/// Bytes that an entry for a base takes in the manifest.
const REFERENCE: usize = 80;
/// Up to this size a piece is always tried without its base as well.
const SMALL: usize = 64 << 10;

/// How a checkpoint is added.
#[derive(Clone, Debug)]
pub struct AddOptions {
    /// Where bases are looked for.
    pub base: Base,
    /// The user's.
    pub metadata: Attributes,
    /// The trade between size and speed.
    pub effort: Effort,
    /// Deltas that may have to be applied to read a tensor.
    pub deepest: u32,
    /// Store nothing; say what would be stored.
    pub dry_run: bool,
}

impl Default for AddOptions {
    fn default() -> Self {
        AddOptions {
            base: Base::Auto,
            metadata: Attributes::new(),
            effort: Effort::default(),
            deepest: 8,
            dry_run: false,
        }
    }
}

/// What came of an add.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddStats {
    /// The checkpoint that most was taken from.
    pub parent: Option<String>,
    /// Bytes of all files.
    pub original: u64,
    /// Bytes that were put into packs.
    pub stored: u64,
    /// Files.
    pub files: u64,
    /// Tensors in them.
    pub tensors: u64,
    /// Pieces that the store had already, or that occur twice.
    pub duplicates: u64,
    /// Pieces stored as differences.
    pub deltas: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Makes a manifest.
pub(crate) struct Builder<'a> {
    protocol: &'a Protocol,
    known: &'a Known,
    options: &'a AddOptions,
    packs: PackWriter<'a>,
    /// Packs that are referred to, in the manifest's order; those of the store with what is known of them.
    referred: IndexMap<Id, Option<Pack>>,
    entries: Vec<Entry>,
    by_digest: HashMap<[u8; 32], usize>,
    imported: HashMap<Place, usize>,
    /// How much was taken from each known checkpoint.
    taken: HashMap<usize, u64>,
    stats: AddStats,
    pin: Option<(Pin, Instant)>,
    started: Instant,
}

/// A piece, ready to be taken into the manifest.
enum Prepared {
    /// An earlier piece has the same bytes.
    Own,
    /// An entry of the store has.
    Twin(Place),
    Raw,
    Frame(Vec<u8>),
    Delta {
        base: Place,
        frame: Vec<u8>,
    },
}

/// Where a piece comes from.
struct Origin<'a> {
    path: &'a str,
    key: String,
    named: bool,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(protocol: &'a Protocol, known: &'a Known, options: &'a AddOptions) -> Builder<'a> {
        Builder {
            protocol,
            known,
            options,
            packs: PackWriter::new(protocol),
            referred: IndexMap::new(),
            entries: Vec::new(),
            by_digest: HashMap::new(),
            imported: HashMap::new(),
            taken: HashMap::new(),
            stats: AddStats::default(),
            pin: None,
            started: Instant::now(),
        }
    }

    /// Stores all pieces and makes the manifest.
    pub(crate) fn build(
        mut self,
        scan: &Scan,
        slot: &Slot,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<(Manifest, AddStats, Option<Pin>)> {
        let mut files = Vec::with_capacity(scan.files.len());
        for found in &scan.files {
            let kind = match &found.kind {
                FileKind::Regular { mode, .. } => {
                    self.stats.files += 1;
                    self.file(found, *mode, progress).map_err(|error| error.with_path(&found.place))?
                }
                other => other.clone(),
            };
            files.push(File { path: found.path.clone(), kind });
        }
        self.packs.finish_open()?;
        for pack in self.packs.finished() {
            self.referred.insert(pack.id, Some(pack.clone()));
        }
        let packs: Option<Vec<Pack>> = match self.options.dry_run {
            true => Some(Vec::new()),
            false => self.referred.values().cloned().collect(),
        };
        let packs = packs.ok_or_else(|| Error::new(Kind::Io, "a pack was not completed"))?;
        let most = self.taken.iter().max_by_key(|(place, bytes)| (**bytes, std::cmp::Reverse(**place)));
        let parent = most.map(|(place, _)| &self.known.checkpoints[*place]);
        self.stats.parent = parent.map(|parent| parent.manifest.stamp.name.to_string());
        let manifest = Manifest {
            parent: parent.map(|parent| (parent.manifest.stamp.name.clone(), parent.root)),
            metadata: self.options.metadata.clone(),
            single: scan.single,
            files,
            packs,
            entries: self.entries,
            ..Manifest::new(self.protocol.stamp(slot)?)
        };
        Ok((manifest, self.stats, self.pin.map(|(pin, _)| pin)))
    }

    fn file(
        &mut self,
        found: &Found,
        mode: u32,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<FileKind> {
        let reader = found.open().ok();
        // A file that stands for others is text to the store, and an archive is what it is.
        let reader = reader.filter(|reader| reader.archived().is_none() && reader.sources().len() == 1);
        let own;
        let (source, runs): (&Source, Vec<Run>) = match &reader {
            Some(reader) => (&reader.sources()[0], cut_all(runs(reader, reader.sources()[0].len()))),
            None => {
                own = found.source()?;
                (&*own, stretches(own.len()))
            }
        };
        self.stats.tensors += reader.as_ref().map_or(0, Reader::len) as u64;
        self.stats.original += source.len();
        let mut digest = None;
        let pieces = rayon::in_place_scope(|scope| {
            scope.spawn(|_| digest = Some(digest_of(source)));
            self.pieces(found, source, &runs, progress)
        })?;
        let sha256 = digest.unwrap_or_else(|| digest_of(source))?;
        let bones = skeleton(source, &runs)?;
        let skeleton = match bones.is_empty() {
            true => None,
            false => {
                let origin =
                    Origin { path: &found.path, key: plain_key(&found.path, usize::MAX), named: false };
                let run = plain_run(0, bones.len() as u64);
                let prepared = self.prepare(&bones, &run, &origin)?;
                Some(self.take(&bones, &run, prepared)?)
            }
        };
        Ok(FileKind::Regular { mode, length: source.len(), sha256, skeleton, pieces })
    }

    fn pieces(
        &mut self,
        found: &Found,
        source: &Source,
        runs: &[Run],
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Vec<Piece>> {
        let mut pieces = Vec::with_capacity(runs.len());
        let (mut end, mut number) = (0, 0);
        let names: Vec<Option<String>> = runs.iter().map(tensor_name).collect();
        let parts: Vec<usize> = part_numbers(names.iter().map(Option::as_deref)).collect();
        let mut rest = runs;
        while !rest.is_empty() {
            let (window, later) = rest.split_at(fitting(rest));
            let prepare = |(place, run): (usize, &Run)| {
                let bytes = source.bytes(run.offset, run.length)?;
                let key = match &names[number + place] {
                    Some(name) => {
                        Origin { path: &found.path, key: part_key(name, parts[number + place]), named: true }
                    }
                    None => Origin {
                        path: &found.path,
                        key: plain_key(&found.path, number + place),
                        named: false,
                    },
                };
                self.prepare(&bytes, run, &key)
            };
            let prepared = window.par_iter().enumerate().map(prepare).collect::<Result<Vec<_>>>()?;
            for ((run, prepared), name) in window.iter().zip(prepared).zip(&names[number..]) {
                let bytes = source.bytes(run.offset, run.length)?;
                let entry = self.take(&bytes, run, prepared)?;
                pieces.push(Piece { gap: run.offset - end, entry, tensor: name.clone() });
                end = run.offset + run.length;
                progress(run.length)?;
            }
            number += window.len();
            rest = later;
            self.keep_alive()?;
        }
        Ok(pieces)
    }

    /// Decides how a piece is stored, and encodes it.
    fn prepare(&self, bytes: &[u8], run: &Run, origin: &Origin<'_>) -> Result<([u8; 32], Prepared)> {
        let digest: [u8; 32] = Sha256::digest(bytes).into();
        if self.by_digest.contains_key(&digest) {
            return Ok((digest, Prepared::Own));
        }
        if let Some(place) = self.known.twin(&digest, bytes.len() as u64)? {
            return Ok((digest, Prepared::Twin(place)));
        }
        let codec = ztensor::codec_options(bytes, &run.element, &run.shape, self.options.effort);
        if run.length >= SHORTEST && self.options.deepest > 0 {
            let plain = !origin.named;
            let dtype = run.element.to_string();
            let (mut candidates, named) =
                self.known.candidates(&origin.key, origin.path, &dtype, &run.shape, plain);
            if plain {
                candidates.truncate(1);
            }
            let question = Question { bytes, width: run.element.storage.width(), named };
            let base = nearest(self.protocol, self.known, &question, &candidates, self.options.deepest)?;
            if let Some(base) = base {
                return Ok((digest, self.against(bytes, base, &codec)?));
            }
        }
        let frame = z4ai::compress(bytes, &codec)?;
        Ok((digest, raw_or_frame(bytes, frame)))
    }

    /// Stores a piece as the difference to another, where that helps.
    fn against(&self, bytes: &[u8], base: Place, codec: &z4ai::Options) -> Result<Prepared> {
        let mut reference = buffer(self.known.entry(base).length)?;
        read_entry(self.protocol, self.known.manifest(base), base.entry, 0, &mut reference)?;
        let (frame, is_delta) = z4ai::compress_delta_if_useful(bytes, &reference, codec)?;
        if !is_delta {
            return Ok(raw_or_frame(bytes, frame));
        }
        if bytes.len() <= SMALL {
            let alone = z4ai::compress(bytes, codec)?;
            if alone.len().min(bytes.len()) <= frame.len() + REFERENCE {
                return Ok(raw_or_frame(bytes, alone));
            }
        }
        Ok(Prepared::Delta { base, frame })
    }

    /// Takes a piece into the manifest, and what is stored of it into a pack. Returns the entry's number.
    fn take(&mut self, bytes: &[u8], run: &Run, (digest, prepared): ([u8; 32], Prepared)) -> Result<usize> {
        // Pieces of one window were prepared side by side: a twin may have turned up since.
        if let Some(entry) = self.by_digest.get(&digest) {
            self.stats.duplicates += 1;
            return Ok(*entry);
        }
        let (encoding, stored): (_, &[u8]) = match &prepared {
            Prepared::Twin(place) => {
                self.stats.duplicates += 1;
                *self.taken.entry(place.checkpoint).or_default() += bytes.len() as u64;
                let entry = self.import(*place);
                self.by_digest.insert(digest, entry);
                return Ok(entry);
            }
            Prepared::Raw | Prepared::Own => (Encoding::Raw, bytes),
            Prepared::Frame(frame) => (Encoding::Frame, frame),
            Prepared::Delta { base, frame } => {
                self.stats.deltas += 1;
                *self.taken.entry(base.checkpoint).or_default() += bytes.len() as u64;
                (Encoding::Delta { base: self.import(*base) }, frame)
            }
        };
        let (pack, offset) = match self.options.dry_run {
            true => (Id([0; 16]), 0),
            false => self.packs.write(stored)?,
        };
        self.stats.stored += stored.len() as u64;
        let entry = Entry {
            digest,
            length: bytes.len() as u64,
            dtype: run.element.to_string(),
            shape: run.shape.to_vec(),
            encoding,
            pack: self.referred.insert_full(pack, None).0,
            offset,
            stored: stored.len() as u64,
        };
        self.entries.push(entry);
        self.by_digest.insert(digest, self.entries.len() - 1);
        Ok(self.entries.len() - 1)
    }

    /// Takes an entry of the store and the chain below it into the manifest.
    fn import(&mut self, place: Place) -> usize {
        if let Some(entry) = self.imported.get(&place) {
            return *entry;
        }
        let manifest = self.known.manifest(place);
        let mut chain = vec![place.entry];
        while let Some(Encoding::Delta { base }) = chain.last().map(|entry| manifest.entries[*entry].encoding)
        {
            chain.push(base);
        }
        let mut below = None;
        for number in chain.into_iter().rev() {
            let place = Place { entry: number, ..place };
            if let Some(entry) = self.imported.get(&place) {
                below = Some(*entry);
                continue;
            }
            let mut entry = manifest.entries[number].clone();
            let pack = &manifest.packs[entry.pack];
            entry.pack = self.referred.insert_full(pack.id, Some(pack.clone())).0;
            if let (Encoding::Delta { .. }, Some(base)) = (entry.encoding, below) {
                entry.encoding = Encoding::Delta { base };
            }
            self.by_digest.entry(entry.digest).or_insert(self.entries.len());
            self.entries.push(entry);
            self.imported.insert(place, self.entries.len() - 1);
            below = Some(self.entries.len() - 1);
        }
        below.unwrap_or_default()
    }

    /// Pins what was put and reused so far once the add takes long.
    fn keep_alive(&mut self) -> Result<()> {
        let often: Duration = self.protocol.grace() / 4;
        let since = self.pin.as_ref().map_or(self.started, |(_, at)| *at);
        if self.options.dry_run || since.elapsed() <= often {
            return Ok(());
        }
        self.packs.finish_open()?;
        let mut packs: IndexMap<Id, Pack> =
            self.referred.iter().filter_map(|(id, pack)| Some((*id, pack.clone()?))).collect();
        packs.extend(self.packs.finished().iter().map(|pack| (pack.id, pack.clone())));
        let packs: Vec<Pack> = packs.into_values().collect();
        let pin = match &self.pin {
            None => self.protocol.pin(packs)?,
            Some((pin, _)) => self.protocol.renew(pin, packs)?,
        };
        self.pin = Some((pin, Instant::now()));
        Ok(())
    }
}

fn raw_or_frame(bytes: &[u8], frame: Vec<u8>) -> Prepared {
    match bytes.len() <= frame.len() && bytes.len() <= LARGEST_RAW {
        true => Prepared::Raw,
        false => Prepared::Frame(frame),
    }
}

fn tensor_name(run: &Run) -> Option<String> {
    run.tensor.as_ref().map(|(name, role)| match role.as_str() {
        "data" => name.clone(),
        role => format!("{name}/{role}"),
    })
}

fn plain_run(offset: u64, length: u64) -> Run {
    Run { offset, length, tensor: None, element: DType::U8.into(), shape: Shape::from([length]) }
}

/// The pieces of a file without tensors.
fn stretches(length: u64) -> Vec<Run> {
    let starts = (0..length.div_ceil(STRETCH)).map(|number| number * STRETCH);
    starts.map(|start| plain_run(start, STRETCH.min(length - start))).collect()
}

/// How many pieces are worked on at once.
fn fitting(runs: &[Run]) -> usize {
    let mut total = 0;
    let fit = runs.iter().take_while(|run| {
        total += run.length;
        total <= WINDOW
    });
    fit.count().max(1)
}

/// Everything between the pieces.
fn skeleton(source: &Source, runs: &[Run]) -> Result<Vec<u8>> {
    let mut bones = Vec::new();
    let mut position = 0;
    for run in runs {
        bones.extend_from_slice(&source.bytes(position, run.offset - position)?);
        position = run.offset + run.length;
    }
    bones.extend_from_slice(&source.bytes(position, source.len() - position)?);
    Ok(bones)
}

fn digest_of(source: &Source) -> Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    let mut position = 0;
    while position < source.len() {
        let length = source.window(position);
        hasher.update(&source.bytes(position, length)?);
        position += length;
    }
    Ok(hasher.finalize().into())
}
