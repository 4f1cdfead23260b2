//! Collecting garbage: publish what is to go, read all manifests, decide once, delete only what was decided (11–14). Any number of collectors may
//! run at once, and be killed at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::proposals::{decree_key, proposal_key};
use super::roots::{Later, Roots};
use super::{PATIENCE, Proposals, Protocol};
use crate::backend::Reach;
use crate::id::Id;
use crate::name::Name;
use crate::record::{Pack, Record};
use ztensor::{Error, Hints, Kind, Result};

/// Pins that were not renewed for so long are ended.
const PINS_LAST: Duration = Duration::from_secs(30 * 24 * 3600);

/// How garbage is collected.
#[derive(Clone, Copy, Debug, Default)]
pub struct GcOptions {
    /// Propose and delete in one run, for storage whose lists are up to date.
    pub now: bool,
    /// Go on although more than half of all bytes would go.
    pub force: bool,
    /// Change nothing; say what would be done.
    pub dry_run: bool,
}

/// A checkpoint that cannot be read as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The checkpoint.
    pub name: Name,
    /// Its generation.
    pub generation: u64,
    /// A pack that is missing.
    pub pack: Id,
}

/// What a run did, or would do.
#[derive(Clone, Debug, Default)]
pub struct GcReport {
    /// Packs in the store before.
    pub packs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packs newly proposed.
    pub proposed: BTreeSet<Id>,
    /// Their bytes.
    pub proposed_bytes: u64,
    /// Packs that are proposed and have to wait.
    pub waiting: BTreeSet<Id>,
    /// Packs deleted.
    pub deleted: BTreeSet<Id>,
    /// Their bytes.
    pub deleted_bytes: u64,
    /// Manifests and tombstones deleted.
    pub records_deleted: u64,
    /// Pins ended.
    pub pins_ended: u64,
    /// Checkpoints with a missing pack. Nothing of them is deleted.
    pub damaged: Vec<Damage>,
    /// Keys that belong to no store. They are left alone.
    pub unknown: Vec<String>,
}

/// What a run knows of the storage.
struct View {
    now: Duration,
    /// As listed before the manifests were read.
    proposals: Proposals,
    packs: BTreeMap<Id, (u64, Duration)>,
    roots: Roots,
    /// As listed afterwards.
    later: Proposals,
}

impl Protocol {
    /// Collects garbage.
    pub fn gc(&self, options: GcOptions) -> Result<GcReport> {
        let mut report = GcReport::default();
        if options.now {
            self.pass(&options, None, &mut report)?;
            self.pass(&options, Some(Duration::ZERO), &mut report)?;
        } else {
            self.pass(&options, Some(self.grace()), &mut report)?;
        }
        Ok(report)
    }

    /// One run. Proposals of at least this age are decided; without an age none are.
    fn pass(&self, options: &GcOptions, least: Option<Duration>, report: &mut GcReport) -> Result<()> {
        let view = self.view(report)?;
        let total: u64 = view.packs.values().map(|(length, _)| length).sum();
        (report.packs, report.bytes) = match report.packs {
            0 => (view.packs.len() as u64, total),
            _ => (report.packs, report.bytes),
        };
        let refuse = |bytes: u64| match bytes > total / 2 && !options.force {
            true => Err(Error::new(
                Kind::InvalidArgument,
                format!("{bytes} of the {total} bytes in packs would be deleted, which is more than half"),
            )
            .with_hints(Hints::new(
                "If that is what you want, set `force` in the options.",
                "If that is what you want, say force=True.",
                "If that is what you want, say --force.",
            ))),
            false => Ok(()),
        };
        let length = |packs: &BTreeSet<Id>| -> u64 {
            packs.iter().filter_map(|pack| view.packs.get(pack)).map(|(length, _)| length).sum()
        };
        report.waiting.clear();
        for (id, proposal) in &view.proposals.open {
            let age = view.now.saturating_sub(proposal.written);
            if proposal.decree.is_none() && least.is_none_or(|least| age < least) {
                report.waiting.extend(&proposal.packs);
                continue;
            }
            let free: BTreeSet<Id> = proposal.packs.difference(&view.roots.packs).copied().collect();
            if proposal.decree.is_none() {
                refuse(length(&free))?;
            }
            let decree = match options.dry_run {
                true => proposal.decree.clone().unwrap_or(free),
                false => match self.finish(*id, free)? {
                    Some(decree) => decree,
                    None => continue,
                },
            };
            let gone: BTreeSet<Id> =
                decree.intersection(&view.packs.keys().copied().collect()).copied().collect();
            report.deleted_bytes += length(&gone);
            report.deleted.extend(gone);
        }
        if !options.dry_run {
            self.tidy(&view, report)?;
        }
        let proposed = &view.proposals.proposed() | &view.later.proposed();
        let old = view.packs.iter().filter(|(_, (_, written))| self.is_old(view.now, *written));
        let candidates =
            old.map(|(id, _)| *id).filter(|id| !view.roots.packs.contains(id) && !proposed.contains(id));
        let candidates: BTreeSet<Id> = candidates.collect();
        if !candidates.is_empty() {
            refuse(length(&candidates))?;
            report.proposed_bytes += length(&candidates);
            if !options.dry_run {
                self.propose(&candidates)?;
            }
            report.proposed.extend(candidates);
        }
        report.damaged = view.roots.damaged;
        Ok(())
    }

    /// Looks at everything, in the order that makes the decision safe.
    fn view(&self, report: &mut GcReport) -> Result<View> {
        let now = self.storage_time()?;
        for _ in 0..PATIENCE {
            let proposals = self.proposals()?;
            let packs = self.packs(&mut report.unknown)?;
            let inventory = self.inventory(now)?;
            let later = self.proposals()?;
            let there = self.packs(&mut Vec::new())?.into_keys().collect();
            let known = Later { proposals: &later, packs: &there, now, pins_last: PINS_LAST };
            if let Some(roots) = self.roots(&inventory, &known)? {
                report.unknown.extend(inventory.unknown);
                report.unknown.extend(proposals.unknown.iter().cloned());
                report.unknown.sort_unstable();
                report.unknown.dedup();
                return Ok(View { now, proposals, packs, roots, later });
            }
        }
        Err(Error::new(Kind::Conflict, "the store is being collected by others all the time")
            .with_hint("Try again."))
    }

    /// All packs, with length and time of writing.
    fn packs(&self, unknown: &mut Vec<String>) -> Result<BTreeMap<Id, (u64, Duration)>> {
        let mut packs = BTreeMap::new();
        for object in self.backend().list("packs/", Reach::Tree)? {
            match Pack::of_key(&object.key) {
                Some(id) => {
                    packs.insert(id, (object.stat.length, object.stat.written));
                }
                None => unknown.push(object.key),
            }
        }
        Ok(packs)
    }

    /// Decides a proposal and carries the decree out (v–viii). `None` where the proposal was finished by somebody else.
    fn finish(&self, id: Id, free: BTreeSet<Id>) -> Result<Option<BTreeSet<Id>>> {
        let decree = self.decide(id, free)?;
        if self.backend().stat(&proposal_key(id))?.is_none() {
            self.backend().delete(&decree_key(id))?;
            return Ok(None);
        }
        for pack in &decree {
            self.backend().delete(&Pack::key(*pack))?;
        }
        self.backend().delete(&proposal_key(id))?;
        self.backend().delete(&decree_key(id))?;
        Ok(Some(decree))
    }

    /// Publishes what is to go. One request: a proposal that came back after it was finished could be decided twice.
    fn propose(&self, packs: &BTreeSet<Id>) -> Result<()> {
        let bytes = Record::Proposal(packs.clone()).encode(self.store())?;
        self.backend().create(&proposal_key(self.id()?), &bytes)?;
        Ok(())
    }

    /// Deletes generations that nobody needs, decrees that mean nothing, old probes; ends old pins.
    fn tidy(&self, view: &View, report: &mut GcReport) -> Result<()> {
        for (name, generation) in &view.roots.sweepable {
            self.backend().delete(&name.key(*generation))?;
            report.records_deleted += 1;
        }
        for id in view.later.stale.keys() {
            // A list need not be of one moment: the proposal may be there after all.
            if self.backend().stat(&proposal_key(*id))?.is_none() {
                self.backend().delete(&decree_key(*id))?;
            }
        }
        for probe in self.backend().list("probes/", Reach::Folder)? {
            if self.is_old(view.now, probe.stat.written) {
                self.backend().delete(&probe.key)?;
            }
        }
        for name in &view.roots.expired {
            self.remove(name)?;
            report.pins_ended += 1;
        }
        Ok(())
    }
}
