//! Bases are found by what they hold: under any name, in archives and deltas, in given files and folders; and what is missing is named.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "shared/models.rs"]
mod models;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use models::{safetensors, sharded, trained, weights, write};
use ztensor::archive::{ArchiveOptions, archive, describe, restore, verify};
use ztensor::delta::{Candidate, apply, lineage, make, rebase};
use ztensor::{Kind, OpenOptions, Reader};

fn quiet(_: u64) -> ztensor::Result<()> {
    Ok(())
}

fn options() -> ArchiveOptions {
    ArchiveOptions::default()
}

fn delta(target: &Path, base: &Path, output: &Path) {
    let base = Arc::new(Reader::open(base).unwrap());
    let stats = make(target, &[base], output, &options(), &mut quiet).unwrap();
    assert!(stats.deltas > 0);
}

fn open_with(path: &Path, bases: &[&Path]) -> ztensor::Result<Reader> {
    let bases = bases.iter().map(|path| Candidate::from(*path)).collect();
    OpenOptions { bases, ..OpenOptions::default() }.open(path)
}

/// A run of checkpoints, each a delta of the one before, the first in an archive; the originals are elsewhere.
struct Run {
    folder: tempfile::TempDir,
    originals: tempfile::TempDir,
    steps: Vec<Vec<f32>>,
}

impl Run {
    fn new() -> Run {
        let (folder, originals) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut steps = vec![weights(20_000, 5)];
        for number in 0..3 {
            steps.push(trained(&steps[number]));
        }
        for (number, step) in steps.iter().enumerate() {
            write(originals.path(), &format!("step-{number}.safetensors"), safetensors(&[("w", step)]));
        }
        let run = Run { folder, originals, steps };
        archive(&run.original(0), &run.link(0), &options(), &mut quiet).unwrap();
        for number in 1..4 {
            delta(&run.original(number), &run.original(number - 1), &run.link(number));
        }
        run
    }

    fn original(&self, number: usize) -> PathBuf {
        self.originals.path().join(format!("step-{number}.safetensors"))
    }

    fn link(&self, number: usize) -> PathBuf {
        let extension = if number == 0 { "safetensors.zstn" } else { "z4dm" };
        self.folder.path().join(format!("step-{number}.{extension}"))
    }
}

#[test]
fn a_chain_opens_through_deltas_and_archives_once_the_originals_are_gone() {
    let run = Run::new();
    for number in 0..4 {
        let reader = Reader::open(run.link(number)).unwrap();
        assert_eq!(reader.read_as::<f32>("w").unwrap(), run.steps[number]);
        let out = run.folder.path().join("out");
        restore(&run.link(number), &out, &mut quiet).unwrap();
        assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(run.original(number)).unwrap());
        std::fs::remove_file(&out).unwrap();
        verify(&run.link(number)).unwrap();
    }
    // Names do not matter.
    std::fs::rename(run.link(0), run.folder.path().join("zero")).unwrap();
    std::fs::rename(run.link(1), run.folder.path().join("one.bin")).unwrap();
    assert_eq!(Reader::open(run.link(3)).unwrap().read_as::<f32>("w").unwrap(), run.steps[3]);
}

#[test]
fn given_files_and_folders_serve_in_any_order() {
    let run = Run::new();
    let apart = tempfile::tempdir().unwrap();
    let last = apart.path().join("last.z4dm");
    std::fs::rename(run.link(3), &last).unwrap();
    let [first, second, third] = [run.link(0), run.link(1), run.link(2)];
    for bases in [
        vec![&*first, &*second, &*third],
        vec![&*third, &*second, &*first],
        vec![run.folder.path()],
        vec![run.originals.path()],
        vec![&*run.original(2)],
        vec![&*run.original(0), &*third, &*second],
    ] {
        let reader = open_with(&last, &bases).unwrap();
        assert_eq!(reader.read_as::<f32>("w").unwrap(), run.steps[3], "{bases:?}");
    }
}

#[test]
fn a_missing_link_is_named_with_its_length_and_digest() {
    let run = Run::new();
    std::fs::remove_file(run.link(1)).unwrap();
    let error = Reader::open(run.link(3)).unwrap_err();
    assert_eq!(error.kind(), Kind::WrongBase);
    assert_eq!(error.path(), Some(&*run.link(2)));
    let wanted = ztensor::archive::digest(&run.original(1)).unwrap();
    let length = std::fs::metadata(run.original(1)).unwrap().len();
    for part in ["missing", "step-1.safetensors", &length.to_string(), &wanted] {
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn a_file_of_the_right_name_and_length_is_not_enough() {
    let folder = tempfile::tempdir().unwrap();
    let first = weights(20_000, 5);
    let base = write(folder.path(), "base.safetensors", safetensors(&[("w", &first)]));
    let target = write(folder.path(), "tuned.safetensors", safetensors(&[("w", &trained(&first))]));
    let packed = folder.path().join("tuned.z4dm");
    delta(&target, &base, &packed);
    std::fs::remove_file(&target).unwrap();
    write(folder.path(), "base.safetensors", safetensors(&[("w", &weights(20_000, 6))]));
    let error = Reader::open(&packed).unwrap_err();
    assert_eq!(error.kind(), Kind::WrongBase);
    assert!(error.message().contains("another file") && !error.message().contains("damaged"), "{error}");
    // Nor is one that was given, which is checked where it is used.
    let lazily = open_with(&packed, &[&base]).unwrap();
    assert_eq!(lazily.bytes("w").unwrap_err().kind(), Kind::WrongBase);
    let out = folder.path().join("out");
    let error = apply(&packed, &[base.as_path().into()], &out, &mut quiet).unwrap_err();
    assert_eq!(error.kind(), Kind::WrongBase);
    let error = OpenOptions { bases: vec![base.as_path().into()], ..OpenOptions::default() }
        .verify_archive(&packed)
        .unwrap_err();
    assert_eq!(error.kind(), Kind::WrongBase, "{error}");
    assert!(!out.exists());
    // What was given must be of use, even where the right one lies beside the delta.
    write(folder.path(), "renamed", safetensors(&[("w", &first)]));
    let other = write(folder.path(), "other/x.safetensors", safetensors(&[("x", &first)]));
    assert_eq!(open_with(&packed, &[&other]).unwrap_err().kind(), Kind::WrongBase);
    assert_eq!(Reader::open(&packed).unwrap().len(), 1);
}

#[test]
fn deltas_that_are_each_others_bases_end() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (weights(20_000, 5), trained(&weights(20_000, 5)));
    let first = write(folder.path(), "first", safetensors(&[("w", &one)]));
    let second = write(folder.path(), "second", safetensors(&[("w", &two)]));
    let (a, b) = (folder.path().join("a.z4dm"), folder.path().join("b.z4dm"));
    delta(&first, &second, &a);
    delta(&second, &first, &b);
    std::fs::remove_file(&first).unwrap();
    std::fs::remove_file(&second).unwrap();
    assert_eq!(Reader::open(&a).unwrap_err().kind(), Kind::WrongBase);
    assert!(lineage(folder.path(), &[]).unwrap().iter().any(|link| link.base.is_none()));
}

#[test]
fn a_model_that_did_not_change_is_a_delta_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = safetensors(&[("w", &weights(20_000, 5))]);
    let (one, two) = (write(folder.path(), "one", &bytes), write(folder.path(), "two", &bytes));
    let packed = folder.path().join("two.z4dm");
    let base = Arc::new(Reader::open(&one).unwrap());
    assert_eq!(make(&two, &[base], &packed, &options(), &mut quiet).unwrap().copied, 1);
    std::fs::remove_file(&two).unwrap();
    assert_eq!(Reader::open(&packed).unwrap().len(), 1);
    // Without the base it cannot stand for it.
    std::fs::remove_file(&one).unwrap();
    assert_eq!(Reader::open(&packed).unwrap_err().kind(), Kind::WrongBase);
}

#[test]
fn the_lineage_of_a_folder_is_a_tree_and_links_can_be_dropped() {
    let run = Run::new();
    let links = lineage(run.folder.path(), &[]).unwrap();
    let bases: Vec<Option<usize>> = links.iter().map(|link| link.base).collect();
    assert_eq!(bases, [None, Some(0), Some(1), Some(2)]);
    let onto_grandparent = run.folder.path().join("new.z4dm");
    rebase(&run.link(3), None, &[], &onto_grandparent, &options(), &mut quiet).unwrap();
    let (before, after) = (describe(&run.link(3)).unwrap(), describe(&onto_grandparent).unwrap());
    assert_eq!((before.sha256, before.length), (after.sha256, after.length));
    assert_eq!(after.bases.first().unwrap().sha256, ztensor::archive::digest(&run.original(1)).unwrap());
    std::fs::remove_file(run.link(2)).unwrap();
    assert_eq!(Reader::open(&onto_grandparent).unwrap().read_as::<f32>("w").unwrap(), run.steps[3]);
    assert!(Reader::open(run.link(3)).is_err());
    let error = rebase(&run.link(1), None, &[], &run.folder.path().join("no"), &options(), &mut quiet);
    assert_eq!(error.unwrap_err().kind(), Kind::WrongBase);
    assert!(!run.folder.path().join("no").exists());
}

#[test]
fn sharded_models_have_deltas_and_archives() {
    let (base, tuned) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [a, b, c] = [weights(9000, 1), weights(3000, 2), weights(5000, 3)];
    sharded(base.path(), [&a, &b, &c]);
    let index = sharded(tuned.path(), [&trained(&a), &b, &trained(&c)]);
    let work = tempfile::tempdir().unwrap();
    let packed = work.path().join("tuned.z4dm");
    // A folder stands for the model in it.
    delta(tuned.path(), base.path(), &packed);
    let archived = work.path().join("tuned.zstn");
    archive(&index, &archived, &options(), &mut quiet).unwrap();
    assert!(std::fs::metadata(&packed).unwrap().len() * 2 < std::fs::metadata(&archived).unwrap().len());
    let info = describe(&packed).unwrap();
    let names: Vec<&str> = info.files.iter().map(|file| file.name.as_str()).collect();
    let shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    assert_eq!(names, ["model.safetensors.index.json", shards[0], shards[1]]);
    assert_eq!(info.bases.first().unwrap().files.len(), 2);

    let check = |reader: &Reader| {
        assert_eq!(reader.len(), 3);
        assert_eq!(reader.read_as::<f32>("a").unwrap(), trained(&a));
        assert_eq!(reader.read_as::<f32>("b").unwrap(), b);
        assert_eq!(reader.read_as::<f32>("c").unwrap(), trained(&c));
    };
    check(&Reader::open(&archived).unwrap());
    check(&open_with(&packed, &[base.path()]).unwrap());
    check(&open_with(&packed, &[&base.path().join("model.safetensors.index.json")]).unwrap());
    let out = work.path().join("out");
    apply(&packed, &[base.path().into()], &out, &mut quiet).unwrap();
    for name in names {
        assert_eq!(std::fs::read(out.join(name)).unwrap(), std::fs::read(tuned.path().join(name)).unwrap());
    }
    // Each shard of the base is found on its own: renamed, or in an archive.
    let apart = work.path().join("apart");
    std::fs::create_dir(&apart).unwrap();
    archive(&base.path().join(shards[0]), &apart.join("x"), &options(), &mut quiet).unwrap();
    std::fs::rename(base.path().join(shards[1]), apart.join("y")).unwrap();
    check(&open_with(&packed, &[&apart]).unwrap());
    std::fs::remove_file(apart.join("x")).unwrap();
    let error = open_with(&packed, &[&apart]).unwrap_err();
    assert_eq!(error.kind(), Kind::WrongBase);
    assert!(error.message().contains(shards[0]), "{error}");
    // A chain of sharded deltas.
    let third = tempfile::tempdir().unwrap();
    sharded(third.path(), [&trained(&trained(&a)), &b, &trained(&c)]);
    let last = work.path().join("third.z4dm");
    let middle = Arc::new(Reader::open(tuned.path()).unwrap());
    make(third.path(), &[middle], &last, &options(), &mut quiet).unwrap();
    drop(tuned);
    std::fs::remove_dir_all(&out).unwrap();
    std::fs::remove_file(&archived).unwrap();
    archive(&base.path().join(shards[0]), &apart.join("x"), &options(), &mut quiet).unwrap();
    let reader = open_with(&last, &[&apart]).unwrap();
    assert_eq!(reader.read_as::<f32>("a").unwrap(), trained(&trained(&a)));
}

#[test]
fn every_flipped_byte_of_an_archive_of_several_files_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b, c] = [weights(90, 1), weights(30, 2), weights(50, 3)];
    let index = sharded(folder.path(), [&a, &b, &c]);
    let packed = folder.path().join("model.zstn");
    archive(&index, &packed, &options(), &mut quiet).unwrap();
    let (bytes, out) = (std::fs::read(&packed).unwrap(), folder.path().join("out"));
    for position in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[position] ^= 0x24;
        std::fs::write(&packed, &changed).unwrap();
        if restore(&packed, &out, &mut quiet).is_ok() {
            for shard in ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] {
                let restored = std::fs::read(out.join(shard)).ok();
                let same =
                    restored.is_none_or(|found| found == std::fs::read(folder.path().join(shard)).unwrap());
                assert!(same, "byte {position}");
            }
        }
    }
}
