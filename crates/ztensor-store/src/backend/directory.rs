//! A store in a directory: keys are paths. A file is linked to its name when it is complete, which fails if the name is taken; that is all the
//! atomicity a store needs, and NFS has it too.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rayon::prelude::*;

use super::{Backend, Creation, Listed, Reach, Stat, Upload};
use ztensor::{Error, Kind, Output, Result};

/// Objects as files below a folder.
#[derive(Clone, Debug)]
pub struct Directory {
    root: PathBuf,
}

impl Directory {
    /// Storage in a folder, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Directory {
        Directory { root: root.into() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    /// The path of a key whose folders exist.
    fn ready_path(&self, key: &str) -> Result<PathBuf> {
        let path = self.path(key);
        if let Some(folder) = path.parent() {
            make_folders(folder).map_err(|cause| Error::io("cannot make the folder", folder, cause))?;
        }
        Ok(path)
    }

    /// The objects in a folder, and where the reach says so those in all folders below it, which are gone through side by side.
    fn walk(&self, folder: &Path, prefix: &str, reach: Reach) -> Result<Vec<Listed>> {
        let fail = |cause| Error::io("cannot list the folder", folder, cause);
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(cause) if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(cause) => return Err(fail(cause)),
        };
        let (mut found, mut folders) = (Vec::new(), Vec::new());
        for entry in entries {
            let entry = entry.map_err(fail)?;
            // Files under way have names that begin with a dot; pins have a folder of such a name.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                Err(cause) if cause.kind() == ErrorKind::NotFound => continue,
                Err(cause) => return Err(fail(cause)),
            };
            let key = format!("{prefix}{name}");
            if kind.is_dir() {
                if reach == Reach::Tree {
                    folders.push((entry.path(), format!("{key}/")));
                }
            } else if kind.is_file() && !name.starts_with('.') {
                match entry.metadata() {
                    Ok(metadata) => found.push(Listed { key, stat: stat(&metadata) }),
                    Err(cause) if cause.kind() == ErrorKind::NotFound => {}
                    Err(cause) => return Err(fail(cause)),
                }
            }
        }
        let below = folders.par_iter().map(|(folder, prefix)| self.walk(folder, prefix, reach));
        found.extend(below.collect::<Result<Vec<_>>>()?.into_iter().flatten());
        Ok(found)
    }
}

impl Backend for Directory {
    fn describe(&self) -> String {
        format!("\"{}\"", self.root.display())
    }

    fn is_at_hand(&self) -> bool {
        true
    }

    fn put(&self, key: &str) -> Result<Box<dyn Upload + '_>> {
        Ok(Box::new(FileUpload { output: Output::create(&self.ready_path(key)?)?, asked: 0 }))
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Creation> {
        let mut output = Output::create(&self.ready_path(key)?)?;
        output.write(bytes)?;
        Ok(if output.publish_new()? { Creation::Created } else { Creation::Exists })
    }

    fn get(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let path = self.path(key);
        let read = File::open(&path).and_then(|file| read_exact_at(&file, out, offset));
        read.map_err(|cause| Error::io("cannot read", &path, cause))
    }

    fn read(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let path = self.path(key);
        let read = || -> std::io::Result<Option<Vec<u8>>> {
            let mut file = File::open(&path)?;
            if file.metadata()?.len() > most {
                return Ok(None);
            }
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut file, &mut bytes)?;
            Ok(Some(bytes))
        };
        match read() {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) => {
                Err(Error::new(Kind::Limit, format!("the object has more than {most} bytes"))
                    .with_path(&path))
            }
            Err(cause) if is_absent(&cause) => Ok(None),
            Err(cause) => Err(Error::io("cannot read", &path, cause)),
        }
    }

    fn read_all(&self, keys: &[String], most: u64) -> Result<Vec<Option<Vec<u8>>>> {
        keys.par_iter().map(|key| self.read(key, most)).collect()
    }

    fn stat(&self, key: &str) -> Result<Option<Stat>> {
        let path = self.path(key);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() => Ok(Some(stat(&metadata))),
            Ok(_) => Ok(None),
            Err(cause) if is_absent(&cause) => Ok(None),
            Err(cause) => Err(Error::io("cannot examine", &path, cause)),
        }
    }

    fn list(&self, prefix: &str, reach: Reach) -> Result<Vec<Listed>> {
        self.walk(&self.path(prefix), prefix, reach)
    }

    fn delete(&self, key: &str) -> Result<()> {
        let path = self.path(key);
        match fs::remove_file(&path) {
            Err(cause) if !is_absent(&cause) => Err(Error::io("cannot delete", &path, cause)),
            _ => Ok(()),
        }
    }
}

/// Bytes after which what was written begins to go to the disk: it is written while what follows is being encoded.
const AHEAD: u64 = 16 << 20;

struct FileUpload {
    output: Output,
    /// How far the file was when that was asked for last.
    asked: u64,
}

impl Upload for FileUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.write(bytes)?;
        if self.output.position() - self.asked >= AHEAD {
            self.asked = self.output.position();
            self.output.sync_ahead()?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        match self.output.publish_new()? {
            true => Ok(()),
            false => Err(Error::new(Kind::Conflict, "a random key is taken: the random numbers repeat")),
        }
    }
}

fn stat(metadata: &fs::Metadata) -> Stat {
    let written = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Stat { length: metadata.len(), written: written.unwrap_or(Duration::ZERO) }
}

fn is_absent(cause: &std::io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Makes folders so that they outlast a crash of the machine.
fn make_folders(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let Some(above) = folder.parent().filter(|above| !above.as_os_str().is_empty()) else {
        return fs::create_dir_all(folder);
    };
    make_folders(above)?;
    match fs::create_dir(folder) {
        Err(cause) if cause.kind() != ErrorKind::AlreadyExists => return Err(cause),
        _ => {}
    }
    #[cfg(unix)]
    File::open(above)?.sync_all()?;
    Ok(())
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(not(unix))]
fn read_exact_at(mut file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(buffer)
}
