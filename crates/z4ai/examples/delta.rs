//! Sizes of deltas between files, and speeds on one thread:
//! `cargo run --release --example delta -- DTYPE REFERENCE CURRENT...`

#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::time::{Duration, Instant};
use z4ai::{Dtype, Options};

/// Every direction runs at least so often, and for so long.
const RUNS: usize = 5;
const LEAST: Duration = Duration::from_millis(300);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dtype, reference, files @ ..] = &arguments[..] else {
        return Err("usage: delta DTYPE REFERENCE CURRENT...".into());
    };
    let dtype = Dtype::parse(dtype)?;
    let reference = std::fs::read(reference)?;
    for file in files {
        let current = std::fs::read(file)?;
        let options = Options::new(dtype).threads(1);
        let mut frame = Vec::new();
        let mut out = vec![0; current.len()];
        let compress =
            fastest(|| z4ai::compress_delta(&current, &reference, &options).map(|made| frame = made))?;
        let apply = fastest(|| {
            z4ai::Frame::open(&frame)
                .and_then(|frame| frame.against(&reference)?.threads(1).read_all_into(&mut out))
        })?;
        let bits = frame.len() as f64 * 8.0 * dtype.width() as f64 / current.len() as f64;
        let speed = |seconds: f64| current.len() as f64 / seconds / 1e6;
        println!(
            "{file}: {bits:.4} bits per element, compress {:.0} MB/s, apply {:.0} MB/s{}",
            speed(compress),
            speed(apply),
            if out == current { "" } else { ", NOT RESTORED" }
        );
    }
    Ok(())
}

/// The least seconds of several runs.
fn fastest(mut work: impl FnMut() -> z4ai::Result<()>) -> z4ai::Result<f64> {
    let (mut least, begin, mut runs) = (f64::MAX, Instant::now(), 0);
    while runs < RUNS || begin.elapsed() < LEAST {
        let start = processor_time();
        work()?;
        least = least.min(processor_time() - start);
        runs += 1;
    }
    Ok(least)
}

/// Seconds that this thread has run on a processor, which others on the machine do not add to; where the
/// system does not tell, those that have passed.
fn processor_time() -> f64 {
    let nanoseconds = std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|line| line.split(' ').next()?.parse::<f64>().ok());
    match nanoseconds {
        Some(nanoseconds) => nanoseconds / 1e9,
        None => std::time::UNIX_EPOCH.elapsed().map_or(0.0, |elapsed| elapsed.as_secs_f64()),
    }
}
