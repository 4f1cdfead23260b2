//! Ranges of frames that are not in memory: the right bytes, from no more of the frame than they need.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::io::Write;
use z4ai::{Dtype, Effort, Encoder, Fetch, Frame, Options};

/// A few megabytes of floats with rows of their own scale, so that a frame has many blocks and a long model.
fn weights(rows: u32, columns: u32) -> Vec<u8> {
    let mut state = 1u32;
    let mut values = Vec::with_capacity((rows * columns * 2) as usize);
    for row in 0..rows {
        for _ in 0..columns {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            let magnitude = 0x3a00 + (row % 7 * 128) as u16 + (state >> 24) as u16;
            values.extend((magnitude | (state >> 8 & 0x8000) as u16).to_le_bytes());
        }
    }
    values
}

/// The range, and how many bytes of the frame were fetched for it.
fn fetched(frame: &[u8], start: u64, length: usize) -> (z4ai::Result<Vec<u8>>, usize) {
    let (mut out, fetched) = (vec![0; length], Cell::new(0));
    let range = start..start + length as u64;
    let source = Fetch::new(frame.len() as u64, |offset, bytes: &mut [u8]| {
        fetched.set(fetched.get() + bytes.len());
        bytes.copy_from_slice(&frame[offset as usize..][..bytes.len()]);
        Ok::<(), z4ai::Error>(())
    });
    let result = Frame::open(source).and_then(|frame| frame.read_into(range, &mut out));
    (result.map(|()| out), fetched.get())
}

#[test]
fn a_range_costs_its_own_blocks() {
    let plain = weights(1024, 4096);
    let repeated = [&plain[..], &plain, &weights(16, 100)].concat();
    for effort in [Effort::Fast, Effort::Default] {
        let options = Options { effort, ..Options::new(Dtype::Bf16).shape([1024, 4096]) };
        let frame = z4ai::compress(&plain, &options).unwrap();
        for (start, length) in [(0, 0), (0, 1), (5_000_001, 8192), (plain.len() - 3, 3)] {
            let (bytes, cost) = fetched(&frame, start as u64, length);
            assert_eq!(bytes.unwrap(), plain[start..start + length]);
            assert!(cost < frame.len() / 5, "{cost} of {} bytes for {length}", frame.len());
        }
        let (bytes, cost) = fetched(&frame, 0, plain.len());
        assert_eq!(bytes.unwrap(), plain);
        // Headers are read a piece at a time, of which the blocks take a little once more.
        assert!(cost <= frame.len() + (1 << 15), "{cost} of {}", frame.len());

        let frame = z4ai::compress(&repeated, &Options { effort, ..Options::new(Dtype::Bf16) }).unwrap();
        let (bytes, cost) = fetched(&frame, plain.len() as u64 + 2_000_000, 4000);
        assert_eq!(bytes.unwrap(), plain[2_000_000..2_004_000]);
        assert!(cost < frame.len() / 5, "{cost} of {} bytes", frame.len());
    }
}

#[test]
fn short_frames_and_streams_have_ranges_too() {
    let plain = weights(64, 300);
    for options in [Options::new(Dtype::Bf16), Options::new(Dtype::Bf16).shape([64, 300]), Options::default()]
    {
        for effort in [Effort::Fast, Effort::Default, Effort::Max] {
            let options = Options { effort, ..options.clone() };
            for length in [0, 1, 2, 600, plain.len()] {
                let options = Options {
                    shape: options.shape.clone().filter(|_| length == plain.len()),
                    ..options.clone()
                };
                let frame = z4ai::compress(&plain[..length], &options).unwrap();
                let (bytes, cost) = fetched(&frame, (length / 2) as u64, length - length / 2);
                assert_eq!(bytes.unwrap(), plain[length / 2..length]);
                assert!(cost <= 2 * frame.len());
            }
        }
    }
    let mut encoder = Encoder::new(Vec::new(), Options::new(Dtype::Bf16)).unwrap();
    encoder.write_all(&plain).unwrap();
    let frame = encoder.finish().unwrap();
    assert_eq!(fetched(&frame, 1001, 77).0.unwrap(), plain[1001..1078]);
}

#[test]
fn broken_frames_are_refused_as_they_are_in_memory() {
    let plain = weights(64, 300);
    let frame = z4ai::compress(&plain, &Options::new(Dtype::Bf16).shape([64, 300])).unwrap();
    for position in (0..frame.len()).step_by(7) {
        let mut broken = frame.clone();
        broken[position] ^= 0x10;
        for damaged in [&broken[..], &frame[..position]] {
            let mut out = vec![0; 500];
            let expected =
                Frame::open(damaged).and_then(|frame| frame.read_into(2000..2500, &mut out)).map(|()| out);
            let (found, _) = fetched(damaged, 2000, 500);
            assert_eq!(found.ok(), expected.ok(), "byte {position}");
        }
    }
    assert!(fetched(&frame, plain.len() as u64 - 1, 2).0.is_err());
}

/// The range of a delta, and how many bytes of the frame and of the reference were fetched for it.
fn fetched_delta(
    frame: &[u8],
    reference: &[u8],
    start: u64,
    length: usize,
) -> (z4ai::Result<Vec<u8>>, usize, usize) {
    let (mut out, of_frame, of_reference) = (vec![0; length], Cell::new(0), Cell::new(0));
    let frame_source = Fetch::new(frame.len() as u64, |offset, bytes: &mut [u8]| {
        of_frame.set(of_frame.get() + bytes.len());
        bytes.copy_from_slice(&frame[offset as usize..][..bytes.len()]);
        Ok::<(), z4ai::Error>(())
    });
    let reference_source = Fetch::new(reference.len() as u64, |offset, bytes: &mut [u8]| {
        of_reference.set(of_reference.get() + bytes.len());
        bytes.copy_from_slice(&reference[offset as usize..][..bytes.len()]);
        Ok::<(), z4ai::Error>(())
    });
    let delta = Frame::open(frame_source).and_then(|frame| frame.against(reference_source));
    let range = start..start + length as u64;
    let result = delta.and_then(|delta| delta.trusted().read_into(range, &mut out));
    (result.map(|()| out), of_frame.get(), of_reference.get())
}

#[test]
fn a_range_of_a_delta_costs_its_own_blocks() {
    let old = weights(1024, 4096);
    let mut state = 7u32;
    let step = |low: u8| {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        low ^ (state >> 28) as u8
    };
    let low = old.iter().step_by(2).copied().map(step);
    let new: Vec<u8> = old.iter().skip(1).step_by(2).zip(low).flat_map(|(&high, low)| [low, high]).collect();
    let frame = z4ai::compress_delta(&new, &old, &Options::new(Dtype::Bf16)).unwrap();
    for (start, length) in [(0, 0), (0, 1), (5_000_001, 8192), (new.len() - 3, 3)] {
        let (bytes, of_frame, of_reference) = fetched_delta(&frame, &old, start as u64, length);
        assert_eq!(bytes.unwrap(), new[start..start + length]);
        assert!(of_frame < frame.len() / 5, "{of_frame} of {} bytes for {length}", frame.len());
        assert!(of_reference < old.len() / 5, "{of_reference} of {} bytes for {length}", old.len());
    }
    let (bytes, of_frame, of_reference) = fetched_delta(&frame, &old, 0, new.len());
    assert_eq!((bytes.unwrap() == new, of_reference), (true, old.len()));
    assert!(of_frame <= frame.len() + (1 << 15), "{of_frame} of {}", frame.len());

    let mut wrong = old.clone();
    wrong[5_000_000] ^= 1;
    assert!(fetched_delta(&frame, &wrong, 5_000_001, 8192).0.is_err());
    assert_eq!(fetched_delta(&frame, &wrong, 0, 100).0.unwrap(), new[..100]);
    let error = fetched_delta(&frame, &old[2..], 0, 100).0.unwrap_err();
    assert_eq!(error.kind(), z4ai::ErrorKind::WrongReference);
}

#[test]
fn deltas_of_other_lengths_have_ranges_too() {
    let old = weights(64, 300);
    for length in [1, 600, 9_999, old.len()] {
        for reference in [&old[..length], &old[..length / 2], &[&old[..], &old].concat()] {
            let mut new = old[..length].to_vec();
            new[length / 2] ^= 0x11;
            let frame = z4ai::compress_delta(&new, reference, &Options::new(Dtype::Bf16)).unwrap();
            let (bytes, ..) = fetched_delta(&frame, reference, length as u64 / 3, length - length / 3);
            assert_eq!(bytes.unwrap(), new[length / 3..]);
        }
    }
}

#[test]
fn a_slice_of_a_huge_delta_needs_memory_for_its_blocks_only() {
    // 32 TiB, as far as the header says; what is read of it are its first bytes.
    let id = z4ai::ReferenceId { length: 1 << 45, digest: [7; 16] };
    let old = weights(64, 300);
    let mut new = old.clone();
    new.iter_mut().step_by(10).for_each(|byte| *byte ^= 1);
    let mut frame = Vec::new();
    z4ai::compress_delta_stream(&new[..], &old[..], id, &Options::new(Dtype::Bf16), &mut frame, |_| ())
        .unwrap();
    let reference = Fetch::new(id.length, |offset, bytes: &mut [u8]| {
        bytes.copy_from_slice(&old[offset as usize..][..bytes.len()]);
        Ok::<(), z4ai::Error>(())
    });
    let mut out = [0; 1000];
    Frame::open(&frame)
        .unwrap()
        .against(reference)
        .unwrap()
        .trusted()
        .read_into(2000..3000, &mut out)
        .unwrap();
    assert_eq!(out, new[2000..3000]);
}

#[test]
fn a_slice_of_a_huge_frame_reads_its_block_only() {
    // Sections of stored zeros, 40 GiB of them, which nobody keeps.
    const SECTION: u64 = 256 << 20;
    const BLOCK: usize = 1 << 20;
    let varint = |mut value: u64| {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    };
    let sum = |bytes: &[u8]| twox_hash::XxHash3_64::oneshot(bytes).to_le_bytes();
    let mut header = b"Z4AI\x02\x10\x00".to_vec();
    let checksum = sum(&header);
    header.extend_from_slice(&checksum[..2]);
    let blocks = (SECTION / BLOCK as u64) as usize;
    let zeros = sum(&vec![0u8; BLOCK]);
    let mut head = [varint(SECTION << 1), varint(BLOCK as u64), varint(1)].concat();
    (0..blocks).for_each(|_| head.extend(varint(BLOCK as u64)));
    (0..blocks).for_each(|_| head.extend_from_slice(&zeros[..4]));
    head.push(0);
    let checksum = sum(&head);
    head.extend_from_slice(&checksum[..4]);
    let (section, sections) = (head.len() as u64 + SECTION, 160);
    let length = header.len() as u64 + section * sections + 1;
    let largest = Cell::new(0usize);
    let source = Fetch::new(length, |offset: u64, out: &mut [u8]| {
        largest.set(out.len().max(largest.get()));
        for (place, byte) in (offset..u64::MAX).zip(out.iter_mut()) {
            let inside = place.checked_sub(header.len() as u64).map(|place| (place % section) as usize);
            *byte = match inside {
                None => header[place as usize],
                Some(inside) => head.get(inside).copied().filter(|_| place + 1 < length).unwrap_or(0u8),
            };
        }
        Ok::<(), z4ai::Error>(())
    });
    let frame = Frame::open(source).unwrap();
    assert_eq!(frame.decoded_len(), SECTION * sections);
    let mut out = [1; 100];
    frame.read_into(39 << 30..(39 << 30) + 100, &mut out).unwrap();
    assert_eq!(out, [0; 100]);
    assert!(largest.get() <= BLOCK, "{}", largest.get());
}
