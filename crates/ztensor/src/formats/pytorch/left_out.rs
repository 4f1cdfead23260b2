//! What a pickle would do that reading its tensors leaves out: calls of names that reach the system are listed with the file's contents.

use super::pickle::{Arena, Call, Id};
use super::spelling;
use super::trust::{Trust, trust};
use crate::index::Index;

/// Calls that are listed among what a file holds but is not read.
const MOST_LEFT_OUT: usize = 16;

/// How far each distinct global of a pickle can be trusted, looked up once.
pub(crate) struct Trusts(Vec<Trust>);

impl Trusts {
    pub(crate) fn of(arena: &Arena<'_>) -> Trusts {
        Trusts(arena.globals().map(|(module, name)| trust(module, name)).collect())
    }

    pub(crate) fn global(&self, arena: &Arena<'_>, id: Id) -> Option<Trust> {
        arena.global_slot(id).and_then(|slot| self.0.get(slot)).copied()
    }

    /// How far a call can be trusted. What is called without having a name was computed by the pickle itself; one step back is enough to
    /// tell `getattr(…)(…)` from a factory of a package.
    pub(crate) fn call(&self, arena: &Arena<'_>, call: &Call) -> Trust {
        match (self.global(arena, call.callable), arena.call(call.callable)) {
            (Some(trust), _) => trust,
            (None, Some(maker)) => {
                self.global(arena, maker.callable).unwrap_or(Trust::Dangerous).max(Trust::Unknown)
            }
            (None, None) => Trust::Unknown,
        }
    }
}

/// Lists the calls of dangerous names among what a file holds but is not read, so that nobody takes such a file for an ordinary one.
pub(super) fn note_left_out(arena: &Arena<'_>, index: &mut Index) {
    let trusts = Trusts::of(arena);
    if !trusts.0.contains(&Trust::Dangerous) {
        return;
    }
    let calls = arena.calls().iter().filter(|call| trusts.call(arena, call) == Trust::Dangerous);
    let mut count = 0;
    for call in calls {
        count += 1;
        if count <= MOST_LEFT_OUT {
            index.skip_code(spelling::call(arena, call), "an unpickler would call this; here it is left out");
        }
    }
    if count > MOST_LEFT_OUT {
        let more = format!("{} more calls", count - MOST_LEFT_OUT);
        index.skip_code(more, "an unpickler would make them; here they are left out");
    } else if count == 0 {
        let names = arena.globals().zip(&trusts.0).filter(|(_, trust)| **trust == Trust::Dangerous);
        for ((module, name), _) in names.take(MOST_LEFT_OUT) {
            let reason = "an unpickler would import this; here it is left out";
            index.skip_code(format!("{module}.{name}"), reason);
        }
    }
}
