//! The base of an opened delta: that it is the right one, and where its tensors are. What costs little is checked when the delta is opened;
//! the digest of a tensor when it is first used, unless the checksums of a few blocks say enough; all of the base when the original is restored.

use std::sync::Arc;

use super::pieces::Reference;
use super::wrong_base;
use crate::archive::{BaseTensor, FileIdentity, identify};
use crate::error::{Error, Result};
use crate::reader::Reader;

/// An opened base and what the delta says about it.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    reader: Arc<Reader>,
    name: String,
    expected: FileIdentity,
}

impl Base {
    /// Takes a file as the base of a delta, if it has the right length.
    pub(crate) fn new(reader: Arc<Reader>, name: &str, expected: FileIdentity) -> Result<Base> {
        let base = Base { reader, name: name.to_owned(), expected };
        let length: u64 = base.reader.sources().iter().map(|file| file.len()).sum();
        if length != expected.length {
            return Err(base.wrong(&format!("it has {length} bytes")));
        }
        Ok(base)
    }

    /// Bytes of the base.
    pub(crate) fn length(&self) -> u64 {
        self.expected.length
    }

    /// Whether its bytes come over a network.
    pub(crate) fn is_remote(&self) -> bool {
        self.reader.is_remote()
    }

    /// The error for a delta without its base.
    pub(crate) fn missing(name: &str, expected: FileIdentity) -> Error {
        wrong_base(format!("this is a delta, which opens together with its base only: {}", described(name, expected)))
            .with_hint("Name the base: base=... in Python, --base at the shell; or put it beside the delta under its own name.")
    }

    /// Compares all of the base with what the delta was made against.
    pub(crate) fn check_all(&self) -> Result<()> {
        let found = identify(self.reader.sources())?;
        if found.sha256 != self.expected.sha256 {
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

    fn wrong(&self, reason: &str) -> Error {
        let error = wrong_base(format!(
            "wrong base: {reason}, but the delta was made against {}",
            described(&self.name, self.expected)
        ));
        match self.reader.sources().first().and_then(|file| file.path()) {
            Some(path) => error.with_path(path),
            None => error,
        }
    }
}

fn described(name: &str, identity: FileIdentity) -> String {
    let name = if name.is_empty() { "a file".to_owned() } else { format!("\"{name}\"") };
    format!("{name} of {} bytes with sha256 {}", identity.length, identity.digest())
}
