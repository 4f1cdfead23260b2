//! Progress moves inside one large tensor, adds up to all of it, and can end the work.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use ztensor::archive::{ArchiveOptions, archive};
use ztensor::convert::{Storage, copy_into};
use ztensor::{Checksum, Compression, DType, Effort, TensorInput, Version, Writer};

const LENGTH: usize = 150 << 20;

/// A model with one tensor, of zeros: what it holds is not the point.
fn model(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("model.zt");
    let mut writer = Writer::create(&path).unwrap();
    let bytes = vec![0u8; LENGTH];
    let input = TensorInput::dense([LENGTH as u64], DType::U8, &bytes);
    writer.write_batch(&[("zeros", input)], Compression::None, Checksum::None).unwrap();
    writer.finish().unwrap();
    path
}

#[test]
fn converting_tells_of_parts_of_a_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let reader = ztensor::open(model(folder.path())).unwrap();
    for (compression, version) in [
        (Compression::None, Version::One),
        (Compression::None, Version::Two),
        (Compression::Z4ai(Effort::Default), Version::One),
    ] {
        let mut steps = Vec::new();
        let mut writer = Writer::create_version(folder.path().join("out.zt"), version).unwrap();
        let storage = Storage { compression, ..Storage::default() };
        copy_into(&mut writer, &reader, storage, &mut |bytes| steps.push(bytes)).unwrap();
        writer.finish().unwrap();
        assert_eq!(steps.iter().sum::<u64>(), LENGTH as u64);
        assert!(steps.iter().filter(|bytes| **bytes > 0).count() > 1, "{compression:?} {steps:?}");
    }
}

#[test]
fn archiving_tells_of_parts_of_a_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    let output = folder.path().join("model.zstn");
    let mut steps = Vec::new();
    archive(&model, &output, &ArchiveOptions::default(), &mut |bytes| {
        steps.push(bytes);
        Ok(())
    })
    .unwrap();
    assert!(steps.iter().filter(|bytes| **bytes > 0).count() > 1, "{steps:?}");
    assert_eq!(steps.iter().sum::<u64>(), LENGTH as u64);
    // Whoever has seen enough ends it inside the tensor.
    std::fs::remove_file(&output).unwrap();
    let mut seen = 0;
    let ended = archive(&model, &output, &ArchiveOptions::default(), &mut |bytes| {
        seen += bytes;
        Err(ztensor::Error::argument("enough"))
    });
    assert_eq!(ended.unwrap_err().message(), "enough");
    assert!(seen < LENGTH as u64 && !output.exists());
}
