//! Sizes and speeds of every effort over the sets that `benchmark/codec/sets.py` builds, tensor by tensor and
//! checked bit for bit.
//!
//!     cargo run --release -p z4ai --example table -- SETS_DIRECTORY [FILTER] [--effort fast|default|max] [--threads N] [--repeat N] [--tensors] [--whole]
//!
//! `--whole` takes each set as one buffer without shapes instead.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Instant;
use z4ai::{Dtype, Effort, Options};

struct Tensor {
    name: String,
    shape: Option<Vec<u64>>,
    bytes: Vec<u8>,
}

struct Arguments {
    directory: String,
    filter: String,
    efforts: Vec<Effort>,
    threads: usize,
    repeat: usize,
    tensors: bool,
    whole: bool,
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn arguments() -> Outcome<Arguments> {
    let mut parsed = Arguments {
        directory: String::new(),
        filter: String::new(),
        efforts: vec![Effort::Fast, Effort::Default, Effort::Max],
        threads: 2,
        repeat: 5,
        tensors: false,
        whole: false,
    };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or("an option without its value");
        match argument.as_str() {
            "--effort" => parsed.efforts = vec![Effort::parse(&value()?)?],
            "--threads" => parsed.threads = value()?.parse()?,
            "--repeat" => parsed.repeat = value()?.parse()?,
            "--tensors" => parsed.tensors = true,
            "--whole" => parsed.whole = true,
            _ if parsed.directory.is_empty() => parsed.directory = argument,
            _ => parsed.filter = argument,
        }
    }
    Ok(parsed)
}

fn load(index: &Path) -> Outcome<Vec<Tensor>> {
    let data = std::fs::read(index.with_extension(""))?;
    let mut tensors = Vec::new();
    for line in std::fs::read_to_string(index)?.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [offset, length, shape, name] = fields[..] else {
            return Err("an index line without four fields".into());
        };
        let (offset, length): (usize, usize) = (offset.parse()?, length.parse()?);
        let shape =
            shape.split(',').filter(|size| !size.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
        let bytes = data.get(offset..offset + length).ok_or("an index that does not fit its data")?.to_vec();
        tensors.push(Tensor { name: name.into(), shape: Some(shape), bytes });
    }
    Ok(tensors)
}

fn best_of(repeat: usize, mut work: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..repeat {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn main() -> Outcome<()> {
    let arguments = arguments()?;
    rayon::ThreadPoolBuilder::new().num_threads(arguments.threads).build_global()?;
    println!(
        "{:<18} {:<8} {:>10} {:>8} {:>9} {:>9}",
        "set", "effort", "bits/elem", "ratio", "comp MB/s", "dec MB/s"
    );
    let mut indexes: Vec<_> = std::fs::read_dir(&arguments.directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "tsv"))
        .filter(|path| path.to_string_lossy().contains(&arguments.filter))
        .collect();
    indexes.sort();
    for index in indexes {
        let tensors = if arguments.whole {
            let bytes = std::fs::read(index.with_extension(""))?;
            vec![Tensor { name: "everything".into(), shape: None, bytes }]
        } else {
            load(&index)?
        };
        let set = index.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let dtype = Dtype::parse(set.rsplit('.').next().unwrap_or_default())?;
        let total: usize = tensors.iter().map(|tensor| tensor.bytes.len()).sum();
        for &effort in &arguments.efforts {
            let mut frames = Vec::new();
            let compress = best_of(arguments.repeat, || {
                frames.clear();
                for tensor in &tensors {
                    let options = Options::new(dtype).effort(effort);
                    let options = Options { shape: tensor.shape.clone(), ..options };
                    frames.push(z4ai::compress(&tensor.bytes, &options)?);
                }
                Ok(())
            })?;
            let mut outputs: Vec<Vec<u8>> =
                tensors.iter().map(|tensor| vec![1; tensor.bytes.len()]).collect();
            let decompress = best_of(arguments.repeat, || {
                for (frame, output) in frames.iter().zip(&mut outputs) {
                    z4ai::Frame::open(frame).and_then(|frame| frame.read_all_into(output))?;
                }
                Ok(())
            })?;
            for ((tensor, output), frame) in tensors.iter().zip(&outputs).zip(&frames) {
                if tensor.bytes != *output {
                    return Err(format!("{set}: {} was not restored", tensor.name).into());
                }
                if arguments.tensors {
                    let bits = frame.len() as f64 * 8.0 / (tensor.bytes.len() / dtype.width()) as f64;
                    let shape = tensor.shape.as_deref().unwrap_or_default();
                    println!("    {bits:8.3} {:>10} {shape:?} {}", tensor.bytes.len(), tensor.name);
                }
            }
            let size: usize = frames.iter().map(Vec::len).sum();
            println!(
                "{set:<18} {:<8} {:>10.4} {:>8.4} {:>9.0} {:>9.0}",
                effort.name(),
                size as f64 * 8.0 / (total / dtype.width()) as f64,
                total as f64 / size as f64,
                total as f64 / compress / 1e6,
                total as f64 / decompress / 1e6,
            );
        }
    }
    Ok(())
}
