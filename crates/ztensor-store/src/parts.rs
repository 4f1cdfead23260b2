//! Checkpoints of several writers, such as the ranks of a training job: each stores files of its own as a *part*, which nothing refers to, and one of them
//! makes all parts a checkpoint in one commit. Without it the packs of the parts are garbage, which `gc` collects.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;

use crate::backend::Reach;
use crate::content::given::Given;
use crate::content::{AddOptions, AddStats, Base, Builder, Known};
use crate::id::Id;
use crate::name::Name;
use crate::protocol::{Commit, Current};
use crate::record::{Entry, File, FileKind, Manifest, Pack, Piece, Record, Stamp};
use crate::store::Store;
use ztensor::{Attributes, Error, Hints, Kind, Result, Source, Value};

/// Checkpoints that were written last, of which the last that was added is looked for: one that a prune stored anew is as young as its new generation.
const YOUNGEST: usize = 4;

/// Files of one writer that are stored, but belong to no checkpoint yet.
#[derive(Clone, Debug)]
pub struct Part {
    /// What [`Store::commit_parts`] needs to know of them: a record like a manifest.
    pub record: Vec<u8>,
    /// What came of storing them.
    pub stats: AddStats,
}

impl Store {
    /// The checkpoint of a run, `run/…`, that was added last; of all checkpoints for no run. A few manifests are read, however many there are: the storage's
    /// clock tells which.
    pub fn last_of(&self, run: &str) -> Result<Option<Name>> {
        let folder = match run {
            "" => "checkpoints/".to_owned(),
            run => Name::new(run)?.folder(),
        };
        let mut highest: HashMap<Name, (u64, Duration)> = HashMap::new();
        for object in self.protocol().backend().list(&folder, Reach::Tree)? {
            let Some((name, generation)) = Name::of_key(&object.key) else { continue };
            if !name.is_hidden() {
                let found = highest.entry(name).or_insert((generation, object.stat.written));
                *found = (*found).max((generation, object.stat.written));
            }
        }
        let mut names: Vec<(Name, (u64, Duration))> = highest.into_iter().collect();
        names.sort_by_cached_key(|(name, (_, written))| Reverse((*written, name.step())));
        for group in names.chunks(YOUNGEST) {
            let keys: Vec<(Name, u64)> =
                group.iter().map(|(name, (generation, _))| (name.clone(), *generation)).collect();
            let live = self.protocol().listed_all(&keys)?.into_iter().zip(group);
            // Stamps have whole seconds, and some storage tells no more.
            let added = live.filter_map(|(current, (name, (_, written)))| {
                Some(((current?.manifest.stamp.time, *written, name.step()), name))
            });
            if let Some((_, last)) = added.max_by_key(|(added, _)| *added) {
                return Ok(Some(last.clone()));
            }
        }
        Ok(None)
    }

    /// Stores files for a checkpoint that several writers make together. Bases and duplicates are looked for in one checkpoint only where `options` name
    /// one: a thousand writers need not read the manifests of all. One that was removed meanwhile is done without.
    pub fn add_part(
        &self,
        files: Vec<(String, Arc<Source>)>,
        name: &str,
        options: &AddOptions,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Part> {
        let started = Instant::now();
        let name = Name::new(name)?;
        let slot = self.protocol().slot(&name)?;
        let scan = Given { files, modes: HashMap::new(), others: Vec::new(), single: false }.scan()?;
        let checkpoints: Vec<Arc<Current>> = match &options.base {
            Base::Auto => self.live()?,
            Base::None => Vec::new(),
            Base::Checkpoint(base) => match self.protocol().current(base) {
                Err(error) if error.kind() == Kind::Gone => Vec::new(),
                current => vec![Arc::new(current?)],
            },
        };
        let endangered = self.protocol().proposals()?.endangered();
        let known = Known::new(self.protocol(), &name, checkpoints, &options.base, endangered);
        let options = AddOptions { metadata: Attributes::new(), dry_run: false, ..options.clone() };
        let (mut manifest, mut stats, pin) =
            Builder::new(self.protocol(), &known, &options).lean().build(&scan, &slot, progress)?;
        stats.seconds = started.elapsed().as_secs_f64();
        manifest.metadata = described(&stats, pin.as_ref().map(|pin| pin.name()));
        let record = Record::Manifest(manifest).encode(self.protocol().store())?;
        Ok(Part { record, stats })
    }

    /// Makes parts a checkpoint. It is there, whole, once this returns; an error leaves nothing of it that counts. No two parts have a file of one path.
    pub fn commit_parts(
        &self,
        name: &str,
        parts: &[impl AsRef<[u8]>],
        metadata: Attributes,
    ) -> Result<AddStats> {
        let started = Instant::now();
        let name = Name::new(name)?;
        self.check_honesty()?;
        let slot = self.protocol().slot(&name)?;
        if parts.is_empty() {
            return Err(Error::argument("a checkpoint is made of at least one part"));
        }
        let mut merged = Merged::default();
        for part in parts {
            let Record::Manifest(part) = Record::decode(part.as_ref(), self.protocol().store())? else {
                return Err(damaged());
            };
            if part.stamp.name != name {
                return Err(Error::argument(format!(
                    "a part of \"{}\" is no part of \"{name}\"",
                    part.stamp.name
                )));
            }
            merged.take(part)?;
        }
        let (manifest, mut stats, pins) = merged.finish(self.protocol().stamp(&slot)?, metadata)?;
        let outcome = self.protocol().commit(&manifest);
        for pin in &pins {
            self.protocol().remove(pin)?;
        }
        stats.seconds += started.elapsed().as_secs_f64();
        match outcome? {
            Commit::Success => Ok(stats),
            Commit::Conflict => Err(Error::new(
                Kind::Conflict,
                format!("\"{name}\" was added or removed by somebody else at the same time"),
            )
            .with_hints(Hints::new(
                "Two jobs may have the same name: look at `Store::list`.",
                "Two jobs may have the same name: look at Store.list().",
                "Two jobs may have the same name: look at `ztensor store list`.",
            ))),
            Commit::Doomed(_) => {
                self.protocol().bury(&manifest.stamp)?;
                Err(Error::new(Kind::Conflict, "what was stored was collected before it was committed")
                    .with_hint("Save it again; a longer grace period leaves slow writers more time."))
            }
        }
    }
}

/// What a part says of itself besides what a manifest does.
fn described(stats: &AddStats, pin: Option<&Name>) -> Attributes {
    let mut about = Attributes::new();
    if let Some(pin) = pin {
        about.insert("pin".into(), Value::from(pin.as_str()));
    }
    let numbers = [
        ("original", stats.original),
        ("stored", stats.stored),
        ("tensors", stats.tensors),
        ("duplicates", stats.duplicates),
        ("deltas", stats.deltas),
    ];
    numbers.into_iter().for_each(|(key, number)| drop(about.insert(key.into(), number.into())));
    about.insert("seconds".into(), Value::from(stats.seconds));
    about
}

/// Parts on their way to one manifest.
#[derive(Default)]
struct Merged {
    files: Vec<File>,
    packs: IndexMap<Id, Pack>,
    entries: Vec<Entry>,
    by_digest: HashMap<([u8; 32], u64), usize>,
    /// The parent of the largest part that has one.
    parent: Option<(u64, (Name, [u8; 32]))>,
    pins: Vec<Name>,
    stats: AddStats,
}

impl Merged {
    fn take(&mut self, part: Manifest) -> Result<()> {
        let logical = part.logical();
        self.describe(&part.metadata)?;
        let mut numbers: Vec<usize> = Vec::with_capacity(part.entries.len());
        for mut entry in part.entries {
            // Two writers may have stored the same bytes: one entry is enough.
            let key = (entry.digest, entry.length);
            if let Some(number) = self.by_digest.get(&key) {
                numbers.push(*number);
                continue;
            }
            let pack = &part.packs[entry.pack];
            let (number, _) = self.packs.insert_full(pack.id, pack.clone());
            entry.pack = number;
            entry.encoding = entry.encoding.renumbered(|base| numbers[base]);
            self.entries.push(entry);
            self.by_digest.insert(key, self.entries.len() - 1);
            numbers.push(self.entries.len() - 1);
        }
        for mut file in part.files {
            if let FileKind::Regular { skeleton, pieces, .. } = &mut file.kind {
                self.stats.files += 1;
                *skeleton = skeleton.map(|entry| numbers[entry]);
                let piece = |piece: Piece| Piece { entry: numbers[piece.entry], ..piece };
                *pieces = std::mem::take(pieces).into_iter().map(piece).collect();
            }
            self.files.push(file);
        }
        if let Some(parent) = part.parent
            && self.parent.as_ref().is_none_or(|(largest, _)| logical > *largest)
        {
            self.parent = Some((logical, parent));
        }
        Ok(())
    }

    fn describe(&mut self, about: &Attributes) -> Result<()> {
        let number = |key: &str| about.get(key).and_then(Value::as_u64).ok_or_else(damaged);
        self.stats.original += number("original")?;
        self.stats.stored += number("stored")?;
        self.stats.tensors += number("tensors")?;
        self.stats.duplicates += number("duplicates")?;
        self.stats.deltas += number("deltas")?;
        if let Some(Value::Float(seconds)) = about.get("seconds") {
            self.stats.seconds = self.stats.seconds.max(*seconds);
        }
        if let Some(pin) = about.get("pin") {
            let pin = Name::stated(pin.as_text().ok_or_else(damaged)?)?;
            self.pins.push(Some(pin).filter(Name::is_hidden).ok_or_else(damaged)?);
        }
        Ok(())
    }

    fn finish(mut self, stamp: Stamp, metadata: Attributes) -> Result<(Manifest, AddStats, Vec<Name>)> {
        self.files.sort_by(|one, other| one.path.cmp(&other.path));
        self.stats.parent = self.parent.as_ref().map(|(_, (name, _))| name.to_string());
        let manifest = Manifest {
            parent: self.parent.map(|(_, parent)| parent),
            metadata,
            files: self.files,
            packs: self.packs.into_values().collect(),
            entries: self.entries,
            ..Manifest::new(stamp)
        };
        manifest.check()?;
        Ok((manifest, self.stats, self.pins))
    }
}

fn damaged() -> Error {
    Error::malformed("this is no part of a checkpoint")
}
