//! Digests of plain files that were hashed before in this process: a run of checkpoints is opened one after the other, with the same base, and so
//! are the files that were derived from one model.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::archive::{FileIdentity, identify};
use crate::error::Result;
use crate::source::{Source, Version};

static KNOWN: LazyLock<Mutex<HashMap<Version, FileIdentity>>> = LazyLock::new(Mutex::default);

/// Length and digest of an opened file.
pub(crate) fn digest_of(source: &Source) -> Result<FileIdentity> {
    let version = source.version();
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(identity) = version.as_ref().and_then(|version| known().get(version).copied()) {
        return Ok(identity);
    }
    let identity = identify(source)?;
    // A file that was changed meanwhile was not read as any version of it.
    if let Some(version) = version.filter(|version| source.version() == Some(*version)) {
        known().insert(version, identity);
    }
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::source::Io;

    fn write(path: &Path, byte: u8) {
        std::fs::write(path, [byte; 5000]).unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
    }

    #[test]
    fn a_digest_is_remembered_for_the_file_that_was_opened_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("base"), folder.path().join("other"));
        write(&path, 1);
        let opened = Source::open_regular(&path, Io::Auto).unwrap();
        let first = digest_of(&opened).unwrap();
        let version = opened.version().unwrap();
        assert_eq!(KNOWN.lock().unwrap().get(&version), Some(&first));
        // Another file of the same length and time takes its place.
        write(&other, 2);
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(opened.version(), None);
        assert_eq!(digest_of(&opened).unwrap(), first);
        let replaced = Source::open_regular(&path, Io::Auto).unwrap();
        let second = digest_of(&replaced).unwrap();
        assert_eq!(second, identify(&replaced).unwrap());
        assert_ne!(second, first);
        // What was changed a moment ago has no version that is certain.
        std::fs::write(&path, [3; 5000]).unwrap();
        assert_eq!(replaced.version(), None);
        let changed = Source::open_regular(&path, Io::Auto).unwrap();
        assert_eq!(changed.version(), None);
        assert_eq!(digest_of(&changed).unwrap(), identify(&changed).unwrap());
    }
}
