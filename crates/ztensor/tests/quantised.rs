//! Recipes of quantised tensors: levels, words, transposed matrices and largest magnitudes, against plain loops; parts of them, and hostile ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use ztensor::Kind;
use ztensor::recipe::{
    Book, Groups, Levels, Number, Order, Packing, Precision, Quantiser, Recipe, Rounding, Voice,
};

fn weights(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1u32 << 24) as f32 - 0.5
    };
    (0..count).map(|_| 0.05 * (next() + next() + next() + next())).collect()
}

fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// All of the result. Any part is the same as in all of it, and the recipe is read back.
fn apply_all(recipe: &Recipe, operands: &[&[u8]]) -> Vec<u8> {
    let lengths: Vec<u64> = operands.iter().map(|operand| operand.len() as u64).collect();
    let mut all = vec![0; recipe.length(&lengths).unwrap() as usize];
    recipe.apply(&operands, &lengths, 0, &mut all).unwrap();
    let count = all.len();
    for (start, length) in [(0, 1), (count / 9 + 1, count / 3), (count / 2 + 1, count / 5), (count - 3, 3)] {
        let mut part = vec![0; length];
        recipe.apply(&operands, &lengths, start as u64, &mut part).unwrap();
        assert_eq!(part, all[start..start + length], "{start} {length}");
    }
    assert_eq!(Recipe::decode(&recipe.encode()).unwrap(), *recipe);
    all
}

fn integers(low: i16, high: i16, groups: Groups) -> Levels {
    Levels { to: Number::U8, precision: Precision::F32, factor: 0.0, book: Book::Integers(low, high), groups }
}

fn plain(number: usize) -> Recipe {
    Recipe::operand(number, Number::F32)
}

const ROWS: usize = 24;
const ROW: usize = 64;

#[test]
fn levels_are_counted_by_group() {
    let values = weights(ROWS * ROW, 1);
    for (down, across) in [(1, 16), (8, 1), (24, 64), (2, 24)] {
        let (high, wide) = (ROWS.div_ceil(down), ROW.div_ceil(across));
        let scales: Vec<f32> = weights(high * wide, 2).iter().map(|of| of.abs() * 0.2 + 1e-3).collect();
        let zeros: Vec<u8> = (0..high * wide).map(|place| (place % 9) as u8).collect();
        let groups = Groups { row: ROW as u64, down: down as u64, across: across as u64 };
        let operands = [f32_bytes(&values), f32_bytes(&scales), zeros.clone()];
        let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        let group = |place: usize| place / ROW / down * wide + place % ROW / across;
        let wanted = |factor: f32, round: fn(f32) -> f32| -> Vec<u8> {
            let level = |(place, value): (usize, &f32)| {
                let (scale, zero) = (scales[group(place)], f32::from(zeros[group(place)]));
                let quotient = if factor == 0.0 { value / scale } else { value * round(factor / scale) };
                round(round(quotient) + zero).round_ties_even().clamp(-3.0, 11.0) as i16 + 3
            };
            values.iter().enumerate().map(level).map(|level| level as u8).collect()
        };
        let bf16 = |value: f32| half::bf16::from_f32(value).to_f32();
        for (precision, round) in
            [(Precision::F32, (|value| value) as fn(f32) -> f32), (Precision::Bf16, bf16)]
        {
            for factor in [0.0, 0.7] {
                let levels = Levels { precision, factor, ..integers(-3, 11, groups) };
                let recipe = plain(0).levels(levels, plain(1), Some(Recipe::operand(2, Number::U8)));
                assert_eq!(apply_all(&recipe, &operands), wanted(factor, round), "{precision:?} {factor}");
            }
        }
    }
}

#[test]
fn tables_hold_codes_between_thresholds() {
    let values: Vec<f32> = (0..160).map(|number| (number as f32 - 80.0) / 16.0).collect();
    let groups = Groups { row: 160, down: 1, across: 0 };
    let (thresholds, codes) = (vec![-2.0, 0.5, 3.0], vec![7, 9, 1, 4]);
    let wanted: Vec<u8> = values
        .iter()
        .map(|value| match value / 2.0 {
            of if of > 3.0 => 4,
            of if of > 0.5 => 1,
            of if of > -2.0 => 9,
            _ => 7,
        })
        .collect();
    let levels = Levels { book: Book::Table { thresholds, codes }, ..integers(0, 1, groups) };
    let recipe = plain(0).levels(levels, plain(1), None);
    let operands = [f32_bytes(&values), f32_bytes(&[2.0])];
    assert_eq!(apply_all(&recipe, &[&operands[0], &operands[1]]), wanted);
    // Over a scale of 0 every number is 0.
    let nothing = f32_bytes(&[0.0]);
    assert_eq!(apply_all(&recipe, &[&operands[0], &nothing]), [9; 160]);
}

#[test]
fn words_hold_neighbours_or_columns() {
    let numbers: Vec<u8> = (0..ROWS * ROW).map(|number| (number * 7 % 251) as u8).collect();
    let awq = [0u64, 4, 1, 5, 2, 6, 3, 7];
    for (bits, slots, columns) in [
        (4u64, &[0u64, 1][..], 1),
        (4, &[1, 0], 1),
        (4, &awq, 1),
        (4, &[0, 1, 2, 3, 4, 5, 6, 7], ROW),
        (2, &[0, 1, 2, 3], 32),
        (3, &[0, 1, 2, 3, 4, 5, 6, 7], 1),
        (3, &[7, 6, 5, 4, 3, 2, 1, 0], 16),
        (8, &[1, 0, 2], 128),
        (5, &awq, 1),
    ] {
        let (count, width) = (slots.len(), slots.len() * bits as usize / 8);
        let mut wanted = Vec::new();
        for word in 0..numbers.len() / count {
            let (group, column) = (word / columns, word % columns);
            let mut bytes = [0u8; 32];
            for (number, slot) in slots.iter().enumerate() {
                let of = numbers[(group * count + number) * columns + column];
                for bit in 0..bits {
                    let at = (slot * bits + bit) as usize;
                    bytes[at / 8] |= (of >> bit & 1) << (at % 8);
                }
            }
            wanted.extend_from_slice(&bytes[..width]);
        }
        let packing = Packing::new(bits, slots, columns as u64).unwrap();
        let recipe = Recipe::operand(0, Number::U8).packed(packing);
        assert_eq!(apply_all(&recipe, &[&numbers]), wanted, "{bits} {slots:?} {columns}");
    }
}

#[test]
fn matrices_are_transposed() {
    // Two matrices of 24 by 64, of every width.
    for of in [Number::F64, Number::F32, Number::Bf16, Number::U8] {
        let width = of.width();
        let bytes: Vec<u8> = (0..2 * ROWS * ROW * width).map(|place| (place * 31 % 253) as u8).collect();
        let place = |number: usize| {
            let (matrix, within) = (number / (ROWS * ROW), number % (ROWS * ROW));
            matrix * ROWS * ROW + within % ROWS * ROW + within / ROWS
        };
        let wanted: Vec<u8> =
            (0..2 * ROWS * ROW).flat_map(|number| bytes[place(number) * width..][..width].to_vec()).collect();
        let recipe = Recipe::transposed(0, of, ROWS as u64, ROW as u64);
        assert_eq!(apply_all(&recipe, &[&bytes]), wanted, "{of:?}");
    }
}

#[test]
fn magnitudes_of_groups() {
    let values = weights(ROWS * ROW, 7);
    let bytes = f32_bytes(&values);
    for (down, across) in [(1usize, 16usize), (4, 64), (5, 24), (24, 1)] {
        let (high, wide) = (ROWS.div_ceil(down), ROW.div_ceil(across));
        let mut wanted = vec![0.0f32; high * wide];
        for (place, value) in values.iter().enumerate() {
            let most = &mut wanted[place / ROW / down * wide + place % ROW / across];
            *most = most.max(value.abs());
        }
        let groups = Groups { row: ROW as u64, down: down as u64, across: across as u64 };
        assert_eq!(apply_all(&plain(0).largest(groups), &[&bytes]), f32_bytes(&wanted));
    }
}

#[test]
fn all_of_it_together_as_gptq_has_it() {
    // The levels of a transposed matrix, with scales by column and band, eight rows in a word.
    let (values, bands) = (weights(ROWS * ROW, 9), 4);
    let scales: Vec<f32> = weights(bands * ROWS, 10).iter().map(|of| of.abs() * 0.1 + 1e-3).collect();
    let groups = Groups { row: ROWS as u64, down: (ROW / bands) as u64, across: 1 };
    let zeros = vec![8u8; bands * ROWS];
    let packing = Packing::new(4, &[0, 1, 2, 3, 4, 5, 6, 7], ROWS as u64).unwrap();
    let recipe = Recipe::transposed(0, Number::F32, ROWS as u64, ROW as u64)
        .levels(integers(0, 15, groups), plain(1), Some(Recipe::operand(2, Number::U8)))
        .packed(packing);
    let operands = [f32_bytes(&values), f32_bytes(&scales), zeros];
    let made = apply_all(&recipe, &[&operands[0], &operands[1], &operands[2]]);
    for (at, word) in made.as_chunks::<4>().0.iter().enumerate() {
        let (band, row) = (at / ROWS, at % ROWS);
        for number in 0..8 {
            let column = band * 8 + number;
            let scale = scales[column / (ROW / bands) * ROWS + row];
            let level =
                ((values[row * ROW + column] / scale).round_ties_even() + 8.0).clamp(0.0, 15.0) as u32;
            assert_eq!(u32::from_le_bytes(*word) >> (4 * number) & 15, level, "{at} {number}");
        }
    }
}

#[test]
fn hostile_recipes_are_refused() {
    for (bits, slots, columns) in [
        (0, &[0u64, 1][..], 1),
        (9, &[0, 1], 1),
        (4, &[0, 0], 1),
        (4, &[0, 2], 1),
        (4, &[0], 1),
        (4, &[], 1),
        (4, &[0, 1], 0),
    ] {
        assert_eq!(
            Packing::new(bits, slots, columns).unwrap_err().kind(),
            Kind::Malformed,
            "{bits} {slots:?}"
        );
    }
    let groups = Groups { row: 64, down: 1, across: 16 };
    let table = |thresholds: Vec<f32>, codes: Vec<u8>| Book::Table { thresholds, codes };
    for levels in [
        integers(3, 2, groups),
        integers(-300, 2, groups),
        integers(0, 256, groups),
        Levels { to: Number::I8, ..integers(0, 128, groups) },
        Levels { to: Number::F32, ..integers(0, 1, groups) },
        Levels { precision: Precision::F64, ..integers(0, 1, groups) },
        Levels { factor: f32::NAN, ..integers(0, 1, groups) },
        Levels { book: table(vec![0.0], vec![1]), ..integers(0, 1, groups) },
        Levels { book: table(vec![f32::INFINITY], vec![1, 2]), ..integers(0, 1, groups) },
        Levels { to: Number::I8, book: table(vec![0.0], vec![1, 2]), ..integers(0, 1, groups) },
    ] {
        let recipe = plain(0).levels(levels.clone(), plain(1), None);
        assert_eq!(Recipe::decode(&recipe.encode()).unwrap_err().kind(), Kind::Malformed, "{levels:?}");
    }
    let refused =
        |recipe: &Recipe, lengths: &[u64]| recipe.length(lengths).unwrap_err().kind() == Kind::Malformed;
    let fine = plain(0).levels(integers(0, 1, groups), plain(1), None);
    assert_eq!(fine.length(&[64 * 4 * 3, 4 * 3 * 4]).unwrap(), 64 * 3);
    assert!(refused(&fine, &[64 * 4 * 3, 4 * 3 * 4 + 4]) && refused(&fine, &[64 * 4 * 3 + 4, 4 * 3 * 4]));
    let vast = Groups { row: 1 << 30, down: 1, across: 0 };
    assert!(refused(&plain(0).largest(vast), &[4 << 30]));
    let endless = Groups { row: 64, down: u64::MAX / 2, across: u64::MAX / 2 };
    assert_eq!(plain(0).largest(endless).length(&[4 * 64 * 5]).unwrap(), 4);
    assert!(refused(&Recipe::transposed(0, Number::F32, 1 << 40, 1 << 40), &[4 << 20]));
    assert!(refused(&plain(0).packed(Packing::new(4, &[0, 1], 1).unwrap()), &[64]));
    // What is transposed is an operand, so that matrices are not computed over and over.
    let twice = Recipe::transposed(0, Number::F32, 8, 8).encode();
    let operand = Recipe::operand(0, Number::F32).encode();
    let at = twice.windows(operand.len()).position(|part| part == operand).unwrap();
    let nested = [&twice[..at], &twice[..], &twice[at + operand.len()..]].concat();
    assert_eq!(Recipe::decode(&nested).unwrap_err().kind(), Kind::Malformed);
}

/// One recipe for each operation, over three operands of 1024 bytes.
fn of_each_operation() -> Vec<Recipe> {
    let halves = |number| Recipe::operand(number, Number::Bf16);
    let integers_of = || Recipe::operand(0, Number::I16);
    let scales = || Recipe::operand(1, Number::F16).slice(0, 32);
    let groups = Groups { row: 64, down: 1, across: 16 };
    let table = Book::Table { thresholds: vec![-0.5, 0.0, 0.5], codes: vec![3, 2, 0, 1] };
    let pairs = || Packing::new(4, &[0, 1], 1).unwrap();
    let voices = vec![Voice { weight: 0.6, threshold: 0.5 }, Voice { weight: 0.4, threshold: 0.0 }];
    let fields = |places: [(Number, u64, u64); 4]| {
        places.map(|(of, first, count)| Recipe::operand(1, of).slice(first, count)).to_vec()
    };
    let q4_k = [(Number::F16, 0, 2), (Number::F16, 2, 2), (Number::U8, 8, 16), (Number::U8, 24, 16)];
    vec![
        halves(0).cast(Number::F8E4M3, Rounding::TowardsZero),
        Recipe::operand(0, Number::F8E8M0).cast(Number::F64, Rounding::Nearest),
        halves(0).rows(Order::Interleaved, 2, 32).rows(Order::Separated, 4, 16),
        Recipe::join(vec![halves(0), halves(1).slice(3, 40)]),
        halves(0).scaled(Number::I8, 32, (4, 8), halves(1).slice(0, 16)),
        halves(0).blocks(Quantiser::named("q8_0").unwrap(), Vec::new()),
        halves(0).blocks(Quantiser::named("q4_k").unwrap(), fields(q4_k)),
        Recipe::sum(Precision::Bf16, 3.0, vec![0.5, 0.25], vec![halves(0), halves(1)]),
        Recipe::consensus(Precision::F16, true, voices, vec![halves(0), halves(1)]),
        Recipe::product(4, (8, 16), 0.5, integers_of().slice(0, 32), integers_of().slice(32, 64)),
        halves(0).levels(integers(0, 15, groups), scales(), None).packed(pairs()),
        halves(0).levels(
            Levels { factor: 0.3, book: table, ..integers(0, 1, groups) },
            scales(),
            Some(Recipe::operand(2, Number::U8).slice(9, 32)),
        ),
        halves(0).largest(Groups { row: 32, down: 4, across: 8 }),
        Recipe::transposed(2, Number::U8, 32, 16)
            .packed(Packing::new(4, &[0, 1, 2, 3, 4, 5, 6, 7], 32).unwrap()),
    ]
}

#[test]
fn damaged_recipes_are_refused_or_computed() {
    let bytes: Vec<u8> = weights(768, 3).iter().flat_map(|value| value.to_le_bytes()).collect();
    let operands: Vec<&[u8]> = bytes.chunks(1024).collect();
    let lengths = [1024; 3];
    let (mut refused, mut computed) = (0, 0);
    let mut try_one = |encoded: &[u8]| {
        let Ok(recipe) = Recipe::decode(encoded) else {
            refused += 1;
            return;
        };
        let _ = recipe.describe();
        let Some(length) = recipe.length(&lengths).ok().filter(|length| *length <= 1 << 16) else {
            refused += 1;
            return;
        };
        computed += 1;
        let mut all = vec![0; length as usize];
        recipe.apply(&&operands[..], &lengths, 0, &mut all).unwrap();
        let start = all.len() / 3;
        let mut part = vec![0; (all.len() - start).min(50)];
        recipe.apply(&&operands[..], &lengths, start as u64, &mut part).unwrap();
        assert_eq!(part, all[start..start + part.len()], "{}", recipe.describe());
    };
    for recipe in of_each_operation() {
        assert!(recipe.length(&lengths).is_ok(), "{}", recipe.describe());
        let encoded = recipe.encode();
        (0..encoded.len()).for_each(|length| try_one(&encoded[..length]));
        for place in 0..encoded.len() {
            for change in [0x01, 0x02, 0x04, 0x10, 0x20, 0x80, 0xff] {
                let mut damaged = encoded.clone();
                damaged[place] ^= change;
                try_one(&damaged);
            }
        }
    }
    assert!(refused > 1000 && computed > 300, "{refused} {computed}");
}
