//! From files to a manifest: each is cut into tensors and the rest, what the store has already is referred to, what resembles something is stored as a
//! difference to it, and everything else by itself.

mod derive;
mod moved;
mod options;
mod pieces;
mod prepare;
mod reanchor;
mod take;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use rayon::prelude::*;

pub use options::{AddOptions, AddStats};
pub(crate) use reanchor::{contents, hangs_on_removed};

use super::cut::{cut_all, part_key, part_numbers};
use super::kin::{Family, Kin};
use super::known::{Known, Place, plain_key};
use super::pack::PackWriter;
use super::scan::{Found, Scan};
use crate::id::Id;
use crate::protocol::{Pin, Protocol, Slot};
use crate::record::{Entry, File, FileKind, Manifest, Pack, Piece};
use derive::Ancestry;
use pieces::{digest_of, fitting, plain_run, skeleton, stretches, tensor_bytes, tensor_name};
use prepare::Origin;
use ztensor::archive::{Derivation, Original, Run, runs};
use ztensor::{Error, Kind, Reader, Result, Source};

/// Bytes between its tensors that a file may have.
const LARGEST_SKELETON: u64 = 64 << 20;

/// A file's pieces: of each the number of the tensor that it is, or a part of.
struct Cut<'a> {
    runs: &'a [Run],
    numbers: &'a [usize],
    whole: &'a [Run],
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
    /// The tensors of this checkpoint.
    family: Family,
    /// How much was taken from each known checkpoint.
    taken: HashMap<usize, u64>,
    stats: AddStats,
    pin: Option<(Pin, Instant)>,
    started: Instant,
    /// Whether this is one of several writers' part of a checkpoint.
    lean: bool,
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
            family: Family::default(),
            taken: HashMap::new(),
            stats: AddStats::default(),
            pin: None,
            started: Instant::now(),
            lean: false,
        }
    }

    /// For one of several writers, who each hold a training job up. Takes no digests of whole files that are cut into tensors: those of the tensors are
    /// enough to tell that a file is what was added, and each byte is hashed once instead of twice. Looks for no checkpoint that the files were computed from.
    pub(crate) fn lean(self) -> Builder<'a> {
        Builder { lean: true, ..self }
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
        let tensors = reader.as_ref().map(|reader| (reader, runs(reader, reader.sources()[0].len())));
        // What is mostly something else than tensors is stored by stretches: a skeleton is read as a whole.
        let is_model = |reader: &Reader, runs: &[Run]| {
            reader.sources()[0].len() - tensor_bytes(runs) <= LARGEST_SKELETON
        };
        let tensors = tensors.filter(|(reader, runs)| is_model(reader, runs));
        let own;
        let source: &Source = match &tensors {
            Some((reader, _)) => {
                self.stats.tensors += reader.len() as u64;
                &reader.sources()[0]
            }
            None => {
                own = found.source()?;
                &own
            }
        };
        self.stats.original += source.len();
        let is_cut = tensors.as_ref().is_some_and(|(_, runs)| !runs.is_empty());
        let hashes = !(self.lean && is_cut);
        let mut digest = None;
        let (pieces, runs) = rayon::in_place_scope(|scope| {
            if hashes {
                scope.spawn(|_| digest = Some(digest_of(source)));
            }
            match &tensors {
                Some((reader, whole)) => {
                    let (runs, numbers) = cut_all(whole);
                    let original = Original::of(reader);
                    let parent = self.parent(reader, &original, whole)?;
                    let ancestry = parent.as_ref().map(|parent| {
                        let derivation = Derivation::from_base(reader, &original, whole, &parent.reader);
                        let parts = |number: &usize| numbers.iter().filter(|other| *other == number).count();
                        let mut kin = vec![None; whole.len()];
                        for (place, number) in numbers.iter().enumerate() {
                            if derivation.is_operand(*number) && parts(number) == 1 {
                                kin[*number] = Some(self.family.len() + place);
                            }
                        }
                        Ancestry { derivation, parent, kin }
                    });
                    let cut = Cut { runs: &runs, numbers: &numbers, whole };
                    Ok::<_, Error>((self.pieces(found, source, &cut, ancestry.as_ref(), progress)?, runs))
                }
                None => {
                    let runs = stretches(source.len());
                    let numbers: Vec<usize> = (0..runs.len()).collect();
                    let cut = Cut { runs: &runs, numbers: &numbers, whole: &runs };
                    Ok((self.pieces(found, source, &cut, None, progress)?, runs))
                }
            }
        })?;
        let sha256 = digest.transpose()?;
        let bones = skeleton(source, &runs)?;
        let skeleton = match bones.is_empty() {
            true => None,
            false => {
                let origin = Origin {
                    path: &found.path,
                    key: plain_key(&found.path, usize::MAX),
                    named: false,
                    stretch: None,
                    own: 0,
                    ancestry: None,
                };
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
        cut: &Cut<'_>,
        ancestry: Option<&Ancestry<'_>>,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Vec<Piece>> {
        let (runs, numbers) = (cut.runs, cut.numbers);
        let mut pieces = Vec::with_capacity(runs.len());
        let (mut end, mut number) = (0, 0);
        let names: Vec<Option<String>> = runs.iter().map(tensor_name).collect();
        let parts: Vec<usize> = part_numbers(names.iter().map(Option::as_deref)).collect();
        let first = self.family.len();
        let shared = found.source()?;
        let mut start = 0;
        for (place, (run, name)) in runs.iter().zip(&names).enumerate() {
            start = if parts[place] == 0 { 0 } else { start };
            let whole = cut.whole[numbers[place]].shape.to_vec();
            let (source, run, name) = (Arc::clone(&shared), run.clone(), name.clone());
            let length = run.length;
            self.family.push(Kin { source, run, name, whole, start, entry: None });
            start += length;
        }
        let origin = |place: usize| match &names[place] {
            Some(name) => Origin {
                path: &found.path,
                key: part_key(name, parts[place]),
                named: true,
                stretch: None,
                own: first + place,
                ancestry: ancestry.map(|ancestry| (ancestry, numbers[place])),
            },
            None => Origin {
                path: &found.path,
                key: plain_key(&found.path, place),
                named: false,
                stretch: Some(place),
                own: first + place,
                ancestry: None,
            },
        };
        // Scales have to be there before what they belong to.
        for kin in ancestry.iter().flat_map(|ancestry| ancestry.kin.iter().flatten()) {
            let place = kin - first;
            let bytes = source.bytes(runs[place].offset, runs[place].length)?;
            let prepared = self.prepare(&bytes, &runs[place], &origin(place))?;
            self.family[*kin].entry = Some(self.take(&bytes, &runs[place], prepared)?);
        }
        let mut rest = runs;
        while !rest.is_empty() {
            let (window, later) = rest.split_at(fitting(rest));
            let prepare = |(place, run): (usize, &Run)| {
                if self.family[first + number + place].entry.is_some() {
                    return Ok(None);
                }
                let bytes = source.bytes(run.offset, run.length)?;
                self.prepare(&bytes, run, &origin(number + place)).map(Some)
            };
            let prepared = window.par_iter().enumerate().map(prepare).collect::<Result<Vec<_>>>()?;
            for (place, (run, prepared)) in window.iter().zip(prepared).enumerate() {
                let name = &names[number + place];
                let entry = match (prepared, self.family[first + number + place].entry) {
                    (Some(prepared), _) => {
                        self.take(&source.bytes(run.offset, run.length)?, run, prepared)?
                    }
                    (None, Some(entry)) => entry,
                    (None, None) => return Err(Error::new(Kind::Io, "a piece was not prepared")),
                };
                self.family[first + number + place].entry = Some(entry);
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
