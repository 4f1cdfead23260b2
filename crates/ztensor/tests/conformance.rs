//! Walks `conformance/`: every file under `valid/<format>/` opens and decodes; every file under `reject/<format>/`, each named after the rule it breaks, gives the error that the folder's
//! `expected.tsv` says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ztensor::Reader;

/// The files of a folder, but for the table of what they are.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let paths = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = paths.filter(|path| !path.ends_with(EXPECTED)).collect();
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/valid");
    let mut count = 0;
    for format in root.read_dir().expect("the corpus is part of the repository") {
        for path in files_of(&format.unwrap().path()) {
            if let Err(error) = read(&path) {
                panic!("{}: {error}", path.display());
            }
            count += 1;
        }
    }
    assert!(count > 0, "no files under {}", root.display());
}

/// The table beside the files of a format under `reject/`: each file's name, the kind of its error, and a part of the message that names the rule.
const EXPECTED: &str = "expected.tsv";

#[test]
fn files_that_break_a_rule_are_refused_for_that_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/reject");
    let mut wrong = Vec::new();
    for format in root.read_dir().expect("the corpus is part of the repository") {
        let folder = format.unwrap().path();
        // Frames of the codec are no files of ours to open; its own tests read them.
        if folder.ends_with("z4ai") {
            continue;
        }
        let table = std::fs::read_to_string(folder.join(EXPECTED)).unwrap_or_default();
        let mut rows = BTreeMap::new();
        for line in table.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [name, kind, fragment] = fields[..] else { panic!("{}: {line:?}", folder.display()) };
            assert!(
                !fragment.is_empty() && rows.insert(name.to_owned(), (kind, fragment)).is_none(),
                "{line:?}"
            );
        }
        for path in files_of(&folder) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let row = rows.remove(name);
            let found = match read(&path) {
                Ok(()) => "was read without an error".to_owned(),
                Err(error)
                    if row.is_some_and(|(kind, fragment)| {
                        kind == error.kind().name() && error.message().contains(fragment)
                    }) =>
                {
                    continue;
                }
                Err(error) => format!("gives\n{name}\t{}\t{}", error.kind().name(), error.message()),
            };
            wrong.push(match row {
                Some((kind, fragment)) => {
                    format!("{name} should be refused ({kind}: {fragment}), but {found}")
                }
                None => format!("{name} has no row in {EXPECTED}; it {found}"),
            });
        }
        wrong.extend(rows.into_keys().map(|name| format!("{name} has a row, but there is no such file")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
