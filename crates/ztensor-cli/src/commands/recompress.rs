//! `ztensor compress`, `decompress` and `migrate`: the same rewrite with different storage.

use std::path::{Path, PathBuf};

use clap::Args;
use ztensor::convert::{Storage, everything};
use ztensor::index::DigestValue;
use ztensor::{Checksum, Compression, Effort, Format, Reader, Version};

use super::bases::Bases;
use super::convert::{document, report, warn_skipped, write};
use super::force::Force;
use super::originals::DeleteOption;
use super::storage::{CodecOption, checksum, refuse_plain_format};
use crate::results::JsonOption;
use crate::{Failure, Outcome, Result};

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
    bases: Bases,
    #[command(flatten)]
    delete: DeleteOption,
    #[command(flatten)]
    json: JsonOption,
    #[command(flatten)]
    force: Force,
}

#[derive(Args)]
pub(crate) struct Compress {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    codec: CodecOption,
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
        let compression = self.codec.compression()?.unwrap_or(Compression::Z4ai(Effort::default()));
        self.files.rewrite(compression, version_of)
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
        let reader = self.bases.open(&self.file)?;
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
        let checksum = self.checksum.as_deref().map(checksum).transpose()?;
        warn_skipped(&reader, &self.file)?;
        let output: &Path = self.output.as_deref().unwrap_or(&self.file);
        let asked = Storage { compression, checksum: checksum.unwrap_or_default(), ..Storage::default() };
        refuse_plain_format(output, &asked)?;
        self.force.allow_beside(&self.file, output)?;
        let storage = Storage { checksum: checksum.unwrap_or_else(|| checksum_of(&reader)), ..asked };
        write(&reader, &self.file, output, storage, version(&reader))?;
        self.delete.after_converting(&reader, &self.file, output, &everything(&reader))?;
        let document = document(&reader, &self.file, output, reader.len())?;
        self.json.tell(&report(&reader, &self.file, output, reader.len())?, document)?;
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
