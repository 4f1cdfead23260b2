//! The options that say how tensors are stored, shared by every command that writes `.zt`. One vocabulary: a codec, its effort, its level.

use std::path::Path;

use clap::Args;
use clap::builder::PossibleValue;
use ztensor::convert::{FileKind, Storage};
use ztensor::{Checksum, Compression, Effort};

use crate::{Failure, Result};

#[derive(Args, Clone)]
pub(crate) struct StorageOptions {
    #[command(flatten)]
    codec: CodecOption,
    /// Store a checksum with each tensor: none, crc32c or sha256
    #[arg(long, value_name = "KIND", default_value = "none")]
    checksum: String,
}

/// How tensors are compressed.
#[derive(Args, Clone)]
pub(crate) struct CodecOption {
    /// Compress the tensors, with z4ai unless --codec or --level says otherwise; each of the options below asks for it as well
    #[arg(short, long)]
    compress: bool,
    /// The codec: z4ai or zstd [default: z4ai, unless there is a --level]
    #[arg(long, value_name = "CODEC", value_parser = codecs())]
    codec: Option<String>,
    /// z4ai: fast decodes fastest, max is smallest, default lies between
    #[arg(long, value_name = "EFFORT", value_parser = crate::effort::names())]
    effort: Option<String>,
    /// zstd: the level, 1 to 22
    #[arg(short, long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=22))]
    level: Option<i32>,
}

/// The codecs; z4ai's efforts were once chosen in their place.
fn codecs() -> Vec<PossibleValue> {
    let old = |name| PossibleValue::new(name).hide(true);
    vec![PossibleValue::new("z4ai"), PossibleValue::new("zstd"), old("fast"), old("max")]
}

impl CodecOption {
    /// What was asked for; `None` where nothing was.
    pub(crate) fn compression(&self) -> Result<Option<Compression>> {
        let effort = self.effort.as_deref().map(Effort::parse).transpose()?;
        match (self.codec.as_deref(), self.level, effort) {
            (Some("zstd") | None, Some(level), None) => Ok(Some(Compression::Zstd(level))),
            (Some("zstd"), None, None) => Ok(Some(Compression::Zstd(3))),
            (Some("zstd"), _, Some(_)) => Err(Failure::new("--effort belongs to z4ai; zstd has a --level")),
            (_, Some(_), _) => Err(Failure::new("--level belongs to zstd; z4ai has an --effort")),
            (Some("z4ai") | None, None, Some(effort)) => Ok(Some(Compression::Z4ai(effort))),
            (Some("z4ai"), None, None) => Ok(Some(Compression::Z4ai(Effort::default()))),
            (Some(effort), None, None) => Ok(Some(Compression::Z4ai(Effort::parse(effort)?))),
            (Some(_), None, Some(_)) => Err(Failure::new("the effort is given twice")),
            (None, None, None) => Ok(self.compress.then(|| Compression::Z4ai(Effort::default()))),
        }
    }
}

impl StorageOptions {
    pub(crate) fn storage(&self) -> Result<Storage> {
        let compression = self.codec.compression()?.unwrap_or(Compression::None);
        Ok(Storage { compression, checksum: checksum(&self.checksum)?, ..Storage::default() })
    }
}

pub(crate) fn checksum(name: &str) -> Result<Checksum> {
    Checksum::parse(name).map_err(Failure::from)
}

/// Refuses to write plain tensors where something else was asked for, and names that promise what is not written.
pub(crate) fn refuse_plain_format(output: &Path, storage: &Storage) -> Result<()> {
    let kind = FileKind::of(output)?;
    let asked = match (storage.compression, storage.checksum) {
        (Compression::None, Checksum::None) => return Ok(()),
        (Compression::None, _) => "a checksum",
        _ => "compression",
    };
    if kind == FileKind::Zt {
        return Ok(());
    }
    Err(Failure::new(format!(
        "\"{}\": a {} file has no room for {asked}; name the output .zt, or use `ztensor archive`, whose archives load like the original",
        output.display(),
        kind.extension()
    )))
}
