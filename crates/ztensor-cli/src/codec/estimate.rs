//! `z4ai estimate`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::streams::{CodecOptions, whole};
use crate::display::{say, say_json, size};
use crate::{Outcome, Result};

#[derive(Args)]
pub(crate) struct Estimate {
    /// The file; - is standard input
    file: PathBuf,
    #[command(flatten)]
    codec: CodecOptions,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Estimate {
    pub(crate) fn run(self) -> Result {
        let options = self.codec.options()?;
        let source = whole(&self.file)?;
        let bytes = source.bytes(0, source.len())?;
        let ratio = z4ai::estimate(&bytes, &options)?;
        let predicted = bytes.len() as f64 / ratio.max(f64::MIN_POSITIVE);
        if self.json {
            return say_json(
                &json!({ "bytes": bytes.len(), "ratio": ratio, "predicted_bytes": predicted as u64 }),
            );
        }
        say(&format!(
            "{}: about {ratio:.2}x ({} -> {})",
            self.file.display(),
            size(bytes.len() as u64),
            size(predicted as u64)
        ))?;
        Ok(Outcome::Done)
    }
}
