//! Checkpoints that are not files: what a program has in memory, and the files inside an archive.

use std::path::PathBuf;
use std::sync::Arc;

use super::scan::{Found, Scan};
use crate::record::{File, FileKind, check_paths};
use ztensor::{Result, Source};

/// The mode of files that never had one.
const MODE: u32 = 0o644;

/// A checkpoint of these files, each with its path in the checkpoint; `single` if it is one file, not a folder.
pub(crate) fn scan_given(files: Vec<(String, Arc<Source>)>, single: bool) -> Result<Scan> {
    let found = |(path, source): (String, Arc<Source>)| Found {
        place: PathBuf::from(&path),
        kind: FileKind::Regular {
            mode: MODE,
            length: source.len(),
            sha256: [0; 32],
            skeleton: None,
            pieces: Vec::new(),
        },
        path,
        given: Some(source),
    };
    let mut files: Vec<Found> = files.into_iter().map(found).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let shown: Vec<File> =
        files.iter().map(|found| File { path: found.path.clone(), kind: found.kind.clone() }).collect();
    check_paths(&shown, single)?;
    Ok(Scan { single, files })
}
