//! `--force`, the same for every command that writes a file.

use std::path::Path;

use clap::Args;

use crate::{Failure, Result};

#[derive(Args)]
pub(crate) struct Force {
    /// Replace a file that exists
    #[arg(short, long)]
    force: bool,
}

impl Force {
    /// Refuses an output that exists, unless the user said otherwise.
    pub(crate) fn allow(&self, output: &Path) -> Result<()> {
        if output.exists() && !self.force {
            return Err(Failure::new(format!("\"{}\" exists; use --force to replace it", output.display())));
        }
        Ok(())
    }

    /// The same for a command that changes its input when no other output is named.
    pub(crate) fn allow_beside(&self, input: &Path, output: &Path) -> Result<()> {
        if same_file(input, output) { Ok(()) } else { self.allow(output) }
    }
}

pub(crate) fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
