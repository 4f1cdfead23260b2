//! What loading a file with a real unpickler would do: every name it would import and how often it would call something. The pickles are run
//! in the same machine that reads tensors, so names that are put together on the stack are seen too, and a pickle that breaks off in the
//! middle is reported up to there, because an unpickler would have run that far as well.

use std::path::Path;

use super::archive;
use super::globals::{self, Trust};
use super::legacy;
use super::pickle::Machine;
use crate::error::{Error, Kind, Result};
use crate::formats::zip;
use crate::limits::{Budget, Limits};
use crate::source::{Io, Source};

/// What was found in a file.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The pickles in the file, in order.
    pub pickles: Vec<ScannedPickle>,
}

/// What was found in one pickle.
#[derive(Clone, Debug)]
pub struct ScannedPickle {
    /// The archive member, or the place in the stream.
    pub name: String,
    /// Every distinct name that would be imported, in the order of appearance.
    pub globals: Vec<ScannedGlobal>,
    /// How often each opcode occurs that makes an unpickler run code.
    pub calls: Vec<(&'static str, u64)>,
    /// Why the pickle could not be followed to its end, if so.
    pub error: Option<String>,
}

/// A name that would be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedGlobal {
    /// The module.
    pub module: String,
    /// The name in the module.
    pub name: String,
    /// How far it can be trusted.
    pub trust: Trust,
}

impl Scan {
    /// The least trust that any name in the file deserves. A pickle that could not be followed to its end is not trusted.
    pub fn trust(&self) -> Trust {
        let of = |pickle: &ScannedPickle| {
            let followed = if pickle.error.is_some() { Trust::Unknown } else { Trust::Harmless };
            pickle.globals.iter().map(|global| global.trust).fold(followed, Trust::max)
        };
        self.pickles.iter().map(of).max().unwrap_or(Trust::Harmless)
    }

    /// Whether everything in the file is known to be harmless.
    pub fn is_harmless(&self) -> bool {
        self.trust() == Trust::Harmless
    }
}

/// Scans a PyTorch file, or any other pickle, without running it.
///
/// ```
/// # fn main() -> ztensor::Result<()> {
/// # let folder = tempfile::tempdir()?; let path = folder.path().join("model.pkl");
/// # std::fs::write(&path, b"cposix\nsystem\n(S'true'\ntR.")?;
/// let scan = ztensor::formats::pytorch::scan(&path)?;
/// for global in scan.pickles.iter().flat_map(|pickle| &pickle.globals) {
///     println!("{}.{}: {:?}", global.module, global.name, global.trust);
/// }
/// assert!(!scan.is_harmless());
/// # Ok(())
/// # }
/// ```
pub fn scan(path: impl AsRef<Path>) -> Result<Scan> {
    let path = path.as_ref();
    scan_source(&Source::open(path, Io::Auto)?, Limits::default()).map_err(|error| error.with_path(path))
}

/// Scans a source.
pub fn scan_source(source: &Source, limits: Limits) -> Result<Scan> {
    let head = source.bytes(0, source.len().min(4096))?;
    let mut budget = Budget::new(limits);
    if zip::matches(&head) {
        return scan_archive(source, &mut budget);
    }
    let bytes = source.bytes(0, source.len().min(budget.limits().header_bytes))?;
    let most = if legacy::matches(&head) { legacy::PICKLES } else { usize::MAX };
    let scan = scan_stream(&bytes, most, &mut budget);
    match scan.pickles.as_slice() {
        [] => Err(Error::new(Kind::Truncated, "the file is empty")),
        [only] if only.error.is_some() && only.globals.is_empty() && only.calls.is_empty() => {
            Err(Error::new(Kind::UnknownFormat, "the file is neither a pickle nor an archive with one in it"))
        }
        _ => Ok(scan),
    }
}

fn scan_archive(source: &Source, budget: &mut Budget) -> Result<Scan> {
    let members = zip::members(source, budget)?;
    let is_pickle = |name: &str| name.ends_with(".pkl") || name.ends_with(".pickle");
    let mut pickles = Vec::new();
    for member in members.iter().filter(|member| is_pickle(&member.name)) {
        pickles.push(match archive::read_pickle(member, source, budget) {
            Ok(bytes) => scan_pickle(member.name.clone(), &bytes, member.offset, budget).0,
            Err(error) => ScannedPickle {
                name: member.name.clone(),
                globals: Vec::new(),
                calls: Vec::new(),
                error: Some(error.to_string()),
            },
        });
    }
    if pickles.is_empty() {
        return Err(Error::new(Kind::UnknownFormat, "the archive has no pickle in it"));
    }
    Ok(Scan { pickles })
}

/// Pickles one after the other. An unpickler reads the first; what follows is looked at as far as it is a pickle too.
fn scan_stream(bytes: &[u8], most: usize, budget: &mut Budget) -> Scan {
    let mut pickles = Vec::new();
    let mut position = 0;
    while position < bytes.len() && pickles.len() < most {
        let rest = &bytes[position..];
        let (pickle, length) = scan_pickle(format!("byte {position}"), rest, position as u64, budget);
        let Some(length) = length else {
            if pickles.is_empty() || most != usize::MAX || !pickle.globals.is_empty() {
                pickles.push(pickle);
            }
            break;
        };
        pickles.push(pickle);
        position += length;
    }
    Scan { pickles }
}

/// Runs one pickle; returns what was noted, and its length if it ran to its end.
fn scan_pickle(
    name: String,
    bytes: &[u8],
    origin: u64,
    budget: &mut Budget,
) -> (ScannedPickle, Option<usize>) {
    let mut machine = Machine::new(bytes);
    let error = machine.run(origin, budget).err();
    let globals = machine.arena.globals().map(|(module, name)| ScannedGlobal {
        module: module.to_owned(),
        name: name.to_owned(),
        trust: globals::trust(module, name),
    });
    let calls = machine.calls.by_opcode().into_iter().filter(|(_, count)| *count > 0).collect();
    let length = error.is_none().then(|| machine.position());
    let error = error.map(|error| error.to_string());
    (ScannedPickle { name, globals: globals.collect(), calls, error }, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan_bytes(bytes: &'static [u8]) -> Result<Scan> {
        scan_source(&Source::from_bytes(bytes), Limits::default())
    }

    fn names(scan: &Scan) -> Vec<String> {
        let globals = scan.pickles.iter().flat_map(|pickle| &pickle.globals);
        globals.map(|global| format!("{}.{}", global.module, global.name)).collect()
    }

    #[test]
    fn names_that_are_put_together_on_the_stack_are_seen() {
        let scan = scan_bytes(b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.").unwrap();
        assert_eq!(names(&scan), ["posix.system"]);
        assert_eq!(scan.pickles[0].calls, [("REDUCE", 1)]);
        assert_eq!(scan.trust(), Trust::Dangerous);
    }

    #[test]
    fn old_instances_and_extensions_are_seen() {
        assert_eq!(names(&scan_bytes(b"(S'true'\nios\nsystem\n.").unwrap()), ["os.system"]);
        assert_eq!(names(&scan_bytes(b"\x80\x02\x82\x07.").unwrap()), ["copyreg.extension 7"]);
        assert!(!scan_bytes(b"\x80\x02\x82\x07.").unwrap().is_harmless());
    }

    #[test]
    fn a_pickle_that_breaks_off_is_reported_up_to_there() {
        let scan = scan_bytes(b"cos\nsystem\n(S'true'\ntR\xff").unwrap();
        assert_eq!(names(&scan), ["os.system"]);
        assert!(scan.pickles[0].error.is_some());
        assert_eq!(scan.trust(), Trust::Dangerous);
    }

    #[test]
    fn a_second_pickle_behind_the_first_is_seen() {
        assert_eq!(names(&scan_bytes(b"N.cos\nsystem\n.").unwrap()), ["os.system"]);
    }

    #[test]
    fn other_files_are_not_called_harmless() {
        assert_eq!(scan_bytes(b"hello").unwrap_err().kind(), Kind::UnknownFormat);
        assert_eq!(scan_bytes(b"").unwrap_err().kind(), Kind::Truncated);
    }
}
