//! Walks `conformance/`: every file under `valid/<format>/` opens and decodes; every file under `reject/<format>/`, each named after the
//! rule it breaks, gives an error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use ztensor::Reader;

fn files(kind: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance").join(kind);
    let mut found = Vec::new();
    for format in root.read_dir().expect("the corpus is part of the repository") {
        let folder = format.unwrap().path();
        found.extend(folder.read_dir().unwrap().map(|entry| entry.unwrap().path()));
    }
    assert!(!found.is_empty(), "no files under {}", root.display());
    found.sort();
    found
}

/// Opens a file and decodes all of it.
fn read(path: &Path) -> ztensor::Result<()> {
    let reader = Reader::open(path)?;
    match reader.verify_all().into_iter().next() {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

#[test]
fn valid_files_open_and_verify() {
    for path in files("valid") {
        if let Err(error) = read(&path) {
            panic!("{}: {error}", path.display());
        }
    }
}

#[test]
fn files_that_break_a_rule_are_refused() {
    for path in files("reject") {
        assert!(read(&path).is_err(), "{} was read without an error", path.display());
    }
}
