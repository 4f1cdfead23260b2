//! Creating a key, and finding out whether that took place.

use super::Protocol;
use crate::backend::Creation;
use crate::record::LONGEST;
use ztensor::{Error, Hints, Kind, Result};

/// Answers that are lost, or that say that somebody else is at it, one after the other, before the outcome counts as unknown.
const TRIES: u32 = 6;

/// What a key holds after a create.
pub(super) enum Made {
    /// Our bytes.
    Ours,
    /// Somebody else's.
    Conflict(Vec<u8>),
}

impl Protocol {
    /// Creates a key and reads it back unless the answer is a plain success. Nothing is tidied up after a failure.
    pub(super) fn create(&self, key: &str, bytes: &[u8]) -> Result<Made> {
        let mut last = None;
        for tries in 1..=TRIES {
            let answer = self.backend().create(key, bytes);
            if matches!(answer, Ok(Creation::Created)) {
                return Ok(Made::Ours);
            }
            match self.backend().read(key, LONGEST) {
                Ok(Some(found)) if found == bytes => return Ok(Made::Ours),
                Ok(Some(found)) => return Ok(Made::Conflict(found)),
                Ok(None) => {}
                Err(cause) => return Err(unknown(key).with_cause(cause)),
            }
            match answer {
                // These come before anything is sent.
                Err(cause)
                    if matches!(cause.kind(), Kind::PermissionDenied | Kind::NoSpace | Kind::NotFound) =>
                {
                    return Err(cause);
                }
                Err(cause) => last = Some(cause),
                // Busy, not taken: S3 says 409 while another create of the key is under way.
                Ok(_) => {}
            }
            self.surroundings.pause(tries);
        }
        let error = unknown(key);
        Err(match last {
            Some(cause) => error.with_cause(cause),
            None => error,
        })
    }
}

fn unknown(key: &str) -> Error {
    Error::new(
        Kind::OutcomeUnknown,
        format!("whether \"{key}\" was created could not be found out: the storage does not answer"),
    )
    .with_hints(Hints::new(
        "Look at `Store::list` when it does, and try again.",
        "Look at Store.list() when it does, and try again.",
        "Look at `ztensor store list` when it does, and try again.",
    ))
}
