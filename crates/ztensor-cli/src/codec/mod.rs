//! The `z4ai` command: compress, decompress, delta, apply, info and estimate, on files and pipes.

mod compress;
mod decompress;
mod delta;
mod estimate;
mod info;
mod mistaken;
mod streams;

use clap::{Parser, Subcommand};

use crate::limits::LimitOptions;
use crate::{EXIT_CODES, Result};

/// Compresses model weights without losing a bit.
#[derive(Parser)]
#[command(
    name = "z4ai",
    version,
    about = "Compresses model weights without losing a bit",
    after_help = EXIT_CODES,
    arg_required_else_help = true,
    max_term_width = 110
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    limits: LimitOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compress a file or standard input
    #[command(
        after_help = "Examples:\n  z4ai compress weights.bin --dtype bf16 --shape 4096x4096\n  tar c folder | z4ai compress - > folder.tar.z4ai"
    )]
    Compress(compress::Compress),
    /// Restore what was compressed
    #[command(
        after_help = "Examples:\n  z4ai decompress weights.bin.z4ai\n  z4ai decompress folder.tar.z4ai -o - | tar x"
    )]
    Decompress(decompress::Decompress),
    /// Compress a file against another one, such as a checkpoint against the one before it
    #[command(after_help = "Examples:\n  z4ai delta step2000.bin --reference step1000.bin --dtype fp32")]
    Delta(delta::Delta),
    /// Restore what a delta stands for, with the file that it was made against
    #[command(after_help = "Examples:\n  z4ai apply step2000.bin.z4ai --reference step1000.bin")]
    Apply(delta::Apply),
    /// Describe a compressed file: ratio, transforms, planes and the entropy floor
    #[command(after_help = "Examples:\n  z4ai info weights.bin.z4ai")]
    Info(info::Info),
    /// Predict the ratio from a sample
    #[command(after_help = "Examples:\n  z4ai estimate weights.bin --dtype fp16")]
    Estimate(estimate::Estimate),
}

impl Arguments {
    pub(crate) fn run(self) -> Result {
        self.limits.begin()?;
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
