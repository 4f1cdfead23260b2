//! The options that say how tensors are stored, shared by every command that writes `.zt`.

use clap::Args;
use ztensor::convert::Storage;
use ztensor::{Checksum, Compression};

use crate::{Failure, Result};

#[derive(Args, Clone)]
pub(crate) struct StorageOptions {
    /// Compress the tensors with zstd
    #[arg(short, long)]
    compress: bool,
    /// zstd level, 1 to 22 (implies --compress)
    #[arg(short, long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=22))]
    level: Option<i32>,
    /// Store a checksum with each tensor: none, crc32c or sha256
    #[arg(long, value_name = "KIND", default_value = "none")]
    checksum: String,
}

impl StorageOptions {
    pub(crate) fn storage(&self) -> Result<Storage> {
        let compression = match (self.compress, self.level) {
            (_, Some(level)) => Compression::Zstd(level),
            (true, None) => Compression::Zstd(3),
            (false, None) => Compression::None,
        };
        Ok(Storage { compression, checksum: checksum(&self.checksum)? })
    }
}

pub(crate) fn checksum(name: &str) -> Result<Checksum> {
    Checksum::parse(name).map_err(Failure::from)
}
