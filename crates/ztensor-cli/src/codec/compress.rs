//! `z4ai compress`

use std::path::PathBuf;

use clap::Args;
use z4ai::Encoder;

use super::mistaken::better_as_archive;
use super::streams::{CodecOptions, Counted, Target, compressed_name, open, pump};
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
        let effort = options.effort;
        let (mut input, length) = open(&self.file)?;
        let output = compressed_name(&self.file, self.output);
        let progress = Progress::new("compressing", length);
        let target = Counted::new(Target::create(&output, &self.force)?);
        let mut encoder = Encoder::new(target, options)?;
        let read = pump(&mut input, &self.file, &mut encoder, |bytes| progress.advance(bytes))?;
        let target = encoder.finish()?;
        let (written, is_new) = (target.written, target.inner.is_new_file());
        target.inner.finish()?;
        drop(progress);
        if is_new {
            let ratio = read as f64 / written.max(1) as f64;
            complain(&format!(
                "{} -> {} ({}, {ratio:.2}x)",
                size(read),
                output.path.display(),
                size(written)
            ));
        }
        if let Some(advice) = better_as_archive(&self.file, effort) {
            complain(&advice);
        }
        Ok(Outcome::Done)
    }
}
