//! The `z4ai` command: compress, decompress, delta, apply, info and estimate, on files and pipes.

mod compress;
mod decompress;
mod delta;
mod estimate;
mod info;
mod mistaken;
mod streams;

use clap::{Parser, Subcommand};

use crate::Result;

/// Compresses model weights without losing a bit.
#[derive(Parser)]
#[command(
    name = "z4ai",
    version,
    about = "Compresses model weights without losing a bit",
    arg_required_else_help = true,
    max_term_width = 110
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compress a file or standard input
    Compress(compress::Compress),
    /// Restore what was compressed
    Decompress(decompress::Decompress),
    /// Compress a file against another one, such as a checkpoint against the one before it
    Delta(delta::Delta),
    /// Restore what a delta stands for, with the file that it was made against
    Apply(delta::Apply),
    /// Describe a compressed file: ratio, transforms, planes and the entropy floor
    Info(info::Info),
    /// Predict the ratio from a sample
    Estimate(estimate::Estimate),
}

impl Arguments {
    pub(crate) fn run(self) -> Result {
        match self.command {
            Command::Compress(command) => command.run(),
            Command::Decompress(command) => command.run(),
            Command::Delta(command) => command.run(),
            Command::Apply(command) => command.run(),
            Command::Info(command) => command.run(),
            Command::Estimate(command) => command.run(),
        }
    }
}
