//! `ztensor append`

use std::path::PathBuf;

use clap::Args;
use ztensor::Writer;
use ztensor::convert::copy_into;

use super::bases::Bases;
use super::convert::warn_skipped;
use super::storage::StorageOptions;
use crate::display::{say, size, tensors};
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
        say(&format!("{} added to {} ({})", tensors(added), self.file.display(), size(written)))?;
        Ok(Outcome::Done)
    }
}
