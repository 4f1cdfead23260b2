//! `ztensor meta`

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ztensor::Value;
use ztensor::convert::text_of;
use ztensor::metadata::{MetadataEdit, read_metadata, write_metadata_with};

use super::bases::Bases;
use crate::display::{json, json_map, say, say_json, to_pipe};
use crate::progress::Progress;
use crate::{Failure, Outcome, Result};

#[derive(Args)]
pub(crate) struct Meta {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print metadata: one value as it is, several as a list
    #[command(
        after_help = "Examples:\n  ztensor meta get model.gguf\n  ztensor meta get model.gguf tokenizer.chat_template > template.jinja"
    )]
    Get(Get),
    /// Set metadata of a .zt, .safetensors or .gguf file; its tensors are not read
    #[command(
        after_help = "Examples:\n  ztensor meta set model.safetensors license=mit\n  ztensor meta set model.gguf tokenizer.chat_template=@template.jinja general.tags=[\"a\",\"b\"]\n  ztensor meta set model.gguf llama.context_length:u32=8192"
    )]
    Set(Set),
    /// Remove metadata from a .zt, .safetensors or .gguf file
    #[command(visible_alias = "rm", after_help = "Examples:\n  ztensor meta remove model.safetensors format")]
    Remove(Remove),
}

#[derive(Args)]
struct Get {
    /// The file, of any format
    file: PathBuf,
    /// Keys to print [default: all]
    keys: Vec<String>,
    #[command(flatten)]
    bases: Bases,
    /// Print the values as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Set {
    /// The file
    file: PathBuf,
    /// key=value; key=@file takes the text of a file, key:type=value a GGUF type (u32, f32, str, [str], …). Values are text where
    /// the key holds text, otherwise what they read as in JSON
    #[arg(required = true, value_name = "KEY=VALUE")]
    values: Vec<String>,
    /// Print the metadata as JSON once it is changed
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Remove {
    /// The file
    file: PathBuf,
    /// Keys to remove
    #[arg(required = true)]
    keys: Vec<String>,
    /// Print the metadata as JSON once it is changed
    #[arg(long)]
    json: bool,
}

impl Meta {
    pub(crate) fn run(self) -> Result {
        match self.action {
            Action::Get(command) => command.run(),
            Action::Set(command) => {
                let edit =
                    command.values.iter().try_fold(MetadataEdit::new(), |edit, value| with(edit, value))?;
                change(&command.file, &edit, command.json)
            }
            Action::Remove(command) => {
                let edit =
                    command.keys.iter().fold(MetadataEdit::new(), |edit, key| edit.remove(key.as_str()));
                change(&command.file, &edit, command.json)
            }
        }
    }
}

impl Get {
    fn run(self) -> Result {
        let reader = self.bases.open(&self.file)?;
        let found = reader.attributes();
        let wanted = |key: &String| {
            let value = found.get(key);
            value.map(|value| (key.clone(), value.clone())).ok_or_else(|| {
                Failure::new(format!("\"{}\": the metadata has no key \"{key}\"", self.file.display()))
            })
        };
        let chosen = match self.keys.is_empty() {
            true => found.clone(),
            false => self.keys.iter().map(wanted).collect::<Result<_>>()?,
        };
        if self.json {
            return say_json(&json_map(&chosen));
        }
        if let ([_], Some((_, value))) = (self.keys.as_slice(), chosen.first()) {
            let text = plain(value);
            let mut out = std::io::stdout().lock();
            if out.is_terminal() {
                text.lines().try_for_each(say)?;
            } else {
                // Byte for byte what it is, so that `set key=@file` gives it back.
                to_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))?;
            }
            return Ok(Outcome::Done);
        }
        for (key, value) in &chosen {
            say(&format!("{key}: {}", plain(value)))?;
        }
        Ok(Outcome::Done)
    }
}

/// Text as it is, other values as JSON, so that `set` understands them.
fn plain(value: &Value) -> String {
    match value {
        Value::Text(_) => text_of(value),
        other => json(other).to_string(),
    }
}

/// Adds `key=value` to the changes.
fn with(edit: MetadataEdit, text: &str) -> Result<MetadataEdit> {
    let (key, value) = text
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| Failure::new(format!("\"{text}\" is not of the form key=value")))?;
    let is_type = |name: &str| {
        let plain = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let digits = plain.trim_start_matches(['u', 'i', 'f']);
        ["str", "string", "bool"].contains(&plain)
            || (digits.len() < plain.len() && digits.parse::<u8>().is_ok())
    };
    let (key, kind) = match key.rsplit_once(':') {
        Some((key, kind)) if is_type(kind) => (key, Some(kind.to_owned())),
        _ => (key, None),
    };
    let literal = match value.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|cause| Failure::from(ztensor::Error::io("cannot read", Path::new(path), cause)))?,
        None => value.to_owned(),
    };
    Ok(match (value.starts_with('@'), kind) {
        // What stands in a file is text, whatever it looks like.
        (true, None) => edit.set(key, literal),
        (_, kind) => edit.set_literal(key, kind, literal),
    })
}

fn change(file: &Path, edit: &MetadataEdit, as_json: bool) -> Result {
    let length = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    let progress = Progress::new("copying", length);
    write_metadata_with(file, edit, &mut |bytes| {
        progress.advance(bytes);
        Ok(())
    })?;
    drop(progress);
    match as_json {
        true => say_json(&json_map(&read_metadata(file)?)),
        false => Ok(Outcome::Done),
    }
}
