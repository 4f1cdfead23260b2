//! Round trips, agreement of the kernels, and damage.

use super::decode::decode;
use super::encode::encode;
use super::*;
use crate::agreement::on_each;
use crate::arch::{Kernel, dispatch};
use proptest::prelude::*;

const GEOMETRIES: [FloatFields; 5] =
    [FloatFields::BF16, FloatFields::FP16, FloatFields::FP32, FloatFields::FP8_E4M3, FloatFields::FP8_E5M2];

/// Roughly normal weights with the given step of scale per row, as bf16 or the top of fp32.
pub(super) fn weights(count: usize, row_length: usize, geometry: FloatFields) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32
    };
    let mut bytes = Vec::new();
    for index in 0..count {
        let normal = (0..6).map(|_| uniform()).sum::<f32>() - 3.0;
        let value = normal * 0.02 * (1.0 + (index / row_length % 7) as f32);
        match (geometry.width, geometry.mantissa_bits) {
            (4, _) => bytes.extend(value.to_le_bytes()),
            (2, 7) => bytes.extend(&value.to_le_bytes()[2..]),
            (2, _) => {
                let bits = value.to_bits();
                bytes.extend(((bits >> 16 & 0x8000 | bits >> 13 & 0x7fff) as u16).to_le_bytes());
            }
            _ => bytes.push((value.to_bits() >> 24) as u8),
        }
    }
    bytes
}

/// Octaves by which the mean exponent of each row and of each column lies above the mean of all.
pub(super) fn mean_shifts(exponents: &[u8], row_length: usize) -> (Vec<u8>, Vec<u8>) {
    let mean = |of: &mut dyn Iterator<Item = &u8>| {
        let (sum, count) =
            of.fold((0.0, 0.0), |(sum, count), &exponent| (sum + f64::from(exponent), count + 1.0));
        sum / count
    };
    let all = mean(&mut exponents.iter());
    let rows =
        exponents.chunks_exact(row_length).map(|row| (mean(&mut row.iter()) - all).round() as i32 as u8);
    let columns =
        (0..row_length).map(|column| mean(&mut exponents.iter().skip(column).step_by(row_length)) - all);
    (rows.collect(), columns.map(|octaves| octaves.round() as i32 as u8).collect())
}

/// Encodes and decodes with every kernel of this CPU; all must agree.
fn all_kernels(elements: &[u8], geometry: FloatFields, shifts: Shifts<'_>) -> Vec<u8> {
    let mut reference = Vec::new();
    Kernel::PORTABLE.run(|| encode(elements, geometry, shifts, &mut reference)).unwrap();
    for kernel in Kernel::available() {
        kernel.run(|| {
            let mut block = Vec::new();
            encode(elements, geometry, shifts, &mut block).unwrap();
            assert_eq!(block, reference, "{kernel:?} wrote different bytes");
            let mut out = vec![0xaa; elements.len()];
            decode(&block, geometry, shifts, &mut out).unwrap();
            assert_eq!(out, elements, "{kernel:?}");
        });
    }
    reference
}

/// Decodes bytes that may be damaged with every kernel; all must agree on the error or on the elements.
fn decode_damaged(block: &[u8], geometry: FloatFields, length: usize) -> Option<Vec<u8>> {
    let results = Kernel::available().into_iter().map(|kernel| {
        kernel.run(|| {
            let mut out = vec![0; length];
            decode(block, geometry, Shifts::default(), &mut out)
                .map(|()| out)
                .map_err(|error| error.to_string())
        })
    });
    let results: Vec<_> = results.collect();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    results.into_iter().next().unwrap().ok()
}

/// Elements as a mixture of clustered and arbitrary bit patterns: NaN payloads, infinities, zeros and
/// denormals included.
fn elements() -> impl Strategy<Value = (Vec<u8>, FloatFields)> {
    let cluster = (any::<u32>(), 0_u32..32);
    (prop::collection::vec(any::<u32>(), 0..3000), cluster, 0..GEOMETRIES.len(), 0_u32..=100).prop_map(
        |(patterns, (centre, spread), geometry, wild)| {
            let geometry = GEOMETRIES[geometry];
            let mut bytes = Vec::new();
            for pattern in patterns {
                let near = centre ^ pattern.checked_shr(spread).unwrap_or(0);
                let value = if pattern % 100 < wild { pattern } else { near };
                bytes.extend(&value.to_le_bytes()[4 - geometry.width..]);
            }
            (bytes, geometry)
        },
    )
}

/// Symbols of which few are frequent.
fn symbols() -> impl Strategy<Value = Vec<u8>> {
    let symbol = prop_oneof![4 => Just(120u8), 4 => 117u8..123, 1 => any::<u8>()];
    prop::collection::vec(symbol, 1..NESTED_CHUNK)
}

fn tails<T: TailWord>(elements: &[u8], geometry: FloatFields) {
    let elements = &elements[..elements.len().min(NESTED_CHUNK * T::BYTES)];
    let mut exponents = vec![0; elements.len() / T::BYTES];
    let tail = tail::split::<T>(elements, geometry, &mut exponents);
    let planes = on_each(|| {
        let mut planes = Vec::new();
        dispatch!(kernel => kernel.store_tail::<T>(elements, tail, &mut planes));
        planes
    });
    let merged = on_each(|| {
        let mut out = vec![0xcc; elements.len()];
        dispatch!(kernel => kernel.merge_tail::<T>(&exponents, tail, &planes, &mut out)).unwrap();
        out
    });
    assert_eq!(merged, elements);
}

proptest! {
    #[test]
    fn kernels_agree_on_deposit_and_extract(bits in any::<u64>(), chosen in any::<u64>()) {
        let escapes = chosen & 0x5555_5555_5555_5555;
        on_each(|| dispatch!(kernel => {
            [kernel.deposit::<1>(bits, escapes), kernel.deposit::<2>(bits, escapes)]
        }));
        on_each(|| dispatch!(kernel => {
            [kernel.extract::<1>(bits, escapes), kernel.extract::<2>(bits, escapes)]
        }));
    }

    #[test]
    fn kernels_agree_on_symbols_of_ranks(low in any::<[u64; 4]>(), high in any::<[u64; 4]>(), symbols in any::<[u8; 16]>()) {
        on_each(|| {
            let mut out = [0; 128];
            dispatch!(kernel => kernel.symbols_of_ranks(&low, &high, &symbols, &mut out));
            out
        });
    }

    #[test]
    fn kernels_agree_on_ranks_of_and_histogram(table in prop::collection::vec(any::<u8>(), 256), symbols in symbols()) {
        let table: [u8; 256] = table.try_into().unwrap();
        on_each(|| {
            let mut ranks = vec![0xcc; symbols.len()];
            dispatch!(kernel => kernel.ranks_of(&table, &symbols, &mut ranks));
            ranks
        });
        on_each(|| dispatch!(kernel => kernel.histogram(&symbols)));
    }

    #[test]
    fn kernels_agree_on_encode_nested(symbols in symbols()) {
        let code = Code::design(&histogram(&symbols));
        on_each(|| {
            let mut levels: Vec<BitStream> = code.widths.iter().map(|_| BitStream::default()).collect();
            let mut spelled = Vec::new();
            dispatch!(kernel => kernel.encode_nested(&symbols, &code, &mut levels, &mut spelled));
            (levels.into_iter().map(BitStream::finish).collect::<Vec<_>>(), spelled)
        });
    }

    /// Of any bytes; each stream begins somewhere.
    #[test]
    fn kernels_agree_on_decode_nested(
        symbols in symbols(),
        block in prop::collection::vec(any::<u8>(), 0..9000),
        starts in any::<[prop::sample::Index; 9]>(),
        groups in 1..=NESTED_CHUNK / NESTED_GROUP,
    ) {
        let code = Code::design(&histogram(&symbols));
        let start = |level: usize| starts[level].index(block.len() + 1);
        on_each(|| {
            let levels = (0..code.widths.len()).map(|level| 8 * start(level)).collect();
            let mut cursor = Cursor { block: &block, levels, spelled: start(8) };
            let (mut out, soon) = ([0; NESTED_CHUNK], [&block[..], &block[..]]);
            let count = groups * NESTED_GROUP;
            dispatch!(kernel => kernel.decode_nested(&mut cursor, &code, count, &mut out, soon))
                .ok()
                .map(|()| (out[..count].to_vec(), cursor.levels, cursor.spelled))
        });
    }

    #[test]
    fn kernels_agree_on_store_tail_and_merge_tail((bytes, geometry) in elements()) {
        match geometry.width {
            1 => tails::<u8>(&bytes, geometry),
            2 => tails::<u16>(&bytes, geometry),
            _ => tails::<u32>(&bytes, geometry),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_elements_come_back((bytes, geometry) in elements()) {
        all_kernels(&bytes, geometry, Shifts::default());
    }

    #[test]
    fn any_shifts_cancel(
        (bytes, geometry) in elements(),
        rows in prop::collection::vec(any::<u8>(), 3001),
        columns in prop::collection::vec(any::<u8>(), 1..500),
        first in any::<prop::sample::Index>(),
        use_rows in any::<bool>(),
        use_columns in any::<bool>(),
    ) {
        let shifts = Shifts {
            rows: if use_rows { &rows } else { &[] },
            columns: if use_columns { &columns } else { &[] },
            row_length: columns.len(),
            first_column: first.index(columns.len()),
        };
        all_kernels(&bytes, geometry, shifts);
    }

    #[test]
    fn arbitrary_blocks_never_panic(
        block in prop::collection::vec(any::<u8>(), 0..600),
        count in 0_usize..1500,
        geometry in 0..GEOMETRIES.len(),
    ) {
        let geometry = GEOMETRIES[geometry];
        decode_damaged(&block, geometry, count * geometry.width);
    }
}

#[test]
fn every_length_around_a_group_comes_back() {
    for geometry in GEOMETRIES {
        for count in (0..300).chain([
            511,
            512,
            513,
            NESTED_CHUNK - 1,
            NESTED_CHUNK,
            NESTED_CHUNK + 1,
            2 * NESTED_CHUNK + 129,
            5 * NESTED_CHUNK + 77,
        ]) {
            all_kernels(&weights(count, 50, geometry), geometry, Shifts::default());
        }
    }
}

#[test]
fn normal_weights_reach_the_expected_size() {
    let count = 1 << 17;
    let bits = |geometry| {
        all_kernels(&weights(count, count, geometry), geometry, Shifts::default()).len() as f64 * 8.0
            / count as f64
    };
    assert!(bits(FloatFields::BF16) < 10.75, "{}", bits(FloatFields::BF16));
    assert!(bits(FloatFields::FP32) < 26.75, "{}", bits(FloatFields::FP32));
}

#[test]
fn constant_bits_are_not_stored() {
    let constant: Vec<u8> = std::iter::repeat_n(0x3f80_0000_u32.to_le_bytes(), 10_000).flatten().collect();
    assert!(all_kernels(&constant, FloatFields::FP32, Shifts::default()).len() < 64);
    let top_only: Vec<u8> =
        weights(4096, 4096, FloatFields::BF16).chunks(2).flat_map(|two| [0, 0, two[0], two[1]]).collect();
    let bytes = all_kernels(&top_only, FloatFields::FP32, Shifts::default());
    assert!(bytes.len() * 8 < 11 * 4096 + 1024, "{}", bytes.len());
}

#[test]
fn measured_shifts_make_scaled_rows_smaller() {
    let (rows, row_length) = (96, 700);
    let mut bytes = weights(rows * row_length, row_length, FloatFields::BF16);
    for (row, elements) in bytes.chunks_exact_mut(row_length * 2).enumerate() {
        elements
            .chunks_exact_mut(2)
            .for_each(|two| two[1] = two[1] & 0x80 | (two[1] & 0x7f).saturating_sub(row as u8 % 11));
    }
    let exponents: Vec<u8> =
        bytes.chunks_exact(2).map(|two| (u16::from_le_bytes([two[0], two[1]]) >> 7) as u8).collect();
    let (rows, columns) = mean_shifts(&exponents, row_length);
    let shifted = all_kernels(
        &bytes,
        FloatFields::BF16,
        Shifts { rows: &rows, columns: &columns, row_length, first_column: 0 },
    );
    let plain = all_kernels(&bytes, FloatFields::BF16, Shifts::default());
    assert!(
        shifted.len() + rows.len() + columns.len() < plain.len() * 95 / 100,
        "{} {}",
        shifted.len(),
        plain.len()
    );
}

#[test]
fn truncations_are_refused_and_flips_stay_in_bounds() {
    let elements = weights(900, 30, FloatFields::FP16);
    let block = all_kernels(&elements, FloatFields::FP16, Shifts::default());
    for end in 0..block.len() {
        assert_eq!(decode_damaged(&block[..end], FloatFields::FP16, elements.len()), None);
    }
    for bit in 0..block.len() * 8 {
        let mut flipped = block.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        decode_damaged(&flipped, FloatFields::FP16, elements.len());
    }
}

#[test]
fn kernels_agree_on_damage_in_long_blocks() {
    for geometry in GEOMETRIES {
        let elements = weights(2 * NESTED_CHUNK + 300, 50, geometry);
        let block = all_kernels(&elements, geometry, Shifts::default());
        for bit in (0..block.len() * 8).step_by(251).chain(0..32 * 8) {
            let mut flipped = block.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            decode_damaged(&flipped, geometry, elements.len());
        }
        for end in (0..block.len()).step_by(97) {
            assert_eq!(decode_damaged(&block[..end], geometry, elements.len()), None);
        }
    }
}

/// Planes of every number of bits, with stored and with constant signs.
#[test]
fn mantissas_of_any_length_come_back() {
    for geometry in [FloatFields::BF16, FloatFields::FP16, FloatFields::FP32] {
        for zeros in 0..=geometry.mantissa_bits {
            for (clear, set) in [(0, 0), (1 << geometry.sign_bit(), 0), (0, 1_u32 << geometry.sign_bit())] {
                let mut elements = weights(NESTED_CHUNK + 400, 50, geometry);
                for element in elements.chunks_exact_mut(geometry.width) {
                    let value = element.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
                    let value = (value & u32::MAX << zeros & !clear) | set;
                    element.copy_from_slice(&value.to_le_bytes()[..geometry.width]);
                }
                all_kernels(&elements, geometry, Shifts::default());
            }
        }
    }
}

#[test]
fn a_block_for_another_count_is_refused() {
    let block = all_kernels(&weights(1000, 100, FloatFields::BF16), FloatFields::BF16, Shifts::default());
    for bytes in [0, 1, 1998, 2002, 4000] {
        assert_eq!(decode_damaged(&block, FloatFields::BF16, bytes), None);
    }
}
