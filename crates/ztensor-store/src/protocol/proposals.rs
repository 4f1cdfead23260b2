//! Proposals to delete packs, and the decrees on them. Each proposal is decided once: void by a writer whose pack it names, or by a collector.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::create::Made;
use super::{PATIENCE, Protocol};
use crate::backend::Reach;
use crate::id::Id;
use crate::record::{LONGEST, Record};
use ztensor::{Error, Kind, Result};

/// A proposal that was listed.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// What it names.
    pub packs: BTreeSet<Id>,
    /// When it was written, by the storage's clock.
    pub written: Duration,
    /// What the decree on it names, if there is one.
    pub decree: Option<BTreeSet<Id>>,
}

/// The proposals that were listed at one time.
#[derive(Clone, Debug, Default)]
pub struct Proposals {
    pub(super) open: BTreeMap<Id, Proposal>,
    /// Decrees without a proposal: finished, or created too late. They mean nothing.
    pub(super) stale: BTreeMap<Id, BTreeSet<Id>>,
    /// Keys below `gc/` that are neither.
    pub(super) unknown: Vec<String>,
}

impl Proposals {
    /// Packs that a decree may still doom, or has doomed.
    pub fn endangered(&self) -> BTreeSet<Id> {
        let open =
            self.open.values().flat_map(|proposal| proposal.decree.as_ref().unwrap_or(&proposal.packs));
        open.chain(self.stale.values().flatten()).copied().collect()
    }

    /// Packs that are in any proposal, decided or not.
    pub(super) fn proposed(&self) -> BTreeSet<Id> {
        self.open.values().flat_map(|proposal| &proposal.packs).copied().collect()
    }
}

pub(super) fn proposal_key(id: Id) -> String {
    format!("gc/{id}")
}

pub(super) fn decree_key(id: Id) -> String {
    format!("gc/{id}.go")
}

impl Protocol {
    /// Lists `gc/` and reads what is there.
    pub fn proposals(&self) -> Result<Proposals> {
        let mut found = Proposals::default();
        let mut decrees = BTreeSet::new();
        let mut listed = BTreeMap::new();
        for object in self.backend().list("gc/", Reach::Tree)? {
            let name = object.key.strip_prefix("gc/").unwrap_or_default();
            match (Id::parse(name), name.strip_suffix(".go").and_then(Id::parse)) {
                (Some(id), _) => {
                    listed.insert(id, object.stat.written);
                }
                (_, Some(id)) => {
                    decrees.insert(id);
                }
                _ => found.unknown.push(object.key),
            }
        }
        for (id, written) in listed {
            // What vanished since it was listed is finished.
            let Some(packs) = self.read_proposal(id)? else { continue };
            let decree = match decrees.remove(&id) {
                true => self.read_decree(id)?,
                false => None,
            };
            found.open.insert(id, Proposal { packs, written, decree });
        }
        for id in decrees {
            if let Some(packs) = self.read_decree(id)? {
                found.stale.insert(id, packs);
            }
        }
        Ok(found)
    }

    fn read_proposal(&self, id: Id) -> Result<Option<BTreeSet<Id>>> {
        match self.read_record(&proposal_key(id))? {
            None => Ok(None),
            Some(Record::Proposal(packs)) => Ok(Some(packs)),
            Some(_) => Err(Error::malformed(format!("\"{}\" is no proposal", proposal_key(id)))),
        }
    }

    fn read_decree(&self, id: Id) -> Result<Option<BTreeSet<Id>>> {
        match self.read_record(&decree_key(id))? {
            None => Ok(None),
            Some(record) => as_decree(id, record).map(Some),
        }
    }

    fn read_record(&self, key: &str) -> Result<Option<Record>> {
        let bytes = self.backend().read(key, LONGEST)?;
        bytes.map(|bytes| self.decode(key, &bytes)).transpose()
    }

    fn decode(&self, key: &str, bytes: &[u8]) -> Result<Record> {
        Record::decode(bytes, self.store()).map_err(|error| error.with_context(&format!("\"{key}\"")))
    }

    /// Decides a proposal, unless somebody has: what the one decree on it names.
    pub(super) fn decide(&self, id: Id, packs: BTreeSet<Id>) -> Result<BTreeSet<Id>> {
        let bytes = Record::Decree(packs.clone()).encode(self.store())?;
        match self.create(&decree_key(id), &bytes)? {
            Made::Ours => Ok(packs),
            Made::Conflict(found) => as_decree(id, self.decode(&decree_key(id), &found)?),
        }
    }

    /// Makes sure that no proposal can doom any of these packs any more (6b). Returns one that is doomed already.
    pub(super) fn protect(&self, packs: &BTreeSet<Id>) -> Result<Option<Id>> {
        for _ in 0..PATIENCE {
            let proposals = self.proposals()?;
            let mut decided = true;
            for (id, proposal) in &proposals.open {
                if proposal.packs.is_disjoint(packs) {
                    continue;
                }
                let decree = match &proposal.decree {
                    Some(decree) => decree.clone(),
                    None => {
                        decided = false;
                        self.decide(*id, BTreeSet::new())?
                    }
                };
                if let Some(doomed) = decree.intersection(packs).next() {
                    return Ok(Some(*doomed));
                }
            }
            if decided {
                return Ok(None);
            }
        }
        Err(Error::new(Kind::Conflict, "the store is being collected all the time").with_hint("Try again."))
    }
}

fn as_decree(id: Id, record: Record) -> Result<BTreeSet<Id>> {
    match record {
        Record::Decree(packs) => Ok(packs),
        _ => Err(Error::malformed(format!("\"{}\" is no decree", decree_key(id)))),
    }
}
