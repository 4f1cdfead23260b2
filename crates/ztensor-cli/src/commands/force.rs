//! `--force`, the same for every command that writes a file.

use std::path::{Path, PathBuf};

use clap::Args;
use ztensor::OpenOptions;

use crate::{Failure, Result, limits};

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

    /// Says whether a file may be written under a name that the user did not choose, and gives the name back. A symbolic link there may have
    /// come with the folder, and lead anywhere: it is never followed. Replaced is the link, not what it leads to.
    pub(crate) fn allow_chosen(&self, output: &Path) -> Result<PathBuf> {
        allow_chosen(output, self.force)
    }

    /// How an archive is opened to restore all of it. Who replaces files by force also takes originals out of proportion.
    pub(crate) fn open_options(&self) -> OpenOptions {
        open_options(self.force)
    }

    /// The same for a command that changes its input when no other output is named.
    pub(crate) fn allow_beside(&self, input: &Path, output: &Path) -> Result<()> {
        if same_file(input, output) { Ok(()) } else { self.allow(output) }
    }
}

/// [`Force::allow_chosen`], for commands with a `--force` of their own.
pub(crate) fn allow_chosen(output: &Path, force: bool) -> Result<PathBuf> {
    let shown = output.display();
    match std::fs::symlink_metadata(output) {
        Ok(found) if found.is_symlink() && !force => {
            let target = std::fs::read_link(output).unwrap_or_default();
            return Err(Failure::new(format!(
                "\"{shown}\" is a symbolic link to \"{}\"; use --force to replace the link",
                target.display()
            )));
        }
        Ok(found) if found.is_symlink() => {
            std::fs::remove_file(output)
                .map_err(|error| Failure::new(format!("\"{shown}\": cannot replace the link: {error}")))?;
        }
        Ok(found) if !found.is_file() => {
            return Err(Failure::new(format!("\"{shown}\" exists and is not a file")));
        }
        Ok(_) if !force => {
            return Err(Failure::new(format!("\"{shown}\" exists; use --force to replace it")));
        }
        // A file to be replaced, or nothing; whatever else is wrong shows when it is written.
        Ok(_) | Err(_) => {}
    }
    Ok(output.to_path_buf())
}

/// [`Force::open_options`], for commands with a `--force` of their own.
pub(crate) fn open_options(force: bool) -> OpenOptions {
    let mut options = limits::options();
    if force {
        options.limits.ratio = u64::MAX;
    }
    options
}

pub(crate) fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
