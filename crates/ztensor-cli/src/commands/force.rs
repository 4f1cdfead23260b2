//! `--force`, the same for every command that writes a file.

use std::path::{Path, PathBuf};

use clap::Args;
use ztensor::OpenOptions;
use ztensor::archive::digest;

use crate::{Failure, Result, limits};

#[derive(Args, Clone)]
pub(crate) struct Force {
    /// Replace a file that exists
    #[arg(short, long)]
    force: bool,
}

/// What is in the place of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing, or something that may be replaced.
    Free,
    /// The very bytes that would be written.
    Same,
}

impl Force {
    /// As if the user had said so.
    pub(crate) fn given() -> Force {
        Force { force: true }
    }

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
        let shown = output.display();
        match std::fs::symlink_metadata(output) {
            Ok(found) if found.is_symlink() && !self.force => {
                let target = std::fs::read_link(output).unwrap_or_default();
                return Err(Failure::new(format!(
                    "\"{shown}\" is a symbolic link to \"{}\"; use --force to replace the link",
                    target.display()
                )));
            }
            Ok(found) if found.is_symlink() => {
                std::fs::remove_file(output).map_err(|error| {
                    Failure::new(format!("\"{shown}\": cannot replace the link: {error}"))
                })?;
            }
            Ok(found) if !found.is_file() => {
                return Err(Failure::new(format!("\"{shown}\" exists and is not a file")));
            }
            Ok(_) if !self.force => {
                return Err(Failure::new(format!("\"{shown}\" exists; use --force to replace it")));
            }
            // A file to be replaced, or nothing; whatever else is wrong shows when it is written.
            Ok(_) | Err(_) => {}
        }
        Ok(output.to_path_buf())
    }

    /// How an archive is opened to restore all of it. Who replaces files by force also takes originals out of proportion.
    pub(crate) fn open_options(&self) -> OpenOptions {
        let mut options = limits::options();
        if self.force {
            options.limits.ratio = u64::MAX;
        }
        options
    }

    /// The same for a command that changes its input when no other output is named.
    pub(crate) fn allow_beside(&self, input: &Path, output: &Path) -> Result<()> {
        if same_file(input, output) { Ok(()) } else { self.allow(output) }
    }

    /// The same where it is known what will be written: bytes that are there already need not be. A link is never followed under a name that was
    /// `chosen` here.
    pub(crate) fn state(&self, output: &Path, length: u64, sha256: &str, chosen: bool) -> Result<State> {
        let Ok(about) = std::fs::metadata(output) else {
            return match chosen {
                true => self.allow_chosen(output).map(|_| State::Free),
                false => Ok(State::Free),
            };
        };
        if about.is_file() && about.len() == length && digest(output)? == sha256 {
            return Ok(State::Same);
        }
        if chosen && output.is_symlink() {
            return self.allow_chosen(output).map(|_| State::Free);
        }
        if self.force && about.is_file() {
            return Ok(State::Free);
        }
        Err(Failure::new(format!(
            "\"{}\" exists and holds something else; use --force to replace it",
            output.display()
        )))
    }
}

pub(crate) fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
