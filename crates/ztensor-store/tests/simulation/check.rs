//! What has to hold whatever happened.

use std::collections::BTreeSet;
use std::time::Duration;

use ztensor_store::backend::{Backend, Reach};
use ztensor_store::protocol::Protocol;
use ztensor_store::record::{Pack, Record};
use ztensor_store::{Id, Name};

use crate::actors::{self, Event, GRACE, STORE};
use crate::stage::Stage;

/// A tombstone that was created: name, generation, origin, time.
fn tombstones(stage: &Stage) -> Vec<(Name, u64, Id, Duration)> {
    let log = stage.log.lock().unwrap();
    let decoded =
        log.iter().filter(|(key, _, _)| key.starts_with("checkpoints/")).filter_map(|(_, bytes, at)| {
            match Record::decode(bytes, STORE).unwrap() {
                Record::Tombstone(stamp) => Some((stamp.name, stamp.generation, stamp.origin, *at)),
                _ => None,
            }
        });
    decoded.collect()
}

/// Checks the invariants, then that garbage goes. Returns the first rule that is broken.
pub fn check(stage: &Stage, events: &[Event], honest_clock: bool) -> Result<(), String> {
    let memory = std::sync::Arc::new(stage.memory.clone());
    let protocol = actors::protocol(memory.clone(), 1);
    let tombstones = tombstones(stage);
    let buried = |origin: Id| tombstones.iter().filter(move |tombstone| tombstone.2 == origin);
    let adds: Vec<(&Name, Id, u64)> = events
        .iter()
        .filter_map(|event| match event {
            Event::Added { name, origin, generation } => Some((name, *origin, *generation)),
            _ => None,
        })
        .collect();
    for (name, origin, generation) in &adds {
        if buried(*origin).next().is_none() {
            let current =
                protocol.current(name).map_err(|error| format!("{name} was added, then: {error}"))?;
            if current.manifest.stamp.origin != *origin {
                return Err(format!("{name} was added and is now another checkpoint"));
            }
            let missing = protocol.missing_pack(&current.manifest).unwrap();
            let other = || protocol.other_generation(name, *origin, current.manifest.stamp.generation);
            if let Some(pack) = missing.filter(|_| other().is_err()) {
                return Err(format!("{name} was added and not removed, but its pack {pack} is gone"));
            }
        }
        for (other, second, above) in
            adds.iter().filter(|add| add.0 == *name && add.1 != *origin && add.2 >= *generation)
        {
            if !buried(*origin).any(|tombstone| tombstone.1 <= *above) {
                return Err(format!("two adds of {other} succeeded: {origin} and {second}"));
            }
        }
    }
    for event in events {
        match event {
            Event::Removed { name, origin } => {
                if protocol.current(name).is_ok_and(|current| current.manifest.stamp.origin == *origin) {
                    return Err(format!("{name} was removed and is back"));
                }
            }
            Event::Missed { name, origin, at } => {
                let added = adds.iter().any(|add| add.1 == *origin);
                let removed = buried(*origin).map(|tombstone| tombstone.3).min();
                let in_time = removed.is_none_or(|removed| *at < removed + GRACE);
                if added && in_time && honest_clock {
                    return Err(format!(
                        "a reader of {name} was not left its grace: removed {removed:?}, missed {at:?}"
                    ));
                }
            }
            _ => {}
        }
    }
    garbage_goes(stage, &protocol)
}

fn garbage_goes(stage: &Stage, protocol: &Protocol) -> Result<(), String> {
    for _ in 0..4 {
        stage.advance(GRACE * 2);
        actors::collect(protocol, false, 1).map_err(|error| format!("gc: {error}"))?;
    }
    let mut needed: BTreeSet<Id> = BTreeSet::new();
    for (name, generation) in protocol.names().unwrap() {
        let Some(current) = protocol.listed(&name, generation).unwrap() else { continue };
        needed.extend(current.manifest.pack_ids());
        // An abandoned generation leaves those below it in charge.
        if protocol.missing_pack(&current.manifest).unwrap().is_some() {
            let (origin, except) = (current.manifest.stamp.origin, current.manifest.stamp.generation);
            needed.extend(
                protocol.other_generation(&name, origin, except).iter().flat_map(|other| other.pack_ids()),
            );
        }
    }
    for key in stage.memory.keys() {
        let garbage = match Pack::of_key(&key) {
            Some(pack) => !needed.contains(&pack),
            None => key.starts_with("gc/"),
        };
        if garbage {
            return Err(format!("garbage stays: {key}"));
        }
    }
    let listed = stage.memory.list("checkpoints/", Reach::Tree).unwrap().len();
    let damaged = needed.iter().any(|pack| stage.memory.stat(&Pack::key(*pack)).unwrap().is_none());
    if !damaged && listed != protocol.names().unwrap().len() {
        return Err("old generations stay".into());
    }
    Ok(())
}
