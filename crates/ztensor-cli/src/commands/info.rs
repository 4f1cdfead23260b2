//! `ztensor info`

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value as Json, json};
use ztensor::Reader;
use ztensor::archive::BaseInfo;
use ztensor::index::Object;
use ztensor::tree::Tree;

use super::bases::{Bases, expand};
use super::modules;
use crate::display::{self, count, json_map, say, say_json, say_table, size, table};
use crate::{Outcome, Result};

/// Longest metadata text shown in the listing; `--json` has all of it.
const LONGEST_VALUE: usize = 100;

#[derive(Args)]
pub(crate) struct Info {
    /// The file, of any format, a shard index, or a folder of models
    file: PathBuf,
    #[command(flatten)]
    bases: Bases,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Show only tensors whose name contains this text
    #[arg(short, long, value_name = "TEXT")]
    filter: Option<String>,
    /// Show the tree of modules instead of the list of tensors
    #[arg(long)]
    tree: bool,
    /// How deep the tree is shown
    #[arg(long, value_name = "LEVELS", default_value_t = 64, requires = "tree")]
    depth: usize,
}

impl Info {
    pub(crate) fn run(self) -> Result {
        let models = expand(std::slice::from_ref(&self.file))?;
        if let [only] = &models[..] {
            return self.show(&self.bases.open_model(only)?);
        }
        let mut documents = Vec::new();
        for model in &models {
            let reader = self.bases.open_model(model)?;
            if self.json {
                let tensors = self.wanted(&reader);
                documents.push(json!({ "name": model.name(), "model": document(&reader, &tensors)? }));
                continue;
            }
            say(&format!("{}:", model.path().display()))?;
            say("")?;
            self.show(&reader)?;
            say("")?;
        }
        match self.json {
            true => say_json(&json!({ "path": self.file.display().to_string(), "models": documents })),
            false => Ok(Outcome::Done),
        }
    }

    /// The tensors that are asked for.
    fn wanted<'r>(&self, reader: &'r Reader) -> Vec<(&'r str, &'r Object)> {
        let wanted = |name: &str| self.filter.as_deref().is_none_or(|text| name.contains(text));
        reader.objects().filter(|(name, _)| wanted(name)).collect()
    }

    /// Prints what is known of one model.
    fn show(&self, reader: &Reader) -> Result {
        let tensors = self.wanted(reader);
        if self.json {
            return say_json(&document(reader, &tensors)?);
        }
        if self.tree {
            modules::show(&tensors, self.depth)?;
        } else {
            list(reader, &tensors)?;
        }
        if !reader.skipped().is_empty() {
            say("")?;
            say("Not read:")?;
            reader
                .skipped()
                .iter()
                .try_for_each(|skipped| say(&format!("  {}: {}", skipped.name, skipped.reason)))?;
            if reader.skipped().iter().any(|skipped| skipped.is_code) {
                say(&format!("  `ztensor scan {}` tells all that would be run.", self.file.display()))?;
            }
        }
        if let Some(line) = tree_line(reader) {
            say("")?;
            say(&line)?;
        }
        let metadata = || reader.attributes().iter().filter(|(key, _)| *key != ztensor::tree::KEY);
        if metadata().next().is_some() {
            say("")?;
            say("Metadata:")?;
            for (key, value) in metadata() {
                say(&format!("  {key}: {}", shortened(&ztensor::convert::text_of(value))))?;
            }
        }
        say("")?;
        if let Some(recovered) = reader.recovered() {
            say(&format!("Not finished: {recovered}"))?;
        }
        let totals = Totals::of(&tensors);
        totals.dtypes.iter().try_for_each(|(name, part)| say(&part.line(name, totals.all.bytes)))?;
        say(&summary(reader, tensors.len(), &totals.all))?;
        Ok(Outcome::Done)
    }
}

/// That the tensors are parts of a tree, and what is at its top. A dict of nothing but tensors says no more than their names do.
fn tree_line(reader: &Reader) -> Option<String> {
    match reader.tree() {
        Ok(Some(tree)) if tree.is_flat() => None,
        Ok(Some(tree)) => Some(format!("Tree: {}; load_tree loads it.", shortened(&top(&tree)))),
        Ok(None) => None,
        Err(error) => Some(format!("Tree: cannot be read: {error}")),
    }
}

/// The same, for programs.
fn tree_document(reader: &Reader) -> Json {
    match reader.tree() {
        Ok(Some(Tree::Dict(entries) | Tree::Ordered(entries, _))) => {
            json!({ "kind": "dict", "keys": entries.iter().map(|(key, _)| spelled(key)).collect::<Vec<_>>() })
        }
        Ok(Some(Tree::List(_))) => json!({ "kind": "list" }),
        Ok(Some(Tree::Tuple(_))) => json!({ "kind": "tuple" }),
        Ok(Some(_)) => json!({ "kind": "value" }),
        Ok(None) => Json::Null,
        Err(error) => json!({ "error": error.to_string() }),
    }
}

/// A key in one word.
fn spelled(key: &Tree) -> String {
    match key {
        Tree::Text(text) => text.clone(),
        other => other.text(),
    }
}

/// What a tree is at its top.
fn top(tree: &Tree) -> String {
    match tree {
        Tree::Dict(entries) | Tree::Ordered(entries, _) => {
            let keys: Vec<String> = entries.iter().map(|(key, _)| spelled(key)).collect();
            format!("a dict of {} ({})", keys.len(), keys.join(", "))
        }
        Tree::List(items) => format!("a list of {}", items.len()),
        Tree::Tuple(items) => format!("a tuple of {}", items.len()),
        _ => "one value".to_owned(),
    }
}

/// The tensors, a line each.
fn list(reader: &Reader, tensors: &[(&str, &Object)]) -> Result<()> {
    let mut rows = table(&["name", "dtype", "shape", "layout", "encoding", "size"], &[5]);
    for (name, object) in tensors {
        rows.add_row([
            *name,
            &object.dtype(),
            &object.shape.to_string(),
            layout(object),
            reader.stored_encoding(name)?,
            &size(reader.stored_length(name)?),
        ]);
    }
    if tensors.is_empty() { Ok(()) } else { say_table(&rows) }
}

/// The layout in one word; that blocks are blocks of their type the type says.
fn layout(object: &Object) -> &str {
    if object.layout.name().starts_with("gguf.") { "blocks" } else { object.layout.name() }
}

/// What some tensors come to.
#[derive(Clone, Copy, Default)]
struct Sum {
    tensors: u64,
    parameters: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, object: &Object) {
        self.tensors += 1;
        self.parameters = self.parameters.saturating_add(object.shape.elements().unwrap_or(0));
        self.bytes = self.bytes.saturating_add(object.decoded_length());
    }

    /// Bits that an element takes, scales and zero points included.
    fn bits(&self) -> f64 {
        8.0 * self.bytes as f64 / self.parameters.max(1) as f64
    }

    fn line(&self, name: &str, all: u64) -> String {
        let part = 100.0 * self.bytes as f64 / all.max(1) as f64;
        format!(
            "{name}: {}, {} parameters, {} ({part:.1} %)",
            display::tensors(self.tensors as usize),
            count(self.parameters),
            size(self.bytes)
        )
    }

    fn document(&self) -> Json {
        json!({
            "tensors": self.tensors, "parameters": self.parameters, "bytes": self.bytes, "bits_per_weight": self.bits(),
        })
    }
}

/// What all tensors come to, and those of each type, the largest first.
struct Totals {
    all: Sum,
    dtypes: Vec<(String, Sum)>,
}

impl Totals {
    fn of(tensors: &[(&str, &Object)]) -> Totals {
        let mut all = Sum::default();
        let mut dtypes: HashMap<String, Sum> = HashMap::new();
        for (_, object) in tensors {
            all.add(object);
            dtypes.entry(object.dtype()).or_default().add(object);
        }
        let mut dtypes: Vec<_> = dtypes.into_iter().collect();
        dtypes
            .sort_by(|(one, first), (two, second)| second.bytes.cmp(&first.bytes).then_with(|| one.cmp(two)));
        Totals { all, dtypes }
    }
}

fn stored(reader: &Reader) -> u64 {
    reader.archived().map_or_else(
        || reader.sources().iter().map(|source| source.stored_length(0, source.len())).sum(),
        |archive| archive.stored,
    )
}

fn summary(reader: &Reader, tensors: usize, all: &Sum) -> String {
    let version = match &*reader.index().version {
        "" => String::new(),
        version => format!(" {version}"),
    };
    let files = match reader.sources().len() {
        1 => String::new(),
        files => format!(" in {files} files"),
    };
    let archived = match reader.archived() {
        Some(archive) if !archive.bases.is_empty() => "delta of ",
        Some(_) => "archive of ",
        None => "",
    };
    format!(
        "{archived}{}{version}{files}: {}, {} parameters, {:.2} bits per weight, {} of data, {} on disk",
        reader.format(),
        display::tensors(tensors),
        count(all.parameters),
        all.bits(),
        size(all.bytes),
        size(stored(reader))
    )
}

fn document(reader: &Reader, tensors: &[(&str, &Object)]) -> Result<Json> {
    let component = |component: &ztensor::index::Component| {
        json!({
            "dtype": component.element.storage.long_name(),
            "type": component.element.logical.as_ref().map(|logical| logical.name()),
            "encoding": component.data.encoding_name(),
            "offset": component.data.first_span().map(|span| span.offset),
            "stored_bytes": component.data.stored_length(),
            "bytes": component.length,
            "digest": component.digest.as_ref().map(|digest| digest.value.to_string()),
        })
    };
    let tensor = |(name, object): &(&str, &Object)| {
        let components: serde_json::Map<String, Json> =
            object.components.iter().map(|(role, part)| (role.to_string(), component(part))).collect();
        Ok(json!({
            "name": name,
            "dtype": object.dtype(),
            "shape": object.shape.to_vec(),
            "layout": object.layout.name(),
            "encoding": reader.stored_encoding(name)?,
            "stored_bytes": reader.stored_length(name)?,
            "bytes": object.decoded_length(),
            "attributes": json_map(&object.attributes),
            "components": components,
        }))
    };
    let totals = Totals::of(tensors);
    let dtypes: serde_json::Map<String, Json> =
        totals.dtypes.iter().map(|(name, part)| (name.clone(), part.document())).collect();
    let skipped = |skipped: &ztensor::Skipped| json!({ "name": skipped.name, "reason": skipped.reason, "is_code": skipped.is_code });
    let base = |base: &BaseInfo| json!({ "name": base.name, "length": base.length, "sha256": base.sha256 });
    Ok(json!({
        "format": reader.format().name(),
        "version": reader.index().version,
        "files": reader.sources().iter().map(|source| json!({
            "path": source.path().map(|path| path.display().to_string()),
            "bytes": source.len(),
        })).collect::<Vec<_>>(),
        "archive": reader.archived().map(|archive| json!({
            "format": archive.format, "length": archive.length, "sha256": archive.sha256, "stored_bytes": archive.stored,
            "base": archive.bases.first().map(base),
            "bases": archive.bases.iter().map(base).collect::<Vec<_>>(),
        })),
        "recovered": reader.recovered().map(|recovered| json!({
            "edit": recovered.edit.name(), "unfinished_bytes": recovered.unfinished,
        })),
        "tree": tree_document(reader),
        "metadata": json_map(reader.attributes()),
        "total": totals.all.document(),
        "stored_bytes": stored(reader),
        "dtypes": dtypes,
        "tensors": tensors.iter().map(tensor).collect::<Result<Vec<_>>>()?,
        "skipped": reader.skipped().iter().map(skipped).collect::<Vec<_>>(),
    }))
}

fn shortened(text: &str) -> String {
    let line = text.replace('\n', " ");
    match line.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{} … ({} characters)", &line[..end], count(text.chars().count() as u64)),
        None => line,
    }
}
