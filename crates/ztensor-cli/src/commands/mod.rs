//! One file per command. Each has its arguments as a struct and a `run`.

mod append;
mod archive;
mod bases;
mod cat;
mod completions;
mod convert;
mod dehydrate;
mod delta;
mod diff;
#[cfg(feature = "remote")]
mod download;
pub(crate) mod force;
mod hydrate;
mod index_text;
mod info;
mod manifest;
mod merge;
mod meta;
mod modules;
pub(crate) mod names;
mod originals;
mod recompress;
mod remove;
mod repair;
mod restore;
mod scan;
mod selection;
mod split;
mod storage;
mod store;
mod verify;

use clap::Subcommand;

use crate::Result;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the tensors of a file, its metadata and its size
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  ztensor info model.gguf\n  ztensor info model.safetensors.index.json --filter attn\n  ztensor info model.zt --tree --depth 2\n  ztensor info model.zt --json"
    )]
    Info(info::Info),
    /// Convert files of any format to .zt, .safetensors or .pt
    #[command(
        after_help = "Examples:\n  ztensor convert pytorch_model.bin\n  ztensor convert model.gguf -o model.safetensors --dequantize f16\n  ztensor convert model.pt --dtype bf16 --rename 's/^model\\.//' --exclude '*.num_batches_tracked'\n  cat model.npz | ztensor convert - -o model.zt\n  ztensor convert *.safetensors -o folder --codec z4ai"
    )]
    Convert(convert::Convert),
    /// Print, set and remove metadata
    Meta(meta::Meta),
    /// Rewrite a file with its tensors compressed
    #[command(
        after_help = "Examples:\n  ztensor compress model.zt\n  ztensor compress model.zt -o smaller.zt --effort max\n  ztensor compress model.zt --codec zstd --level 9",
        mut_arg("compress", |option| option.hide(true))
    )]
    Compress(recompress::Compress),
    /// Rewrite a file with its tensors stored raw
    #[command(after_help = "Examples:\n  ztensor decompress smaller.zt -o model.zt")]
    Decompress(recompress::Decompress),
    /// Rewrite an older .zt file in the current version
    #[command(after_help = "Examples:\n  ztensor migrate old.zt -o new.zt")]
    Migrate(recompress::Migrate),
    /// Join several files into one
    #[command(after_help = "Examples:\n  ztensor merge encoder.pt decoder.safetensors -o model.zt")]
    Merge(merge::Merge),
    /// Cut a file into shards
    #[command(after_help = "Examples:\n  ztensor split model.zt -o shards --max-size 2GB")]
    Split(split::Split),
    /// Add the tensors of other files to a .zt file
    #[command(after_help = "Examples:\n  ztensor append model.zt lora.safetensors")]
    Append(append::Append),
    /// Remove tensors from a .zt file
    #[command(
        visible_alias = "rm",
        after_help = "Examples:\n  ztensor remove model.zt lm_head.weight -o trunk.zt"
    )]
    Remove(remove::Remove),
    /// Check every checksum and decode every tensor
    #[command(
        after_help = "Examples:\n  ztensor verify model.zt shards/*.safetensors\n  ztensor verify folder\n  ztensor verify model.gguf --sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n  ztensor verify --manifest model.sha256"
    )]
    Verify(verify::Verify),
    /// List the sha256 of files, for `ztensor verify --manifest` and sha256sum
    #[command(after_help = "Examples:\n  ztensor manifest folder -o folder/model.sha256")]
    Manifest(manifest::MakeManifest),
    /// Write one tensor as .npy, as raw bytes, or as text on a terminal
    #[command(
        after_help = "Examples:\n  ztensor cat model.gguf token_embd.weight --raw | sha256sum\n  ztensor cat model.safetensors norm.weight -o norm.npy\n  ztensor cat model.gguf blk.0.attn_q.weight --dequantize f32 -o attn_q.npy"
    )]
    Cat(cat::Cat),
    /// Compare two files of any formats, tensor by tensor
    #[command(after_help = "Examples:\n  ztensor diff model.safetensors model.zt")]
    Diff(diff::Diff),
    /// Cut off what an interrupted append or replacement left in a .zt file
    #[command(after_help = "Examples:\n  ztensor repair model.zt\n  ztensor repair model.zt --at 4096")]
    Repair(repair::Repair),
    /// Compress a model file of any format so that it can be restored byte for byte
    #[command(
        after_help = "Examples:\n  ztensor archive model.safetensors\n  ztensor archive model.gguf -o model.zstn --effort max\n  ztensor archive folder"
    )]
    Archive(archive::Archive),
    /// Restore the originals of archives and deltas, byte for byte
    #[command(
        after_help = "Examples:\n  ztensor restore model.safetensors.zstn\n  ztensor restore folder -o restored\n  ztensor restore step-1500.z4dm --base checkpoints"
    )]
    Restore(restore::Restore),
    /// Store a model as differences to another one, and restore it
    Delta(delta::Delta),
    /// Keep many related checkpoints in a directory: equal tensors once, similar ones as differences
    Store(store::Stores),
    /// Restore the archives in a model's folder to plain files
    #[command(after_help = "Examples:\n  ztensor hydrate folder")]
    Hydrate(hydrate::Hydrate),
    /// Compress the weights in a model's folder, so that transformers loads them as a variant
    #[command(
        after_help = "Examples:\n  ztensor dehydrate folder\n  ztensor dehydrate folder --delete-originals\n  ztensor dehydrate folder -o smaller --effort max"
    )]
    Dehydrate(dehydrate::Dehydrate),
    /// Report what loading a file with the library it was made for would run
    #[command(after_help = "Examples:\n  ztensor scan pytorch_model.bin")]
    Scan(scan::Scan),
    /// Download a model, or files of it, from the Hugging Face Hub
    #[cfg(feature = "remote")]
    #[command(
        name = "download-hf",
        after_help = "Interrupted downloads go on where they were. HF_TOKEN, HF_ENDPOINT and HF_HOME are what they are for the Hugging Face tools.\n\nExamples:\n  ztensor download-hf openai-community/gpt2\n  ztensor download-hf openai-community/gpt2 model.safetensors config.json -o gpt2\n  ztensor download-hf owner/name '*.gguf' --revision v1"
    )]
    DownloadHf(download::DownloadHf),
    /// Print a completion script for a shell
    #[command(after_help = "Examples:\n  ztensor completions bash > ztensor.bash")]
    Completions(completions::Completions),
}

impl Command {
    pub(crate) fn run(self) -> Result {
        match self {
            Command::Info(command) => command.run(),
            Command::Convert(command) => command.run(),
            Command::Meta(command) => command.run(),
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
            Command::Store(command) => command.run(),
            Command::Hydrate(command) => command.run(),
            Command::Dehydrate(command) => command.run(),
            Command::Manifest(command) => command.run(),
            Command::Scan(command) => command.run(),
            #[cfg(feature = "remote")]
            Command::DownloadHf(command) => command.run(),
            Command::Completions(command) => command.run(),
        }
    }
}
