//! `ztensor delta rebase`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ztensor::archive::describe;
use ztensor::delta::rebase;

use crate::commands::archive::{PackOptions, document, summary};
use crate::commands::bases::Bases;
use crate::commands::force::same_file;
use crate::progress::Progress;
use crate::{Failure, Outcome, Result};

#[derive(Args)]
pub(super) struct Rebase {
    /// The delta
    file: PathBuf,
    /// The model to store it against [default: the base of its base]
    #[arg(long, value_name = "PATH")]
    onto: Option<PathBuf>,
    #[command(flatten)]
    bases: Bases,
    /// The new delta [default: replace the old one]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    options: PackOptions,
}

impl Rebase {
    pub(super) fn run(self) -> Result {
        let output = self.output.unwrap_or_else(|| self.file.clone());
        if !same_file(&self.file, &output) {
            self.options.force.allow(&output)?;
        }
        let onto = self.onto.as_ref().map(|path| self.bases.open(path)).transpose()?.map(Arc::new);
        let options = self.options.archive_options()?;
        let info = describe(&self.file)?;
        // Written beside its place and read back before it takes it.
        let written = beside(&output)?;
        let progress = Progress::new("comparing", info.length);
        let stats = rebase(&self.file, onto, &self.bases.candidates(), &written, &options, &mut |bytes| {
            progress.advance(bytes);
            Ok(())
        })?;
        drop(progress);
        #[allow(clippy::disallowed_methods, reason = "the file is complete, durable and has been read back")]
        std::fs::rename(&written, &output)
            .map_err(|error| Failure::new(format!("\"{}\": {error}", output.display())))?;
        let document = document(&self.file, &output, &stats, false);
        self.options.json.tell(&summary(&self.file, &output, &stats), document)?;
        Ok(Outcome::Done)
    }
}

/// A name in the folder of the output that nothing has.
fn beside(output: &Path) -> Result<PathBuf> {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let free = (0..100).map(|number| output.with_file_name(format!(".{name}.{number}.partial")));
    free.into_iter().find(|path| !path.exists()).ok_or_else(|| {
        Failure::new(format!("the folder of \"{}\" is full of unfinished files", output.display()))
    })
}
