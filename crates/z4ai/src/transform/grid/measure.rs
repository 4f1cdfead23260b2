//! Sizes and speeds on dequantised weights found in the directory that `Z4AI_QUANTISED` names, one raw file
//! `NAME.ROWS.COLUMNS.raw` per tensor in a folder `SCHEME.DTYPE`. Run with
//! `cargo test --release -p z4ai grid::measure -- --ignored --nocapture`.

use super::decode::decode;
use super::encode::encode;
use super::fit::detect;
use super::groups::Rows;
use super::*;
use std::time::Duration;

/// Time this thread has spent on a processor, which other programs on the machine do not change.
fn cpu_time() -> Duration {
    let fields = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(fields.split(' ').next().unwrap().parse().unwrap())
}

/// Bits of an ideal order-0 code.
fn entropy(bytes: &[u8]) -> f64 {
    let mut histogram = [0_u32; 256];
    bytes.iter().for_each(|&byte| histogram[usize::from(byte)] += 1);
    let bits = |&count: &u32| f64::from(count) * (bytes.len() as f64 / f64::from(count)).log2();
    histogram.iter().filter(|&&count| count > 0).map(bits).sum()
}

#[test]
#[ignore = "needs a directory of weights and a release build"]
fn schemes() {
    let root = std::env::var("Z4AI_QUANTISED").expect("Z4AI_QUANTISED names a directory");
    let mut folders: Vec<_> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    for folder in folders {
        let scheme = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let dtype = Dtype::parse(scheme.rsplit('.').next().unwrap()).unwrap();
        for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let bytes = std::fs::read(&file).unwrap();
            let row_length = file.to_str().unwrap().rsplit('.').nth(1).unwrap().parse().unwrap();
            let start = cpu_time();
            let Some(plan) = detect(&bytes, dtype, row_length) else {
                println!("{scheme:24} no grid, after {:?}", (cpu_time() - start));
                continue;
            };
            let detecting = cpu_time() - start;
            let start = cpu_time();
            let encoded = encode(&bytes, dtype, Rows::new(row_length), &plan).unwrap();
            let encoding = cpu_time() - start;
            let planes = std::array::from_fn(|index| encoded.planes[index].as_slice());
            let mut out = vec![0; bytes.len()];
            let start = cpu_time();
            decode(&encoded.header, &planes, dtype, Rows::new(row_length), &mut out).unwrap();
            let decoding = cpu_time() - start;
            assert!(out == bytes);
            let count = bytes.len() / dtype.width();
            let bits =
                |planes: &[Vec<u8>]| planes.iter().map(|plane| entropy(plane)).sum::<f64>() / count as f64;
            let raw = encoded.planes[plane::RAW].len() as f64 * 8.0 / count as f64;
            let speed = |time: Duration| bytes.len() as f64 / time.as_secs_f64() / 1e6;
            println!(
                "{scheme:24} groups of {:4} {:?}: levels {:.3} scales {:.3} raw {raw:.3} = {:.3} bits; detect {detecting:?}, encode {:.0}, decode {:.0} MB/s",
                plan.group,
                plan.scheme,
                bits(&encoded.planes[..1]),
                bits(&encoded.planes[1..]) - bits(&encoded.planes[plane::RAW..=plane::RAW]),
                bits(&encoded.planes) - bits(&encoded.planes[plane::RAW..=plane::RAW]) + raw,
                speed(encoding),
                speed(decoding)
            );
        }
    }
}
