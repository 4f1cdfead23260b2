//! Which packs have to stay, and which generations nobody needs any more (12).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::gc::Damage;
use super::{PATIENCE, Proposals, Protocol, busy};
use crate::backend::{Listed, Reach};
use crate::id::Id;
use crate::name::Name;
use crate::record::Record;
use ztensor::Result;

/// The generations of a name, the highest first, as far as they have been read.
#[derive(Default)]
struct Generations {
    listed: Vec<(u64, Duration)>,
    read: Vec<Record>,
}

/// All names of a store, each with the generations that were read.
pub(super) struct Inventory {
    names: BTreeMap<Name, Generations>,
    /// Keys below `checkpoints/` that no name has.
    pub(super) unknown: Vec<String>,
}

/// What has to stay, and what need not.
#[derive(Default)]
pub(super) struct Roots {
    pub(super) packs: BTreeSet<Id>,
    pub(super) damaged: Vec<Damage>,
    /// Generations that may go, lowest first for each name.
    pub(super) sweepable: Vec<(Name, u64)>,
    /// Pins that were not renewed for long.
    pub(super) expired: Vec<Name>,
}

/// What is known of the storage after the manifests were read.
pub(super) struct Later<'a> {
    pub(super) proposals: &'a Proposals,
    pub(super) packs: &'a BTreeSet<Id>,
    pub(super) now: Duration,
    pub(super) pins_last: Duration,
}

impl Protocol {
    /// Lists all names and reads each from its highest generation down to the first that is older than the grace period.
    pub(super) fn inventory(&self, now: Duration) -> Result<Inventory> {
        let (mut names, mut unknown) = (BTreeMap::<Name, Generations>::new(), Vec::new());
        for Listed { key, stat } in self.backend().list("checkpoints/", Reach::Tree)? {
            match Name::of_key(&key) {
                Some((name, generation)) => {
                    names.entry(name).or_default().listed.push((generation, stat.written));
                }
                None => unknown.push(key),
            }
        }
        for (name, generations) in &mut names {
            generations.listed.sort_unstable_by_key(|(generation, _)| std::cmp::Reverse(*generation));
            self.read_down(name, generations, now)?;
        }
        Ok(Inventory { names, unknown })
    }

    /// Reads on, until a generation is older than the grace period. Where one vanished, the name is listed again.
    fn read_down(&self, name: &Name, generations: &mut Generations, now: Duration) -> Result<()> {
        for _ in 0..PATIENCE {
            loop {
                let Some((generation, written)) = generations.listed.get(generations.read.len()) else {
                    return Ok(());
                };
                let Some((record, _)) = self.generation(name, *generation)? else { break };
                generations.read.push(record);
                if self.is_old(now, *written) {
                    return Ok(());
                }
            }
            let listed = self.backend().list(&name.folder(), Reach::Folder)?;
            let own =
                listed.iter().filter_map(|object| Some((Name::of_key(&object.key)?, object.stat.written)));
            generations.listed = own
                .filter(|((found, _), _)| found == name)
                .map(|((_, generation), at)| (generation, at))
                .collect();
            generations.listed.sort_unstable_by_key(|(generation, _)| std::cmp::Reverse(*generation));
            generations.read.clear();
        }
        Err(busy(name))
    }

    pub(super) fn is_old(&self, now: Duration, written: Duration) -> bool {
        now.saturating_sub(written) >= self.grace()
    }

    /// Finds the roots. `None` where a generation vanished that is needed now: everything has to be looked at again.
    pub(super) fn roots(&self, inventory: &Inventory, later: &Later<'_>) -> Result<Option<Roots>> {
        let mut roots = Roots::default();
        let endangered = later.proposals.endangered();
        for (name, generations) in &inventory.names {
            let mut stop = None;
            // What is missing from the highest, and whether another generation of its origin has everything.
            let mut damage: Option<(Id, Damage)> = None;
            for (place, (generation, written)) in generations.listed.iter().enumerate() {
                let read_now;
                let record = match generations.read.get(place) {
                    Some(record) => record,
                    None => match self.generation(name, *generation)? {
                        Some((record, _)) => {
                            read_now = record;
                            &read_now
                        }
                        None => return Ok(None),
                    },
                };
                let sound = match record {
                    Record::Manifest(manifest) => {
                        let packs = manifest.pack_ids();
                        let missing = packs.iter().find(|pack| !later.packs.contains(*pack));
                        let origin = manifest.stamp.origin;
                        match (missing, &damage) {
                            (Some(pack), _) if place == 0 => {
                                let (name, generation) = (name.clone(), *generation);
                                damage = Some((origin, Damage { name, generation, pack: *pack }));
                            }
                            (None, Some((of, _))) if *of == origin => damage = None,
                            _ => {}
                        }
                        let sound = missing.is_none() && endangered.is_disjoint(&packs);
                        roots.packs.extend(packs);
                        let age = later.now.saturating_sub(*written);
                        if place == 0 && name.is_hidden() && age >= later.pins_last {
                            roots.expired.push(name.clone());
                        }
                        sound
                    }
                    _ => true,
                };
                if sound && self.is_old(later.now, *written) {
                    stop = Some(place);
                    break;
                }
            }
            roots.damaged.extend(damage.map(|(_, damage)| damage));
            if let Some(stop) = stop {
                let below = generations.listed.iter().skip(stop + 1).rev();
                roots.sweepable.extend(below.map(|(generation, _)| (name.clone(), *generation)));
            }
        }
        Ok(Some(roots))
    }
}
