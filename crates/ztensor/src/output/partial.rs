//! Files that come in pieces over a long time, such as downloads: what is there stays when the process ends, and the next one goes on behind it.
//! Such a file has a name of its own until it is complete and gets its final one in one step.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use super::owner::Owner;
use super::{disk, is_at, sync_folder, temporary, write_error};
use crate::error::{Error, Kind, Result};

/// A file that is not complete yet. Dropped, it stays for the next process to go on with.
pub struct Partial {
    file: File,
    path: PathBuf,
    length: u64,
    owner: Owner,
}

impl Partial {
    /// Opens what is there under this name, or begins a new file; its folder is made if there is none. One process at a time has it.
    pub fn open(path: &Path) -> Result<Partial> {
        let fail = |cause| Error::io("cannot open the incomplete file", path, cause);
        let busy = || {
            Error::new(Kind::Io, "another process is writing this file")
                .with_path(path)
                .with_hint("Wait until it is done, and try again.")
        };
        std::fs::create_dir_all(super::folder_of(path)).map_err(fail)?;
        /// Another process may give the file its final name between our opening and locking it: then there is none of this name.
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
            let file = opened.map_err(fail)?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Err(busy()),
                // File systems without locks have to do without.
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
            if is_at(&file, path) {
                let length = file.metadata().map_err(fail)?.len();
                return Ok(Partial { file, path: path.to_path_buf(), length, owner: Owner::current() });
            }
        }
        Err(busy())
    }

    /// Bytes that are there.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Reads bytes that are there.
    pub fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        crate::source::read_exact_at(&self.file, buffer, offset)
            .map_err(|cause| Error::io("cannot read back", &self.path, cause))
    }

    /// Adds bytes at the end.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.owner.check()?;
        disk::write_at(&self.file, bytes, self.length).map_err(|cause| write_error(&self.path, cause))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Begins anew.
    pub fn clear(&mut self) -> Result<()> {
        self.owner.check()?;
        disk::set_len(&self.file, 0).map_err(|cause| write_error(&self.path, cause))?;
        self.length = 0;
        Ok(())
    }

    /// Removes it.
    pub fn remove(self) -> Result<()> {
        self.owner.check()?;
        disk::remove(&self.path).map_err(|cause| Error::io("cannot remove", &self.path, cause))
    }

    /// Gives the complete file its final name, in the same file system, in the place of what has that name now. Its bytes have reached the disk then.
    pub fn publish(self, target: &Path) -> Result<()> {
        self.owner.check()?;
        disk::sync(&self.file).map_err(|cause| write_error(&self.path, cause))?;
        disk::rename(&self.path, target)
            .map_err(|cause| Error::io("cannot put the file in place", target, cause))?;
        sync_folder(target)
    }
}

/// Makes a name for a file: a symbolic link with this relative target where there are such links, a copy elsewhere. What had the name is replaced in
/// one step; the folder is made if there is none.
pub fn name_file(name: &Path, target: &Path) -> Result<()> {
    let fail = |cause| Error::io("cannot make the link", name, cause);
    std::fs::create_dir_all(super::folder_of(name)).map_err(fail)?;
    if cfg!(unix) {
        if std::fs::read_link(name).is_ok_and(|old| old == target) {
            return Ok(());
        }
        let ((), fresh) = temporary::named(name, |fresh| symlink(target, fresh)).map_err(fail)?;
        return disk::rename(&fresh, name).map_err(fail);
    }
    let original = File::open(super::folder_of(name).join(target)).map_err(fail)?;
    let length = original.metadata().map_err(fail)?.len();
    let mut copy = super::Output::create(name)?;
    copy.copy_from(&original, 0, length, &mut |_| Ok(()))?;
    copy.publish(false)
}

#[cfg(unix)]
fn symlink(target: &Path, name: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, name)
}

#[cfg(not(unix))]
fn symlink(_target: &Path, _name: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_file_goes_on_where_it_was_and_gets_its_name_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("new/x.incomplete"), folder.path().join("new/x"));
        let mut first = Partial::open(&path).unwrap();
        first.append(b"one ").unwrap();
        assert_eq!(Partial::open(&path).err().map(|error| error.kind()), Some(Kind::Io));
        drop(first);
        let mut second = Partial::open(&path).unwrap();
        let mut here = [0; 4];
        second.read_into(0, &mut here).unwrap();
        assert_eq!((second.length(), &here), (4, b"one "));
        second.append(b"two").unwrap();
        second.publish(&target).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"one two");
        assert!(!path.exists());
        let mut third = Partial::open(&path).unwrap();
        third.append(b"x").unwrap();
        third.clear().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        third.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_name_is_made_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        for content in ["old", "new"] {
            std::fs::write(folder.path().join(content), content).unwrap();
            let name = folder.path().join("deep/name");
            for _ in 0..2 {
                name_file(&name, &Path::new("..").join(content)).unwrap();
                assert_eq!(std::fs::read_to_string(&name).unwrap(), content);
            }
            assert_eq!(std::fs::read_dir(folder.path().join("deep")).unwrap().count(), 1);
        }
    }
}
