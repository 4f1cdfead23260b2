//! `ztensor delta info`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use ztensor::Reader;
use ztensor::archive::{BaseInfo, FileInfo};

use crate::commands::bases::Bases;
use crate::display::{say, say_json, size};
use crate::{Outcome, Result, limits};

#[derive(Args)]
pub(super) struct Info {
    /// The delta
    file: PathBuf,
    #[command(flatten)]
    bases: Bases,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

impl Info {
    pub(super) fn run(self) -> Result {
        let info = limits::options().describe_archive(&self.file)?;
        // What the tensors take is known only together with the base.
        let reader = self.bases.open(&self.file);
        let tensors = reader.as_ref().map(stored).unwrap_or_default();
        let files = |files: &[FileInfo]| {
            let file =
                |file: &FileInfo| json!({ "name": file.name, "bytes": file.length, "sha256": file.sha256 });
            files.iter().map(file).collect::<Vec<_>>()
        };
        let base = |base: &BaseInfo| {
            json!({
                "name": base.name, "bytes": base.length, "sha256": base.sha256, "files": files(&base.files),
            })
        };
        if self.json {
            return say_json(&json!({
                "format": info.format, "original_bytes": info.length, "sha256": info.sha256,
                "stored_bytes": info.stored, "files": files(&info.files),
                "base": info.bases.first().map(base),
                "bases": info.bases.iter().map(base).collect::<Vec<_>>(),
                "tensors": tensors.iter().map(|(name, stored, bytes, recipe)| json!({
                    "name": name, "stored_bytes": stored, "bytes": bytes, "recipe": recipe,
                })).collect::<Vec<_>>(),
                "error": reader.as_ref().err().map(ToString::to_string),
            }));
        }
        let several = match info.files.len() {
            0 => String::new(),
            count => format!(" in {count} files"),
        };
        say(&format!(
            "{}: a {} model of {}{several}, stored in {}, sha256 {}",
            file_name(&self.file),
            info.format,
            size(info.length),
            size(info.stored),
            info.sha256
        ))?;
        if info.bases.is_empty() {
            say("base: none needed")?;
        }
        for base in &info.bases {
            let name = if base.name.is_empty() { "unnamed" } else { &base.name };
            say(&format!("base: {name} ({}), sha256 {}", size(base.length), base.sha256))?;
            for file in &base.files {
                say(&format!("  {} ({}), sha256 {}", file.name, size(file.length), file.sha256))?;
            }
        }
        for (name, stored, bytes, recipe) in &tensors {
            let recipe = recipe.as_ref().map(|recipe| format!(", {recipe}")).unwrap_or_default();
            say(&format!("  {name}: {} of {}{recipe}", size(*stored), size(*bytes)))?;
        }
        if let Err(error) = &reader {
            say(&format!("not opened: {}", error.told(ztensor::Caller::Shell)))?;
        }
        Ok(Outcome::Done)
    }
}

/// Name, stored bytes and bytes of every tensor, and its recipe if it has one.
fn stored(reader: &Reader) -> Vec<(String, u64, u64, Option<String>)> {
    reader
        .objects()
        .map(|(name, object)| {
            let (stored, recipe) = (reader.stored_length(name), reader.stored_recipe(name));
            let (stored, recipe) = (stored.unwrap_or_default(), recipe.unwrap_or_default());
            (name.to_owned(), stored, object.decoded_length(), recipe)
        })
        .collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
