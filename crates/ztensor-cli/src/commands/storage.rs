//! The options that say how tensors are stored, shared by every command that writes `.zt`.

use clap::Args;
use ztensor::convert::Storage;
use ztensor::{Checksum, Compression};

use crate::{Failure, Result};

#[derive(Args, Clone)]
pub(crate) struct StorageOptions {
    /// Compress the tensors
    #[arg(short, long)]
    compress: bool,
    /// How: zstd, or z4ai at its default, fast or max effort (implies --compress)
    #[arg(long, value_name = "CODEC", value_parser = ["zstd", "z4ai", "fast", "max"])]
    codec: Option<String>,
    /// zstd level, 1 to 22 (implies --compress)
    #[arg(short, long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=22))]
    level: Option<i32>,
    /// Store a checksum with each tensor: none, crc32c or sha256
    #[arg(long, value_name = "KIND", default_value = "none")]
    checksum: String,
}

impl StorageOptions {
    pub(crate) fn storage(&self) -> Result<Storage> {
        let compression = match (&self.codec, self.level, self.compress) {
            (Some(codec), Some(_), _) if codec != "zstd" => {
                return Err(Failure::new(
                    "--level belongs to zstd; z4ai is chosen by --codec z4ai, fast or max",
                ));
            }
            (_, Some(level), _) => Compression::Zstd(level),
            (Some(codec), None, _) => Compression::parse(codec)?,
            (None, None, true) => Compression::Zstd(3),
            (None, None, false) => Compression::None,
        };
        Ok(Storage { compression, checksum: checksum(&self.checksum)?, ..Storage::default() })
    }
}

pub(crate) fn checksum(name: &str) -> Result<Checksum> {
    Checksum::parse(name).map_err(Failure::from)
}
