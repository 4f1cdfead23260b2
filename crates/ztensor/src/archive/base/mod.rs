//! The base of an opened delta: that it is the right one, and where its tensors are. What costs little is checked when the delta is opened;
//! the digest of a tensor when it is first used, unless the checksums of a few blocks say enough; all of the base when the original is restored.

mod known;
mod pieces;
mod search;

pub(crate) use known::digest_of;
pub use search::Candidate;
pub(crate) use search::Search;

use std::sync::Arc;

use crate::archive::{BaseDescription, BaseTensor, FileIdentity, NamedFile, Original};
use crate::error::{Error, Hints, Kind, Result};
use crate::reader::Reader;
use pieces::Reference;

/// An opened base and what the delta says about it.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    reader: Arc<Reader>,
    expected: BaseDescription,
    /// Whether the digest of all of it was found right.
    is_checked: bool,
}

impl Base {
    const HINTS: Hints = Hints::new(
        "Name it, or a folder where it lies, in `OpenOptions::bases`, or put it beside the delta; an archive of it, or a delta that restores it, serves as well.",
        "Name it, or a folder where it lies: base=..., or put it beside the delta; an archive of it, or a delta that restores it, serves as well.",
        "Name it, or a folder where it lies, with --base, or put it beside the delta; an archive of it, or a delta that restores it, serves as well.",
    );

    /// Takes a model as the base of a delta, if it has the right length.
    pub(crate) fn new(reader: Arc<Reader>, expected: &BaseDescription, is_checked: bool) -> Result<Base> {
        let base = Base { reader, expected: expected.clone(), is_checked };
        let length = Original::of_base(&base.reader)?.length();
        if length != expected.identity.length {
            return Err(base.wrong(&format!("it has {length} bytes")));
        }
        Ok(base)
    }

    /// Bytes of the base.
    pub(crate) fn length(&self) -> u64 {
        self.expected.identity.length
    }

    /// Whether its bytes come over a network.
    pub(crate) fn is_remote(&self) -> bool {
        self.reader.is_remote()
    }

    /// The opened base.
    pub(crate) fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// The error for a delta without a file of its base.
    pub(super) fn missing(base: &BaseDescription, file: &NamedFile) -> Error {
        let what = match base.files.len() {
            0 => "the base of this delta is missing".to_owned(),
            count => format!("one of the {count} files of the base of this delta is missing"),
        };
        wrong_base(format!("{what}: {}", described(&file.name, file.identity))).with_hints(Base::HINTS)
    }

    /// Compares all of the base with what the delta was made against.
    pub(crate) fn check_all(&self) -> Result<()> {
        if self.is_checked {
            return Ok(());
        }
        let (found, _) = Original::of_base(&self.reader)?.identify()?;
        if found.sha256 != self.expected.identity.sha256 {
            return Err(self.wrong(&format!("its sha256 is {}", found.digest())));
        }
        Ok(())
    }

    /// A tensor that pieces of the delta refer to; it must be there and have the right length.
    pub(crate) fn tensor(&self, tensor: &BaseTensor, length: u64) -> Result<Reference> {
        let found = self.reader.index().objects.get(&tensor.name);
        let found = found.and_then(|object| object.component(&tensor.role));
        match found {
            Some(component) if component.length == length => {
                Ok(Reference::new(Arc::clone(&self.reader), tensor.clone(), length))
            }
            Some(component) => Err(self.wrong(&format!(
                "its tensor \"{}\" has {} bytes, not {length}",
                tensor.name, component.length
            ))),
            None => Err(self.wrong(&format!("it has no tensor \"{}\"", tensor.name))),
        }
    }

    /// A tensor that a recipe is applied to; it must be there.
    pub(crate) fn operand(&self, tensor: &BaseTensor) -> Result<(Arc<Reader>, u64)> {
        let found = self.reader.index().objects.get(&tensor.name);
        match found.and_then(|object| object.component(&tensor.role)) {
            Some(component) => Ok((Arc::clone(&self.reader), component.length)),
            None => Err(self.wrong(&format!("it has no tensor \"{}\"", tensor.name))),
        }
    }

    fn wrong(&self, reason: &str) -> Error {
        let error = wrong_base(format!(
            "wrong base: {reason}, but the delta was made against {}",
            described(&self.expected.name, self.expected.identity)
        ));
        match self.reader.sources().first().and_then(|file| file.path()) {
            Some(path) => error.with_path(path),
            None => error,
        }
    }
}

/// A file as people look for it: by name, length and digest.
pub(super) fn described(name: &str, identity: FileIdentity) -> String {
    let name = if name.is_empty() { "a file".to_owned() } else { format!("\"{name}\"") };
    format!("{name} of {} bytes with sha256 {}", identity.length, identity.digest())
}

pub(crate) fn wrong_base(message: impl Into<String>) -> Error {
    Error::new(Kind::WrongBase, message)
}
