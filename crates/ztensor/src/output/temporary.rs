//! The file that becomes the output when it is complete. On Linux it has no name until then, so that nothing is left behind whatever ends the
//! process. Elsewhere, and on file systems without such files, it has a name of its own in the folder, which an orderly end removes.

use std::fs::File;
use std::io::Result;
use std::path::Path;

use tempfile::{NamedTempFile, TempPath};

/// How a file that is being written is to be found: by its name, or by its descriptor alone.
pub(super) struct Temporary(Option<TempPath>);

impl Temporary {
    /// An empty file in a folder. The process's umask applies, as it would to a file created in the ordinary way.
    pub(super) fn create(folder: &Path) -> Result<(File, Temporary)> {
        #[cfg(target_os = "linux")]
        if let Some(file) = unnamed::create(folder) {
            return Ok((file, Temporary(None)));
        }
        let (file, name) = names().tempfile_in(folder).map(NamedTempFile::into_parts)?;
        Ok((file, Temporary(Some(name))))
    }

    /// Gives the file its name, in the place of what has that name now.
    pub(super) fn persist(self, file: File, target: &Path) -> Result<()> {
        let name = match self.0 {
            Some(name) => name,
            #[cfg(target_os = "linux")]
            None => unnamed::link(&file, super::folder_of(target))?,
            #[cfg(not(target_os = "linux"))]
            None => return Err(std::io::ErrorKind::NotFound.into()),
        };
        drop(file);
        name.persist(target).map_err(|failed| failed.error)
    }

    /// Gives the file its name, unless something has that name already.
    pub(super) fn persist_new(self, file: File, target: &Path) -> Result<()> {
        match self.0 {
            Some(name) => name.persist_noclobber(target).map_err(|failed| failed.error),
            #[cfg(target_os = "linux")]
            None => unnamed::link_new(&file, target),
            #[cfg(not(target_os = "linux"))]
            None => Err(std::io::ErrorKind::NotFound.into()),
        }
    }
}

fn names() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".").suffix(".partial");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder
}

#[cfg(target_os = "linux")]
mod unnamed {
    use std::fs::File;
    use std::io::Result;
    use std::os::fd::AsRawFd;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags};
    use tempfile::TempPath;

    /// A file without a name; `None` where there is no such thing, or no way to name it later.
    pub(super) fn create(folder: &Path) -> Option<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)).ok()?);
        std::fs::symlink_metadata(descriptor(&file)).is_ok().then_some(file)
    }

    /// Names the file. A rename is to follow, because a link cannot replace a file.
    pub(super) fn link(file: &File, folder: &Path) -> Result<TempPath> {
        let made = super::names().make_in(folder, |name| {
            Ok(rustix::fs::linkat(CWD, descriptor(file), CWD, name, AtFlags::SYMLINK_FOLLOW)?)
        });
        made.map(|named| named.into_temp_path())
    }

    /// Names the file, unless the name is taken.
    pub(super) fn link_new(file: &File, target: &Path) -> Result<()> {
        Ok(rustix::fs::linkat(CWD, descriptor(file), CWD, target, AtFlags::SYMLINK_FOLLOW)?)
    }

    fn descriptor(file: &File) -> String {
        format!("/proc/self/fd/{}", file.as_raw_fd())
    }
}
