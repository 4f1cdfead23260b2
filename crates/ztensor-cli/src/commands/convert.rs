//! `ztensor convert`

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};
use ztensor::convert::{
    FileKind, Precision, Selection, Storage, carried_tree, copy_selected, everything, metadata_outside,
    selected_to_pytorch, selected_to_safetensors, unmentioned,
};
use ztensor::folder::Model;
use ztensor::tree::Tree;
use ztensor::{DType, Reader, Version, Writer};

use super::archive::make_folder;
use super::bases::{Bases, expand};
use super::force::Force;
use super::names;
use super::originals::DeleteOption;
use super::selection::SelectionOptions;
use super::storage::{StorageOptions, refuse_plain_format};
use crate::display::{complain, count, say, say_json, size, tensors};
use crate::progress::Progress;
use crate::{Failure, Outcome, Result};

#[derive(Args)]
pub(crate) struct Convert {
    /// Files of any readable format, and folders whose models are converted one by one; - for standard input, which needs an --output
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    /// Output file (.zt, .safetensors or .pt), or a folder for several inputs [default: beside the input, as .zt]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// What to write when the output does not say: zt, safetensors or pt
    #[arg(long, value_name = "FORMAT", default_value = "zt", value_parser = ["zt", "safetensors", "pt"])]
    to: String,
    /// Generation of the .zt container: 1 (any 1.2 reader opens it) or 2 (canonical: sorted, page-aligned, a digest on every tensor)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    zt_version: u8,
    /// Turn quantised GGUF blocks into plain elements: f32, f16 or bf16
    #[arg(long, value_name = "DTYPE", value_parser = ["f32", "f16", "bf16"], conflicts_with = "delete_original")]
    dequantize: Option<String>,
    /// Turn floating-point elements into these, rounded to the nearest; integers and quantised blocks stay as they are
    #[arg(long, value_name = "DTYPE", value_parser = ["f64", "f32", "f16", "bf16"], conflicts_with = "delete_original")]
    dtype: Option<String>,
    #[command(flatten)]
    selection: SelectionOptions,
    #[command(flatten)]
    storage: StorageOptions,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    delete: DeleteOption,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    force: Force,
}

impl Convert {
    pub(crate) fn run(self) -> Result {
        let mut storage = self.storage.storage()?;
        storage.dequantize = self.dequantize.as_deref().map(precision);
        storage.dtype = self.dtype.as_deref().map(dtype);
        let folders = self.inputs.iter().any(|input| input.is_dir());
        if self.inputs.len() > 1 && !folders && self.output.as_deref().is_some_and(|output| !output.is_dir())
        {
            return Err(Failure::new(
                "several inputs need a folder as --output; to join them into one file use `ztensor merge`",
            ));
        }
        let work = self.work(&storage)?;
        let mut documents = Vec::new();
        for (model, output) in &work {
            let input = model.path();
            let reader = self.bases.open_model(model)?;
            make_folder(output)?;
            warn_skipped(&reader, input)?;
            let version = if self.zt_version == 2 { Version::Two } else { Version::One };
            let selection = self.selection.of(&reader)?;
            write_selected(&reader, &selection, input, output, storage, version)?;
            match self.json {
                true => documents.push(document(&reader, input, output, selection.len())?),
                false => say(&report(&reader, input, output, selection.len())?)?,
            }
            self.delete.after_converting(&reader, input, output, &selection)?;
        }
        if self.json {
            say_json(&documents.into())?;
        }
        Ok(Outcome::Done)
    }

    /// Every model with its output, before anything is written.
    fn work(&self, storage: &Storage) -> Result<Vec<(Model, PathBuf)>> {
        let mut work: Vec<(Model, PathBuf)> = Vec::new();
        for path in &self.inputs {
            if path == Path::new("-") && self.output.as_deref().is_none_or(Path::is_dir) {
                return Err(Failure::new("standard input has no name; say what it becomes: -o PATH"));
            }
            let models = expand(std::slice::from_ref(path))?;
            let single = models.len() == 1;
            for model in models {
                let (output, chosen) = match (&self.output, path.is_dir()) {
                    // Folders in a folder stay what they are.
                    (Some(output), true) if output.is_dir() || !single => {
                        let beside =
                            self.named(model.path(), model.path().parent().unwrap_or(Path::new("")))?;
                        (output.join(beside.strip_prefix(path).unwrap_or(&beside)), true)
                    }
                    _ => self.output_for(model.path())?,
                };
                if work.iter().any(|(_, other)| *other == output) {
                    return Err(Failure::new(format!(
                        "two of the inputs would become \"{}\"; convert them one by one",
                        output.display()
                    )));
                }
                refuse_plain_format(&output, storage)?;
                match chosen && output != model.path() {
                    true => self.force.allow_chosen(&output).map(drop)?,
                    false => self.force.allow_beside(model.path(), &output)?,
                }
                work.push((model, output));
            }
        }
        Ok(work)
    }

    /// The name of a model's output in a folder.
    fn named(&self, input: &Path, folder: &Path) -> Result<PathBuf> {
        let mut name = stem(input)?;
        name.push(format!(".{}", self.to));
        Ok(folder.join(name))
    }

    /// The output of an input, and whether its name was chosen here.
    fn output_for(&self, input: &Path) -> Result<(PathBuf, bool)> {
        match &self.output {
            Some(output) if output.is_dir() => Ok((self.named(&names::local(input), output)?, true)),
            Some(output) => Ok((output.clone(), false)),
            None => {
                let input = &names::local(input);
                Ok((self.named(input, input.parent().unwrap_or(Path::new("")))?, true))
            }
        }
    }
}

/// The name of a model without its extension; `model` for `model.safetensors.index.json`.
pub(super) fn stem(input: &Path) -> Result<OsString> {
    match input.file_name() {
        Some(_) => Ok(names::stem(input)),
        None => Err(Failure::new(format!("\"{}\" has no file name", input.display()))),
    }
}

/// The element type that a name stands for on this command's line.
fn dtype(name: &str) -> DType {
    match name {
        "f64" => DType::F64,
        "f16" => DType::F16,
        "bf16" => DType::BF16,
        _ => DType::F32,
    }
}

/// The same for dequantised blocks.
pub(super) fn precision(name: &str) -> Precision {
    match name {
        "f16" => Precision::F16,
        "bf16" => Precision::BF16,
        _ => Precision::F32,
    }
}

/// Writes a file as `.safetensors`, `.pt` or `.zt`, by the name of the output.
pub(super) fn write(
    reader: &Reader,
    input: &Path,
    output: &Path,
    storage: Storage,
    version: Version,
) -> Result<()> {
    write_selected(reader, &everything(reader), input, output, storage, version)
}

fn write_selected(
    reader: &Reader,
    selection: &Selection<'_>,
    input: &Path,
    output: &Path,
    storage: Storage,
    version: Version,
) -> Result<()> {
    let kind = FileKind::of(output)?;
    let tree = carried(reader, selection, input, kind);
    let tree = tree.as_ref();
    let lengths = selection.iter().filter_map(|(name, _)| reader.object(name).ok());
    let total: u64 = lengths.map(|object| object.decoded_length()).sum();
    let progress = Progress::new("writing", total);
    let mut advance = |bytes| progress.advance(bytes);
    match kind {
        FileKind::Safetensors => {
            selected_to_safetensors(reader, selection, tree, output, storage, &mut advance)?;
        }
        FileKind::Pytorch => {
            selected_to_pytorch(reader, selection, tree, output, storage, &mut advance)?;
        }
        FileKind::Zt => {
            let mut writer = Writer::create_version(output, version)?;
            copy_selected(&mut writer, reader, selection, tree, storage, &mut advance)?;
            writer.finish()?;
        }
    }
    Ok(())
}

/// The tree that goes with the tensors. What does not is said.
fn carried(reader: &Reader, selection: &Selection<'_>, input: &Path, kind: FileKind) -> Option<Tree> {
    let say = |what: String| complain(&format!("{}: {what}", input.display()));
    let tree = match carried_tree(reader, selection) {
        Ok(tree) => tree,
        Err(error) => {
            say(format!("not kept: the tree that holds its tensors together: {error}"));
            None
        }
    };
    if kind != FileKind::Pytorch {
        // Writing a .pt file without them is an error of its own.
        let unread = tree.iter().flat_map(Tree::unread);
        unread.for_each(|(place, what)| say(format!("not read: {place}: {what}")));
        return tree;
    }
    if let Some(place) = tree.as_ref().and_then(Tree::numpy) {
        say(format!(
            "{place} is NumPy's, so that torch.load(..., weights_only=True) wants its classes to be allowed by \
             torch.serialization.add_safe_globals"
        ));
    }
    if let Some(tree) = &tree {
        for name in unmentioned(reader, selection, tree) {
            say(format!("not written: {name}: the tree does not mention it"));
        }
    }
    let metadata: Vec<&str> = match &tree {
        Some(tree) => metadata_outside(reader, tree),
        None => {
            reader.attributes().keys().map(String::as_str).filter(|key| *key != ztensor::tree::KEY).collect()
        }
    };
    if !metadata.is_empty() {
        say(format!("not written: {}, for which a .pt file has no place", entries(&metadata)));
    }
    tree
}

/// Entries of metadata: how many, and the first of their names.
fn entries(names: &[&str]) -> String {
    const MOST_NAMED: usize = 4;
    let shown: Vec<String> = names.iter().take(MOST_NAMED).map(|name| format!("\"{name}\"")).collect();
    let more = if names.len() > MOST_NAMED { ", …" } else { "" };
    let number = if names.len() == 1 { "1 entry".to_owned() } else { format!("{} entries", names.len()) };
    format!("{number} of metadata ({}{more})", shown.join(", "))
}

/// One line: what became what, and how large it is.
pub(super) fn report(reader: &Reader, input: &Path, output: &Path, written: usize) -> Result<String> {
    let before: u64 = reader.sources().iter().map(|source| source.len()).sum();
    let after = std::fs::metadata(output).map(|metadata| metadata.len())?;
    let percent = 100.0 * after as f64 / before.max(1) as f64;
    Ok(format!(
        "{} ({}) -> {} ({}, {percent:.1} %), {}",
        input.display(),
        size(before),
        output.display(),
        size(after),
        match written == reader.len() {
            true => tensors(written),
            false => format!("{} of {}", count(written as u64), tensors(reader.len())),
        }
    ))
}

/// The same, for programs.
pub(super) fn document(reader: &Reader, input: &Path, output: &Path, tensors: usize) -> Result<Json> {
    Ok(json!({
        "path": input.display().to_string(),
        "output": output.display().to_string(),
        "bytes": reader.sources().iter().map(|source| source.len()).sum::<u64>(),
        "output_bytes": std::fs::metadata(output)?.len(),
        "tensors": tensors,
        "skipped": skipped(reader),
    }))
}

/// What was not read, for programs.
pub(super) fn skipped(reader: &Reader) -> Vec<Json> {
    let skipped = reader.skipped().iter();
    skipped
        .map(|skipped| json!({ "name": skipped.name, "reason": skipped.reason, "is_code": skipped.is_code }))
        .collect()
}

/// What cannot be carried over is said, never dropped in silence.
pub(super) fn warn_skipped(reader: &Reader, input: &Path) -> Result<()> {
    for skipped in reader.skipped() {
        complain(&format!("{}: not read: {}: {}", input.display(), skipped.name, skipped.reason));
    }
    Ok(())
}
