//! A fixed amount of fuzzing that needs no fuzzer: every committed file, valid or not, is mutated in ways that hit parsers (flipped bits, extreme
//! numbers, cuts, doubled pieces), and each mutant is opened and decoded. Nothing may panic, hang or take memory out of proportion.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use ztensor::{Limits, OpenOptions};

/// Mutants per file.
const MUTANTS: u64 = 300;
/// Larger tensors are not decoded: a header may announce any size.
const LARGEST_TENSOR: u64 = 16 << 20;

/// A small generator, so that every run tries the same mutants.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

fn mutate(original: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..=random.below(3) {
        if bytes.is_empty() {
            break;
        }
        // Structure sits at both ends of model files.
        let span = match random.below(3) {
            0 => bytes.len().min(256),
            _ => bytes.len(),
        };
        let at = if random.below(3) == 0 { bytes.len() - 1 - random.below(span) } else { random.below(span) };
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
            2 => {
                let extreme = [u64::MAX, 1 << 63, 1 << 60, 1 << 32, 0][random.below(5)].to_le_bytes();
                let end = (at + 8).min(bytes.len());
                bytes[at..end].copy_from_slice(&extreme[..end - at]);
            }
            3 => bytes.truncate(at),
            4 => {
                let end = (at + 1 + random.below(32)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let end = (at + 1 + random.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
    bytes
}

fn exercise(bytes: Vec<u8>) {
    let mut limits = Limits::default();
    limits.index_bytes = 256 << 20;
    let options = OpenOptions { limits, ..OpenOptions::default() };
    let Ok(reader) = options.open_bytes(bytes) else { return };
    for (name, object) in reader.objects() {
        if object.decoded_length() <= LARGEST_TENSOR {
            let _ = reader.read_object(name);
        }
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_none_or(|extension| extension != "tsv") {
            found.push(path);
        }
    }
}

#[test]
fn mutants_of_every_committed_file_are_survived() {
    let mut paths = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    files(&root.join("conformance"), &mut paths);
    // What fuzzers found, too.
    files(&root.join("fuzz/seeds"), &mut paths);
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let original = std::fs::read(&path).unwrap();
        let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ original.len() as u64);
        for _ in 0..MUTANTS {
            exercise(mutate(&original, &mut random));
        }
    }
}
