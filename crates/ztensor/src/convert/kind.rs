//! The kind of file that a name promises: what is written is what the name says, or nothing.

use std::path::Path;

use crate::error::{Error, Hints, Result};

/// The kinds of files that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FileKind {
    Zt,
    Safetensors,
    Pytorch,
}

impl FileKind {
    /// What a path promises: `.safetensors`, what PyTorch calls its files, or `.zt` for every name that does not promise something else, which is
    /// refused.
    pub fn of(path: &Path) -> Result<FileKind> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        let (what, hints) = match extension.as_deref() {
            Some("safetensors") => return Ok(FileKind::Safetensors),
            Some("pt" | "pth" | "bin" | "ckpt") => return Ok(FileKind::Pytorch),
            Some(other @ ("pkl" | "gguf" | "npz" | "npy" | "onnx" | "h5" | "hdf5" | "keras")) => (
                format!(".{other} files are read, not written"),
                Hints::new(
                    "Name the file .zt, .safetensors or .pt.",
                    "Name the file .zt, .safetensors or .pt.",
                    "Name the output .zt, .safetensors or .pt.",
                ),
            ),
            Some("json") => (
                "a .json file is an index of shards, which is not written here".to_owned(),
                Hints::new(
                    "Name the file .zt, .safetensors or .pt.",
                    "Name the file .zt or .safetensors; z4ai.save_pretrained writes shards and their index.",
                    "Name the output .zt or .safetensors; `ztensor split` writes shards and their index.",
                ),
            ),
            Some(other @ ("zstn" | "z4dm" | "z4ai")) => (
                format!("a .{other} file is not a plain tensor file"),
                Hints::new(
                    "Name the file .zt or .safetensors; `ztensor::archive` and `ztensor::delta` write archives and deltas.",
                    "Name the file .zt or .safetensors; the package z4ai writes archives, deltas and frames.",
                    "Name the output .zt or .safetensors; `ztensor archive` and `ztensor delta` write archives and deltas.",
                ),
            ),
            _ => return Ok(FileKind::Zt),
        };
        Err(Error::argument(what).with_path(path).with_hints(hints))
    }

    /// What its files are called.
    pub fn extension(self) -> &'static str {
        match self {
            FileKind::Zt => ".zt",
            FileKind::Safetensors => ".safetensors",
            FileKind::Pytorch => ".pt",
        }
    }
}
