//! `ztensor merge`

use std::path::PathBuf;

use clap::Args;
use ztensor::convert::copy_into;
use ztensor::{Reader, Writer};

use super::bases::Bases;
use super::convert::{refuse_foreign_name, warn_skipped};
use super::force::Force;
use super::storage::StorageOptions;
use crate::display::{say, size, tensors};
use crate::progress::Progress;
use crate::{Outcome, Result};

#[derive(Args)]
pub(crate) struct Merge {
    /// Files of any readable format; a name may occur in one of them only
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    /// The .zt file to write
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    #[command(flatten)]
    storage: StorageOptions,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    force: Force,
}

impl Merge {
    pub(crate) fn run(self) -> Result {
        let storage = self.storage.storage()?;
        refuse_foreign_name(&self.output)?;
        self.force.allow(&self.output)?;
        let readers: Vec<Reader> =
            self.inputs.iter().map(|input| self.bases.open(input)).collect::<ztensor::Result<_>>()?;
        let total: u64 = readers
            .iter()
            .flat_map(|reader| reader.objects())
            .map(|(_, object)| object.decoded_length())
            .sum();
        let progress = Progress::new("merging", total);
        let mut writer = Writer::create(&self.output)?;
        for (reader, input) in readers.iter().zip(&self.inputs) {
            warn_skipped(reader, input)?;
            copy_into(&mut writer, reader, storage, &mut |bytes| progress.advance(bytes))
                .map_err(|error| error.with_path(input))?;
        }
        let written = writer.finish()?;
        drop(progress);
        say(&format!(
            "{} files -> {} ({}), {}",
            readers.len(),
            self.output.display(),
            size(written),
            tensors(readers.iter().map(Reader::len).sum())
        ))?;
        Ok(Outcome::Done)
    }
}
