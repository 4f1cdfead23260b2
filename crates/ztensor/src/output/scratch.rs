//! A copy of bytes that come once and in order, for readers that want ranges of them: in memory while it is small, then in a file without a
//! name, which is gone with the process whatever ends it.

use std::io::Write;
use std::path::Path;

use tempfile::{SpooledData, SpooledTempFile};

use crate::error::{Error, Result};
use crate::source::Source;

/// Bytes that are kept in memory. A file costs a few system calls; a buffer that grows further is copied again and again.
const IN_MEMORY: usize = 32 << 20;

/// A temporary copy that is being written.
pub struct Scratch {
    bytes: SpooledTempFile,
    length: u64,
}

impl Scratch {
    /// An empty one; its file, if it needs one, lies in the system's folder for temporary files.
    #[allow(clippy::new_without_default, reason = "there is nothing default about it")]
    pub fn new() -> Scratch {
        Scratch { bytes: SpooledTempFile::new(IN_MEMORY), length: 0 }
    }

    /// Bytes so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes some bytes behind those that are there.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.write_all(bytes).map_err(failed)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// The copy, to be read; `location` is where it came from and stands for it in messages.
    pub fn into_source(self, location: &str) -> Result<Source> {
        let path = Path::new(location);
        match self.bytes.into_inner() {
            SpooledData::InMemory(bytes) => Ok(Source::from_bytes(bytes.into_inner()).called(path)),
            SpooledData::OnDisk(file) => Source::of_scratch(file, path),
        }
    }
}

fn failed(cause: std::io::Error) -> Error {
    Error::io("cannot write the temporary copy", &std::env::temp_dir(), cause)
        .with_hint("Set TMPDIR to a folder with more room, or download the file.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_copies_stay_in_memory_and_large_ones_are_files() {
        for (length, addressed) in [(0, true), (1000, true), (IN_MEMORY + 5, true)] {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + i / 251) as u8).collect();
            let mut scratch = Scratch::new();
            for piece in bytes.chunks(300_001) {
                scratch.write(piece).unwrap();
            }
            assert_eq!(scratch.length(), length as u64);
            let source = scratch.into_source("http://host/m.zt").unwrap();
            assert_eq!(source.path(), Some(Path::new("http://host/m.zt")));
            assert_eq!(source.is_addressable(), addressed);
            assert!(!source.is_remote());
            assert_eq!(source.map_address().is_some(), length > IN_MEMORY);
            assert_eq!(source.bytes(0, source.len()).unwrap(), bytes);
        }
    }
}
