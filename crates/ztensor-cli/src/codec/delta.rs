//! `z4ai delta` and `z4ai apply`

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use z4ai::ReferenceId;

use super::mistaken::open_delta;
use super::streams::{
    CodecOptions, Counted, Target, compressed_name, is_pipe, named, open, restored_name, size_argument,
};
use crate::commands::force::Force;
use crate::progress::{Progress, Watched};
use crate::results::JsonOption;
use crate::{Failure, Outcome, Result};

#[derive(Args)]
pub(crate) struct Delta {
    /// The file; - is standard input
    file: PathBuf,
    /// The file that it is compressed against, such as the checkpoint before it
    #[arg(short, long, value_name = "PATH")]
    reference: PathBuf,
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

impl Delta {
    pub(crate) fn run(self) -> Result {
        let options = self.codec.options()?;
        let (input, length) = open(&self.file)?;
        let reference = Reference::open(&self.reference)?;
        let output = compressed_name(&self.file, self.output);
        let mut target = Counted::new(Target::create(&output, &self.force)?);
        let id = reference.id()?;
        let progress = Progress::new("compressing", length);
        let advance = |bytes| progress.advance(bytes);
        let read = z4ai::compress_delta_stream(input, reference.read()?, id, &options, &mut target, advance)?;
        drop(progress);
        target.finish_compressed(self.json, &self.file, &output.path, read)?;
        Ok(Outcome::Done)
    }
}

#[derive(Args)]
pub(crate) struct Apply {
    /// The delta; - is standard input
    file: PathBuf,
    /// The file that the delta was made against
    #[arg(short, long, value_name = "PATH")]
    reference: PathBuf,
    /// Output; - is standard output [default: the delta's name without .z4ai]
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

impl Apply {
    pub(crate) fn run(self) -> Result {
        let output = restored_name(&self.file, self.output.clone())?;
        let (input, length) = open_delta(&self.file)?;
        let reference = Reference::open(&self.reference)?;
        let mut target = Counted::limited(Target::create(&output, &self.force)?, self.max_output);
        let id = reference.id()?;
        let input = Watched::new(input, "applying", length);
        z4ai::decompress_delta_stream(input, reference.read()?, id, &mut target, self.threads, |_| ())
            .map_err(|error| self.named(error))?;
        target.finish_restored(self.json, &self.file, &output.path)?;
        Ok(Outcome::Done)
    }

    /// An error with the name of the file that it is about.
    fn named(&self, error: z4ai::Error) -> Failure {
        let kind = error.kind();
        let about = |path| Failure::about(path, kind.name(), format!("{}: {error}", named(path)));
        match kind {
            z4ai::ErrorKind::WrongReference => about(&self.reference),
            // Reading and writing fail with a name of their own.
            z4ai::ErrorKind::Io => Failure::from(error),
            _ => about(&self.file),
        }
    }
}

/// The reference: a file, because it is read twice.
struct Reference<'a>(&'a Path);

impl<'a> Reference<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        if is_pipe(path) {
            return Err(Failure::new("the reference is read twice, so it cannot be standard input"));
        }
        open(path)?;
        Ok(Reference(path))
    }

    /// Its identity, from a first reading.
    fn id(&self) -> Result<ReferenceId> {
        let (reader, length) = open(self.0)?;
        ReferenceId::of_stream(Watched::new(reader, "reading the reference", length))
            .map_err(|error| Failure::new(format!("\"{}\": {error}", self.0.display())))
    }

    /// Its bytes, for the second reading.
    fn read(&self) -> Result<Box<dyn Read>> {
        Ok(open(self.0)?.0)
    }
}
