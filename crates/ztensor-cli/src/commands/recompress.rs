//! `ztensor compress`, `decompress` and `migrate`: the same rewrite with different storage.

use std::path::{Path, PathBuf};

use clap::Args;
use ztensor::convert::Storage;
use ztensor::index::DigestValue;
use ztensor::{Checksum, Compression, Format, Reader, Version};

use super::convert::{refuse_foreign_name, report, warn_skipped, write};
use super::force::Force;
use super::storage::checksum;
use crate::display::say;
use crate::{Failure, Outcome, Result, limits};

#[derive(Args)]
struct Files {
    /// The file
    file: PathBuf,
    /// Output file [default: replace the input]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Store a checksum with each tensor: none, crc32c or sha256 [default: as the file has them]
    #[arg(long, value_name = "KIND")]
    checksum: Option<String>,
    #[command(flatten)]
    force: Force,
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
            ("zstd", level) => self.files.rewrite(Compression::Zstd(level.unwrap_or(3)), version_of),
            (_, Some(_)) => {
                Err(Failure::new("--level belongs to zstd; z4ai is chosen by --codec z4ai, fast or max"))
            }
            (codec, None) => self.files.rewrite(Compression::parse(codec)?, version_of),
        }
    }
}

impl Decompress {
    pub(crate) fn run(self) -> Result {
        self.files.rewrite(Compression::None, version_of)
    }
}

impl Migrate {
    pub(crate) fn run(self) -> Result {
        self.files.rewrite(Compression::None, |_| Version::One)
    }
}

impl Files {
    fn rewrite(self, compression: Compression, version: fn(&Reader) -> Version) -> Result {
        let reader = limits::open(&self.file)?;
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
        if self.output.is_none() && reader.archived().is_some() {
            return Err(Failure::new(format!(
                "\"{}\" is an archive, which restores its original byte for byte; name an --output to keep it",
                self.file.display()
            )));
        }
        let checksum = self.checksum.as_deref().map_or_else(|| Ok(checksum_of(&reader)), checksum)?;
        warn_skipped(&reader, &self.file)?;
        let output: &Path = self.output.as_deref().unwrap_or(&self.file);
        refuse_foreign_name(output)?;
        self.force.allow_beside(&self.file, output)?;
        write(&reader, output, Storage { compression, checksum, ..Storage::default() }, version(&reader))?;
        say(&report(&reader, &self.file, output)?)?;
        Ok(Outcome::Done)
    }
}

/// The generation of a file that stays what it is.
fn version_of(reader: &Reader) -> Version {
    let two = reader.format() == Format::Zt && reader.index().version.starts_with('2');
    if two { Version::Two } else { Version::One }
}

/// The strongest checksum that the file has, so that a rewrite does not lose what others rely on.
fn checksum_of(reader: &Reader) -> Checksum {
    let digests = reader.objects().flat_map(|(_, object)| &object.components);
    let strength = |value: &DigestValue| match value {
        DigestValue::Crc32c(_) | DigestValue::Xxh3(_) => (1, Checksum::Crc32c),
        DigestValue::Sha256(_) => (2, Checksum::Sha256),
    };
    digests
        .filter_map(|(_, component)| component.digest.as_ref().map(|digest| strength(&digest.value)))
        .max_by_key(|(strength, _)| *strength)
        .map_or(Checksum::None, |(_, checksum)| checksum)
}
