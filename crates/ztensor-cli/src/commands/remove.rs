//! `ztensor remove`

use std::path::PathBuf;

use clap::Args;

use super::force::Force;
use crate::display::{say, tensors};
use crate::{Outcome, Result};

#[derive(Args)]
pub(crate) struct Remove {
    /// The .zt file
    file: PathBuf,
    /// Names of the tensors to remove
    #[arg(required = true)]
    names: Vec<String>,
    /// Output file [default: replace the input]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

impl Remove {
    pub(crate) fn run(self) -> Result {
        let output = self.output.as_ref().unwrap_or(&self.file);
        self.force.allow_beside(&self.file, output)?;
        ztensor::remove_tensors(&self.file, output, &self.names)?;
        say(&format!("{} removed -> {}", tensors(self.names.len()), output.display()))?;
        Ok(Outcome::Done)
    }
}
