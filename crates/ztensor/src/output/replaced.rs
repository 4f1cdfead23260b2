//! What a new file takes over from the file it replaces: its mode and, where permitted, its owner; never a set-id bit, which was a
//! decision about the old content. A file that nobody may write to is not replaced at all.

use std::fs::{File, Metadata, OpenOptions};
use std::path::Path;

use crate::error::{Error, Kind, Result};

/// Refuses to replace a write-protected file. That a folder allows it says nothing about the file.
pub(super) fn check(target: &Path, existing: &Metadata) -> Result<()> {
    let refused = |error: Error| {
        error
            .with_path(target)
            .with_hint("Make it writable, remove it, or choose another name; what it holds is unchanged.")
    };
    // The mode is asked as well, because the superuser may open anything.
    if existing.permissions().readonly() {
        return Err(refused(Error::new(Kind::PermissionDenied, "the file is write-protected")));
    }
    match OpenOptions::new().write(true).open(target) {
        Err(cause) if cause.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(refused(Error::io("the file is write-protected", target, cause)))
        }
        _ => Ok(()),
    }
}

/// Gives a new file the mode of an old one, and its owner and group as far as this process may.
#[cfg(unix)]
pub(super) fn take_over(file: &File, existing: &Metadata) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let mine = file.metadata()?;
    if mine.uid() != existing.uid() && fchown(file, Some(existing.uid()), None).is_err() {
        // Only the superuser gives files away; this process then owns what it wrote, as it would any new file.
    }
    let group_kept = mine.gid() == existing.gid() || fchown(file, None, Some(existing.gid())).is_ok();
    let mode = existing.mode() & 0o777;
    // Another group gets no more than everybody had.
    let mode = if group_kept { mode } else { mode & !0o070 | mode & (mode & 0o007) << 3 };
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
pub(super) fn take_over(file: &File, existing: &Metadata) -> std::io::Result<()> {
    file.set_permissions(existing.permissions())
}
