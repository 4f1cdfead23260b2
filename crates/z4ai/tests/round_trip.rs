//! Whatever goes in comes back: arbitrary bytes, dtypes, shapes, efforts and threads, whole and in part.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod cases;

use proptest::prelude::*;
use z4ai::{Dtype, Effort, Options};

fn dtype() -> impl Strategy<Value = Option<Dtype>> {
    let all: Vec<Option<Dtype>> = Dtype::all().map(Some).chain([None]).collect();
    proptest::sample::select(all)
}

fn effort() -> impl Strategy<Value = Effort> {
    proptest::sample::select(vec![Effort::Fast, Effort::Default, Effort::Max])
}

/// Bytes of several kinds: noise, few values, runs, and floats of a narrow range of exponents.
fn data() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec(any::<u8>(), 0..5000);
    let few = proptest::collection::vec(0u8..3, 0..5000);
    let runs = proptest::collection::vec((any::<u8>(), 1usize..600), 0..12)
        .prop_map(|runs| runs.into_iter().flat_map(|(byte, count)| vec![byte; count]).collect());
    let floats = (proptest::collection::vec((any::<u8>(), 0x38u8..0x40), 0..3000), any::<bool>()).prop_map(
        |(pairs, signed)| {
            let sign = if signed { 0x80 } else { 0 };
            pairs.into_iter().flat_map(|(low, high)| [low, high | low << 3 & sign]).collect()
        },
    );
    prop_oneof![noise, few, runs, floats]
}

/// A shape of up to three dimensions for `elements`.
fn shape(elements: u64, choice: u64) -> Vec<u64> {
    let divisors: Vec<u64> =
        (1..=elements.max(1)).filter(|divisor| elements.is_multiple_of(*divisor)).collect();
    let first = divisors[choice as usize % divisors.len()];
    let rest = elements / first;
    match choice % 4 {
        0 => vec![elements],
        1 => vec![first, rest, 1],
        _ => vec![first, rest],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bytes_survive(
        bytes in data(), dtype in dtype(), effort in effort(), threads in 0usize..4, choice in any::<u64>(), shaped in any::<bool>(),
        cut in (0.0f64..1.0, 0.0f64..1.0),
    ) {
        let width = dtype.map_or(1, Dtype::width);
        let mut bytes = bytes;
        let mut options = Options { dtype, effort, threads, ..Options::default() };
        if shaped {
            bytes.truncate(bytes.len() / width * width);
            options.shape = Some(shape((bytes.len() / width) as u64, choice));
        }
        let frame = z4ai::compress(&bytes, &options).unwrap();
        prop_assert!(frame.len() <= bytes.len() + 64, "{} from {}", frame.len(), bytes.len());
        prop_assert_eq!(z4ai::Frame::open(&frame).map(|frame| frame.decoded_len()).unwrap(), bytes.len() as u64);
        prop_assert_eq!(&z4ai::decompress(&frame).unwrap(), &bytes);
        let again = z4ai::compress(&bytes, &Options { threads: 3 - threads, ..options }).unwrap();
        prop_assert_eq!(&frame, &again);
        let mut ends = [cut.0, cut.1].map(|part| (part * bytes.len() as f64) as usize);
        ends.sort();
        let mut slice = vec![0; ends[1] - ends[0]];
        z4ai::Frame::open(&frame).and_then(|frame| frame.read_into(ends[0] as u64..ends[1] as u64, &mut slice)).unwrap();
        prop_assert_eq!(&slice, &bytes[ends[0]..ends[1]]);
    }
}

/// Pseudo-random weights with a different scale in each row and column.
fn weights(rows: usize, columns: usize, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let mut uniform = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut bytes = Vec::new();
    for row in 0..rows {
        for column in 0..columns {
            let sum = uniform() + uniform() + uniform() + uniform();
            let value = sum * (row as f32 * 0.37).sin().exp() * (column as f32 * 0.11).cos().exp2();
            bytes.extend_from_slice(&value.to_bits().to_le_bytes());
        }
    }
    bytes
}

fn halves(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks_exact(4).flat_map(|element| [element[2], element[3]]).collect()
}

#[test]
fn tensors_of_many_blocks_survive_whole_and_in_part() {
    let fp32 = weights(700, 411, 5);
    let bf16 = halves(&fp32);
    for (bytes, dtype) in
        [(&fp32, Dtype::F32), (&bf16, Dtype::Bf16), (&bf16, Dtype::F16), (&fp32, Dtype::I32)]
    {
        for effort in [Effort::Fast, Effort::Default, Effort::Max] {
            let options = Options::new(dtype).shape([700, 411]).effort(effort);
            let frame = z4ai::compress(bytes, &options).unwrap();
            let mut whole = vec![0; bytes.len()];
            z4ai::Frame::open(&frame).and_then(|frame| frame.read_all_into(&mut whole)).unwrap();
            assert!(whole == *bytes, "{dtype:?} {effort:?}");
            for range in [0..1, 262_143..262_145, 100_000..500_001, bytes.len() - 3..bytes.len()] {
                let mut slice = vec![0; range.len()];
                z4ai::Frame::open(&frame)
                    .and_then(|frame| frame.read_into(range.start as u64..range.end as u64, &mut slice))
                    .unwrap();
                assert!(slice == bytes[range.clone()], "{dtype:?} {range:?}");
            }
        }
    }
}

#[test]
fn scales_pay() {
    let bf16 = halves(&weights(512, 512, 9));
    let plain = z4ai::compress(&bf16, &Options::new(Dtype::Bf16)).unwrap().len();
    let shaped = z4ai::compress(&bf16, &Options::new(Dtype::Bf16).shape([512, 512])).unwrap().len();
    assert!(shaped * 100 < plain * 98, "{shaped} {plain}");
}

#[test]
fn signs_that_are_mostly_the_same_pay() {
    for (width, dtype) in [(2, Dtype::Bf16), (4, Dtype::F32), (8, Dtype::F64)] {
        let mut bytes = weights(300, 411, 9);
        if width == 2 {
            bytes = halves(&bytes);
        }
        let plain = z4ai::compress(&bytes, &Options::new(dtype)).unwrap().len();
        let elements = bytes.len() / width;
        for (index, element) in bytes.chunks_exact_mut(width).enumerate() {
            if !index.is_multiple_of(9) {
                element[width - 1] |= 0x80;
            }
        }
        let frame = z4ai::compress(&bytes, &Options::new(dtype)).unwrap();
        // A sign that is what it mostly is 17 times in 18 has less than a third of a bit.
        assert!((plain - frame.len()) * 8 * 3 > elements * 2, "{} {plain}", frame.len());
        assert!(z4ai::decompress(&frame).unwrap() == bytes);
        let mut slice = vec![0; 1001];
        z4ai::Frame::open(&frame).and_then(|frame| frame.read_into(777..1778, &mut slice)).unwrap();
        assert!(slice == bytes[777..1778]);
    }
}

#[test]
fn subnormals_have_only_the_bits_that_they_have() {
    let scaled = weights(300, 400, 5);
    let value = |element: &[u8]| f32::from_le_bytes([element[0], element[1], element[2], element[3]]);
    let largest = scaled.chunks_exact(4).map(|element| value(element).abs()).fold(0f32, f32::max);
    // As in fp16 up to 2^-15: one bit pattern after the other.
    let half = |element: &[u8]| {
        let value = value(element) / largest;
        (value.abs() * 511.0) as u16 | u16::from(value.is_sign_negative()) << 15
    };
    let bytes: Vec<u8> = scaled.chunks_exact(4).flat_map(|element| half(element).to_le_bytes()).collect();
    for effort in [Effort::Default, Effort::Max] {
        let options = Options::new(Dtype::F16).shape([300, 400]).effort(effort);
        let frame = z4ai::compress(&bytes, &options).unwrap();
        assert!(z4ai::decompress(&frame).unwrap() == bytes);
        let info = z4ai::Info::read(&frame).unwrap();
        assert_eq!(info.transforms[0].name, "subnormal");
        let planes = z4ai::compress(&bytes, &Options::new(Dtype::U16)).unwrap().len();
        assert!(frame.len() * 20 < planes * 19, "{} {planes}", frame.len());
    }
}

#[test]
fn structure_is_found() {
    let zeros = vec![0u8; 3 << 20];
    assert!(z4ai::compress(&zeros, &Options::new(Dtype::F32)).unwrap().len() < 200);
    let tensor = halves(&weights(256, 512, 3));
    let tied: Vec<u8> = [&tensor[..], &tensor, &tensor].concat();
    let once = z4ai::compress(&tensor, &Options::new(Dtype::Bf16)).unwrap().len();
    let thrice = z4ai::compress(&tied, &Options::new(Dtype::Bf16)).unwrap().len();
    assert!(thrice < once + once / 50, "{thrice} {once}");
    // Tensors that are tied at a distance that is no multiple of anything.
    let large = halves(&weights(2048, 512, 3));
    let apart: Vec<u8> = [&large[..], &tensor[..1234], &large].concat();
    let once = z4ai::compress(&large, &Options::new(Dtype::Bf16)).unwrap().len();
    let frame = z4ai::compress(&apart, &Options::new(Dtype::Bf16)).unwrap();
    assert!(frame.len() < once + once / 5, "{} {once}", frame.len());
    assert!(z4ai::decompress(&frame).unwrap() == apart);
}

#[test]
fn opaque_bytes_are_no_larger_than_zstd() {
    let noise = weights(1500, 900, 7);
    let text: Vec<u8> =
        (0..300_000u32).flat_map(|i| format!("{} {:x};", i / 7, i.wrapping_mul(i)).into_bytes()).collect();
    let far: Vec<u8> = [&noise[..], &text[..1 << 20], &noise].concat();
    for bytes in [&text, &far] {
        let zstd = zstd::bulk::compress(bytes, 3).unwrap().len();
        let frame = z4ai::compress(bytes, &Options::default()).unwrap();
        assert!(frame.len() <= zstd + 64, "{} {zstd}", frame.len());
        assert!(z4ai::decompress(&frame).unwrap() == *bytes);
    }
}

#[test]
fn rows_of_reduced_precision_pay() {
    let mut fp32 = weights(600, 300, 4);
    let plain = z4ai::compress(&fp32, &Options::new(Dtype::F32).shape([600, 300])).unwrap().len();
    for (row, bytes) in fp32.chunks_mut(1200).enumerate() {
        if row % 3 == 0 {
            bytes.chunks_mut(4).for_each(|element| element[0] = 0);
            bytes.chunks_mut(4).for_each(|element| element[1] &= 0xe0);
        }
    }
    let frame = z4ai::compress(&fp32, &Options::new(Dtype::F32).shape([600, 300])).unwrap();
    assert!(frame.len() + 600 * 300 / 3 * 12 / 8 < plain, "{} {plain}", frame.len());
    assert!(z4ai::decompress(&frame).unwrap() == fp32);
    let mut slice = vec![0; 99_001];
    z4ai::Frame::open(&frame).and_then(|frame| frame.read_into(500_001..599_002, &mut slice)).unwrap();
    assert!(slice == fp32[500_001..599_002]);
}

#[test]
fn edges() {
    for dtype in Dtype::all().map(Some).chain([None]) {
        for length in [0usize, 1, 2, 3, 7, 8, 9, 17] {
            let bytes: Vec<u8> = (0..length as u8).map(|i| i.wrapping_mul(97)).collect();
            let frame = z4ai::compress(&bytes, &Options { dtype, ..Options::default() }).unwrap();
            assert_eq!(z4ai::decompress(&frame).unwrap(), bytes, "{dtype:?} {length}");
            assert!(frame.len() <= bytes.len() + 64);
        }
    }
    let scalar = z4ai::compress(&[1, 2, 3, 4], &Options::new(Dtype::F32).shape([])).unwrap();
    assert_eq!(z4ai::decompress(&scalar).unwrap(), [1, 2, 3, 4]);
    let error = z4ai::compress(&[0; 8], &Options::new(Dtype::F32).shape([3])).unwrap_err();
    assert_eq!(error.kind(), z4ai::ErrorKind::InvalidShape);
}

#[test]
fn wrong_sizes_are_refused_before_writing() {
    let frame = z4ai::compress(&[7; 100], &Options::default()).unwrap();
    let mut out = [1u8; 99];
    let error = z4ai::Frame::open(&frame).and_then(|frame| frame.read_all_into(&mut out)).unwrap_err();
    assert_eq!(error.kind(), z4ai::ErrorKind::WrongOutputSize);
    assert_eq!(out, [1; 99]);
    let error =
        z4ai::Frame::open(&frame).and_then(|frame| frame.read_into(90..101, &mut [0; 11])).unwrap_err();
    assert_eq!(error.kind(), z4ai::ErrorKind::OutOfRange);
    let error = z4ai::Frame::open(&frame).and_then(|frame| frame.read_into(90..95, &mut [0; 4])).unwrap_err();
    assert_eq!(error.kind(), z4ai::ErrorKind::WrongOutputSize);
}

#[test]
fn ranges_of_repeated_data_are_right() {
    let mut state = 1u32;
    let mut noise = |count: usize| -> Vec<u8> {
        let next = |_| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (0.02 * ((state >> 8) as f32 / (1 << 23) as f32 - 1.0)).to_bits().to_le_bytes()
        };
        (0..count).flat_map(next).collect()
    };
    let layer = noise(200_000);
    let data = [&layer[..], &noise(5000), &layer, &layer[40_000..400_000], &noise(77)].concat();
    for effort in [Effort::Fast, Effort::Default, Effort::Max] {
        let frame = z4ai::compress(&data, &Options::new(Dtype::F32).effort(effort)).unwrap();
        assert!(frame.len() < layer.len() + 5077 * 4 + 4096, "{}", frame.len());
        assert!(z4ai::decompress(&frame).unwrap() == data);
        for (start, length) in
            [(0, 10), (799_990, 30), (900_001, 500_003), (1_619_000, 5000), (data.len() - 9, 9)]
        {
            let mut out = vec![0; length];
            z4ai::Frame::open(&frame)
                .and_then(|frame| frame.read_into(start as u64..(start + length) as u64, &mut out))
                .unwrap();
            assert!(out == data[start..start + length], "{start} {length}");
        }
    }
}

#[test]
fn values_that_recur_far_apart_are_no_larger_than_opaque_bytes() {
    // The basis of a Fourier transform, as models for sound carry it.
    let basis: Vec<u8> = (0..256 * 256u32)
        .map(|i| f64::from((i / 256) * (i % 256) % 256) / 256.0 * std::f64::consts::TAU)
        .flat_map(|angle| (angle.cos() as f32).to_le_bytes())
        .collect();
    let floats = Options { shape: Some(vec![256, 256]), ..Options::new(Dtype::F32) };
    let (typed, opaque) =
        (z4ai::compress(&basis, &floats).unwrap(), z4ai::compress(&basis, &Options::default()).unwrap());
    assert!(typed.len() <= opaque.len() + 64, "{} {}", typed.len(), opaque.len());
    assert_eq!(z4ai::decompress(&typed).unwrap(), basis);
}

#[test]
fn floats_of_which_many_are_far_from_the_others_survive() {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        state >> 16
    };
    // More octaves than symbols can tell apart, and enough escapes that a block has to make room for them.
    let element = |_| ((next() % 2) << 15 | (40 + next() % 150) << 7 | (next() % 4) << 5) as u16;
    let bytes: Vec<u8> = (0..150_000).map(element).flat_map(u16::to_le_bytes).collect();
    let frame = z4ai::compress(&bytes, &Options::new(Dtype::Bf16)).unwrap();
    assert!(frame.len() < bytes.len());
    assert_eq!(z4ai::decompress(&frame).unwrap(), bytes);
}

/// In sections of this length one in two stretches of 64 elements is counted, and tables follow from a shape.
#[test]
fn floats_far_from_the_others_survive_where_they_are_not_counted() {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        state >> 16
    };
    let mut elements: Vec<u16> = (0..1 << 17)
        .map(|_| ((0x7d + next() % 4) << 7 | next() & 0x7f | (next() & 1) << 15) as u16)
        .collect();
    elements[64..70].fill(0x0d80);
    let bytes: Vec<u8> = elements.into_iter().flat_map(u16::to_le_bytes).collect();
    for effort in [Effort::Fast, Effort::Default, Effort::Max] {
        let frame = z4ai::compress(&bytes, &Options::new(Dtype::Bf16).effort(effort)).unwrap();
        assert!(z4ai::decompress(&frame).unwrap() == bytes, "{effort:?}");
    }
}

/// Long filters of a convolution: each has a scale of its own, and neighbours in it tend to have the same
/// sign.
#[test]
fn long_filters_share_scales_and_signs() {
    let mut random = cases::Random::new(5);
    let values: Vec<f32> = (0..1024)
        .flat_map(|_| {
            let (scale, mut value) = (1.0 / (1u32 << random.below(6)) as f32, 0.0);
            std::array::from_fn::<f32, 64, _>(|_| {
                value = value * 0.8 + random.normal() * 0.6;
                value * scale
            })
        })
        .collect();
    let bytes = cases::bf16s(&values);
    let size = |shape: &[u64]| {
        let frame = z4ai::compress(&bytes, &Options::new(Dtype::Bf16).shape(shape)).unwrap();
        assert!(z4ai::decompress(&frame).unwrap() == bytes);
        let parts: Vec<String> =
            z4ai::Info::read(&frame).unwrap().planes.into_iter().map(|plane| plane.name).collect();
        assert!(parts.iter().any(|name| name == "sign"), "{parts:?}");
        frame.len()
    };
    let (filters, rows) = (size(&[32, 32, 64]), size(&[32, 2048]));
    assert!(filters * 100 < rows * 97, "{filters} {rows}");
}
