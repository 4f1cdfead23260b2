//! Files written by released versions, never regenerated: `conformance/versions/<version>/` with the digests of every tensor's bytes beside them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use sha2::{Digest, Sha256};
use ztensor::Reader;

#[test]
fn files_of_every_released_version_still_read_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/versions");
    let mut checked = 0;
    for version in root.read_dir().unwrap() {
        let folder = version.unwrap().path();
        for line in std::fs::read_to_string(folder.join("digests.tsv")).unwrap().lines() {
            let [file, name, role, digest] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let reader = Reader::open(folder.join(file)).unwrap();
            let bytes = reader.component_bytes(name, role).unwrap();
            let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(found, digest, "{file}: {name}/{role}");
            checked += 1;
        }
    }
    assert!(checked > 40);
}
