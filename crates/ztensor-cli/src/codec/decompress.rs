//! `z4ai decompress`

use std::path::PathBuf;

use clap::Args;
use z4ai::Decoder;

use super::mistaken::failure;
use super::streams::{Counted, Target, open, pump, restored_name, size_argument};
use crate::commands::force::Force;
use crate::progress::Watched;
use crate::results::JsonOption;
use crate::{Outcome, Result};

#[derive(Args)]
pub(crate) struct Decompress {
    /// The compressed file; - is standard input
    file: PathBuf,
    /// Output; - is standard output [default: the file's name without .z4ai]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Worker threads; 0 uses all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Refuse to write more than this, such as 2GiB: a frame of a few bytes may stand for very many
    #[arg(long, value_name = "SIZE", value_parser = size_argument)]
    max_output: Option<u64>,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    json: JsonOption,
}

impl Decompress {
    pub(crate) fn run(self) -> Result {
        let output = restored_name(&self.file, self.output)?;
        let (input, length) = open(&self.file)?;
        let mut target = Counted::limited(Target::create(&output, &self.force)?, self.max_output);
        // How long the result will be, a frame need not say.
        let input = Watched::new(input, "decompressing", length);
        let mut decoder =
            Decoder::with_threads(input, self.threads).map_err(|error| failure(&self.file, &error))?;
        pump(&mut decoder, &self.file, &mut target, |_| ())?;
        drop(decoder);
        target.finish_restored(self.json, &self.file, &output.path)?;
        Ok(Outcome::Done)
    }
}
