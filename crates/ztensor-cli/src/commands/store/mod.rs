//! `ztensor store`: collections of related checkpoints.

mod export;
mod get_as;
mod lineage;
mod pin;
mod read;
mod write;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::{Failure, Result};

#[derive(Args)]
pub(crate) struct Stores {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make a store
    #[command(
        after_help = "Examples:\n  ztensor store init models\n  ztensor store init s3://bucket/models\n  ztensor store init models --grace 3600"
    )]
    Init(write::Init),
    /// Add a file, a folder or a whole run
    #[command(
        after_help = "Examples:\n  ztensor store add out/checkpoint-1000 -n run-7/step-1000 --store models\n  ztensor store add out --each 'checkpoint-*' -n run-7\n  ztensor store add model.gguf -n llama --base run-7/step-1000 --dry-run"
    )]
    Add(write::Add),
    /// Restore a checkpoint, byte for byte
    #[command(
        after_help = "Examples:\n  ztensor store get run-7/step-1000 -o folder\n  ztensor store get run-7/step-1000 -o folder --as safetensors --prefix model."
    )]
    Get(read::Get),
    /// List the checkpoints
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  ztensor store list\n  ztensor store list run-7 --json"
    )]
    List(read::List),
    /// Draw the lineage of the checkpoints as a tree
    #[command(after_help = "Examples:\n  ztensor store log")]
    Log(read::Log),
    /// Show the files and tensors of a checkpoint, or the store itself
    #[command(after_help = "Examples:\n  ztensor store info\n  ztensor store info run-7/step-1000")]
    Info(read::Info),
    /// Compare two checkpoints, tensor by tensor
    #[command(after_help = "Examples:\n  ztensor store diff run-7/step-1000 run-7/step-2000")]
    Diff(read::Diff),
    /// Say how many bytes the checkpoints have and take
    #[command(after_help = "Examples:\n  ztensor store stats")]
    Stats(read::Stats),
    /// Remove checkpoints; gc frees their bytes
    #[command(visible_alias = "rm", after_help = "Examples:\n  ztensor store remove run-7/step-1000")]
    Remove(write::Remove),
    /// Remove the checkpoints of a run that no rule keeps
    #[command(
        after_help = "Examples:\n  ztensor store prune run-7 --keep-last 10 --keep-every 1000\n  ztensor store prune run-7 --keep-name '*best*' --dry-run"
    )]
    Prune(write::Prune),
    /// Delete what no checkpoint refers to any more
    #[command(after_help = "Examples:\n  ztensor store gc --dry-run\n  ztensor store gc --now --force")]
    Gc(write::Gc),
    /// Write a checkpoint as an archive that needs no store
    #[command(after_help = "Examples:\n  ztensor store export run-7/step-1000 -o step-1000.zstn")]
    Export(export::Export),
    /// Add what an archive or a delta holds
    #[command(after_help = "Examples:\n  ztensor store import step-1000.zstn -n run-7/step-1000")]
    Import(export::Import),
    /// Keep what a checkpoint needs from being collected, also once it is removed; without a name, list the pins
    #[command(after_help = "Examples:\n  ztensor store pin run-7/step-1000\n  ztensor store pin --json")]
    Pin(pin::MakePin),
    /// End pins
    #[command(after_help = "Examples:\n  ztensor store unpin .pin/0123456789abcdef0123456789abcdef")]
    Unpin(pin::Unpin),
    /// Check every pack against its digest
    #[command(after_help = "Examples:\n  ztensor store verify\n  ztensor store verify --decode")]
    Verify(read::Verify),
}

/// Which store.
#[derive(Args)]
struct Where {
    /// The store's directory or URL [default: the environment variable ZTENSOR_STORE]
    #[arg(short, long, value_name = "PATH")]
    store: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Where {
    fn open(&self) -> Result<ztensor_store::Store> {
        let path = self.store.clone().or_else(|| std::env::var_os("ZTENSOR_STORE").map(PathBuf::from));
        let path = path.ok_or_else(|| {
            Failure::new(
                "which store? Name its directory or URL with --store, or in the environment variable ZTENSOR_STORE",
            )
        })?;
        Ok(ztensor_store::Store::open(path)?)
    }
}

impl Stores {
    pub(crate) fn run(self) -> Result {
        match self.action {
            Action::Init(command) => command.run(),
            Action::Add(command) => command.run(),
            Action::Get(command) => command.run(),
            Action::List(command) => command.run(),
            Action::Log(command) => command.run(),
            Action::Info(command) => command.run(),
            Action::Diff(command) => command.run(),
            Action::Stats(command) => command.run(),
            Action::Remove(command) => command.run(),
            Action::Prune(command) => command.run(),
            Action::Gc(command) => command.run(),
            Action::Export(command) => command.run(),
            Action::Import(command) => command.run(),
            Action::Pin(command) => command.run(),
            Action::Unpin(command) => command.run(),
            Action::Verify(command) => command.run(),
        }
    }
}
