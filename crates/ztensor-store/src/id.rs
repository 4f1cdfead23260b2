//! Random identifiers, and where randomness and the time for people come from: the one thing besides the storage that the protocol needs,
//! so that a simulation can stand in for both.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ztensor::{Error, Kind, Result};

/// 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub [u8; 16]);

impl Id {
    /// Reads 32 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Id> {
        let plain = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let value = u128::from_str_radix(text, 16).ok().filter(|_| plain)?;
        Some(Id(value.to_be_bytes()))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Randomness and the time for people.
pub trait Surroundings: Send + Sync {
    /// A fresh random id.
    fn id(&self) -> Result<Id>;
    /// Seconds since 1970. Nothing depends on it.
    fn time(&self) -> u64;
    /// Waits a little before something is tried for the so-and-so-many-th time. A simulation does not.
    fn pause(&self, _tries: u32) {}
}

/// The first pause, before it is doubled.
const PAUSE: Duration = Duration::from_millis(25);

/// The operating system's.
pub struct System;

impl Surroundings for System {
    fn id(&self) -> Result<Id> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|cause| Error::new(Kind::Io, format!("the system has no random numbers: {cause}")))?;
        Ok(Id(bytes))
    }

    fn time(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
    }

    fn pause(&self, tries: u32) {
        std::thread::sleep(PAUSE * 2u32.pow(tries.min(6)));
    }
}
