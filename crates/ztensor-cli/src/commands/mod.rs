//! One file per command. Each has its arguments as a struct and a `run`.

mod append;
mod archive;
mod cat;
mod completions;
mod convert;
mod delta;
mod diff;
pub(crate) mod force;
mod hydrate;
mod info;
mod merge;
mod recompress;
mod remove;
mod repair;
mod scan;
mod split;
mod storage;
mod verify;

use clap::Subcommand;

use crate::Result;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the tensors of a file, its metadata and its size
    #[command(visible_alias = "ls")]
    Info(info::Info),
    /// Convert files of any format to .zt or .safetensors
    Convert(convert::Convert),
    /// Rewrite a file with its tensors compressed
    Compress(recompress::Compress),
    /// Rewrite a file with its tensors stored raw
    Decompress(recompress::Decompress),
    /// Rewrite an older .zt file in the current version
    Migrate(recompress::Migrate),
    /// Join several files into one
    Merge(merge::Merge),
    /// Cut a file into shards
    Split(split::Split),
    /// Add the tensors of other files to a .zt file
    Append(append::Append),
    /// Remove tensors from a .zt file
    #[command(visible_alias = "rm")]
    Remove(remove::Remove),
    /// Check every checksum and decode every tensor
    Verify(verify::Verify),
    /// Write one tensor as .npy, as raw bytes, or as text on a terminal
    Cat(cat::Cat),
    /// Compare two files of any formats, tensor by tensor
    Diff(diff::Diff),
    /// Recover a .zt file whose append was interrupted
    Repair(repair::Repair),
    /// Compress a model file of any format so that it can be restored byte for byte
    Archive(archive::Archive),
    /// Restore the original of an archive, byte for byte
    Restore(archive::Restore),
    /// Store a model as differences to another one, and restore it
    Delta(delta::Delta),
    /// Restore the archives in a model's folder to plain files
    Hydrate(hydrate::Hydrate),
    /// Report what loading a pickle-based file would import and call
    Scan(scan::Scan),
    /// Print a completion script for a shell
    Completions(completions::Completions),
}

impl Command {
    pub(crate) fn run(self) -> Result {
        match self {
            Command::Info(command) => command.run(),
            Command::Convert(command) => command.run(),
            Command::Compress(command) => command.run(),
            Command::Decompress(command) => command.run(),
            Command::Migrate(command) => command.run(),
            Command::Merge(command) => command.run(),
            Command::Split(command) => command.run(),
            Command::Append(command) => command.run(),
            Command::Remove(command) => command.run(),
            Command::Verify(command) => command.run(),
            Command::Cat(command) => command.run(),
            Command::Diff(command) => command.run(),
            Command::Repair(command) => command.run(),
            Command::Archive(command) => command.run(),
            Command::Restore(command) => command.run(),
            Command::Delta(command) => command.run(),
            Command::Hydrate(command) => command.run(),
            Command::Scan(command) => command.run(),
            Command::Completions(command) => command.run(),
        }
    }
}
