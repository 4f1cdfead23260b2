//! Retention: which checkpoints of a run stay. What stays never depends on what goes, because every manifest has its whole chain; where that chain is
//! mostly made of what goes, the checkpoint is stored without it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::content::{AddOptions, Base, Builder, Checkpoint, Known, contents, hangs_on_removed};
use crate::name::Name;
use crate::protocol::Current;
use crate::store::{Listing, Store};
use ztensor::{Error, Hints, Result};

/// What stays. A checkpoint stays if any rule keeps it.
#[derive(Clone, Debug, Default)]
pub struct Keep {
    /// The last so many.
    pub last: usize,
    /// Those whose step is a multiple of this.
    pub every: Option<u64>,
    /// Those whose name matches one of these patterns, in which `*` stands for any letters and `?` for one.
    pub names: Vec<String>,
}

/// What a prune removed and kept, in the order of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Removed, or to be removed.
    pub removed: Vec<Name>,
    /// Kept.
    pub kept: Vec<Name>,
    /// Of these, those that hung on bases of removed ones and were stored without them, or are to be.
    pub reanchored: Vec<Name>,
}

impl Store {
    /// Removes the checkpoints of a run that no rule keeps: those named `run` or `run/…`. A run of no name is the whole store. With `dry_run` nothing is
    /// removed.
    pub fn prune(&self, run: &str, keep: &Keep, dry_run: bool) -> Result<Pruned> {
        if keep.last == 0 && keep.every.is_none() && keep.names.is_empty() {
            return Err(Error::argument("nothing says what stays").with_hints(Hints::new(
                "Set `Keep::last`, `Keep::every` or `Keep::names`.",
                "Say keep_last=, keep_every= or keep_name=.",
                "Say --keep-last, --keep-every or --keep-name.",
            )));
        }
        if keep.every == Some(0) {
            return Err(Error::argument("every 0th checkpoint is none").with_hint("Say a number of steps."));
        }
        let inside = |listing: &Listing| {
            let name = listing.name.as_str();
            run.is_empty()
                || name.strip_prefix(run).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut listed: Vec<Listing> = self.list()?.into_iter().filter(inside).collect();
        // Steps order a run; where a name has none, the time does.
        let steps = listed.iter().all(|listing| listing.name.step().is_some());
        listed.sort_by_key(|listing| (steps.then(|| listing.name.step()), listing.time));
        let first_of_last = listed.len().saturating_sub(keep.last);
        let mut pruned = Pruned::default();
        for (place, listing) in listed.into_iter().enumerate() {
            let on_step =
                keep.every.is_some_and(|every| listing.name.step().is_some_and(|step| step % every == 0));
            let named = keep.names.iter().any(|pattern| matches(pattern, listing.name.as_str()));
            if place >= first_of_last || on_step || named {
                pruned.kept.push(listing.name);
            } else {
                if !dry_run {
                    self.protocol().remove(&listing.name)?;
                }
                pruned.removed.push(listing.name);
            }
        }
        pruned.reanchored = self.reanchor_all(&pruned, dry_run)?;
        Ok(pruned)
    }

    /// Stores those that stay without the bases that only removed ones had, where that frees more than it takes. What each was stored against and stays too
    /// is looked for among its neighbours in the run.
    fn reanchor_all(&self, pruned: &Pruned, dry_run: bool) -> Result<Vec<Name>> {
        let removed: HashSet<&Name> = pruned.removed.iter().collect();
        let mut live = self.live()?;
        live.retain(|current| !removed.contains(&current.manifest.stamp.name));
        let stays: HashSet<[u8; 32]> = live.iter().flat_map(|current| contents(&current.manifest)).collect();
        let mut holders: HashMap<[u8; 32], usize> = HashMap::new();
        for current in &live {
            let held: HashSet<[u8; 32]> = current.manifest.entries.iter().map(|entry| entry.digest).collect();
            held.into_iter().for_each(|digest| *holders.entry(digest).or_default() += 1);
        }
        let mut by_name: HashMap<Name, Arc<Current>> =
            live.into_iter().map(|current| (current.manifest.stamp.name.clone(), current)).collect();
        let (mut reanchored, mut replaced) = (Vec::new(), HashSet::new());
        for (place, name) in pruned.kept.iter().enumerate() {
            let Some(current) = by_name.get(name).cloned() else { continue };
            if !hangs_on_removed(&current.manifest, &stays, &replaced, &holders) {
                continue;
            }
            replaced.extend(contents(&current.manifest));
            if !dry_run {
                let before = pruned.kept[place.saturating_sub(NEIGHBOURS)..place].iter();
                let neighbours = before.filter_map(|name| by_name.get(name).cloned()).collect();
                if !self.reanchor(name, neighbours)? {
                    continue;
                }
                by_name.insert(name.clone(), Arc::new(self.protocol().current(name)?));
            }
            reanchored.push(name.clone());
        }
        Ok(reanchored)
    }

    /// Gives a checkpoint a generation that needs nothing but its own contents and those of its neighbours. `false` if it is not there any more.
    fn reanchor(&self, name: &Name, neighbours: Vec<Arc<Current>>) -> Result<bool> {
        self.check_honesty()?;
        let options = AddOptions::default();
        self.protocol().reanchor(name, &mut |slot, manifest| {
            let endangered = self.protocol().proposals()?.endangered();
            let contents = neighbours.iter().flat_map(|current| contents(&current.manifest)).collect();
            let known = Known::new(self.protocol(), name, neighbours.clone(), &Base::Auto, endangered)
                .with_bases(contents);
            let old = Current { manifest: manifest.clone(), root: [0; 32], length: 0 };
            let old = Checkpoint::new(self.protocol(), Arc::new(old));
            Builder::new(self.protocol(), &known, &options).rebuild(&old, slot)
        })
    }
}

/// Checkpoints that come before one in its run and may be its base once others are gone.
const NEIGHBOURS: usize = 8;

/// Whether a name matches a pattern, in which `*` stands for any letters and `?` for one byte.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    // The last star, and how much of the name it has taken: nothing before it needs to be tried again.
    let (mut place, mut at, mut star) = (0, 0, None);
    while at < name.len() {
        match pattern.get(place) {
            Some(b'*') => {
                star = Some((place, at));
                place += 1;
            }
            Some(letter) if *letter == b'?' || *letter == name[at] => {
                place += 1;
                at += 1;
            }
            _ => match star {
                Some((stop, taken)) => {
                    star = Some((stop, taken + 1));
                    place = stop + 1;
                    at = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[place..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, name, expected) in [
            ("*", "a/b", true),
            ("run-7/*", "run-7/step-10", true),
            ("run-7/*", "run-8/step-10", false),
            ("*best*", "a/best-3", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b", "xaybzb", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn steps_are_the_numbers_at_the_end() {
        for (name, expected) in
            [("run/step-1000", Some(1000)), ("7", Some(7)), ("best", None), ("a1/b", None)]
        {
            assert_eq!(Name::new(name).unwrap().step(), expected, "{name}");
        }
    }
}
