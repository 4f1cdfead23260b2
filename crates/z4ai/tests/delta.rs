//! Deltas come back against their reference, whole and in part, and against nothing else.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use z4ai::{Dtype, Effort, ErrorKind, Options};

/// A range of a delta whose reference is verified.
fn range(frame: &[u8], reference: &[u8], range: std::ops::Range<u64>) -> z4ai::Result<Vec<u8>> {
    let mut out = vec![0; (range.end - range.start) as usize];
    z4ai::Frame::open(frame)?.against(reference)?.read_into(range, &mut out)?;
    Ok(out)
}

/// A range of a delta whose reference is taken for the right one.
fn range_trusted(frame: &[u8], reference: &[u8], range: std::ops::Range<u64>) -> z4ai::Result<Vec<u8>> {
    let mut out = vec![0; (range.end - range.start) as usize];
    z4ai::Frame::open(frame)?.against(reference)?.trusted().read_into(range, &mut out)?;
    Ok(out)
}

fn dtype() -> impl Strategy<Value = Option<Dtype>> {
    let all: Vec<Option<Dtype>> = Dtype::all().map(Some).chain([None]).collect();
    proptest::sample::select(all)
}

/// A reference, and a buffer that is made from it: some bytes changed, then cut short or continued.
fn pair() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let reference = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..4000),
        proptest::collection::vec(
            prop_oneof![Just(0u8), Just(0x80), Just(0x7f), Just(0xff), any::<u8>()],
            0..4000
        ),
        proptest::collection::vec((any::<u8>(), 0x38u8..0x40), 0..2000)
            .prop_map(|pairs| pairs.into_iter().flat_map(|(low, high)| [low, high]).collect()),
    ];
    let changes = proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..300);
    (reference, changes, 0usize..6, proptest::collection::vec(any::<u8>(), 0..50)).prop_map(
        |(reference, changes, cut, more)| {
            let mut current = reference.clone();
            if !current.is_empty() {
                changes.iter().for_each(|(index, change)| *index.get_mut(&mut current) ^= change);
            }
            current.truncate(current.len().saturating_sub(cut * cut));
            if cut == 0 {
                current.extend(more);
            }
            (current, reference)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn deltas_survive(
        (current, reference) in pair(), dtype in dtype(), threads in 0usize..4,
        effort in proptest::sample::select(vec![Effort::Fast, Effort::Default, Effort::Max]), cut in (0.0f64..1.0, 0.0f64..1.0),
    ) {
        let options = Options { dtype, effort, threads, ..Options::default() };
        let frame = z4ai::compress_delta(&current, &reference, &options).unwrap();
        let alone = z4ai::compress(&current, &options).unwrap();
        prop_assert!(frame.len() <= alone.len() + 64, "{} {}", frame.len(), alone.len());
        prop_assert_eq!(&z4ai::Frame::open(&frame).and_then(|frame| frame.against(&reference)?.threads(threads).read()).unwrap(), &current);
        let again = z4ai::compress_delta(&current, &reference, &Options { threads: 3 - threads, ..options }).unwrap();
        prop_assert_eq!(&frame, &again);
        let mut ends = [cut.0, cut.1].map(|part| (part * current.len() as f64) as u64);
        ends.sort();
        let expected = &current[ends[0] as usize..ends[1] as usize];
        prop_assert_eq!(&range(&frame, &reference, ends[0]..ends[1]).unwrap(), expected);
        prop_assert_eq!(&range_trusted(&frame, &reference, ends[0]..ends[1]).unwrap(), expected);
    }
}

/// Weights and what some training made of them: a change of about `rate`, everywhere or in some rows only.
fn trained(count: usize, rate: f32, row: usize) -> (Vec<f32>, Vec<f32>) {
    let mut state = 7u32;
    let mut uniform = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let base: Vec<f32> = (0..count).map(|_| (uniform() + uniform() + uniform()) * 0.05).collect();
    let tuned = base.iter().enumerate().map(|(index, &value)| {
        let step = uniform() * rate;
        if (index / row).is_multiple_of(3) { value } else { value + step }
    });
    let tuned = tuned.collect();
    (base, tuned)
}

fn bytes(values: &[f32], dtype: Dtype) -> Vec<u8> {
    match dtype {
        Dtype::Bf16 => {
            values.iter().flat_map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes()).collect()
        }
        Dtype::F64 => values.iter().flat_map(|&value| f64::from(value).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    }
}

#[test]
fn tensors_of_many_blocks_survive_whole_and_in_part() {
    for rate in [0.0, 1e-5, 1e-3, 1.0] {
        let (base, tuned) = trained(300_001, rate, 512);
        for dtype in [Dtype::Bf16, Dtype::F32, Dtype::F64, Dtype::I32] {
            let (current, reference) = (bytes(&tuned, dtype), bytes(&base, dtype));
            let options = Options::new(dtype);
            let frame = z4ai::compress_delta(&current, &reference, &options).unwrap();
            let alone = z4ai::compress(&current, &options).unwrap();
            assert!(frame.len() <= alone.len() + 64, "{dtype:?} {rate} {} {}", frame.len(), alone.len());
            let mut whole = vec![0; current.len()];
            z4ai::Frame::open(&frame)
                .and_then(|frame| frame.against(&reference)?.read_all_into(&mut whole))
                .unwrap();
            assert!(whole == current, "{dtype:?} {rate}");
            for range in [0..1, 262_143..262_145, 100_000..500_001, current.len() - 3..current.len()] {
                let slice = range_trusted(&frame, &reference, range.start as u64..range.end as u64);
                assert!(slice.unwrap() == current[range.clone()], "{dtype:?} {range:?}");
            }
        }
    }
}

#[test]
fn streams_survive() {
    let (base, tuned) = trained(5_000_000, 1e-5, 512);
    for (current, reference) in
        [(5_000_000, 5_000_000), (5_000_000, 4_500_000), (10, 5_000_000), (0, 9), (9, 0)]
    {
        let current = &bytes(&tuned, Dtype::F32)[..4 * current];
        let reference = &bytes(&base, Dtype::F32)[..4 * reference];
        let id = z4ai::ReferenceId::of_stream(reference).unwrap();
        let (mut frame, mut restored, mut steps) = (Vec::new(), Vec::new(), 0);
        let options = Options::new(Dtype::F32);
        let read =
            z4ai::compress_delta_stream(current, reference, id, &options, &mut frame, |step| steps += step);
        assert_eq!((read.unwrap(), steps), (current.len() as u64, current.len() as u64));
        assert!(
            z4ai::Frame::open(&frame).and_then(|frame| frame.against(reference)?.read()).unwrap() == current
        );
        z4ai::decompress_delta_stream(&frame[..], reference, id, &mut restored, 0, |_| ()).unwrap();
        assert!(restored == current);
        let other = z4ai::ReferenceId { digest: [0; 16], ..id };
        let error =
            z4ai::decompress_delta_stream(&frame[..], reference, other, Vec::new(), 0, |_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongReference);
        // A reference that changed since it was identified.
        if reference.len() > 1000 && current.len() > 1000 {
            let changed = vec![7; reference.len()];
            z4ai::decompress_delta_stream(&frame[..], &changed[..], id, Vec::new(), 0, |_| ()).unwrap_err();
        }
    }
}

/// Rows that got no gradient and moved by weight decay alone are nearly free, between others.
#[test]
fn weight_decay_is_recognised() {
    let (base, tuned) = trained(400_000, 1e-4, 512);
    let decayed: Vec<f32> = base
        .iter()
        .zip(&tuned)
        .enumerate()
        .map(|(index, (old, new))| if (index / 512).is_multiple_of(4) { *new } else { *old } * 0.9999)
        .collect();
    let (current, reference) = (bytes(&decayed, Dtype::F32), bytes(&base, Dtype::F32));
    let frame = z4ai::compress_delta(&current, &reference, &Options::new(Dtype::F32)).unwrap();
    assert!(frame.len() * 8 < 4 * 400_000, "{}", frame.len());
    assert!(
        z4ai::Frame::open(&frame).and_then(|frame| frame.against(&reference)?.read()).unwrap() == current
    );
}

#[test]
fn what_did_not_change_costs_next_to_nothing() {
    let (base, _) = trained(3_000_000, 0.0, 512);
    for dtype in [None, Some(Dtype::Bf16), Some(Dtype::F32), Some(Dtype::I16)] {
        let reference = bytes(&base, Dtype::F32);
        let options = Options { dtype, ..Options::default() };
        let frame = z4ai::compress_delta(&reference, &reference, &options).unwrap();
        assert!(frame.len() < 80, "{dtype:?} {}", frame.len());
        assert!(
            z4ai::Frame::open(&frame).and_then(|frame| frame.against(&reference)?.read()).unwrap()
                == reference
        );
    }
}

#[test]
fn other_references_are_refused() {
    let (base, tuned) = trained(5000, 1e-4, 512);
    let (current, reference) = (bytes(&tuned, Dtype::Bf16), bytes(&base, Dtype::Bf16));
    let frame = z4ai::compress_delta(&current, &reference, &Options::new(Dtype::Bf16)).unwrap();
    let mut flipped = reference.clone();
    flipped[77] ^= 1;
    let mut swapped = reference.clone();
    swapped.rotate_left(2);
    for wrong in [&current[..], &flipped, &swapped, &reference[..reference.len() - 1], &[]] {
        for result in [
            z4ai::Frame::open(&frame).and_then(|frame| frame.against(wrong)?.read()),
            range(&frame, wrong, 0..10),
            z4ai::Frame::open(&frame)
                .and_then(|frame| frame.against(wrong)?.read_all_into(&mut vec![0; current.len()]))
                .map(|()| Vec::new()),
        ] {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::WrongReference);
        }
        assert!(range_trusted(&frame, wrong, 0..current.len() as u64).is_err());
    }
    let plain = z4ai::compress(&current, &Options::new(Dtype::Bf16)).unwrap();
    assert_eq!(
        z4ai::Frame::open(&plain).and_then(|frame| frame.against(&reference)?.read()).unwrap_err().kind(),
        ErrorKind::WrongReference
    );
    assert_eq!(z4ai::decompress(&frame).unwrap_err().kind(), ErrorKind::WrongReference);
    let mut short = vec![0; current.len() - 1];
    let error = z4ai::Frame::open(&frame)
        .and_then(|frame| frame.against(&reference)?.read_all_into(&mut short))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongOutputSize);
    let error = range(&frame, &reference, 1..current.len() as u64 + 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
}

/// Weights, and the same with some of them one step nearer to zero, as weight decay leaves them: in each 256
/// none to eight, and in every tenth all.
fn stepped(count: usize, dtype: Dtype) -> (Vec<u8>, Vec<u8>) {
    let reference = bytes(&trained(count, 1e-3, 100).0, dtype);
    let mut current = reference.clone();
    for (index, element) in current.chunks_exact_mut(dtype.width()).enumerate() {
        let (chunk, place) = (index / 256, index % 256);
        let moves = (0..chunk % 9).any(|step| (chunk * 77 + step * 59) % 256 == place) || chunk % 10 == 9;
        if moves && element[0] > 0 {
            element[0] -= 1;
        }
    }
    (current, reference)
}

#[test]
fn single_steps_are_listed() {
    for dtype in [Dtype::Bf16, Dtype::F32] {
        for count in [200_000, 70_001] {
            let (current, reference) = stepped(count, dtype);
            let frame = z4ai::compress_delta(&current, &reference, &Options::new(dtype)).unwrap();
            assert_eq!(
                z4ai::Frame::open(&frame).and_then(|frame| frame.against(&reference)?.read()).unwrap(),
                current
            );
            let planes = z4ai::Info::read(&frame).unwrap().planes;
            let sets = planes.iter().find(|part| part.name == "sets of elements").unwrap();
            // Four elements in 28 bits, on average.
            assert!((count / 256 * 2..count / 256 * 5).contains(&(sets.encoded_len as usize)), "{sets:?}");
        }
    }
}

/// Small deltas of every kind of section and block, with what they restore and what they need for it.
fn frames() -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let (base, tuned) = trained(700, 1e-3, 100);
    let mut frames = Vec::new();
    for dtype in
        [Some(Dtype::Bf16), Some(Dtype::F32), Some(Dtype::F64), Some(Dtype::I32), Some(Dtype::F8E4M3), None]
    {
        let layout = dtype.unwrap_or(Dtype::Bf16);
        let (current, reference) = (bytes(&tuned, layout), bytes(&base, layout));
        let shorter = &reference[..reference.len() / 2 + 1];
        for reference in [&reference[..], shorter] {
            let options = Options { dtype, ..Options::default() };
            let frame = z4ai::compress_delta(&current, reference, &options).unwrap();
            frames.push((current.clone(), reference.to_vec(), frame));
        }
    }
    let (current, reference) = stepped(4000, Dtype::Bf16);
    let frame = z4ai::compress_delta(&current, &reference, &Options::new(Dtype::Bf16)).unwrap();
    frames.push((current, reference, frame));
    frames
}

#[test]
fn every_flip_is_noticed_or_harmless() {
    for (current, reference, mut frame) in frames() {
        for index in 0..frame.len() {
            for flip in [1u8, 0x80, 0xff] {
                frame[index] ^= flip;
                if let Ok(decoded) =
                    z4ai::Frame::open(&frame).and_then(|frame| frame.against(&reference)?.read())
                {
                    assert!(decoded == current, "byte {index} of {}", frame.len());
                }
                frame[index] ^= flip;
            }
        }
    }
}

#[test]
fn every_truncation_is_noticed() {
    for (_, reference, frame) in frames() {
        for length in 0..frame.len() {
            assert!(
                z4ai::Frame::open(&frame[..length])
                    .and_then(|frame| frame.against(&reference)?.read())
                    .is_err(),
                "{length} of {}",
                frame.len()
            );
        }
        let longer = [&frame[..], &[0]].concat();
        assert!(z4ai::Frame::open(&longer).and_then(|frame| frame.against(&reference)?.read()).is_err());
    }
}

#[test]
fn deltas_describe_themselves() {
    let (base, tuned) = trained(5000, 1e-4, 512);
    let (current, reference) = (bytes(&tuned, Dtype::Bf16), bytes(&base, Dtype::Bf16));
    let frame =
        z4ai::compress_delta(&current, &reference, &Options::new(Dtype::Bf16).shape([10, 500])).unwrap();
    let id = z4ai::ReferenceId::of(&reference, 0).unwrap();
    let description = z4ai::Frame::open(&frame).map(|frame| frame.description()).unwrap();
    assert_eq!((description.reference, description.length), (Some(id), current.len() as u64));
    let info = z4ai::Info::read(&frame).unwrap();
    assert_eq!((info.reference, info.shape), (Some(id), Some(vec![10, 500])));
    assert_eq!(z4ai::Frame::open(&frame).map(|frame| frame.decoded_len()).unwrap(), current.len() as u64);
    let plain = z4ai::compress(&current, &Options::new(Dtype::Bf16)).unwrap();
    assert_eq!(z4ai::Frame::open(&plain).map(|frame| frame.description()).unwrap().reference, None);
}
