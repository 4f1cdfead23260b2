//! `z4ai compress`

use std::path::PathBuf;

use clap::Args;
use z4ai::Encoder;

use super::mistaken::better_as_archive;
use super::streams::{CodecOptions, Counted, Target, compressed_name, open, pump};
use crate::commands::force::Force;
use crate::display::complain;
use crate::progress::Progress;
use crate::results::JsonOption;
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
    #[command(flatten)]
    json: JsonOption,
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
        drop(progress);
        target.finish_compressed(self.json, &self.file, &output.path, read)?;
        if let Some(advice) = better_as_archive(&self.file, effort) {
            complain(&advice);
        }
        Ok(Outcome::Done)
    }
}
