//! Whether every implementation of the hot loops gives the same bytes, and refuses the same ones: for tests
//! and fuzzing only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod choices;
mod data;
mod parts;
pub mod structure;

use crate::arch::Kernel;
use crate::frame::Frame;
use crate::options::Options;
use crate::threads;

/// Decodes larger than this say nothing new.
const LARGEST_DECODED: u64 = 16 << 20;

/// Panics unless all kernels make the same frame of `bytes`, and `bytes` of that frame. Returns the frame.
pub fn compress(bytes: &[u8], options: &Options) -> Vec<u8> {
    compress_on_each(bytes, options, &Kernel::available())
}

/// [`compress`] with the portable kernel and one other, which takes less time.
pub fn compress_on_two(bytes: &[u8], options: &Options, choice: u8) -> Vec<u8> {
    compress_on_each(bytes, options, &portable_and_one(choice))
}

/// Panics unless all kernels make the same delta of `current` to `reference`, and `current` of that delta.
/// Returns the delta.
pub fn compress_delta(current: &[u8], reference: &[u8], options: &Options) -> Vec<u8> {
    compress_delta_on_each(current, reference, options, &Kernel::available())
}

fn compress_on_each(bytes: &[u8], options: &Options, kernels: &[Kernel]) -> Vec<u8> {
    let mut frames =
        kernels.iter().map(|&kernel| kernel.run(|| crate::compress(bytes, options)).expect("compresses"));
    let frame = frames.next().expect("there is always a kernel");
    assert!(frames.all(|other| other == frame), "the kernels make different frames");
    assert!(decompress(&frame).is_some_and(|decoded| decoded == bytes), "the frame decodes to other bytes");
    frame
}

fn compress_delta_on_each(
    current: &[u8],
    reference: &[u8],
    options: &Options,
    kernels: &[Kernel],
) -> Vec<u8> {
    let mut frames = kernels.iter().map(|&kernel| {
        kernel.run(|| crate::compress_delta(current, reference, options)).expect("compresses")
    });
    let frame = frames.next().expect("there is always a kernel");
    assert!(frames.all(|other| other == frame), "the kernels make different deltas");
    let decoded = decompress_against(&frame, reference);
    assert!(decoded.is_some_and(|decoded| decoded == current), "the delta decodes to other bytes");
    frame
}

/// What `step` gives with every kernel; panics unless that is the same.
#[cfg(test)]
pub(crate) fn on_each<R: PartialEq + std::fmt::Debug>(step: impl Fn() -> R) -> R {
    let mut results = Kernel::available().into_iter().map(|kernel| (kernel, kernel.run(&step)));
    let (_, expected) = results.next().expect("there is always a kernel");
    for (kernel, result) in results {
        assert_eq!(result, expected, "{kernel:?}");
    }
    expected
}

/// The portable kernel and one of the others, if this CPU has any.
fn portable_and_one(choice: u8) -> Vec<Kernel> {
    let others = &Kernel::available()[1..];
    let other = others.get(usize::from(choice) % others.len().max(1));
    [Kernel::PORTABLE].into_iter().chain(other.copied()).collect()
}

/// Panics unless all kernels restore the same from `frame`, valid or not, and the same of a part of it.
/// Returns what that is.
pub fn decompress(frame: &[u8]) -> Option<Vec<u8>> {
    decompress_against(frame, &[])
}

/// [`decompress`] for a delta.
pub fn decompress_against(frame: &[u8], reference: &[u8]) -> Option<Vec<u8>> {
    let frame = Frame::open(frame).ok().filter(|frame| frame.decoded_len() <= LARGEST_DECODED)?;
    let length = frame.decoded_len();
    let kernels = Kernel::available();
    // On this thread only: a fuzzer runs many small cases. Memory that is not clean, and of different content
    // for each kernel, shows elements that are never written.
    let decode = |range: std::ops::Range<u64>, kernel: Kernel, fill: u8| {
        let mut out = vec![fill; (range.end - range.start) as usize];
        let decoded = kernel.run(|| threads::run(1, || frame.decode_here(reference, range, &mut out)));
        decoded.ok().map(|()| out)
    };
    let mut decoded =
        kernels.iter().zip([0x5a, 0xa5, 0xff]).map(|(&kernel, fill)| decode(0..length, kernel, fill));
    let first = decoded.next().expect("there is always a kernel");
    assert!(decoded.all(|other| other == first), "the kernels decode differently");
    if let Some(whole) = &first {
        let (start, end) = (length / 3, length / 2);
        let part = decode(start..end, kernels[kernels.len() - 1], 0x33);
        assert!(part.as_deref() == whole.get(start as usize..end as usize), "a part decodes differently");
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dtype, Effort};
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    /// The sources below a folder.
    fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
        let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
        entries
            .flat_map(|path| match path.is_dir() {
                true => sources(&path),
                false => vec![(path.clone(), std::fs::read_to_string(&path).unwrap())],
            })
            .collect()
    }

    /// Each has one in the folder of its trait, `kernels_agree_on_<step>`, or on several joined by `_and_`.
    #[test]
    fn every_step_has_a_test_of_agreement() {
        let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
        let (mut traits, mut steps) = (0, 0);
        for (path, text) in &sources {
            let Some((_, body)) = text.split_once("trait Steps:") else { continue };
            if path.ends_with("agreement/mod.rs") {
                continue;
            }
            let folder = path.parent().unwrap();
            let beside = sources.iter().filter(|(path, _)| path.starts_with(folder));
            let tests = beside.flat_map(|(_, text)| text.split("fn kernels_agree_on_").skip(1));
            let agreed: BTreeSet<&str> =
                tests.flat_map(|test| test[..test.find('(').unwrap()].split("_and_")).collect();
            traits += 1;
            // Whether pairs are faster is what kernels need not agree on.
            let methods = body[..body.find("\n}").unwrap()].split("\n    fn ").skip(1);
            let names = methods.map(|method| &method[..method.find(['<', '(']).unwrap()]);
            for name in names.filter(|name| *name != "has_fast_pairs") {
                assert!(agreed.contains(name), "{}: no kernels_agree_on_{name}", path.display());
                steps += 1;
            }
        }
        assert!(traits >= 7 && steps >= 20, "{traits} {steps}");
    }

    /// Numbers that look like weights: a bell of magnitudes, whose scale drifts along the rows, here and
    /// there a zero or an extreme.
    fn weights(dtype: Dtype, count: usize, row: usize, seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        let mut bytes = Vec::with_capacity(count * dtype.width());
        for index in 0..count {
            let bell = (0..4).map(|_| f64::from(next() % 1000) - 499.5).sum::<f64>() / 1000.0;
            let scale = ((index / row) as f64 / 9.0).sin() + ((index % row) as f64 / 5.0).cos();
            let value = match next() % 1000 {
                0 => 0.0,
                1 => 1e9,
                _ => bell * scale.exp2() * 0.1,
            };
            match dtype {
                Dtype::Bf16 => bytes.extend_from_slice(&(value as f32).to_le_bytes()[2..]),
                Dtype::F32 => bytes.extend_from_slice(&(value as f32).to_le_bytes()),
                Dtype::F64 => bytes.extend_from_slice(&value.to_le_bytes()),
                // The top of an fp32 with the exponent cut to five bits.
                _ => {
                    let bits = (value as f32).to_bits();
                    let exponent = ((bits >> 23 & 0xff) as i32 - 112).clamp(0, 31) as u16;
                    let half = (bits >> 16 & 0x8000) as u16 | exponent << 10 | (bits >> 13 & 0x3ff) as u16;
                    bytes.extend_from_slice(&half.to_le_bytes());
                }
            }
        }
        bytes
    }

    fn dtypes() -> impl Strategy<Value = Dtype> {
        prop_oneof![Just(Dtype::Bf16), Just(Dtype::F16), Just(Dtype::F32), Just(Dtype::F64)]
    }

    fn efforts() -> impl Strategy<Value = Effort> {
        prop_oneof![Just(Effort::Fast), Just(Effort::Default), Just(Effort::Max)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn weights_of_any_length(
            dtype in dtypes(),
            effort in efforts(),
            rows in 1usize..800,
            row in prop_oneof![1usize..300, (1usize..9).prop_map(|groups| 32 * groups)],
            seed in any::<u64>(),
            positive in any::<bool>(),
        ) {
            let mut bytes = weights(dtype, rows * row, row, seed);
            if positive {
                bytes.chunks_exact_mut(dtype.width()).for_each(|element| element[dtype.width() - 1] &= 0x7f);
            }
            compress(&bytes, &Options::new(dtype).shape([rows as u64, row as u64]).effort(effort));
        }

        #[test]
        fn damaged_frames(dtype in dtypes(), effort in efforts(), long in any::<bool>(), seed in any::<u64>(), flips in prop::collection::vec(any::<(u32, u8)>(), 1..4)) {
            let rows = if long { 900 } else { 300 };
            let bytes = weights(dtype, rows * 120, 120, seed);
            let options = Options::new(dtype).shape([rows as u64, 120]).effort(effort);
            let mut frame = crate::compress(&bytes, &options).unwrap();
            for (place, flip) in flips {
                // The blocks, past the checksummed parts.
                let place = frame.len() / 20 + place as usize % (frame.len() - frame.len() / 20);
                frame[place] ^= flip;
            }
            decompress(&frame);
        }

        #[test]
        fn deltas_of_any_length(
            dtype in dtypes(),
            count in 1usize..80_000,
            seed in any::<u64>(),
            reach in 0u32..32,
            kept in 1usize..2000,
            flips in prop::collection::vec(any::<(u32, u8)>(), 1..4),
        ) {
            let base = weights(dtype, count, 100, seed);
            let current = moved(&base, dtype.width(), reach, kept, seed);
            let mut frame = compress_delta(&current, &base, &Options::new(dtype));
            for (place, flip) in flips {
                let place = frame.len() / 20 + place as usize % (frame.len() - frame.len() / 20);
                frame[place] ^= flip;
            }
            decompress_against(&frame, &base);
        }
    }

    /// The elements with up to `reach` low bits of some changed: of one in `kept` to all, in turns.
    fn moved(base: &[u8], width: usize, reach: u32, kept: usize, seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        let mut bytes = base.to_vec();
        for (index, element) in bytes.chunks_exact_mut(width).enumerate() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if ((state >> 40) as usize).is_multiple_of(1 + index / 3000 * kept / 10) {
                let change = state >> 20 & ((1 << reach.min(8 * width as u32 - 1)) - 1);
                element.iter_mut().zip(change.to_le_bytes()).for_each(|(byte, change)| *byte ^= change);
            }
        }
        bytes
    }
}
