//! The door to a store: checkpoints are added, read, listed, removed; garbage is collected; everything is checked.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::backend::{self, Backend, Reach, check_honesty};
use crate::content::cut::count_tensors;
use crate::content::given::Given;
use crate::content::scan::{Scan, scan};
use crate::content::{AddOptions, AddStats, Base, Builder, Checkpoint, GetStats, Known, restore};
use crate::id::{Id, Surroundings, System};
use crate::name::Name;
use crate::protocol::{Commit, Current, GcOptions, GcReport, Pin, Protocol};
use crate::record::{FileKind, Pack, PackHasher};
use crate::settings::Settings;
use ztensor::source::is_url;
use ztensor::{Attributes, Error, Hints, Kind, Result, Source};

/// How often an add is made anew because a collector was faster.
const TRIES: usize = 3;
/// A pack is compared with its digest in pieces of this size.
const WINDOW: u64 = 16 << 20;
/// Manifests that are read side by side.
const GROUP: usize = 256;

/// What a path or a URL has to be added. A URL leads to one file: servers do not list folders.
fn look_at(path: &Path) -> Result<Scan> {
    if is_url(path) { Given::of_url(path)?.scan() } else { scan(path) }
}

/// A store of checkpoints.
pub struct Store {
    protocol: Protocol,
    settings: Settings,
    honest: AtomicBool,
    /// Manifests never change; those that were read are kept.
    manifests: Mutex<HashMap<(Name, u64), Arc<Current>>>,
}

/// How a store is made.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// How long what was removed stays readable, and packs that nobody refers to stay.
    pub grace: Duration,
    /// Accept storage that ignores conditions; only one process may change the store at a time then.
    pub single_writer: bool,
}

impl Default for CreateOptions {
    fn default() -> Self {
        CreateOptions { grace: Duration::from_secs(24 * 3600), single_writer: false }
    }
}

/// A checkpoint in a list.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Its name.
    pub name: Name,
    /// Its generation.
    pub generation: u64,
    /// When it was added, in seconds since 1970.
    pub time: u64,
    /// The checkpoint it was stored against.
    pub parent: Option<Name>,
    /// The user's.
    pub metadata: Attributes,
    /// Files.
    pub files: u64,
    /// Pieces that are tensors.
    pub tensors: u64,
    /// Bytes of all files.
    pub logical: u64,
    /// Bytes that all pieces it refers to take in packs, bases among them.
    pub referred: u64,
    /// Bytes in packs that no other checkpoint refers to: what removing it frees, as far as whole packs become free.
    pub exclusive: u64,
    /// Bytes in packs that no checkpoint added before it refers to: what it added to the store.
    pub added: u64,
    /// The longest chain of deltas.
    pub deepest: u32,
}

/// What a store holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bytes of all their files.
    pub logical: u64,
    /// Bytes of all distinct pieces, decoded.
    pub unique: u64,
    /// Bytes of these pieces in packs.
    pub stored: u64,
    /// Packs in the store, collected or not.
    pub packs: u64,
    /// Their bytes.
    pub pack_bytes: u64,
    /// Bytes of manifests.
    pub manifest_bytes: u64,
}

/// Something that is wrong with a checkpoint.
#[derive(Debug)]
pub struct Problem {
    /// The checkpoint.
    pub name: Name,
    /// What is wrong.
    pub error: Error,
}

impl Store {
    /// Makes a store in a directory, or in a bucket by its URL.
    pub fn create(path: impl AsRef<Path>, options: &CreateOptions) -> Result<Store> {
        Store::create_on(backend::at(path.as_ref())?, Arc::new(System), options)
    }

    /// Opens the store in a directory, or in a bucket by its URL.
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        Store::open_on(backend::at(path.as_ref())?, Arc::new(System))
    }

    /// Makes a store on any storage.
    pub fn create_on(
        backend: Arc<dyn Backend>,
        surroundings: Arc<dyn Surroundings>,
        options: &CreateOptions,
    ) -> Result<Store> {
        if Settings::read(backend.as_ref())?.is_some() {
            return Err(Error::new(
                Kind::Duplicate,
                format!("there is a store in {} already", backend.describe()),
            ));
        }
        if !options.single_writer {
            check_honesty(backend.as_ref(), surroundings.as_ref())?;
        }
        let settings =
            Settings { id: surroundings.id()?, grace: options.grace, single_writer: options.single_writer };
        settings.create(backend.as_ref())?;
        Store::open_on(backend, surroundings)
    }

    /// Opens the store on any storage.
    pub fn open_on(backend: Arc<dyn Backend>, surroundings: Arc<dyn Surroundings>) -> Result<Store> {
        let settings = Settings::read(backend.as_ref())?.ok_or_else(|| {
            Error::new(Kind::NotFound, format!("there is no store in {}", backend.describe())).with_hints(
                Hints::new(
                    "Make one: `Store::create`.",
                    "Make one: Store(..., create=True).",
                    "Make one: `ztensor store init`.",
                ),
            )
        })?;
        let protocol = Protocol::new(backend, surroundings, settings.id, settings.grace);
        Ok(Store { protocol, settings, honest: AtomicBool::new(false), manifests: Mutex::default() })
    }

    /// What the store is.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The protocol below.
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// Adds a file, by path or URL, or a folder as a checkpoint. It is there, whole, once this returns; an error leaves nothing of it that counts. `progress` is told the
    /// bytes of each step; an error of it ends the work.
    pub fn add(
        &self,
        path: impl AsRef<Path>,
        name: &str,
        options: &AddOptions,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<AddStats> {
        self.add_scan(&look_at(path.as_ref())?, name, options, progress)
    }

    /// Adds files that a program has, each with its path in the checkpoint: a file by itself if `single`, else a folder.
    pub fn add_files(
        &self,
        files: Vec<(String, Arc<Source>)>,
        single: bool,
        name: &str,
        options: &AddOptions,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<AddStats> {
        let given = Given { files, modes: HashMap::new(), others: Vec::new(), single };
        self.add_given(given, name, options, progress)
    }

    pub(crate) fn add_given(
        &self,
        given: Given,
        name: &str,
        options: &AddOptions,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<AddStats> {
        self.add_scan(&given.scan()?, name, options, progress)
    }

    fn add_scan(
        &self,
        scan: &Scan,
        name: &str,
        options: &AddOptions,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<AddStats> {
        let started = Instant::now();
        let name = Name::new(name)?;
        if !options.dry_run {
            self.check_honesty()?;
        }
        let mut slot = self.protocol.slot(&name)?;
        if let Base::Checkpoint(base) = &options.base {
            self.protocol.current(base)?;
        }
        for _ in 0..TRIES {
            let endangered = self.protocol.proposals()?.endangered();
            let known = Known::new(&self.protocol, &name, self.live()?, &options.base, endangered);
            let builder = Builder::new(&self.protocol, &known, options);
            let (manifest, mut stats, pin) = builder.build(scan, &slot, progress)?;
            stats.seconds = started.elapsed().as_secs_f64();
            if options.dry_run {
                return Ok(stats);
            }
            let outcome = self.protocol.commit(&manifest);
            if let Some(pin) = &pin {
                self.protocol.unpin(pin)?;
            }
            match outcome? {
                Commit::Success => return Ok(stats),
                Commit::Conflict => {
                    return Err(Error::new(
                        Kind::Conflict,
                        format!("\"{name}\" was added or removed by somebody else at the same time"),
                    )
                    .with_hints(Hints::new(
                        "Look at `Store::list`, and try again.",
                        "Look at Store.list(), and try again.",
                        "Look at `ztensor store list`, and try again.",
                    )));
                }
                Commit::Doomed(_) => slot = self.protocol.bury(&manifest.stamp)?,
            }
        }
        Err(Error::new(Kind::Conflict, "what this add refers to was collected again and again")
            .with_hint("Try again; a longer grace period leaves slow adds more time."))
    }

    /// Bytes that adding a file or a folder has to read.
    pub fn measure(path: impl AsRef<Path>) -> Result<u64> {
        Ok(look_at(path.as_ref())?.length())
    }

    pub(crate) fn check_honesty(&self) -> Result<()> {
        if !self.settings.single_writer && !self.honest.load(Ordering::Relaxed) {
            self.protocol.check_honesty()?;
            self.honest.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Opens a checkpoint.
    pub fn checkpoint(&self, name: &str) -> Result<Checkpoint> {
        let name = Name::new(name)?;
        let known = |generation| self.manifests().get(&(name.clone(), generation)).cloned();
        let current = self.protocol.current_unless_known(&name, known)?;
        let key = (name, current.manifest.stamp.generation);
        self.manifests().insert(key, Arc::clone(&current));
        Ok(Checkpoint::new(&self.protocol, current))
    }

    fn manifests(&self) -> MutexGuard<'_, HashMap<(Name, u64), Arc<Current>>> {
        self.manifests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restores a checkpoint: a folder to a folder that is new or empty, a single file to a file, or into a folder that exists.
    pub fn get(
        &self,
        name: &str,
        output: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<GetStats> {
        restore::restore(&self.checkpoint(name)?, output.as_ref(), progress)
    }

    /// The checkpoints that are there now, hidden ones left out, by name.
    pub(crate) fn live(&self) -> Result<Vec<Arc<Current>>> {
        let names = self.protocol.names()?;
        let visible: Vec<(Name, u64)> = names.into_iter().filter(|(name, _)| !name.is_hidden()).collect();
        let unread: Vec<(Name, u64)> = {
            let known = self.manifests();
            visible.iter().filter(|key| !known.contains_key(key)).cloned().collect()
        };
        let mut others = HashMap::new();
        for group in unread.chunks(GROUP) {
            for (key, current) in group.iter().zip(self.protocol.listed_all(group)?) {
                let current = current.map(Arc::new);
                match &current {
                    Some(found) if found.manifest.stamp.generation == key.1 => {
                        self.manifests().insert(key.clone(), Arc::clone(found));
                    }
                    _ => drop(others.insert(key.clone(), current)),
                }
            }
        }
        let known = self.manifests();
        let found = visible.iter().filter_map(|key| match others.get(key) {
            Some(current) => current.clone(),
            None => known.get(key).cloned(),
        });
        Ok(found.collect())
    }

    /// The checkpoints, by name.
    pub fn list(&self) -> Result<Vec<Listing>> {
        let live = self.live()?;
        let mut users: HashMap<Id, u32> = HashMap::new();
        for pack in live.iter().flat_map(|current| &current.manifest.packs) {
            *users.entry(pack.id).or_default() += 1;
        }
        let mut listed: Vec<Listing> = live.iter().map(|current| listing(current, &users)).collect();
        // Times are whole seconds; among checkpoints of one second a base has the shorter chain.
        let mut order: Vec<usize> = (0..listed.len()).collect();
        order.sort_by_key(|&number| (listed[number].time, listed[number].deepest));
        let mut known = HashSet::new();
        for number in order {
            let fresh = live[number].manifest.packs.iter().filter(|pack| known.insert(pack.id));
            listed[number].added = fresh.map(|pack| pack.length).sum();
        }
        Ok(listed)
    }

    /// What the store holds.
    pub fn stats(&self) -> Result<StoreStats> {
        let live = self.live()?;
        let mut stats = StoreStats { checkpoints: live.len() as u64, ..StoreStats::default() };
        let mut seen = BTreeSet::new();
        let mut placed = BTreeSet::new();
        for current in &live {
            stats.logical += current.manifest.logical();
            stats.manifest_bytes += current.length;
            for entry in &current.manifest.entries {
                if seen.insert(entry.digest) {
                    stats.unique += entry.length;
                }
                if placed.insert((current.manifest.packs[entry.pack].id, entry.offset)) {
                    stats.stored += entry.stored;
                }
            }
        }
        for object in self.protocol.backend().list("packs/", Reach::Tree)? {
            stats.packs += 1;
            stats.pack_bytes += object.stat.length;
        }
        Ok(stats)
    }

    /// Removes a checkpoint. Others stay readable, whatever they were stored against.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.protocol.remove(&Name::new(name)?)
    }

    /// Deletes what nobody refers to any more.
    pub fn gc(&self, options: GcOptions) -> Result<GcReport> {
        self.protocol.gc(options)
    }

    /// Keeps all packs of a checkpoint from being collected, also after it was removed, until the pin is ended.
    pub fn pin(&self, name: &str) -> Result<Pin> {
        let current = self.protocol.current(&Name::new(name)?)?;
        self.protocol.pin(current.manifest.packs)
    }

    /// Ends a pin.
    pub fn unpin(&self, pin: &Pin) -> Result<()> {
        self.protocol.unpin(pin)
    }

    /// Checks all packs against their digests and, if `decode`, all files against theirs. Returns what is wrong, by checkpoint.
    pub fn verify(&self, decode: bool, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<Vec<Problem>> {
        let mut problems = Vec::new();
        let mut live = Vec::new();
        for (name, generation) in self.protocol.names()? {
            match self.protocol.listed(&name, generation) {
                Ok(current) => live.extend(current.map(Arc::new)),
                Err(error) => problems.push(Problem { name, error }),
            }
        }
        let mut packs: BTreeMap<Id, (Pack, Vec<usize>)> = BTreeMap::new();
        for (number, current) in live.iter().enumerate() {
            for pack in &current.manifest.packs {
                packs.entry(pack.id).or_insert_with(|| (pack.clone(), Vec::new())).1.push(number);
            }
        }
        let mut damaged = BTreeSet::new();
        for (pack, users) in packs.values() {
            let Some(error) = self.check_pack(pack, progress)? else { continue };
            for user in users {
                damaged.insert(*user);
                let name = live[*user].manifest.stamp.name.clone();
                problems.push(Problem { name, error: Error::new(error.kind(), error.to_string()) });
            }
        }
        if decode {
            for (number, current) in live.iter().enumerate() {
                if damaged.contains(&number) {
                    continue;
                }
                let checkpoint = Checkpoint::new(&self.protocol, Arc::clone(current));
                for file in &current.manifest.files {
                    if let Err(error) = restore::check(&checkpoint, file, progress) {
                        problems.push(Problem { name: current.manifest.stamp.name.clone(), error });
                    }
                }
            }
        }
        Ok(problems)
    }

    /// Compares a pack with its digest; the error says what is wrong with it.
    fn check_pack(&self, pack: &Pack, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<Option<Error>> {
        let key = Pack::key(pack.id);
        let wrong = |kind, what: &str| Ok(Some(Error::new(kind, format!("pack {}: {what}", pack.id))));
        match self.protocol.backend().stat(&key)? {
            None => return wrong(Kind::NotFound, "it is missing"),
            Some(stat) if stat.length != pack.length => return wrong(Kind::Checksum, "its length is wrong"),
            Some(_) => {}
        }
        let mut hasher = PackHasher::like(pack.digest);
        let mut position = 0;
        let mut window = Vec::new();
        while position < pack.length {
            window.resize((pack.length - position).min(WINDOW) as usize, 0);
            if let Err(error) = self.protocol.backend().get(&key, position, &mut window) {
                return wrong(error.kind(), &format!("it cannot be read: {error}"));
            }
            hasher.update(&window);
            position += window.len() as u64;
            progress(window.len() as u64)?;
        }
        match hasher.finish() == pack.digest {
            true => Ok(None),
            false => wrong(Kind::Checksum, "its bytes are not those that were written"),
        }
    }
}

fn listing(current: &Current, users: &HashMap<Id, u32>) -> Listing {
    let manifest = &current.manifest;
    let regular = manifest.files.iter().filter_map(|file| match &file.kind {
        FileKind::Regular { pieces, .. } => Some(pieces),
        _ => None,
    });
    let alone = |pack: &&Pack| users.get(&pack.id) == Some(&1);
    Listing {
        name: manifest.stamp.name.clone(),
        generation: manifest.stamp.generation,
        time: manifest.stamp.time,
        parent: manifest.parent.as_ref().map(|(name, _)| name.clone()),
        metadata: manifest.metadata.clone(),
        files: regular.clone().count() as u64,
        tensors: regular.map(|pieces| count_tensors(pieces) as u64).sum(),
        logical: manifest.logical(),
        referred: manifest.entries.iter().map(|entry| entry.stored).sum(),
        exclusive: manifest.packs.iter().filter(alone).map(|pack| pack.length).sum(),
        added: 0,
        deepest: manifest.deepest(),
    }
}
