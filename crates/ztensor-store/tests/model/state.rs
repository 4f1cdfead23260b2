//! The storage, and where each actor is. Packs, origins and proposals are small numbers; sets of them are bits.

use crate::protocol::Cast;

pub const NAMES: usize = 2;
pub const GENERATIONS: usize = 4;
pub const PROPOSALS: usize = 2;
/// The name that is there from the beginning, of origin 0 with the pack 0.
pub const A: usize = 0;
pub const B: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    Manifest { origin: u8, packs: u8, write: u8 },
    Tombstone { origin: u8, write: u8 },
}

pub type Name = [Option<Record>; GENERATIONS];

/// The highest generation of a name.
pub fn highest(name: &Name) -> Option<(usize, Record)> {
    (0..GENERATIONS).rev().find_map(|generation| Some((generation, name[generation]?)))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// What it names, as long as it exists.
    pub packs: Option<u8>,
    /// What its decree names, as long as that exists.
    pub decree: Option<u8>,
    /// Whether its id was ever used.
    pub used: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    Start,
    Choose,
    Put,
    Create,
    ReadBack,
    LookAtName,
    LookAtProposals,
    Decide(u8),
    LookForPacks,
    Bury,
    Succeeded,
    Failed,
}

/// A writer, or the re-anchorer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writer {
    pub at: At,
    pub name: u8,
    pub reuses: bool,
    pub anchors: bool,
    pub origin: u8,
    pub generation: u8,
    pub packs: u8,
    /// Its own pack, and the number that makes its manifest different from all others.
    pub own: u8,
}

impl Writer {
    pub fn new(name: usize, own: u8) -> Writer {
        Writer {
            at: At::Start,
            name: name as u8,
            reuses: false,
            anchors: false,
            origin: own,
            generation: 0,
            packs: 0,
            own,
        }
    }

    pub fn succeeded(&self) -> bool {
        self.at == At::Succeeded && !self.anchors
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Removing {
    Start,
    Create,
    ReadBack,
    LookAgain,
    Done,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Remover {
    pub at: Removing,
    pub target: Option<u8>,
    pub top: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collecting {
    ListProposals,
    ListPacks,
    ReadManifests(u8),
    ListAgain,
    Next,
    Decide(u8),
    Check(u8),
    DeleteStale(u8),
    DeletePacks(u8),
    DeleteProposal(u8),
    DeleteDecree(u8),
    Sweep,
    Propose,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Collector {
    pub at: Collecting,
    /// Runs that are left.
    pub runs: u8,
    /// Proposals seen and not worked on yet, with their packs.
    pub seen: [Option<u8>; PROPOSALS],
    pub candidates: u8,
    pub names: [Name; NAMES],
    pub roots: u8,
    pub proposed: u8,
    /// Generations that may go, by name.
    pub sweep: [u8; NAMES],
    pub decree: u8,
}

impl Collector {
    pub fn new(runs: u8) -> Collector {
        Collector {
            at: if runs == 0 { Collecting::Done } else { Collecting::ListProposals },
            runs,
            seen: [None; PROPOSALS],
            candidates: 0,
            names: [[None; GENERATIONS]; NAMES],
            roots: 0,
            proposed: 0,
            sweep: [0; NAMES],
            decree: 0,
        }
    }

    /// Forgets all but how many runs are left: states that differ in nothing else are one.
    pub fn again(&mut self) {
        *self = Collector::new(self.runs - 1);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub packs: u8,
    pub names: [Name; NAMES],
    pub proposals: [Proposal; PROPOSALS],
    pub writers: Vec<Writer>,
    pub remover: Option<Remover>,
    pub collectors: [Collector; 2],
    /// Origins that a tombstone was ever created for.
    pub buried: u8,
    /// The packs of what the reader of B has open, if it has.
    pub reading: Option<u8>,
    pub reader_missed: bool,
    /// With an honest clock: whether a grace period has passed since B was removed.
    pub b_removed: bool,
    pub b_old: bool,
}

impl State {
    pub fn new(cast: &Cast) -> State {
        let mut names = [[None; GENERATIONS]; NAMES];
        names[A][0] = Some(Record::Manifest { origin: 0, packs: 1, write: 0 });
        State {
            packs: 1,
            names,
            proposals: Default::default(),
            writers: cast.writers(),
            remover: cast.remover.then_some(Remover { at: Removing::Start, target: None, top: 0 }),
            collectors: [Collector::new(cast.collectors[0]), Collector::new(cast.collectors[1])],
            buried: 0,
            reading: None,
            reader_missed: false,
            b_removed: false,
            b_old: false,
        }
    }

    pub fn has(&self, packs: u8) -> bool {
        self.packs & packs == packs
    }

    /// Whether the checkpoint that a name means is of this origin, and some generation of it can be read.
    fn is_readable(&self, name: usize, origin: u8) -> bool {
        let of = |record: &Option<Record>| match record {
            Some(Record::Manifest { origin: found, packs, .. }) if *found == origin => Some(*packs),
            _ => None,
        };
        let current = highest(&self.names[name]).is_some_and(|(_, record)| of(&Some(record)).is_some());
        current && self.names[name].iter().filter_map(of).any(|packs| self.has(packs))
    }

    /// All adds that were reported as successes.
    fn added(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        let writers = self.writers.iter().filter(|writer| writer.succeeded());
        std::iter::once((A, 0)).chain(writers.map(|writer| (writer.name as usize, writer.origin)))
    }

    pub fn added_is_readable(&self) -> bool {
        self.added()
            .filter(|(_, origin)| self.buried & 1 << origin == 0)
            .all(|(name, origin)| self.is_readable(name, origin))
    }

    pub fn names_are_added_once(&self) -> bool {
        let alive = |name: usize| {
            self.added().filter(|(of, origin)| *of == name && self.buried & 1 << origin == 0).count()
        };
        (0..NAMES).all(|name| alive(name) <= 1)
    }

    pub fn removed_is_gone(&self) -> bool {
        let Some(Remover { at: Removing::Done, target: Some(target), .. }) = self.remover else {
            return true;
        };
        !self
            .names
            .iter()
            .filter_map(highest)
            .any(|(_, record)| matches!(record, Record::Manifest { origin, .. } if origin == target))
    }
}
