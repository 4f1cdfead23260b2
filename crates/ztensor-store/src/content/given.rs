//! Checkpoints that are not files: what a program has in memory, and the files inside an archive.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::scan::{Found, Scan};
use crate::record::{File, FileKind, check_paths};
use ztensor::source::url_file_name;
use ztensor::{Io, Result, Source};

/// The mode of files that never had one.
const MODE: u32 = 0o644;

/// A checkpoint that is to be added.
pub(crate) struct Given {
    /// Its files, each with its path in the checkpoint.
    pub files: Vec<(String, Arc<Source>)>,
    /// The modes of those that have one of their own.
    pub modes: HashMap<String, u32>,
    /// Its folders and links.
    pub others: Vec<(String, FileKind)>,
    /// Whether it is one file, not a folder.
    pub single: bool,
}

impl Given {
    /// The one file that a URL leads to.
    pub(crate) fn of_url(url: &Path) -> Result<Given> {
        let name = url_file_name(url).to_string_lossy().into_owned();
        let files = vec![(name, Arc::new(Source::open(url, Io::Auto)?))];
        Ok(Given { files, modes: HashMap::new(), others: Vec::new(), single: true })
    }

    /// What the checkpoint is made of. Paths are checked as those of files are: an archive may come from anywhere.
    pub(crate) fn scan(self) -> Result<Scan> {
        let modes = self.modes;
        let file = |(path, source): (String, Arc<Source>)| Found {
            place: PathBuf::from(&path),
            kind: FileKind::Regular {
                mode: modes.get(&path).copied().unwrap_or(MODE),
                length: source.len(),
                sha256: None,
                skeleton: None,
                pieces: Vec::new(),
            },
            path,
            given: Some(source),
        };
        let mut files: Vec<Found> = self.files.into_iter().map(file).collect();
        let other =
            |(path, kind): (String, FileKind)| Found { place: PathBuf::from(&path), path, kind, given: None };
        files.extend(self.others.into_iter().map(other));
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let shown: Vec<File> =
            files.iter().map(|found| File { path: found.path.clone(), kind: found.kind.clone() }).collect();
        check_paths(&shown, self.single)?;
        Ok(Scan { single: self.single, files })
    }
}
