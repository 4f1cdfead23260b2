//! What an unpickler would do with a pickle: every name it would import and what it would call with which arguments. The pickles are run
//! in the same machine that reads tensors, so names that are put together on the stack are seen too, and a pickle that breaks off in the
//! middle is reported up to there, because an unpickler would have run that far as well.

use std::collections::HashSet;

use super::{Part, ScannedCall, ScannedGlobal, archive_in_memory};
use crate::formats::pytorch::pickle::{Arena, Call, Id, Machine};
use crate::formats::pytorch::{Trust, Trusts, legacy, spelling, trust};
use crate::limits::Budget;

/// Calls that are spelled out; the opcodes are counted all the same.
const MOST_CALLS: usize = 100;
/// Pickles inside pickles, as the bytes that a loader is called with.
const MOST_NESTED: usize = 8;

/// Scans pickles that stand one after the other. An unpickler reads the first; what follows is looked at as far as it is a pickle too.
pub(crate) fn stream(bytes: &[u8], name: &str, origin: u64, budget: &mut Budget) -> Vec<Part> {
    let most = if legacy::matches(bytes) { legacy::PICKLES } else { usize::MAX };
    let mut parts = Vec::new();
    let (mut position, mut pickles) = (0, 0);
    while position < bytes.len() && pickles < most {
        let rest = &bytes[position..];
        let name = if position == 0 { name.to_owned() } else { format!("{name} at byte {position}") };
        let (mut found, length) = pickle(name, rest, origin.saturating_add(position as u64), budget, 0);
        pickles += 1;
        let Some(length) = length else {
            let is_pickle = found.iter().any(|part| !part.globals.is_empty());
            if parts.is_empty() || most != usize::MAX || is_pickle {
                parts.append(&mut found);
            }
            break;
        };
        parts.append(&mut found);
        position += length;
    }
    parts
}

/// Runs one pickle; returns what was noted, pickles that it would load from its own bytes behind it, and its length if it ran to its end.
fn pickle(
    name: String,
    bytes: &[u8],
    origin: u64,
    budget: &mut Budget,
    depth: usize,
) -> (Vec<Part>, Option<usize>) {
    let mut machine = Machine::lenient(bytes);
    let error = machine.run(origin, budget).err();
    let length = error.is_none().then(|| machine.position());
    let mut part = Part::new(name, "pickle");
    part.error = error.map(|error| error.to_string()).or(machine.unfollowed.take());
    let arena = &machine.arena;
    part.opcodes = machine.calls.by_opcode().into_iter().filter(|(_, count)| *count > 0).collect();

    let nested = nested(arena);
    let mut parts = Vec::new();
    if depth < MOST_NESTED {
        for (number, bytes) in nested.payloads.iter().enumerate() {
            let name = format!("{} › bytes {}", part.name, number + 1);
            parts.extend(payload(name, bytes, budget, depth + 1));
        }
    }
    part.globals = arena
        .globals()
        .map(|(module, name)| {
            let known = trust(module, name);
            let looked_at = is_nested_loader(module, name) && nested.complete && depth < MOST_NESTED;
            let trust = if looked_at { Trust::Harmless } else { known };
            ScannedGlobal { module: module.to_owned(), name: name.to_owned(), trust }
        })
        .collect();
    let mut seen = HashSet::new();
    let trusts = Trusts::of(arena);
    for call in arena.calls() {
        let trust = trusts.call(arena, call);
        if trust == Trust::Harmless || part.calls.len() >= MOST_CALLS {
            continue;
        }
        let text = spelling::call(arena, call);
        if seen.insert(text.clone()) {
            part.calls.push(ScannedCall { text, trust });
        }
    }
    for target in &machine.changed_globals {
        let text = format!("{}.__dict__.update(…)", spelling::value(arena, *target));
        if part.calls.len() < MOST_CALLS && seen.insert(text.clone()) {
            part.calls.push(ScannedCall { text, trust: Trust::Dangerous });
        }
    }
    parts.insert(0, part);
    (parts, length)
}

/// A whole file inside a pickle: a stream, or an archive with a pickle in it.
fn payload(name: String, bytes: &[u8], budget: &mut Budget, depth: usize) -> Vec<Part> {
    if crate::formats::zip::matches(bytes) {
        return archive_in_memory(&name, bytes, budget);
    }
    let most = if legacy::matches(bytes) { legacy::PICKLES } else { 1 };
    let (mut parts, mut position) = (Vec::new(), 0);
    for number in 0..most {
        let rest = bytes.get(position..).unwrap_or_default();
        let name = if number == 0 { name.clone() } else { format!("{name} at byte {position}") };
        let (found, length) = pickle(name, rest, position as u64, budget, depth);
        parts.extend(found);
        match length {
            Some(length) => position += length,
            None => break,
        }
    }
    parts
}

/// The bytes that a pickle would hand to a loader.
struct Nested<'p> {
    payloads: Vec<&'p [u8]>,
    /// Whether every use of such a loader is a call with bytes that stand in the pickle.
    complete: bool,
}

fn is_nested_loader(module: &str, name: &str) -> bool {
    (module, name) == ("torch.storage", "_load_from_bytes")
}

fn nested<'p>(arena: &'p Arena<'_>) -> Nested<'p> {
    let mut nested = Nested { payloads: Vec::new(), complete: true };
    let loads = |call: &&Call| {
        let global = arena.global(call.callable);
        global.is_some_and(|(module, name)| is_nested_loader(module, name) || name == "loads")
    };
    for call in arena.calls().iter().filter(loads) {
        let argument = arena.items(call.arguments).and_then(|items| items.first());
        match argument.and_then(|id| bytes_of(arena, *id)) {
            Some(bytes) if nested.payloads.len() < MOST_CALLS => nested.payloads.push(bytes),
            _ => nested.complete = false,
        }
    }
    // Referred to but not called here: whoever gets hold of it may call it with anything.
    let called: HashSet<Id> = arena.calls().iter().map(|call| call.callable).collect();
    nested.complete &= arena
        .ids()
        .filter(|id| arena.global(*id).is_some_and(|(module, name)| is_nested_loader(module, name)))
        .all(|id| called.contains(&id));
    nested
}

fn bytes_of<'p>(arena: &'p Arena<'_>, id: Id) -> Option<&'p [u8]> {
    arena.bytes(id).or_else(|| arena.text(id).map(str::as_bytes))
}
