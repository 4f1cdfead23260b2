//! `store get --as safetensors`: the tensors of a checkpoint as one model file, whatever they are stored in, such as the shards of a training job.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use ztensor::convert::{Storage, everything, safetensors_with_metadata};
use ztensor::formats::may_have_boxes;
use ztensor::{OpenOptions, Output};
use ztensor_store::record::{File, FileKind};
use ztensor_store::{Checkpoint, Store};

use crate::commands::convert::warn_skipped;
use crate::display::{size, tensors};
use crate::progress::Progress;
use crate::{Failure, Result};

/// What was written.
pub(super) struct Written {
    path: PathBuf,
    tensors: usize,
    files: usize,
    bytes: u64,
}

impl Written {
    pub(super) fn document(&self, name: &str) -> Json {
        let path = self.path.display().to_string();
        json!({ "name": name, "path": path, "tensors": self.tensors, "files": self.files, "bytes": self.bytes })
    }

    pub(super) fn sentence(&self, name: &str) -> String {
        let more = match self.files {
            1 => String::new(),
            files => format!(" and {} other files", files - 1),
        };
        format!("{name} -> {} ({}, {}){more}", self.path.display(), tensors(self.tensors), size(self.bytes))
    }
}

/// Writes a checkpoint's tensors, and into a folder also its files that have none.
pub(super) fn safetensors(store: &Store, name: &str, output: &Path, prefix: &str) -> Result<Written> {
    let checkpoint = store.checkpoint(name)?;
    let reader = checkpoint.reader("", &OpenOptions::default())?;
    let alone = output.extension().is_some_and(|extension| extension == "safetensors");
    warn_skipped(&reader, Path::new(name))?;
    let mut selection = everything(&reader);
    selection.retain_mut(|(name, new)| match name.strip_prefix(prefix) {
        Some(rest) if !rest.is_empty() => {
            *new = Cow::Borrowed(rest);
            true
        }
        _ => false,
    });
    if selection.is_empty() {
        return Err(Failure::new(format!(
            "no tensor of \"{name}\" has a name that begins with \"{prefix}\""
        )));
    }
    let path = match alone {
        true => output.to_path_buf(),
        false => {
            let empty = |folder: &Path| folder.read_dir().is_ok_and(|mut files| files.next().is_none());
            if output.exists() && !empty(output) {
                return Err(Failure::new(format!("\"{}\" is no empty folder", output.display())));
            }
            std::fs::create_dir_all(output)?;
            output.join("model.safetensors")
        }
    };
    let lengths = selection.iter().filter_map(|(name, _)| reader.object(name).ok());
    let total: u64 = lengths.map(|object| object.decoded_length()).sum();
    let progress = Progress::new("writing", total);
    // Without it transformers refuses the file.
    let metadata = [("format".to_owned(), "pt".to_owned())];
    let mut advance = |bytes| progress.advance(bytes);
    let bytes = safetensors_with_metadata(
        &reader,
        &selection,
        &path,
        Storage::default(),
        Some(&metadata),
        &mut advance,
    )?;
    drop(progress);
    let mut files = 1;
    if !alone {
        files += others(&checkpoint, output)?;
    }
    Ok(Written { path, tensors: selection.len(), files, bytes })
}

/// Restores the files that neither hold nor describe tensors: configuration, tokenizer.
fn others(checkpoint: &Checkpoint, output: &Path) -> Result<usize> {
    let weights: HashSet<&str> = checkpoint.weights().collect();
    let wanted = |file: &&File| {
        let path = file.path.as_str();
        let describes = may_have_boxes(path) || path.ends_with(".distcp") || path == "planner.json";
        matches!(file.kind, FileKind::Regular { .. }) && !weights.contains(path) && !describes
    };
    let mut count = 0;
    for file in checkpoint.manifest().files.iter().filter(wanted) {
        let source = checkpoint.source(&file.path)?;
        let place = output.join(&file.path);
        if let Some(folder) = place.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut written = Output::create(&place)?;
        let mut position = 0;
        while position < source.len() {
            let length = source.window(position);
            written.write(&source.bytes(position, length)?)?;
            position += length;
        }
        written.publish(false)?;
        count += 1;
    }
    Ok(count)
}
