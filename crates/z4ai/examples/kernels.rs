//! One operation of the codec on made-up weights, so many times on one thread: what `make bench-arm` counts
//! the instructions of.
//!
//!     Z4AI_KERNEL=portable cargo run --release -p z4ai --example kernels -- compress|decompress|filters|delta|restore fast|default|max REPEAT
//!
//! The weights are a bf16 matrix of 1024 x 1024 whose rows have scales of their own; a delta is to weights of
//! which most moved by a few steps. `filters` decompresses a convolution whose filters of 4 x 4 have scales
//! of their own, which maximum effort learns.
#![allow(clippy::print_stdout)]

use z4ai::{Dtype, Effort, Frame, Options, compress, compress_delta};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const ROWS: u64 = 1024;

/// A linear congruential generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// About normal: a sum of uniform numbers.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| (self.next() & 0xffff) as f32 / 65536.0 - 0.5).sum()
    }
}

fn main() -> Outcome<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [operation, effort, repeat] = given.as_slice() else {
        return Err("usage: kernels compress|decompress|filters|delta|restore fast|default|max REPEAT".into());
    };
    let repeat: usize = repeat.parse()?;
    let mut random = Random(1);
    let mut elements = Vec::new();
    let (run, spread, shape) = match operation.as_str() {
        "filters" => (16, 64.0, vec![ROWS, ROWS / 16, 4, 4]),
        _ => (ROWS, 1.0, vec![ROWS, ROWS]),
    };
    for _ in 0..ROWS * ROWS / run {
        let scale = 0.02 * (1.0 + spread * (random.next() & 15) as f32 / 16.0);
        elements.extend((0..run).map(|_| ((random.normal() * scale).to_bits() >> 16) as u16));
    }
    let moved =
        |&element: &u16| element.wrapping_add((random.next() & 7) as u16 & (random.next() & 7) as u16);
    let later: Vec<u8> = elements.iter().map(moved).flat_map(u16::to_le_bytes).collect();
    let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
    let options = Options::new(Dtype::Bf16).shape(shape).effort(Effort::parse(effort)?).threads(1);
    let frame = match operation.as_str() {
        "delta" | "restore" => compress_delta(&later, &bytes, &options)?,
        _ => compress(&bytes, &options)?,
    };
    let mut out = vec![0; bytes.len()];
    let whole = 0..out.len() as u64;
    for _ in 0..repeat {
        match operation.as_str() {
            "compress" => drop(compress(&bytes, &options)?),
            "decompress" | "filters" => Frame::open(&frame)?.threads(1).read_into(whole.clone(), &mut out)?,
            "delta" => drop(compress_delta(&later, &bytes, &options)?),
            "restore" => {
                Frame::open(&frame)?.against(&bytes)?.threads(1).read_into(whole.clone(), &mut out)?
            }
            _ => return Err("compress, decompress, filters, delta or restore".into()),
        }
    }
    println!("{operation}: {} bytes", frame.len());
    Ok(())
}
