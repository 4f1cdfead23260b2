//! Sizes and speeds on weights found in the directory that `Z4AI_SETS` names, one raw file
//! `NAME.ROWS.COLUMNS.raw` per tensor in a folder `SET.DTYPE`. Run with
//! `cargo test --release -p z4ai nested::measure -- --ignored --nocapture`.

use super::decode::decode;
use super::encode::encode;
use super::*;
use crate::arch::Kernel;
use std::time::{Duration, Instant};

fn best(repeats: usize, mut work: impl FnMut()) -> Duration {
    let timed = (0..repeats).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    timed.min().unwrap()
}

#[test]
#[ignore = "needs a directory of weights and a release build"]
fn sets() {
    let root = std::env::var("Z4AI_SETS").expect("Z4AI_SETS names a directory");
    let mut folders: Vec<_> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    for folder in folders {
        let set = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let geometry = match set.rsplit('.').next().unwrap() {
            "bf16" => FloatFields::BF16,
            "fp16" => FloatFields::FP16,
            _ => FloatFields::FP32,
        };
        let (mut count, mut plain, mut shifted) = (0, 0, 0);
        for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let elements = std::fs::read(&file).unwrap();
            let parts: Vec<&str> = file.file_name().unwrap().to_str().unwrap().split('.').collect();
            let row_length: usize = parts[2].parse().unwrap();
            let (without, with) = tensor(&elements, geometry, row_length);
            count += elements.len() / geometry.width;
            plain += without.min(elements.len());
            shifted += with.min(without).min(elements.len());
        }
        let bits = |bytes: usize| bytes as f64 * 8.0 / count as f64;
        println!("{set:16} {count:9} elements  {:.3} bits, with shifts {:.3}", bits(plain), bits(shifted));
    }
}

fn tensor(elements: &[u8], geometry: FloatFields, row_length: usize) -> (usize, usize) {
    let exponents: Vec<u8> = elements
        .chunks_exact(geometry.width)
        .map(|element| {
            let value = element.iter().rev().fold(0_u32, |value, &byte| value << 8 | u32::from(byte));
            (value >> geometry.mantissa_bits & geometry.exponent_mask()) as u8
        })
        .collect();
    let (rows, columns) = tests::mean_shifts(&exponents, row_length);
    let block = (1 << 17) * geometry.width;
    let (mut plain, mut shifted) = (0, (rows.len() + columns.len()) / 4);
    for (index, elements) in elements.chunks(block).enumerate() {
        let start = index * (1 << 17);
        let mut out = Vec::new();
        encode(elements, geometry, Shifts::default(), &mut out).unwrap();
        plain += out.len();
        out.clear();
        let shifts = Shifts {
            rows: &rows[start / row_length..],
            columns: &columns,
            row_length,
            first_column: start % row_length,
        };
        encode(elements, geometry, shifts, &mut out).unwrap();
        shifted += out.len();
    }
    (plain, shifted)
}

#[test]
#[ignore = "needs a release build"]
fn speed() {
    let (rows, row_length) = (128, 1024);
    let (row_shifts, column_shifts) = (vec![1; rows], vec![2; row_length]);
    for geometry in [FloatFields::BF16, FloatFields::FP16, FloatFields::FP32] {
        let elements = tests::weights(rows * row_length, row_length, geometry);
        for shifts in [
            Shifts::default(),
            Shifts { rows: &row_shifts, columns: &column_shifts, row_length, first_column: 0 },
        ] {
            let mut block = Vec::new();
            encode(&elements, geometry, shifts, &mut block).unwrap();
            let mut out = vec![0; elements.len()];
            let gigabytes = |time: Duration| elements.len() as f64 / time.as_secs_f64() / 1e9;
            let copy = best(200, || out.copy_from_slice(std::hint::black_box(&elements)));
            let chosen =
                best(200, || decode(&block, geometry, shifts, std::hint::black_box(&mut out)).unwrap());
            let portable = best(50, || {
                Kernel::PORTABLE
                    .run(|| decode(&block, geometry, shifts, std::hint::black_box(&mut out)))
                    .unwrap()
            });
            let mut again = Vec::with_capacity(block.len());
            let encoding = best(20, || {
                again.clear();
                encode(std::hint::black_box(&elements), geometry, shifts, &mut again).unwrap();
            });
            let code = Code::read(&block).unwrap().0;
            println!(
                "{geometry:?} levels {:?} {:.3} bits: copy {:.1}, decode {:.2}, portable {:.2}, encode {:.2} GB/s",
                code.widths,
                block.len() as f64 * 8.0 / (elements.len() / geometry.width) as f64,
                gigabytes(copy),
                gigabytes(chosen),
                gigabytes(portable),
                gigabytes(encoding)
            );
        }
    }
}
