//! Slices through a delta: files that are read rather than mapped cost the blocks that a slice needs. Reads are counted for the whole process, so this test has one of its own.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use ztensor::delta::make;
use ztensor::{Io, OpenOptions, Reader, Writer, archive::ArchiveOptions};

const COUNT: usize = 4 << 20;

/// Bytes that this process has read from files so far.
fn bytes_read() -> u64 {
    let counters = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = counters.lines().find(|line| line.starts_with("rchar")).unwrap();
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_slice_costs_its_own_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let (base, target, delta) =
        (folder.path().join("base.zt"), folder.path().join("new.zt"), folder.path().join("new.z4dm"));
    let mut state = 1u32;
    let old: Vec<f32> = (0..COUNT)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            0.01 + (state >> 8) as f32 / (1u32 << 30) as f32
        })
        .collect();
    let new: Vec<f32> = old.iter().enumerate().map(|(i, w)| w + (i * i % 1013) as f32 * 1e-6).collect();
    for (path, values) in [(&base, &old), (&target, &new)] {
        let mut writer = Writer::create(path).unwrap();
        writer.add("w", &[COUNT as u64], values).unwrap();
        writer.finish().unwrap();
    }
    let opened = Arc::new(Reader::open(&base).unwrap());
    let stats = make(&target, &[opened], &delta, &ArchiveOptions::default(), &mut |_| Ok(())).unwrap();
    assert_eq!(stats.deltas, 1);
    let options = OpenOptions { io: Io::Read, skip_checksums: true, ..OpenOptions::default() };
    let base_reader = Arc::new(options.open(&base).unwrap());
    let reader = OpenOptions { bases: vec![base_reader.into()], ..options }.open(&delta).unwrap();
    let (start, length) = (COUNT / 2 * 4 + 12, 4096);
    let mut part = vec![0; length];
    let before = bytes_read();
    reader.component_range_into("w", "data", start as u64, &mut part).unwrap();
    let cost = bytes_read() - before;
    let expected: Vec<u8> = new.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(part, expected[start..start + length]);
    let stored = std::fs::metadata(&delta).unwrap().len() + 4 * COUNT as u64;
    assert!(cost < stored / 5, "{cost} of {stored} bytes for {length}");
    // What the slice found right is not taken for all of the base.
    assert_eq!(reader.component_bytes("w", "data").unwrap(), expected);
}
