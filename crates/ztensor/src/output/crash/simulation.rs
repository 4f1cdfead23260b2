//! A disk in memory, and the states that a crash may leave it in. Data of a file is on the disk once the file is synced; before that, any choice
//! of its sectors may be. Names are on the disk once their folder is synced; before that, any number of the first changes may be.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::record::Event;

const SECTOR: u64 = 512;
/// Unsynced sectors of which every choice is tried; of more, those that are likely to hurt, and some at random.
const ALL_CHOICES: usize = 12;
const RANDOM_CHOICES: usize = 500;

/// What is lost in a crash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Loss {
    /// The process is killed: the system has what was handed to it.
    Process,
    /// The machine stops: what was not synced may be lost.
    Machine,
}

/// Files by inode, and their names.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    files: BTreeMap<u64, Vec<u8>>,
    names: BTreeMap<PathBuf, u64>,
}

/// A change of data that is not yet on the disk.
#[derive(Clone, Debug)]
enum Pending {
    Sector { file: u64, offset: u64, bytes: Vec<u8> },
    SetLen { file: u64, length: u64 },
}

impl Disk {
    /// What a folder holds.
    pub(super) fn of(folder: &Path) -> Disk {
        let mut disk = Disk::default();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let inode = std::fs::metadata(&path).unwrap().ino();
            disk.files.insert(inode, std::fs::read(&path).unwrap());
            disk.names.insert(path, inode);
        }
        disk
    }

    pub(super) fn file(&self, path: &Path) -> Option<&[u8]> {
        let inode = self.names.get(path)?;
        Some(self.files.get(inode).map_or(&[], Vec::as_slice))
    }

    /// The disk when all is on it.
    pub(super) fn after(&self, events: &[Event]) -> Disk {
        let mut disk = self.clone();
        for event in events {
            pieces(event).iter().for_each(|piece| disk.apply(piece));
            disk.rename(event);
        }
        disk
    }

    /// Visits every different state that a crash may leave.
    pub(super) fn crashes(&self, events: &[Event], loss: Loss, visit: &mut dyn FnMut(&Disk)) {
        let mut seen = HashSet::new();
        let mut visit = |disk: &Disk| {
            let mut hasher = DefaultHasher::new();
            disk.names.iter().for_each(|(name, inode)| (name, disk.files.get(inode)).hash(&mut hasher));
            if seen.insert(hasher.finish()) {
                visit(disk);
            }
        };
        let mut durable = self.clone();
        let mut data: Vec<Pending> = Vec::new();
        let mut names: Vec<&Event> = Vec::new();
        visit(&durable);
        for event in events {
            match event {
                Event::Sync { file } => {
                    let (synced, rest) = data.into_iter().partition(|piece| piece.file() == *file);
                    data = rest;
                    let synced: Vec<Pending> = synced;
                    synced.iter().for_each(|piece| durable.apply(piece));
                }
                Event::SyncFolder => names.drain(..).for_each(|event| durable.rename(event)),
                Event::Write { .. } | Event::SetLen { .. } => data.extend(pieces(event)),
                Event::Link { .. } | Event::Rename { .. } | Event::Remove { .. } => names.push(event),
            }
            for count in 0..=names.len() {
                let mut named = durable.clone();
                names[..count].iter().for_each(|event| named.rename(event));
                choices(data.len(), loss, &mut |chosen| {
                    let mut disk = named.clone();
                    data.iter()
                        .zip(chosen)
                        .filter(|(_, chosen)| **chosen)
                        .for_each(|(piece, _)| disk.apply(piece));
                    visit(&disk);
                });
            }
            if loss == Loss::Process {
                // What was done before is not undone; only the last change may be half done.
                data.drain(..).for_each(|piece| durable.apply(&piece));
                names.drain(..).for_each(|event| durable.rename(event));
            }
        }
    }

    fn apply(&mut self, piece: &Pending) {
        let bytes = self.files.entry(piece.file()).or_default();
        match piece {
            Pending::SetLen { length, .. } => bytes.resize(*length as usize, 0),
            Pending::Sector { offset, bytes: written, .. } => {
                let (start, end) = (*offset as usize, *offset as usize + written.len());
                bytes.resize(bytes.len().max(end), 0);
                bytes[start..end].copy_from_slice(written);
            }
        }
    }

    /// Changes a name, as the system would: a link replaces nothing.
    fn rename(&mut self, event: &Event) {
        match event {
            Event::Link { file, path } => {
                self.names.entry(path.clone()).or_insert(*file);
            }
            Event::Rename { from, to } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            Event::Remove { path } => {
                self.names.remove(path);
            }
            _ => {}
        }
    }
}

impl Pending {
    fn file(&self) -> u64 {
        match self {
            Pending::Sector { file, .. } | Pending::SetLen { file, .. } => *file,
        }
    }
}

/// A change of data as what reaches the disk at once.
fn pieces(event: &Event) -> Vec<Pending> {
    match event {
        Event::SetLen { file, length } => vec![Pending::SetLen { file: *file, length: *length }],
        Event::Write { file, offset, bytes } => {
            let (mut pieces, mut at) = (Vec::new(), 0);
            while at < bytes.len() {
                let offset = offset + at as u64;
                let end = bytes.len().min(at + (SECTOR - offset % SECTOR) as usize);
                pieces.push(Pending::Sector { file: *file, offset, bytes: bytes[at..end].to_vec() });
                at = end;
            }
            pieces
        }
        _ => Vec::new(),
    }
}

/// Visits choices of so many pieces.
fn choices(count: usize, loss: Loss, visit: &mut dyn FnMut(&[bool])) {
    let mut choose = |choice: &dyn Fn(usize) -> bool| visit(&(0..count).map(choice).collect::<Vec<_>>());
    for cut in 0..=count {
        choose(&|at| at < cut);
    }
    if loss == Loss::Process {
        return;
    }
    if count <= ALL_CHOICES {
        (0..1usize << count).for_each(|mask| choose(&|at| mask >> at & 1 == 1));
        return;
    }
    for special in 0..count {
        choose(&|at| at >= special);
        choose(&|at| at != special);
        choose(&|at| at == special);
        choose(&|at| at < special || at == count - 1);
    }
    // A linear congruential generator: the same choices in every run.
    let mut seed = count as u64;
    for _ in 0..RANDOM_CHOICES {
        let mut choice = Vec::with_capacity(count);
        for _ in 0..count {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            choice.push(seed >> 63 == 1);
        }
        choose(&|at| choice[at]);
    }
}
