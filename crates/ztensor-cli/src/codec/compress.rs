//! `z4ai compress`

use std::path::PathBuf;

use clap::Args;
use z4ai::Encoder;

use super::streams::{CodecOptions, Counted, Target, compressed_name, is_pipe, open, pump};
use crate::commands::force::Force;
use crate::display::{complain, size};
use crate::progress::Progress;
use crate::{Outcome, Result};

#[derive(Args)]
pub(crate) struct Compress {
    /// The file; - is standard input
    file: PathBuf,
    /// Output; - is standard output [default: the file's name with .z4ai added]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    codec: CodecOptions,
    #[command(flatten)]
    force: Force,
}

impl Compress {
    pub(crate) fn run(self) -> Result {
        let options = self.codec.options()?;
        let (mut input, length) = open(&self.file)?;
        let output = compressed_name(&self.file, self.output);
        let progress = Progress::new("compressing", length);
        let target = Counted::new(Target::create(&output, &self.force)?);
        let mut encoder = Encoder::new(target, options)?;
        let read = pump(&mut input, &self.file, &mut encoder, |bytes| progress.advance(bytes))?;
        let target = encoder.finish()?;
        let written = target.written;
        target.inner.finish()?;
        drop(progress);
        if !is_pipe(&output.path) {
            let ratio = read as f64 / written.max(1) as f64;
            complain(&format!(
                "{} -> {} ({}, {ratio:.2}x)",
                size(read),
                output.path.display(),
                size(written)
            ));
        }
        Ok(Outcome::Done)
    }
}
