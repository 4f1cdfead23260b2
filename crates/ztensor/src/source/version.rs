//! What tells one version of a file from another without reading it.

use std::fs::Metadata;
use std::time::{Duration, SystemTime};

use super::Source;

/// A file that changed so recently may change again without a trace in its times.
const SETTLED: Duration = Duration::from_secs(2);

/// The length, the place and the times of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    length: u64,
    modified: SystemTime,
    /// Device, inode and the time of its last change; of a system without them, when the file was made.
    place: (u64, u64, i64, i64),
}

impl Version {
    pub(super) fn of(metadata: &Metadata) -> Option<Version> {
        let modified = metadata.modified().ok()?;
        #[cfg(unix)]
        let place = {
            use std::os::unix::fs::MetadataExt;
            (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
        };
        #[cfg(not(unix))]
        let place = {
            let made = metadata.created().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            (0, 0, i64::try_from(made.as_secs()).ok()?, i64::from(made.subsec_nanos()))
        };
        Some(Version { length: metadata.len(), modified, place })
    }
}

impl Source {
    /// The version of the file that its bytes are those of. `None` where that is not certain: for other bytes than a file's, where another file
    /// has taken its place or it was changed since it was opened, or so recently that its times cannot tell.
    pub(crate) fn version(&self) -> Option<Version> {
        let opened = self.version?;
        let now = Version::of(&std::fs::metadata(self.path.as_ref()?).ok()?)?;
        let is_settled = now.modified.elapsed().ok()? >= SETTLED;
        (now == opened && is_settled && now.length == self.length).then_some(now)
    }
}
