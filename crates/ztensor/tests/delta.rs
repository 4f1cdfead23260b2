//! Model deltas: the original comes back byte for byte, one tensor decodes by itself, and every wrong base is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use ztensor::archive::{ArchiveOptions, archive_bytes};
use ztensor::delta::{apply, apply_bytes, make, make_bytes};
use ztensor::{Kind, OpenOptions, Reader, Writer};

/// Weights that look like weights: small, of both signs, no two alike.
fn weights(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..count)
        .map(|_| {
            let mut sum = 0.0;
            for _ in 0..4 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                sum += (state >> 8) as f32 / (1u32 << 24) as f32 - 0.5;
            }
            0.05 * sum
        })
        .collect()
}

fn nudged(weights: &[f32]) -> Vec<f32> {
    weights.iter().enumerate().map(|(i, w)| if i % 7 == 0 { w * 1.000_01 } else { *w }).collect()
}

fn safetensors(tensors: &[(&str, &[f32])]) -> Vec<u8> {
    let mut offset = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, values)| {
            let start = offset;
            offset += 4 * values.len();
            format!(
                r#""{name}":{{"dtype":"F32","shape":[{}],"data_offsets":[{start},{offset}]}}"#,
                values.len()
            )
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(tensors.iter().flat_map(|(_, values)| values.iter().flat_map(|value| value.to_le_bytes())));
    bytes
}

struct Pair {
    base: Vec<u8>,
    target: Vec<u8>,
}

/// A base and a fine-tune of it: one tensor as it was, one nudged, one renamed, one new, all of them in another order.
fn pair() -> Pair {
    let (kept, tuned, renamed, new) =
        (weights(3000, 1), weights(4000, 2), weights(2000, 3), weights(1000, 4));
    Pair {
        base: safetensors(&[("kept", &kept), ("tuned", &tuned), ("old_name", &renamed)]),
        target: safetensors(&[
            ("new", &new),
            ("tuned", &nudged(&tuned)),
            ("new_name", &renamed),
            ("kept", &kept),
        ]),
    }
}

fn reader(bytes: &[u8]) -> Arc<Reader> {
    Arc::new(Reader::from_bytes(bytes.to_vec()).unwrap())
}

fn open(delta: &[u8], base: &[u8]) -> ztensor::Result<Reader> {
    OpenOptions { bases: vec![reader(base).into()], ..OpenOptions::default() }.open_bytes(delta.to_vec())
}

#[test]
fn the_target_comes_back_and_reads_like_itself() {
    let Pair { base, target } = pair();
    let (delta, stats) = make_bytes(target.clone(), &[reader(&base)], &ArchiveOptions::default()).unwrap();
    assert_eq!((stats.copied, stats.deltas, stats.tensors), (2, 1, 4));
    let (plain, _) = archive_bytes(target.clone(), &ArchiveOptions::default()).unwrap();
    assert!(delta.len() * 2 < plain.len(), "{} of {}", delta.len(), plain.len());
    assert_eq!(apply_bytes(delta.clone(), &[reader(&base).into()]).unwrap(), target);
    let (opened, original) = (open(&delta, &base).unwrap(), reader(&target));
    assert_eq!(opened.names().collect::<Vec<_>>(), original.names().collect::<Vec<_>>());
    for name in original.names() {
        let whole = original.bytes(name).unwrap();
        assert_eq!(opened.bytes(name).unwrap(), whole);
        let mut part = vec![0; 101];
        let fresh = open(&delta, &base).unwrap();
        for _ in 0..2 {
            fresh.component_range_into(name, "data", 57, &mut part).unwrap();
            assert_eq!(part, &whole[57..158]);
        }
    }
    let info = opened.archived().unwrap();
    assert_eq!(info.bases.first().unwrap().length, base.len() as u64);
    assert_eq!(opened.stored_length("kept").unwrap(), 0);
    assert!(opened.stored_length("tuned").unwrap() < 4000);
}

#[test]
fn a_base_that_does_not_help_is_not_needed() {
    let target = safetensors(&[("a", &weights(5000, 8))]);
    for base in [safetensors(&[("b", &weights(5000, 9))]), safetensors(&[("a", &weights(4999, 9))])] {
        let (delta, stats) =
            make_bytes(target.clone(), &[reader(&base)], &ArchiveOptions::default()).unwrap();
        let (plain, _) = archive_bytes(target.clone(), &ArchiveOptions::default()).unwrap();
        assert_eq!((stats.copied + stats.deltas, delta.len()), (0, plain.len()));
        assert_eq!(apply_bytes(delta, &[]).unwrap(), target);
    }
    let tiny = safetensors(&[("a", &[1.0])]);
    let (delta, _) = make_bytes(tiny.clone(), &[reader(&tiny)], &ArchiveOptions::default()).unwrap();
    assert!(delta.len() <= archive_bytes(tiny, &ArchiveOptions::default()).unwrap().0.len());
}

#[test]
fn every_wrong_base_is_refused() {
    let Pair { base, target } = pair();
    let (delta, _) = make_bytes(target.clone(), &[reader(&base)], &ArchiveOptions::default()).unwrap();
    let refused = |wrong: &[u8]| {
        let Ok(wrong) = Reader::from_bytes(wrong.to_vec()) else { return };
        let error = apply_bytes(delta.clone(), &[Arc::new(wrong).into()]).unwrap_err();
        assert_eq!(error.kind(), Kind::WrongBase, "{error}");
    };
    refused(&target);
    refused(&safetensors(&[("kept", &weights(3000, 1))]));
    for position in (0..base.len()).step_by(97) {
        let mut modified = base.clone();
        modified[position] ^= 1;
        refused(&modified);
        // Opened, a delta decodes from a modified base what is unharmed, and never something wrong.
        let Ok(wrong) = Reader::from_bytes(modified) else { continue };
        let options = OpenOptions { bases: vec![Arc::new(wrong).into()], ..OpenOptions::default() };
        let Ok(opened) = options.open_bytes(delta.clone()) else { continue };
        for name in reader(&target).names() {
            if let Ok(bytes) = opened.bytes(name) {
                assert_eq!(bytes, reader(&target).bytes(name).unwrap(), "{position} {name}");
            }
        }
    }
    let error = apply_bytes(delta, &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::WrongBase);
    assert!(error.to_string().contains("sha256"), "{error}");
}

#[test]
fn a_flipped_byte_anywhere_is_an_error_or_changes_nothing() {
    let (tuned, kept) = (weights(300, 2), weights(200, 3));
    let base = safetensors(&[("tuned", &tuned), ("kept", &kept)]);
    let target = safetensors(&[("kept", &kept), ("tuned", &nudged(&tuned))]);
    let (delta, stats) = make_bytes(target.clone(), &[reader(&base)], &ArchiveOptions::default()).unwrap();
    assert_eq!((stats.copied, stats.deltas), (1, 1));
    for position in 0..delta.len() {
        let mut changed = delta.clone();
        changed[position] ^= 0x24;
        if let Ok(restored) = apply_bytes(changed.clone(), &[reader(&base).into()]) {
            assert_eq!(restored, target, "byte {position}");
        }
        let Ok(opened) = open(&changed, &base) else { continue };
        for name in ["tuned", "kept"] {
            if let Ok(bytes) = opened.bytes(name) {
                assert_eq!(bytes, reader(&target).bytes(name).unwrap(), "byte {position}, {name}");
            }
        }
    }
}

#[test]
fn bases_of_other_formats_and_in_archives_serve() {
    let folder = tempfile::tempdir().unwrap();
    let tuned = weights(5000, 2);
    let base = folder.path().join("base.zt");
    let mut writer = Writer::create(&base).unwrap();
    writer.add("tuned", &[5000], &tuned).unwrap();
    writer.finish().unwrap();
    let target = safetensors(&[("tuned", &nudged(&tuned))]);
    let opened = Arc::new(Reader::open(&base).unwrap());
    let (delta, stats) =
        make_bytes(target.clone(), &[Arc::clone(&opened)], &ArchiveOptions::default()).unwrap();
    assert_eq!(stats.deltas, 1);
    assert_eq!(apply_bytes(delta.clone(), &[opened.into()]).unwrap(), target);
    let (packed, _) = archive_bytes(std::fs::read(&base).unwrap(), &ArchiveOptions::default()).unwrap();
    assert_eq!(apply_bytes(delta, &[reader(&packed).into()]).unwrap(), target);
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_chain_of_deltas_finds_its_links_and_names_a_missing_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let first = weights(5000, 2);
    let (second, options) = (nudged(&first), ArchiveOptions::default());
    let third: Vec<f32> = second.iter().map(|weight| weight * 1.001).collect();
    let base = write(folder, "first.safetensors", &safetensors(&[("w", &first)]));
    let middle = write(folder, "second.safetensors", &safetensors(&[("w", &second)]));
    let last = write(folder, "third.safetensors", &safetensors(&[("w", &third)]));
    let (link, top) = (folder.join("second.z4dm"), folder.join("third.z4dm"));
    make(&middle, &[Arc::new(Reader::open(&base).unwrap())], &link, &options, &mut |_| Ok(())).unwrap();
    make(&last, &[Arc::new(Reader::open(&link).unwrap())], &top, &options, &mut |_| Ok(())).unwrap();
    std::fs::remove_file(&middle).unwrap();
    let out = folder.join("restored");
    apply(&top, &[], &out, &mut |_| Ok(())).unwrap();
    assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(&last).unwrap());
    assert_eq!(Reader::open(&top).unwrap().read_as::<f32>("w").unwrap(), third);
    std::fs::remove_file(&base).unwrap();
    std::fs::remove_file(&out).unwrap();
    let error = apply(&top, &[], &out, &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), Kind::WrongBase);
    assert_eq!(error.path(), Some(link.as_path()));
    assert!(error.message().contains("first.safetensors"), "{error}");
    assert!(!out.exists());
}

#[test]
fn a_delta_that_names_itself_as_its_base_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = weights(5000, 2);
    let base = write(folder.path(), "loop.z4dm", &safetensors(&[("w", &first)]));
    let target = write(folder.path(), "target", &safetensors(&[("w", &nudged(&first))]));
    make(&target, &[Arc::new(Reader::open(&base).unwrap())], &base, &ArchiveOptions::default(), &mut |_| {
        Ok(())
    })
    .unwrap();
    assert_eq!(Reader::open(&base).unwrap_err().kind(), Kind::WrongBase);
}
