//! `ztensor repair`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::display::{size, tensors};
use crate::results::JsonOption;
use crate::{Outcome, Result};

#[derive(Args)]
pub(crate) struct Repair {
    /// The .zt file
    file: PathBuf,
    /// Go back to the state that ended at this offset, in a file that does not say where its last complete state ends
    #[arg(long, value_name = "OFFSET")]
    at: Option<u64>,
    #[command(flatten)]
    json: JsonOption,
}

impl Repair {
    pub(crate) fn run(self) -> Result {
        let result = match self.at {
            Some(end) => ztensor::repair_at(&self.file, end)?,
            None => ztensor::repair(&self.file)?,
        };
        let path = self.file.display();
        let line = match result.removed {
            0 => format!("{path} is complete: {}", tensors(result.tensors)),
            removed => format!(
                "{path}: {} of an interrupted write removed, {} recovered",
                size(removed),
                tensors(result.tensors)
            ),
        };
        let document =
            json!({ "path": path.to_string(), "removed_bytes": result.removed, "tensors": result.tensors });
        self.json.tell(&line, document)?;
        Ok(Outcome::Done)
    }
}
