//! Files of `conformance/` that tests make byte by byte: what is stored there must be what the code makes.

use std::path::Path;

/// Checks that a folder below `conformance/` holds these files, given by name and bytes, and no others. With the environment variable
/// `ZTENSOR_WRITE_CORPUS` set, missing files are written.
pub fn assert_stored<'a>(folder: &str, files: impl ExactSizeIterator<Item = (String, &'a [u8])>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance").join(folder);
    let write = std::env::var_os("ZTENSOR_WRITE_CORPUS").is_some();
    if write {
        std::fs::create_dir_all(&folder).unwrap();
    }
    let known = files.len();
    for (name, bytes) in files {
        let path = folder.join(name);
        if write && !path.exists() {
            std::fs::write(&path, bytes).unwrap();
        }
        let found = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(found == bytes, "{} differs", path.display());
    }
    // The table of what is wrong with files that are refused is not one of them.
    let found =
        folder.read_dir().unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != "expected.tsv");
    assert_eq!(found.count(), known, "files nobody knows in {}", folder.display());
}
