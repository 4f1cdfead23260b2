//! Digests of plain files that were hashed before in this process: a run of checkpoints is opened one after the other, with the same base.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::archive::{FileIdentity, identify};
use crate::error::Result;
use crate::source::Source;

/// A file that changed so recently may change again without a trace in its times.
const SETTLED: Duration = Duration::from_secs(2);

/// What tells a version of a file from another.
#[derive(PartialEq, Eq, Hash)]
struct Version {
    path: PathBuf,
    length: u64,
    modified: SystemTime,
    inode: (u64, i64, i64),
}

static KNOWN: LazyLock<Mutex<HashMap<Version, FileIdentity>>> = LazyLock::new(Mutex::default);

/// Length and digest of an opened file.
pub(crate) fn digest_of(path: &Path, source: &Source) -> Result<FileIdentity> {
    let version = version(path);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(identity) = version.as_ref().and_then(|version| known().get(version).copied()) {
        return Ok(identity);
    }
    let identity = identify(source)?;
    if let Some(version) = version.filter(|version| version.length == identity.length) {
        known().insert(version, identity);
    }
    Ok(identity)
}

/// `None` for a file whose times cannot tell.
fn version(path: &Path) -> Option<Version> {
    let metadata = std::fs::metadata(path).ok()?;
    let modified = metadata.modified().ok()?;
    if modified.elapsed().ok()? < SETTLED {
        return None;
    }
    #[cfg(unix)]
    let inode = {
        use std::os::unix::fs::MetadataExt;
        (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
    };
    #[cfg(not(unix))]
    let inode = (0, 0, 0);
    Some(Version { path: path.canonicalize().ok()?, length: metadata.len(), modified, inode })
}
