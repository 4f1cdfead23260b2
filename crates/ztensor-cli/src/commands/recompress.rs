//! `ztensor compress`, `decompress` and `migrate`: the same rewrite with different storage.

use std::path::{Path, PathBuf};

use clap::Args;
use ztensor::convert::Storage;
use ztensor::{Checksum, Compression, Format, Version};

use super::convert::{report, warn_skipped, write};
use super::storage::checksum;
use crate::display::say;
use crate::{Failure, Outcome, Result};

#[derive(Args)]
struct Files {
    /// The file
    file: PathBuf,
    /// Output file [default: replace the input]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Store a checksum with each tensor: none, crc32c or sha256
    #[arg(long, value_name = "KIND", default_value = "none")]
    checksum: String,
}

#[derive(Args)]
pub(crate) struct Compress {
    #[command(flatten)]
    files: Files,
    /// zstd, or z4ai at its default, fast or max effort
    #[arg(long, value_name = "CODEC", default_value = "zstd", value_parser = ["zstd", "z4ai", "fast", "max"])]
    codec: String,
    /// zstd level, 1 to 22 [default: 3]
    #[arg(short, long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=22))]
    level: Option<i32>,
}

#[derive(Args)]
pub(crate) struct Decompress {
    #[command(flatten)]
    files: Files,
}

#[derive(Args)]
pub(crate) struct Migrate {
    #[command(flatten)]
    files: Files,
}

impl Compress {
    pub(crate) fn run(self) -> Result {
        match (self.codec.as_str(), self.level) {
            ("zstd", level) => self.files.rewrite(Compression::Zstd(level.unwrap_or(3))),
            (_, Some(_)) => {
                Err(Failure::new("--level belongs to zstd; z4ai is chosen by --codec z4ai, fast or max"))
            }
            (codec, None) => self.files.rewrite(Compression::parse(codec)?),
        }
    }
}

impl Decompress {
    pub(crate) fn run(self) -> Result {
        self.files.rewrite(Compression::None)
    }
}

impl Migrate {
    pub(crate) fn run(self) -> Result {
        self.files.rewrite(Compression::None)
    }
}

impl Files {
    fn rewrite(self, compression: Compression) -> Result {
        let checksum: Checksum = checksum(&self.checksum)?;
        let reader = ztensor::open(&self.file)?;
        if reader.format() != Format::Zt && self.output.is_none() {
            return Err(Failure::new(format!(
                "\"{}\" is a {} file; name an --output, or use `ztensor convert`",
                self.file.display(),
                reader.format()
            )));
        }
        if self.output.is_none() && !reader.skipped().is_empty() {
            return Err(Failure::new(
                "the file holds tensors that cannot be read; name an --output to keep the original",
            ));
        }
        warn_skipped(&reader, &self.file)?;
        let output: &Path = self.output.as_deref().unwrap_or(&self.file);
        write(&reader, output, Storage { compression, checksum, dequantize: None }, Version::One)?;
        say(&report(&reader, &self.file, output)?)?;
        Ok(Outcome::Done)
    }
}
