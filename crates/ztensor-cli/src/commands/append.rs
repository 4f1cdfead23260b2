//! `ztensor append`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use ztensor::Writer;
use ztensor::convert::copy_into;

use super::bases::Bases;
use super::convert::warn_skipped;
use super::storage::StorageOptions;
use crate::display::{size, tensors};
use crate::results::JsonOption;
use crate::{Outcome, Result};

#[derive(Args)]
pub(crate) struct Append {
    /// The .zt file that grows
    file: PathBuf,
    /// Files whose tensors are added
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    #[command(flatten)]
    storage: StorageOptions,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    json: JsonOption,
}

impl Append {
    pub(crate) fn run(self) -> Result {
        let storage = self.storage.storage()?;
        let mut writer = Writer::append(&self.file)?;
        let mut added = 0;
        for input in &self.inputs {
            let reader = self.bases.open(input)?;
            warn_skipped(&reader, input)?;
            copy_into(&mut writer, &reader, storage, &mut |_| {}).map_err(|error| error.with_path(input))?;
            added += reader.len();
        }
        let written = writer.finish()?;
        self.json.tell(
            &format!("{} added to {} ({})", tensors(added), self.file.display(), size(written)),
            json!({ "path": self.file.display().to_string(), "added": added, "bytes": written }),
        )?;
        Ok(Outcome::Done)
    }
}
