//! What loading a file with the library it was made for would run: pickles in PyTorch files and in NumPy's object arrays, layers of
//! Keras that are made of code. Nothing is run here. A file in which there is no place for code is safe, whatever else may be wrong with it.

mod archives;
mod arrays;
mod keras;
mod pickles;

use std::path::Path;
use std::sync::Arc;

pub use crate::formats::pytorch::Trust;

pub(crate) use archives::archive_in_memory;

use crate::error::{Error, Kind, Result};
use crate::formats::{pytorch, zip};
use crate::index::Format;
use crate::limits::{Budget, Limits};
use crate::open::OpenOptions;
use crate::reader::Reader;
use crate::source::Source;

/// Bytes by which a file is recognised.
const HEAD: u64 = 4096;
/// Archives inside archives that are looked into.
const MOST_NESTED: usize = 4;

/// What is known of a file, the worse later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Loading the file runs nothing but what makes tensors and containers.
    Safe,
    /// A part of the file would run code that is not known here, or could not be followed.
    CouldNotTell,
    /// Loading the file would run code that reaches the system, other code or the interpreter.
    Dangerous,
}

impl Verdict {
    /// The verdict in one word, as `--json` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Safe => "safe",
            Verdict::CouldNotTell => "could_not_tell",
            Verdict::Dangerous => "dangerous",
        }
    }
}

/// What was found in a file.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The parts of the file that may run code, in order. A file without any is safe.
    pub parts: Vec<Part>,
}

/// A part of a file that may run code: a pickle, or the description of a Keras model.
#[derive(Clone, Debug)]
pub struct Part {
    /// The archive member, the array, or the place in the stream.
    pub name: String,
    /// `pickle`, `keras`, or, where it cannot be read, `member` of an archive or `file`.
    pub kind: &'static str,
    /// Every distinct name that would be imported, in the order of appearance.
    pub globals: Vec<ScannedGlobal>,
    /// What would be called with which arguments, where it is not known to be harmless.
    pub calls: Vec<ScannedCall>,
    /// How often each opcode of a pickle occurs that makes an unpickler run code.
    pub opcodes: Vec<(&'static str, u64)>,
    /// Why the part could not be followed to its end, if so.
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

/// A call that would be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedCall {
    /// The call as Python spells it, such as `os.system('id')`; long ones are cut.
    pub text: String,
    /// How far what is called can be trusted.
    pub trust: Trust,
}

impl Part {
    pub(crate) fn new(name: impl Into<String>, kind: &'static str) -> Self {
        Part {
            name: name.into(),
            kind,
            globals: Vec::new(),
            calls: Vec::new(),
            opcodes: Vec::new(),
            error: None,
        }
    }

    /// A part that cannot be looked into.
    pub(crate) fn unread(name: impl Into<String>, kind: &'static str, error: &Error) -> Self {
        Part { error: Some(error.message().to_owned()), ..Part::new(name, kind) }
    }

    /// The verdict on this part.
    pub fn verdict(&self) -> Verdict {
        let followed = if self.error.is_some() { Trust::Unknown } else { Trust::Harmless };
        let globals = self.globals.iter().map(|global| global.trust);
        // A call of an object that has no name of its own is judged by itself; one by name, like the name.
        let calls = self.calls.iter().map(|call| call.trust).filter(|trust| *trust == Trust::Dangerous);
        match globals.chain(calls).fold(followed, Trust::max) {
            Trust::Harmless => Verdict::Safe,
            Trust::Unknown => Verdict::CouldNotTell,
            Trust::Dangerous => Verdict::Dangerous,
        }
    }
}

impl Scan {
    /// The worst of the verdicts on the parts.
    pub fn verdict(&self) -> Verdict {
        self.parts.iter().map(Part::verdict).max().unwrap_or(Verdict::Safe)
    }
}

/// Scans a file of any format without running anything in it.
///
/// ```
/// # fn main() -> ztensor::Result<()> {
/// # let folder = tempfile::tempdir()?; let path = folder.path().join("model.pkl");
/// # std::fs::write(&path, b"cposix\nsystem\n(S'true'\ntR.")?;
/// let scan = ztensor::scan::scan(&path)?;
/// for call in scan.parts.iter().flat_map(|part| &part.calls) {
///     println!("{}", call.text); // posix.system('true')
/// }
/// assert_eq!(scan.verdict(), ztensor::scan::Verdict::Dangerous);
/// # Ok(())
/// # }
/// ```
pub fn scan(path: impl AsRef<Path>) -> Result<Scan> {
    OpenOptions::default().scan(path)
}

impl OpenOptions {
    /// Scans a file as [`scan`] does, within these limits: what is longer than they allow could not be told.
    pub fn scan(&self, path: impl AsRef<Path>) -> Result<Scan> {
        let path = path.as_ref();
        let source = Source::open_within(path, self.io, &self.limits)?;
        self.scan_source(source).map_err(|error| error.with_path(path))
    }

    /// Scans what was opened once, so that a pipe is read once and what is judged is what is parsed.
    pub fn scan_source(&self, source: Source) -> Result<Scan> {
        let source = Arc::new(source);
        scan_source(&source, &|| self.open_shared(Arc::clone(&source)), self.limits.clone())
    }
}

/// Scans a file that is already in memory.
pub fn scan_bytes(bytes: impl Into<Arc<[u8]>>) -> Result<Scan> {
    OpenOptions::default().scan_source(Source::from_bytes(bytes.into()))
}

fn scan_source(source: &Source, open: &dyn Fn() -> Result<Reader>, limits: Limits) -> Result<Scan> {
    if source.is_empty() {
        return Err(Error::new(Kind::Truncated, "the file is empty"));
    }
    let mut budget = Budget::new(limits);
    let (found, behind) = places(source, &mut budget)?;
    if let Some(mut parts) = found {
        parts.extend(behind);
        return Ok(Scan { parts });
    }
    let reader = match open() {
        Ok(reader) => reader,
        Err(error) if !behind.is_empty() => {
            let unread = Part::unread(place(""), "file", &error);
            return Ok(Scan { parts: [vec![unread], behind].concat() });
        }
        Err(error) if error.kind() == Kind::UnknownFormat => {
            return unknown(source, error, &mut budget).map(|parts| Scan { parts });
        }
        Err(error) => return Err(error),
    };
    // What would be loaded of an archive is its original.
    let (found, in_original) = match (reader.archived(), reader.sources().first()) {
        (Some(_), Some(original)) => places(original, &mut budget)?,
        _ => (None, Vec::new()),
    };
    let mut parts = found.unwrap_or_else(|| match reader.format() {
        Format::Hdf5 => keras::attributes(reader.attributes()),
        _ => Vec::new(),
    });
    parts.extend(in_original);
    parts.extend(behind);
    Ok(Scan { parts })
}

/// The places for code that a file has by its first bytes, `None` if it has none; and those in an archive behind them.
fn places(source: &Source, budget: &mut Budget) -> Result<(Option<Vec<Part>>, Vec<Part>)> {
    let head = source.head(HEAD)?.into_owned();
    let behind = match zip::matches(&head) {
        true => Vec::new(),
        false => archives::at_the_end(source, budget)?,
    };
    Ok((known_places(source, &head, "", 0, budget)?, behind))
}

/// Scans what can be told by its first bytes to be a place for code; `None` if it is none.
fn known_places(
    source: &Source,
    head: &[u8],
    name: &str,
    depth: usize,
    budget: &mut Budget,
) -> Result<Option<Vec<Part>>> {
    if zip::matches(head) {
        return archives::archive(source, name, depth, budget).map(Some);
    }
    if arrays::matches(head) {
        return arrays::array(source, name, budget).map(Some);
    }
    if pytorch::begins_like_a_pickle(head) {
        let bytes = source.bytes(0, source.len().min(budget.limits().header_bytes))?;
        let parts = pickles::stream(&bytes, place(name), 0, budget);
        // The length of a safetensors header can look like the start of a pickle, and a file can be both.
        return Ok(parts.iter().any(is_pickle).then_some(parts));
    }
    Ok(None)
}

/// A file of no known format: the oldest pickles begin with anything. One that breaks off before it does anything is none.
fn unknown(source: &Source, error: Error, budget: &mut Budget) -> Result<Vec<Part>> {
    let bytes = source.bytes(0, source.len().min(budget.limits().header_bytes))?;
    let parts = pickles::stream(&bytes, place(""), 0, budget);
    if parts.first().is_some_and(is_pickle) { Ok(parts) } else { Err(error) }
}

/// Whether bytes that were taken for a pickle are one: they can be followed to the end, or import something on the way.
fn is_pickle(part: &Part) -> bool {
    part.error.is_none() || !part.globals.is_empty() || !part.opcodes.is_empty()
}

/// What a part is called that is all of a file.
fn place(name: &str) -> &str {
    if name.is_empty() { "the file" } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &'static [u8]) -> Scan {
        scan_bytes(bytes).unwrap()
    }

    fn names(scan: &Scan) -> Vec<String> {
        let globals = scan.parts.iter().flat_map(|part| &part.globals);
        globals.map(|global| format!("{}.{}", global.module, global.name)).collect()
    }

    fn calls(scan: &Scan) -> Vec<&str> {
        scan.parts.iter().flat_map(|part| &part.calls).map(|call| call.text.as_str()).collect()
    }

    #[test]
    fn names_that_are_put_together_on_the_stack_are_seen() {
        let scan = found(b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.");
        assert_eq!(names(&scan), ["posix.system"]);
        assert_eq!(calls(&scan), ["posix.system('true')"]);
        assert_eq!(scan.parts[0].opcodes, [("REDUCE", 1)]);
        assert_eq!(scan.verdict(), Verdict::Dangerous);
    }

    #[test]
    fn old_instances_and_extensions_are_seen() {
        assert_eq!(calls(&found(b"(S'true'\nI7\nios\nsystem\n.")), ["os.system('true', 7)"]);
        assert_eq!(names(&found(b"\x80\x02\x82\x07.")), ["copyreg.extension 7"]);
        assert_eq!(found(b"\x80\x02\x82\x07.").verdict(), Verdict::CouldNotTell);
    }

    #[test]
    fn a_pickle_that_breaks_off_is_reported_up_to_there() {
        let scan = found(b"cos\nsystem\n(S'true'\ntR\xff");
        assert_eq!(names(&scan), ["os.system"]);
        assert!(scan.parts[0].error.is_some());
        assert_eq!(scan.verdict(), Verdict::Dangerous);
    }

    #[test]
    fn pickles_behind_and_inside_the_first_are_seen() {
        assert_eq!(names(&found(b"N.cos\nsystem\n.")), ["os.system"]);
        let scan = found(b"\x80\x03ctorch.storage\n_load_from_bytes\nC\x0ccos\nsystem\n.\x85R.");
        assert_eq!(
            scan.parts.iter().map(Part::verdict).collect::<Vec<_>>(),
            [Verdict::Safe, Verdict::Dangerous]
        );
        // Bytes that are not there cannot be looked at.
        let scan = found(b"\x80\x03ctorch.storage\n_load_from_bytes\nN\x85R.");
        assert_eq!(scan.verdict(), Verdict::CouldNotTell);
    }

    #[test]
    fn what_an_object_might_allow_does_not_end_the_scan() {
        let scan = found(b"\x80\x02cmy\nThing\nNacos\nsystem\n(tR.");
        assert_eq!(calls(&scan), ["os.system()"]);
        assert_eq!(calls(&found(b"\x80\x02cmy\nThing\n}b.")), ["my.Thing.__dict__.update(…)"]);
        assert_eq!(found(b"\x80\x02cmy\nThing\n}b.").verdict(), Verdict::Dangerous);
    }

    #[test]
    fn other_files_are_not_called_safe() {
        assert_eq!(scan_bytes(&b"hello"[..]).unwrap_err().kind(), Kind::UnknownFormat);
        assert_eq!(scan_bytes(&b""[..]).unwrap_err().kind(), Kind::Truncated);
    }
}
