//! `ztensor merge`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use ztensor::convert::{FileKind, copy_into, everything};
use ztensor::{Reader, Writer};

use super::bases::Bases;
use super::convert::{skipped, warn_skipped};
use super::force::Force;
use super::originals::DeleteOption;
use super::storage::StorageOptions;
use crate::display::{size, tensors};
use crate::progress::Progress;
use crate::results::JsonOption;
use crate::{Failure, Outcome, Result};

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
    delete: DeleteOption,
    #[command(flatten)]
    json: JsonOption,
    #[command(flatten)]
    force: Force,
}

impl Merge {
    pub(crate) fn run(self) -> Result {
        let storage = self.storage.storage()?;
        let kind = FileKind::of(&self.output)?;
        if kind != FileKind::Zt {
            return Err(Failure::new(format!(
                "\"{}\": files are merged into a .zt file; `ztensor convert` makes a {} file of that",
                self.output.display(),
                kind.extension()
            )));
        }
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
        for (reader, input) in readers.iter().zip(&self.inputs) {
            self.delete.after_converting(reader, input, &self.output, &everything(reader))?;
        }
        let count = readers.iter().map(Reader::len).sum();
        let (files, output) = (readers.len(), self.output.display());
        self.json.tell(
            &format!("{files} files -> {output} ({}), {}", size(written), tensors(count)),
            json!({
                "paths": self.inputs.iter().map(|input| input.display().to_string()).collect::<Vec<_>>(),
                "output": output.to_string(), "output_bytes": written, "tensors": count,
                "skipped": readers.iter().flat_map(skipped).collect::<Vec<_>>(),
            }),
        )?;
        Ok(Outcome::Done)
    }
}
