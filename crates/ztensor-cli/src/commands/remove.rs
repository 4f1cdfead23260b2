//! `ztensor remove`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::force::Force;
use crate::display::tensors;
use crate::results::JsonOption;
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
    json: JsonOption,
    #[command(flatten)]
    force: Force,
}

impl Remove {
    pub(crate) fn run(self) -> Result {
        let output = self.output.as_ref().unwrap_or(&self.file);
        self.force.allow_beside(&self.file, output)?;
        ztensor::remove_tensors(&self.file, output, &self.names)?;
        self.json.tell(
            &format!("{} removed -> {}", tensors(self.names.len()), output.display()),
            json!({
                "path": self.file.display().to_string(), "output": output.display().to_string(),
                "removed": self.names.len(),
            }),
        )?;
        Ok(Outcome::Done)
    }
}
