//! Every change that this library makes to a disk: writes, cuts, syncs, links, renames and removals, as thin functions. They are in one
//! place so that tests can record them and replay each state that a crash of the machine may leave behind (`crash.rs`).

use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

#[cfg(all(test, target_os = "linux"))]
use super::record::{self, Change};

/// Writes at the cursor: pipes and devices, which have no positions.
pub(super) fn write(mut file: &File, bytes: &[u8]) -> Result<()> {
    file.write_all(bytes)
}

/// Writes at a position. The cursor plays no part: forked processes share it.
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> Result<()> {
    #[cfg(all(test, target_os = "linux"))]
    let bytes = record::change(Change::Write { file, offset, bytes })?.unwrap_or_default();
    #[cfg(unix)]
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)?;
    #[cfg(not(unix))]
    {
        use std::io::{Seek, SeekFrom};
        let mut file = file;
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)?;
    }
    #[cfg(all(test, target_os = "linux"))]
    record::torn()?;
    Ok(())
}

/// Copies a part of another file to a position.
pub(super) fn copy_at(mut file: &File, part: &mut std::io::Take<&File>, offset: u64) -> Result<u64> {
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    std::io::copy(part, &mut file)
}

/// Makes a file longer or shorter.
pub(crate) fn set_len(file: &File, length: u64) -> Result<()> {
    #[cfg(all(test, target_os = "linux"))]
    record::change(Change::SetLen { file, length })?;
    file.set_len(length)
}

/// Waits until a file's bytes and length are on the disk.
pub(crate) fn sync(file: &File) -> Result<()> {
    #[cfg(all(test, target_os = "linux"))]
    if record::change(Change::Sync { file })?.is_none() {
        return Ok(());
    }
    file.sync_data()
}

/// Waits until the names in a folder are on the disk.
#[cfg(unix)]
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    #[cfg(all(test, target_os = "linux"))]
    if record::change(Change::SyncFolder)?.is_none() {
        return Ok(());
    }
    File::open(folder)?.sync_all()
}

/// Gives a file without a name one. Fails where there is something of that name.
#[cfg(target_os = "linux")]
pub(super) fn link(file: &File, path: &Path) -> Result<()> {
    use rustix::fs::{AtFlags, CWD};
    #[cfg(all(test, target_os = "linux"))]
    record::change(Change::Link { file, path })?;
    let descriptor = super::temporary::descriptor(file);
    Ok(rustix::fs::linkat(CWD, descriptor, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// Renames a file, in the place of what has that name now.
pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    #[cfg(all(test, target_os = "linux"))]
    record::change(Change::Rename { from, to })?;
    std::fs::rename(from, to)
}

/// Removes a file.
pub(super) fn remove(path: &Path) -> Result<()> {
    #[cfg(all(test, target_os = "linux"))]
    record::change(Change::Remove { path })?;
    std::fs::remove_file(path)
}
