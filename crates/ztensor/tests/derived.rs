//! Derived tensors: casts of a base's tensors under any name, relatives inside one file, parts of them, and hostile recipes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use ztensor::archive::{ArchiveOptions, archive_bytes, restore_bytes};
use ztensor::delta::{Candidate, apply_bytes, make_bytes};
use ztensor::recipe::{Number, Order, Precision, Quantiser, Recipe, Rounding, Voice};
use ztensor::{Kind, OpenOptions, Reader};

/// Weights that look like weights: small, of both signs, no two alike.
fn weights(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1u32 << 24) as f32 - 0.5
    };
    (0..count).map(|_| 0.05 * (next() + next() + next() + next())).collect()
}

fn safetensors(tensors: &[(&str, &str, [usize; 2], Vec<u8>)]) -> Vec<u8> {
    let mut offset = 0;
    let entries = tensors.iter().map(|(name, dtype, [rows, columns], bytes)| {
        let start = offset;
        offset += bytes.len();
        format!(
            r#""{name}":{{"dtype":"{dtype}","shape":[{rows},{columns}],"data_offsets":[{start},{offset}]}}"#
        )
    });
    let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    tensors.iter().for_each(|(_, _, _, data)| bytes.extend_from_slice(data));
    bytes
}

fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn f16_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| half::f16::from_f32(*value).to_le_bytes()).collect()
}

fn bf16_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| half::bf16::from_f32(*value).to_le_bytes()).collect()
}

fn opened(bytes: &[u8]) -> Arc<Reader> {
    Arc::new(Reader::from_bytes(bytes.to_vec()).unwrap())
}

#[test]
fn casts_of_the_base_are_nearly_free_whatever_their_names() {
    let (one, two) = (weights(128 * 256, 1), weights(128 * 256, 2));
    let base = safetensors(&[
        ("model.layers.0.mlp.up_proj.weight", "F32", [128, 256], f32_bytes(&one)),
        ("model.layers.1.mlp.up_proj.weight", "F32", [128, 256], f32_bytes(&two)),
    ]);
    for (dtype, narrow) in [("F16", f16_bytes as fn(&[f32]) -> Vec<u8>), ("BF16", bf16_bytes)] {
        for names in [
            ["model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight"],
            ["blk.0.ffn_up.weight", "blk.1.ffn_up.weight"],
            ["a.0.b", "a.1.b"],
        ] {
            let target = safetensors(&[
                (names[0], dtype, [128, 256], narrow(&one)),
                (names[1], dtype, [128, 256], narrow(&two)),
            ]);
            let reader = opened(&base);
            let (delta, stats) =
                make_bytes(target.clone(), &[Arc::clone(&reader)], &ArchiveOptions::default()).unwrap();
            assert_eq!((stats.derived, stats.deltas), (2, 0), "{dtype} {names:?}");
            assert!(delta.len() < 2500, "{dtype} {names:?}: {}", delta.len());
            assert_eq!(
                apply_bytes(delta.clone(), &[Candidate::Opened(Arc::clone(&reader))]).unwrap(),
                target
            );
            // A part of a tensor, and what is said of it.
            let options = OpenOptions { bases: vec![Candidate::Opened(reader)], ..OpenOptions::default() };
            let made = options.open_bytes(delta).unwrap();
            let mut part = vec![0; 1001];
            made.component_range_into(names[1], "data", 333, &mut part).unwrap();
            assert_eq!(part, narrow(&two)[333..1334]);
            assert_eq!(made.stored_encoding(names[1]).unwrap(), "derived");
            assert!(made.stored_recipe(names[1]).unwrap().unwrap().ends_with("of f32"));
        }
    }
}

#[test]
fn a_wrong_base_is_refused() {
    let values = weights(64 * 256, 3);
    let base = safetensors(&[("w", "F32", [64, 256], f32_bytes(&values))]);
    let target = safetensors(&[("w", "BF16", [64, 256], bf16_bytes(&values))]);
    let (delta, _) = make_bytes(target, &[opened(&base)], &ArchiveOptions::default()).unwrap();
    let mut other = base.clone();
    let middle = other.len() / 2 + 3;
    other[middle] ^= 0x20;
    let error = apply_bytes(delta.clone(), &[Candidate::Opened(opened(&other))]).unwrap_err();
    assert_eq!(error.kind(), Kind::WrongBase, "{error}");
    let bases = vec![Candidate::Opened(opened(&other))];
    let made = OpenOptions { bases, ..OpenOptions::default() }.open_bytes(delta).unwrap();
    assert_eq!(made.component_bytes("w", "data").unwrap_err().kind(), Kind::WrongBase);
}

/// What a range is not made of may be damaged: it is not read.
#[test]
fn one_tensor_reads_that_tensor_and_a_part_of_it_that_part() {
    let (rows, row) = (16_384, 256);
    let values = [weights(rows * row, 70), weights(rows * row, 71)];
    let shape = [rows, row];
    let base = safetensors(&[
        ("a", "F32", shape, f32_bytes(&values[0])),
        ("b", "F32", shape, f32_bytes(&values[1])),
    ]);
    let target = safetensors(&[
        ("a", "BF16", shape, bf16_bytes(&values[0])),
        ("b", "BF16", shape, bf16_bytes(&values[1])),
    ]);
    let (delta, stats) = make_bytes(target, &[opened(&base)], &ArchiveOptions::default()).unwrap();
    assert_eq!(stats.derived, 2);
    let mut damaged = base.clone();
    let end = damaged.len();
    // The second half of the second tensor.
    damaged[end - rows * row * 2..].iter_mut().for_each(|byte| *byte ^= 0x55);
    let bases = vec![Candidate::Opened(opened(&damaged))];
    let made = OpenOptions { bases, ..OpenOptions::default() }.open_bytes(delta).unwrap();
    assert_eq!(*made.component_bytes("a", "data").unwrap(), *bf16_bytes(&values[0]));
    let mut part = vec![0; 10_000];
    made.component_range_into("b", "data", 4321, &mut part).unwrap();
    assert_eq!(part, bf16_bytes(&values[1])[4321..14_321]);
    assert_eq!(made.component_bytes("b", "data").unwrap_err().kind(), Kind::WrongBase);
}

/// One block of a Q4_K tensor needs the numbers and the fields of that block.
#[test]
fn blocks_are_computed_by_themselves() {
    let quantiser = Quantiser::named("q4_k").unwrap();
    let fields = quantiser.fields.iter().enumerate();
    let fields = fields.map(|(place, field)| Recipe::operand(place + 1, field.number)).collect();
    let recipe = Recipe::operand(0, Number::Bf16).blocks(quantiser, fields);
    let blocks = 1 << 16;
    let lengths = [512, 2, 2, 8, 8].map(|bytes| bytes * blocks);
    assert_eq!(recipe.length(&lengths).unwrap(), 144 * blocks);
    assert_eq!(recipe.cost(&lengths, 144 * 777, 144).unwrap(), 512 + 2 + 2 + 8 + 8);
    assert_eq!(recipe.cost(&lengths, 144 * 777 + 100, 88).unwrap(), 2 * (512 + 2 + 2 + 8 + 8));
}

#[test]
fn tensors_of_several_bases() {
    let values: Vec<Vec<f32>> = (10..14).map(|seed| weights(64 * 256, seed)).collect();
    let one = safetensors(&[
        ("a.weight", "F32", [64, 256], f32_bytes(&values[0])),
        ("b.weight", "F32", [64, 256], f32_bytes(&values[1])),
    ]);
    let other = safetensors(&[
        ("a.weight", "F32", [64, 256], f32_bytes(&values[2])),
        ("b.weight", "F32", [64, 256], f32_bytes(&values[3])),
    ]);
    assert_eq!(one.len(), other.len());
    // A copy out of the first, a cast out of the second, whose neighbour has the name.
    let target = safetensors(&[
        ("b.weight", "F32", [64, 256], f32_bytes(&values[1])),
        ("a.weight", "BF16", [64, 256], bf16_bytes(&values[2])),
    ]);
    let (one, other) = (opened(&one), opened(&other));
    let spare = opened(&safetensors(&[("c", "F32", [64, 256], f32_bytes(&weights(64 * 256, 20)))]));
    let all = [Arc::clone(&spare), Arc::clone(&one), Arc::clone(&other)];
    let (delta, stats) = make_bytes(target.clone(), &all, &ArchiveOptions::default()).unwrap();
    assert_eq!((stats.copied, stats.derived), (1, 1));
    assert!(delta.len() < 2500, "{}", delta.len());
    let candidates = |bases: &[&Arc<Reader>]| -> Vec<Candidate> {
        bases.iter().map(|base| Candidate::Opened(Arc::clone(base))).collect()
    };
    // In any order, and without the one that was of no use.
    assert_eq!(apply_bytes(delta.clone(), &candidates(&[&other, &one])).unwrap(), target);
    assert_eq!(apply_bytes(delta.clone(), &candidates(&[&spare, &one, &other])).unwrap(), target);
    for (given, missing) in [(&one, "b"), (&other, "a")] {
        let error = apply_bytes(delta.clone(), &candidates(&[given])).unwrap_err();
        assert_eq!(error.kind(), Kind::WrongBase, "{missing}: {error}");
        assert!(error.to_string().contains("is missing"), "{error}");
    }
    let bases = candidates(&[&one, &other]);
    let made = OpenOptions { bases, ..OpenOptions::default() }.open_bytes(delta).unwrap();
    assert_eq!(made.archived().unwrap().bases.len(), 2);
}

/// Rounded to a precision, as the crate `half` does it.
fn rounded(precision: Precision, value: f32) -> f32 {
    match precision {
        Precision::F16 => half::f16::from_f32(value).to_f32(),
        Precision::Bf16 => half::bf16::from_f32(value).to_f32(),
        Precision::F32 | Precision::F64 => value,
    }
}

fn apply_all(recipe: &Recipe, operands: &[&[u8]]) -> Vec<u8> {
    let lengths: Vec<u64> = operands.iter().map(|operand| operand.len() as u64).collect();
    let mut all = vec![0; recipe.length(&lengths).unwrap() as usize];
    recipe.apply(&operands, &lengths, 0, &mut all).unwrap();
    let mut part = vec![0; all.len() / 3];
    recipe.apply(&operands, &lengths, 77, &mut part).unwrap();
    assert_eq!(part, all[77..77 + part.len()]);
    assert_eq!(Recipe::decode(&recipe.encode()).unwrap(), *recipe);
    all
}

#[test]
fn sums_round_where_merging_programs_do() {
    let (one, two) = (weights(5000, 31), weights(5000, 32));
    let operands = [f32_bytes(&one), f32_bytes(&two)];
    let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
    let parts = || vec![Recipe::operand(0, Number::F32), Recipe::operand(1, Number::F32)];
    for precision in [Precision::F32, Precision::F16, Precision::Bf16] {
        let round = |value: f32| rounded(precision, value);
        let (c, d, by) = (round(0.7), round(-0.4), round(1.3));
        let sum: Vec<f32> =
            one.iter().zip(&two).map(|(x, y)| round(round(round(c * x) + round(d * y)) / by)).collect();
        let made = apply_all(&Recipe::sum(precision, 1.3, vec![0.7, -0.4], parts()), &operands);
        let wanted = match precision {
            Precision::F16 => f16_bytes(&sum),
            Precision::Bf16 => bf16_bytes(&sum),
            Precision::F32 | Precision::F64 => f32_bytes(&sum),
        };
        assert_eq!(made, wanted, "{precision:?}");
        let loud = |x: f32, t: f32| if x.abs() >= t { x } else { 0.0 };
        let agreed = one.iter().zip(&two).map(|(x, y)| {
            let (p, q) = (round(c * loud(*x, 0.03)), round(round(0.4) * loud(*y, 0.02)));
            let all = round(p + q);
            let counts = |of: f32| (of > 0.0 && all >= 0.0) || (of < 0.0 && all < 0.0);
            let (mut sum, mut weight) = (0.0, 0.0);
            for (of, by) in [(p, c), (q, round(0.4))] {
                if counts(of) {
                    (sum, weight) = (sum + of, weight + by);
                }
            }
            let (sum, weight) = (round(sum), round(weight));
            if weight == 0.0 { sum } else { round(sum / weight) }
        });
        let agreed: Vec<f32> = agreed.collect();
        let voices = vec![Voice { weight: 0.7, threshold: 0.03 }, Voice { weight: 0.4, threshold: 0.02 }];
        let made = apply_all(&Recipe::consensus(precision, true, voices, parts()), &operands);
        let wanted = match precision {
            Precision::F16 => f16_bytes(&agreed),
            Precision::Bf16 => bf16_bytes(&agreed),
            Precision::F32 | Precision::F64 => f32_bytes(&agreed),
        };
        assert_eq!(made, wanted, "{precision:?}");
    }
    let made = apply_all(&Recipe::sum(Precision::F64, 3.0, vec![0.7, -0.4], parts()), &operands);
    let wide = |x: f32, y: f32| ((0.7 * f64::from(x) + -0.4 * f64::from(y)) / 3.0) as f32;
    assert_eq!(made, f32_bytes(&one.iter().zip(&two).map(|(x, y)| wide(*x, *y)).collect::<Vec<_>>()));
}

#[test]
fn products_are_exact() {
    let (rank, rows, row) = (5usize, 33usize, 70usize);
    let integers = |count: usize, seed: u32| -> Vec<i16> {
        weights(count, seed).iter().map(|value| (value * 330_000.0) as i16).collect()
    };
    let (left, right) = (integers(rank * rows, 41), integers(rank * row, 42));
    let bytes = |of: &[i16]| -> Vec<u8> { of.iter().flat_map(|value| value.to_le_bytes()).collect() };
    let value = |place: usize| {
        let (i, j) = (place / row, place % row);
        let sum: i64 = (0..rank).map(|k| i64::from(left[k * rows + i]) * i64::from(right[k * row + j])).sum();
        sum as f32 * 1e-6f32
    };
    let wanted: Vec<f32> = (0..rows * row).map(value).collect();
    let of = |rank: usize, rows: usize| {
        let (left, right) = (Recipe::operand(0, Number::I16), Recipe::operand(1, Number::I16));
        Recipe::product(rank as u64, (rows as u64, row as u64), 1e-6, left, right)
    };
    let operands = [bytes(&left), bytes(&right)];
    let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
    assert_eq!(apply_all(&of(rank, rows), &operands), f32_bytes(&wanted));
    let lengths: Vec<u64> = operands.iter().map(|operand| operand.len() as u64).collect();
    assert_eq!(of(rank, rows + 1).length(&lengths).unwrap_err().kind(), Kind::Malformed);
    assert_eq!(Recipe::decode(&of(257, rows).encode()).unwrap_err().kind(), Kind::Malformed);
    // Twice the ranks that one recipe may have.
    let two = Recipe::sum(Precision::F32, 1.0, vec![1.0; 2], vec![of(200, rows), of(200, rows)]);
    assert_eq!(Recipe::decode(&two.encode()).unwrap_err().kind(), Kind::Malformed);
    let endless = Recipe::sum(Precision::F32, f64::NAN, vec![1.0], vec![Recipe::operand(0, Number::I16)]);
    assert_eq!(Recipe::decode(&endless.encode()).unwrap_err().kind(), Kind::Malformed);
    let uneven = vec![Recipe::operand(0, Number::I16), Recipe::operand(1, Number::I16)];
    let uneven = Recipe::sum(Precision::F32, 1.0, vec![1.0; 2], uneven);
    assert_eq!(uneven.length(&lengths).unwrap_err().kind(), Kind::Malformed);
}

/// A delta of one bf16 tensor against bases that have one each, as bytes, after it gave back what it was made of.
fn delta_of(target: &[f32], bases: &[Vec<u8>], shape: [usize; 2]) -> (usize, String) {
    let model = |bytes: Vec<u8>| safetensors(&[("blk.0.ffn_up.weight", "BF16", shape, bytes)]);
    let bases: Vec<Arc<Reader>> = bases.iter().map(|bytes| opened(&model(bytes.clone()))).collect();
    let target = model(bf16_bytes(target));
    let (delta, stats) = make_bytes(target.clone(), &bases, &ArchiveOptions::default()).unwrap();
    assert_eq!(stats.derived, 1);
    let candidates: Vec<Candidate> = bases.into_iter().map(Candidate::Opened).collect();
    assert_eq!(apply_bytes(delta.clone(), &candidates).unwrap(), target);
    let made = OpenOptions { bases: candidates, ..OpenOptions::default() };
    let made = made.open_bytes(delta.clone()).unwrap();
    (delta.len(), made.stored_recipe("blk.0.ffn_up.weight").unwrap().unwrap())
}

#[test]
fn merges_of_several_bases_are_found() {
    let shape = [256, 256];
    let common = weights(256 * 256, 50);
    let parents: Vec<Vec<f32>> = (51..54)
        .map(|seed| {
            let noise = weights(256 * 256, seed);
            let near = common.iter().zip(noise).map(|(w, noise)| w + 0.1 * noise);
            near.map(|value| half::bf16::from_f32(value).to_f32()).collect()
        })
        .collect();
    let bases: Vec<Vec<u8>> = parents.iter().map(|parent| bf16_bytes(parent)).collect();
    let merged = |coefficients: &[f32], precision: Precision| -> Vec<f32> {
        let round = |value: f32| rounded(precision, value);
        let element = |place: usize| {
            let products = coefficients.iter().zip(&parents).map(|(c, of)| round(round(*c) * of[place]));
            round(products.fold(0.0, |sum, product| sum + product))
        };
        (0..common.len()).map(element).collect()
    };
    for (coefficients, precision) in [
        (&[0.6, 0.4][..], Precision::F32),
        (&[0.6, 0.4], Precision::Bf16),
        // As if spherical.
        (&[0.712_345_6, 0.301_234_5], Precision::F32),
        (&[0.5, 0.3, 0.2], Precision::Bf16),
    ] {
        let (length, recipe) = delta_of(&merged(coefficients, precision), &bases, shape);
        assert!(length < 2200, "{coefficients:?} {precision:?}: {length}, {recipe}");
    }
    let (_, recipe) = delta_of(&merged(&[0.6, 0.4], Precision::Bf16), &bases, shape);
    assert_eq!(recipe, "0.6 bf16 + 0.4 bf16");
}

#[test]
fn merged_adapters_are_found() {
    let (rows, row, rank) = (384, 512, 4);
    let base = weights(rows * row, 60);
    let base: Vec<f32> = base.iter().map(|value| half::bf16::from_f32(*value).to_f32()).collect();
    let (left, right) = (weights(rows * rank, 61), weights(rank * row, 62));
    let element = |place: usize| {
        let (i, j) = (place / row, place % row);
        let change: f32 = (0..rank).map(|k| left[i * rank + k] * right[k * row + j]).sum();
        base[place] + 0.8 * change
    };
    let target: Vec<f32> = (0..rows * row).map(element).collect();
    let (length, recipe) = delta_of(&target, &[bf16_bytes(&base)], [rows, row]);
    // Factors of twelve bits are 0.22 bits per element of so small a matrix.
    assert!(8 * length < rows * row, "{length}, {recipe}");
    assert_eq!(recipe, "bf16 of 1 bf16 + a product of rank 4");
}

#[test]
fn relatives_inside_one_file_are_used() {
    let values = weights(256 * 256, 4);
    let average: Vec<f32> =
        values.iter().zip(weights(256 * 256, 5)).map(|(w, noise)| w + noise * 1e-3).collect();
    let file = safetensors(&[
        ("ema.w.1", "F32", [256, 256], f32_bytes(&average)),
        ("master.w.1", "F32", [256, 256], f32_bytes(&values)),
        ("w.1", "BF16", [256, 256], bf16_bytes(&values)),
        ("other.2", "BF16", [256, 256], bf16_bytes(&weights(256 * 256, 6))),
    ]);
    let (archive, stats) = archive_bytes(file.clone(), &ArchiveOptions::default()).unwrap();
    assert_eq!(stats.derived, 2);
    // 27 bits for the average, 21 for the master copy, nothing for its cast, 11 for the other.
    assert!(archive.len() < file.len() * 70 / 100, "{} of {}", archive.len(), file.len());
    assert_eq!(restore_bytes(archive.clone()).unwrap(), file);
    let reader = Reader::from_bytes(archive).unwrap();
    assert_eq!(*reader.component_bytes("w.1", "data").unwrap(), *bf16_bytes(&values));
}

#[test]
fn recipes_are_read_back_and_bounded() {
    let quantiser = Quantiser::named("q4_k").unwrap();
    let fields = quantiser.fields.iter().enumerate();
    let fields = fields.map(|(place, field)| Recipe::operand(place + 1, field.number)).collect();
    let recipe = Recipe::operand(0, Number::Bf16).rows(Order::Interleaved, 2, 64).blocks(quantiser, fields);
    assert_eq!(Recipe::decode(&recipe.encode()).unwrap(), recipe);
    let bytes = recipe.encode();
    for length in 0..bytes.len() {
        assert!(Recipe::decode(&bytes[..length]).is_err());
    }
    // Two blocks: 512 numbers in 8 rows of 64.
    assert_eq!(recipe.length(&[1024, 4, 4, 16, 16]).unwrap(), 288);
    for lengths in
        [vec![1022, 4, 4, 16, 16], vec![1024, 4, 4, 16, 15], vec![1024, 4, 4, 16], vec![512, 2, 2, 8, 8, 1]]
    {
        let fits = recipe.length(&lengths);
        assert!(fits.is_err() || lengths.len() == 6, "{lengths:?}");
    }
    let unknown = [0x82, 0x65, b'm', b'a', b'g', b'i', b'c', 0x00];
    assert_eq!(Recipe::decode(&unknown).unwrap_err().kind(), Kind::Unsupported);
    let mut deep = Recipe::operand(0, Number::F32);
    for _ in 0..20 {
        deep = deep.cast(Number::F32, Rounding::Nearest);
    }
    assert_eq!(Recipe::decode(&deep.encode()).unwrap_err().kind(), Kind::Malformed);
    let wide = Recipe::join(vec![Recipe::operand(0, Number::F32); 2000]);
    assert_eq!(Recipe::decode(&wide.encode()).unwrap_err().kind(), Kind::Malformed);
}

#[test]
fn rows_slices_and_joins_put_numbers_where_they_belong() {
    let values: Vec<u8> = (0..16 * 16u32).map(|number| (number / 16) as u8).collect();
    let rows = |recipe: &Recipe| {
        let mut out = vec![0; recipe.length(&[256]).unwrap() as usize];
        recipe.apply(&&[&values[..]][..], &[256], 0, &mut out).unwrap();
        // Any part is the same as in all of it.
        let mut part = vec![0; 37];
        recipe.apply(&&[&values[..]][..], &[256], 21, &mut part).unwrap();
        assert_eq!(part, out[21..58]);
        out.chunks(16).map(|row| row[0]).collect::<Vec<_>>()
    };
    let plain = Recipe::operand(0, Number::U8);
    let interleaved = plain.clone().rows(Order::Interleaved, 2, 16);
    assert_eq!(rows(&interleaved), [0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15]);
    assert_eq!(rows(&interleaved.rows(Order::Separated, 2, 16)), (0..16).collect::<Vec<u8>>());
    let parts = vec![plain.clone().slice(128, 64), plain.clone().slice(0, 32)];
    assert_eq!(rows(&Recipe::join(parts)), [8, 9, 10, 11, 0, 1]);
    assert!(plain.slice(250, 7).length(&[256]).is_err());
}

#[test]
fn scales_are_those_of_their_places() {
    let values: Vec<f32> = (0..4 * 32).map(|number| number as f32).collect();
    let scales: Vec<f32> = vec![1.0, 2.0, 4.0, 8.0];
    let (values, scales) = (f32_bytes(&values), f32_bytes(&scales));
    let scaled = |groups| {
        let recipe =
            Recipe::operand(0, Number::F32).scaled(Number::I8, 32, groups, Recipe::operand(1, Number::F32));
        let lengths = [values.len() as u64, scales.len() as u64];
        let mut out = vec![0; recipe.length(&lengths).ok()? as usize];
        recipe.apply(&&[&values[..], &scales[..]][..], &lengths, 0, &mut out).unwrap();
        Some(out)
    };
    let by_rows = scaled((1, 0)).unwrap();
    assert_eq!((by_rows[5], by_rows[32 + 6], by_rows[127]), (5, 19, 16));
    let by_tiles = scaled((2, 16)).unwrap();
    assert_eq!((by_tiles[5], by_tiles[16 + 4], by_tiles[64 + 4], by_tiles[127]), (5, 10, 17, 16));
    assert!(scaled((0, 0)).is_none() && scaled((1, 16)).is_none() && scaled((1, 4)).is_none());
}

/// Blocks of llama.cpp's own quantisers: floats and stored scales give the same levels.
#[cfg(feature = "gguf")]
#[test]
fn levels_are_those_of_llama_cpp() {
    let file = |name: &str| {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/derived").join(name);
        std::fs::read(path).unwrap()
    };
    let (base, blocks) = (opened(&file("base.gguf")), opened(&file("blocks.gguf")));
    let floats = base.component_bytes("w.weight", "data").unwrap();
    for (name, object) in blocks.objects() {
        let quantiser = Quantiser::named(&object.dtype().to_lowercase()).unwrap();
        let expected = blocks.component_bytes(name, "data").unwrap();
        let fields = quantiser.split(&expected);
        let nodes = (1..).zip(quantiser.fields).map(|(place, field)| Recipe::operand(place, field.number));
        let given = Recipe::operand(0, Number::Bf16).blocks(quantiser, nodes.collect());
        let mut operands = vec![&floats[..]];
        operands.extend(fields.iter().map(Vec::as_slice));
        let wrong = |recipe: &Recipe, operands: &[&[u8]]| {
            let lengths: Vec<u64> = operands.iter().map(|operand| operand.len() as u64).collect();
            let mut out = vec![0; recipe.length(&lengths).unwrap() as usize];
            recipe.apply(&operands, &lengths, 0, &mut out).unwrap();
            out.iter().zip(&*expected).filter(|(one, other)| one != other).count()
        };
        // Types that round with scales that are not those they store differ now and then.
        let allowed = match quantiser.name {
            "iq4_nl" | "iq4_xs" => 20,
            name if quantiser.computes_fields() => {
                if name == "q8_0" {
                    60
                } else {
                    40
                }
            }
            _ => 0,
        };
        let found = wrong(&given, &operands);
        assert!(found <= allowed, "{name}: {found} bytes of {}", expected.len());
        if quantiser.computes_fields() {
            let computed = Recipe::operand(0, Number::Bf16).blocks(quantiser, Vec::new());
            assert_eq!(wrong(&computed, &operands[..1]), 0, "{name}");
        }
    }
    let (delta, stats) =
        make_bytes(file("blocks.gguf"), &[Arc::clone(&base)], &ArchiveOptions::default()).unwrap();
    assert_eq!(stats.derived, stats.tensors);
    assert_eq!(apply_bytes(delta, &[Candidate::Opened(base)]).unwrap(), file("blocks.gguf"));
}
