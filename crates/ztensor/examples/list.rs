//! Prints name, dtype and shape of every tensor of a file: `cargo run --example list -- model.gguf`.
#![allow(clippy::print_stdout)]

fn main() -> ztensor::Result<()> {
    for path in std::env::args_os().skip(1) {
        let reader = ztensor::open(std::path::Path::new(&path))?;
        for name in reader.names() {
            println!("{name}\t{}\t{}", reader.dtype(name)?, reader.shape(name)?);
        }
    }
    Ok(())
}
