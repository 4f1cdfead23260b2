#![allow(clippy::print_stdout)]
use std::time::Instant;
fn main() -> ztensor::Result<()> {
    for path in std::env::args_os().skip(1) {
        let path = std::path::PathBuf::from(path);
        let mut best = f64::MAX;
        let mut load = f64::MAX;
        for _ in 0..8 {
            let t = Instant::now();
            let reader = ztensor::open(&path)?;
            best = best.min(t.elapsed().as_secs_f64());
            let t = Instant::now();
            assert!(reader.verify_all().is_empty());
            load = load.min(t.elapsed().as_secs_f64());
        }
        println!("{} open {:.2} ms, decode all {:.2} ms", path.display(), best * 1e3, load * 1e3);
    }
    Ok(())
}
