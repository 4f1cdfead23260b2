//! `ztensor repair`

use std::path::PathBuf;

use clap::Args;

use crate::display::{say, size, tensors};
use crate::{Outcome, Result};

#[derive(Args)]
pub(crate) struct Repair {
    /// The .zt file
    file: PathBuf,
}

impl Repair {
    pub(crate) fn run(self) -> Result {
        let result = ztensor::repair(&self.file)?;
        let path = self.file.display();
        say(&match result.removed {
            0 => format!("{path} is complete: {}", tensors(result.tensors)),
            removed => format!(
                "{path}: {} of an interrupted write removed, {} recovered",
                size(removed),
                tensors(result.tensors)
            ),
        })?;
        Ok(Outcome::Done)
    }
}
