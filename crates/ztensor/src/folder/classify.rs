//! What a file is to a folder: a model, a part of one, an index, or none of these. The content decides; formats that are recognised by little more than
//! their first byte must also hold a tensor.

use std::path::Path;

use indexmap::IndexSet;

use crate::error::Result;
use crate::formats::zt;
use crate::formats::{Input, PARSERS};
use crate::index::Format;
use crate::limits::Limits;
use crate::source::{Io, Source};

/// Bytes that recognition looks at.
const HEAD: u64 = 4096;
/// Longer JSON files are no shard indexes.
const LONGEST_INDEX: u64 = 256 << 20;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The names of shards.
    Index {
        shards: Vec<String>,
    },
    Gguf,
    Safetensors,
    /// `.zt`, also an archive or a delta of anything.
    Zt,
    /// A model of another format.
    Other,
}

impl Content {
    pub(super) fn may_be_split(&self) -> bool {
        matches!(self, Content::Gguf | Content::Safetensors | Content::Zt)
    }
}

/// What a file holds; `None` for one that is no model, and for one that cannot be opened.
pub(super) fn classify(path: &Path) -> Option<Content> {
    let source = Source::open_regular(path, Io::Auto).ok()?;
    let head = source.head(HEAD).ok()?.into_owned();
    if source.is_empty() {
        return None;
    }
    if zt::is_zt(&head) {
        let named = path.file_name().is_some_and(|name| name == zt::boxes::FILE);
        let shards = named.then(|| zt::boxes::files(&zt::attributes(&source).ok()?)).flatten();
        return Some(shards.map_or(Content::Zt, |shards| Content::Index { shards }));
    }
    if head.trim_ascii_start().first() == Some(&b'{') {
        return Some(Content::Index { shards: shards(&source)? });
    }
    let mut input = Input::new(source, Io::Auto, Limits::default());
    let parser = PARSERS.iter().find(|parser| (parser.matches)(&head, &input))?;
    if head.starts_with(b"GGUF") {
        return Some(Content::Gguf);
    }
    if head.get(8) == Some(&b'{') {
        return Some(Content::Safetensors);
    }
    // Hardly anything is no pickle; one without tensors (training arguments, a tokenizer) is no model.
    match (parser.index)(&mut input) {
        Ok(index) if index.format == Format::Pytorch && index.objects.is_empty() => None,
        Ok(_) => Some(Content::Other),
        Err(_) => has_model_name(path).then_some(Content::Other),
    }
}

/// Whether a file describes a distributed checkpoint of torch.
#[cfg(feature = "pytorch")]
pub(super) fn is_distributed(path: &Path) -> bool {
    let Ok(source) = Source::open_regular(path, Io::Auto) else { return false };
    let Ok(head) = source.head(HEAD).map(|head| head.into_owned()) else { return false };
    crate::formats::dcp::matches(&head, &Input::new(source, Io::Auto, Limits::default()))
}

/// Whether a file that cannot be indexed is called a model all the same, so that it is worth an error.
fn has_model_name(path: &Path) -> bool {
    const NAMES: [&str; 10] = ["pt", "pth", "bin", "ckpt", "npz", "npy", "onnx", "h5", "hdf5", "keras"];
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    NAMES.contains(&extension.to_ascii_lowercase().as_str())
}

/// The shards that an index names; `None` where the file is no index.
fn shards(source: &Source) -> Option<Vec<String>> {
    let text = (source.len() <= LONGEST_INDEX).then(|| source.bytes(0, source.len())).and_then(Result::ok)?;
    let document: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let shards = document.get("weight_map")?.as_object()?.values();
    let names: IndexSet<&str> = shards.map(serde_json::Value::as_str).collect::<Option<_>>()?;
    let plain = |name: &&str| super::is_plain(name) && !name.contains('/');
    (!names.is_empty() && names.iter().all(plain)).then(|| names.into_iter().map(str::to_owned).collect())
}
