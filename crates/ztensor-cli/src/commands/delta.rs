//! `ztensor delta`: make, apply, info, log and rebase.

mod explain;
mod info;
mod log;
mod rebase;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ztensor::delta::make_reader;

use super::archive::{PackOptions, document, length_of, make_folder, summary};
use super::bases::Bases;
use super::names::{DELTA, local, stem};
use super::originals::DeleteOption;
use super::restore::Restore;
use crate::progress::Progress;
use crate::{Failure, Outcome, Result};

#[derive(Args)]
pub(crate) struct Delta {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Store a model as differences to another one
    #[command(
        after_help = "Examples:\n  ztensor delta make tuned.safetensors --base base.safetensors\n  ztensor delta make checkpoint-2000 --base checkpoint-1000 -o step-2000.z4dm\n  ztensor delta make model-Q4_K_M.gguf --base model.safetensors --explain\n  ztensor delta make merged --base one --base other"
    )]
    Make(Make),
    /// Restore the models of deltas, byte for byte
    #[command(
        after_help = "Examples:\n  ztensor delta apply tuned.z4dm --base base.safetensors -o tuned.safetensors\n  ztensor delta apply *.z4dm --base checkpoints -o restored"
    )]
    Apply(Restore),
    /// Show what a delta holds and which base it needs
    #[command(after_help = "Examples:\n  ztensor delta info tuned.z4dm")]
    Info(info::Info),
    /// Draw which file of a folder is the base of which
    #[command(after_help = "Examples:\n  ztensor delta log checkpoints")]
    Log(log::Log),
    /// Store a delta against the base of its base, so that the one between them is no longer needed
    #[command(
        after_help = "Examples:\n  ztensor delta rebase step-1500.z4dm\n  ztensor delta rebase step-1500.z4dm --onto step-500.safetensors -o step-1500b.z4dm"
    )]
    Rebase(rebase::Rebase),
}

#[derive(Args)]
struct Make {
    /// The model to store: a file, a shard index or a folder
    file: PathBuf,
    /// The models to compare with, such as the parents of a merge: files, shard indexes or folders. Those that are deltas find their own bases among the others
    #[command(flatten)]
    bases: Bases,
    /// The delta [default: the model's name with .z4dm instead of its extension]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Say of each tensor which recipe was found for it and what that saved
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    delete: DeleteOption,
    #[command(flatten)]
    options: PackOptions,
}

impl Delta {
    pub(crate) fn run(self) -> Result {
        match self.action {
            Action::Make(command) => command.run(),
            Action::Apply(command) => command.run(),
            Action::Info(command) => command.run(),
            Action::Log(command) => command.run(),
            Action::Rebase(command) => command.run(),
        }
    }
}

impl Make {
    fn run(self) -> Result {
        let bases = self.bases.open_all()?;
        let reader = Bases::default().open(&self.file)?;
        let force = &self.options.force;
        let input = local(&self.file);
        let output = match self.output {
            Some(output) if output.is_dir() => force.allow_chosen(&output.join(delta_name(&input)?))?,
            Some(output) => force.allow(&output).map(|()| output)?,
            None => force.allow_chosen(&input.with_file_name(delta_name(&input)?))?,
        };
        make_folder(&output)?;
        let progress = Progress::new("comparing", length_of(&reader));
        let options = self.options.archive_options()?;
        let stats = make_reader(&reader, &bases, &output, &options, &mut |bytes| {
            progress.advance(bytes);
            Ok(())
        })
        .map_err(|error| error.with_path(&self.file))?;
        drop(progress);
        let mut document = document(&self.file, &output, &stats, false);
        let mut found = Vec::new();
        if self.explain {
            found = explain::found(&reader, &bases, &output, &options)?;
            document["recipes"] = found.iter().map(explain::Found::to_json).collect();
        }
        self.delete.after_archiving(&self.file, &output, &bases)?;
        self.options.json.tell(&summary(&self.file, &output, &stats), document)?;
        let results = self.options.json.results();
        for tensor in found {
            results.remark(&tensor.to_string())?;
        }
        Ok(Outcome::Done)
    }
}

/// The name of the delta of a model; of a folder, after the folder.
fn delta_name(model: &Path) -> Result<PathBuf> {
    let nameless = || Failure::new(format!("\"{}\" has no name; name an --output", model.display()));
    let mut name = match model.is_dir() {
        true => model.file_name().ok_or_else(nameless)?.to_owned(),
        false => stem(model),
    };
    name.push(format!(".{DELTA}"));
    Ok(name.into())
}
