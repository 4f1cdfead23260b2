//! Sizes and speeds of deltas between files: `cargo run --release --example delta -- DTYPE REFERENCE CURRENT...`

#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::time::Instant;
use z4ai::{Dtype, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dtype, reference, files @ ..] = &arguments[..] else {
        return Err("usage: delta DTYPE REFERENCE CURRENT...".into());
    };
    let dtype = Dtype::parse(dtype)?;
    let reference = std::fs::read(reference)?;
    for file in files {
        let current = std::fs::read(file)?;
        let options = Options::new(dtype);
        let mut frame = Vec::new();
        let mut out = vec![0; current.len()];
        let (mut compress, mut apply) = (f64::MAX, f64::MAX);
        for _ in 0..5 {
            let start = Instant::now();
            frame = z4ai::compress_delta(&current, &reference, &options)?;
            compress = compress.min(start.elapsed().as_secs_f64());
            let start = Instant::now();
            z4ai::decompress_delta_into(&frame, &reference, &mut out)?;
            apply = apply.min(start.elapsed().as_secs_f64());
        }
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
