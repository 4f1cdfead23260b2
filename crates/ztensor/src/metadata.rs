//! Changing what a file says about itself without touching its tensors: the header is written anew and the data behind it copied inside the
//! kernel (or shared, where the file system can), or, in `.zt`, a new manifest goes behind the old one. A crash leaves the old file or the new one.

use std::fs::File;
use std::path::Path;

use crate::error::{Error, Hints, Kind, Result};
use crate::index::Format;
use crate::limits::{Budget, Limits};
use crate::open::OpenOptions;
use crate::output::Output;
use crate::source::{Io, Source};
use crate::tensor::{Attributes, Value};
use crate::zt::Writer;

/// What to change in a file's metadata.
///
/// ```
/// # fn main() -> ztensor::Result<()> {
/// # let folder = tempfile::tempdir()?; let path = folder.path().join("model.zt");
/// # let mut writer = ztensor::Writer::create(&path)?; writer.add("weight", &[1], &[1f32])?; writer.finish()?;
/// use ztensor::metadata::{MetadataEdit, read_metadata, write_metadata};
///
/// write_metadata(&path, &MetadataEdit::new().set("step", 500).set("license", "mit"))?;
/// assert_eq!(read_metadata(&path)?["license"].as_text(), Some("mit"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct MetadataEdit {
    pub(crate) changes: Vec<Change>,
}

/// One change.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub key: String,
    pub to: NewValue,
    /// The name of a GGUF type, such as `u32` or `[str]`.
    pub kind: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum NewValue {
    Value(Value),
    /// As people type it: the type that the key has decides what it means; for a new key, whether it reads as JSON.
    Literal(String),
    Removed,
}

impl MetadataEdit {
    /// No changes.
    pub fn new() -> Self {
        MetadataEdit::default()
    }

    /// Gives a key a value. In GGUF a key keeps its type; a new integer becomes u32 where it fits, a new float f32.
    #[must_use]
    pub fn set(self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(key, NewValue::Value(value.into()), None)
    }

    /// Gives a key a value of a GGUF type: `u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool str`, or one of them in brackets for an array.
    #[must_use]
    pub fn set_typed(self, key: impl Into<String>, kind: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(key, NewValue::Value(value.into()), Some(kind.into()))
    }

    /// Gives a key a value as people type it: text where the key holds text, otherwise what it reads as in JSON.
    #[must_use]
    pub fn set_literal(
        self,
        key: impl Into<String>,
        kind: Option<String>,
        literal: impl Into<String>,
    ) -> Self {
        self.with(key, NewValue::Literal(literal.into()), kind)
    }

    /// Removes a key. One that is not there is an error.
    #[must_use]
    pub fn remove(self, key: impl Into<String>) -> Self {
        self.with(key, NewValue::Removed, None)
    }

    fn with(mut self, key: impl Into<String>, to: NewValue, kind: Option<String>) -> Self {
        self.changes.push(Change { key: key.into(), to, kind });
        self
    }
}

/// The metadata of a file of any format.
pub fn read_metadata(path: impl AsRef<Path>) -> Result<Attributes> {
    Ok(OpenOptions::default().open(path)?.attributes().clone())
}

/// Changes the metadata of a `.zt`, `.safetensors` or `.gguf` file.
pub fn write_metadata(path: impl AsRef<Path>, edit: &MetadataEdit) -> Result<()> {
    write_metadata_with(path, edit, &mut |_| Ok(()))
}

/// Changes the metadata of a file; `progress` is told of the bytes that are copied and may end it.
pub fn write_metadata_with(
    path: impl AsRef<Path>,
    edit: &MetadataEdit,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let path = path.as_ref();
    rewrite(path, edit, progress).map_err(|error| error.with_path(path))
}

fn rewrite(path: &Path, edit: &MetadataEdit, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
    let reader = OpenOptions::default().open(path)?;
    if reader.archived().is_some() {
        return Err(Error::argument("this is an archive; its metadata is that of its original").with_hints(
            Hints::new(
                "Restore the original with `ztensor::archive::restore`, change it and archive it again.",
                "Restore the original with z4ai.safetensors.decompress_file, change it and archive it again.",
                "Restore the original with `ztensor restore`, change it and archive it again.",
            ),
        ));
    }
    let source = Source::open(path, Io::Auto)?;
    #[allow(unused_mut, reason = "not every build has a format that needs it")]
    let mut budget = Budget::new(Limits::default());
    let _ = &mut budget;
    match reader.format() {
        Format::Zt if reader.index().version.starts_with("1.") => {
            drop((reader, source));
            append(path, edit)
        }
        #[cfg(feature = "safetensors")]
        Format::Safetensors if crate::formats::safetensors::is_single(&source)? => {
            let front = crate::formats::safetensors::with_metadata(&source, edit)?;
            replace(path, &front, progress)
        }
        #[cfg(feature = "gguf")]
        Format::Gguf => {
            let front = crate::formats::gguf::with_metadata(&source, edit, &mut budget)?;
            replace(path, &front, progress)
        }
        Format::Zt => Err(Error::unsupported(format!(
            "metadata of .zt files is changed in version 1.2; this is version {}",
            reader.index().version
        ))
        .with_hints(Hints::new(
            "Copy it into a new file first: `ztensor::convert::copy_into`.",
            "Load it and save it anew.",
            "Rewrite it first: `ztensor migrate`.",
        ))),
        format => Err(Error::unsupported(format!(
            "metadata is changed in .zt, .safetensors and .gguf files; this is {format}"
        ))),
    }
}

/// The first bytes of a file with its metadata changed, and where the rest begins in the old one.
pub(crate) struct Front {
    pub bytes: Vec<u8>,
    pub rest: u64,
}

/// Puts a new front before the data of a file.
fn replace(path: &Path, front: &Front, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
    let fail = |cause| Error::io("cannot read", path, cause);
    let old = File::open(path).map_err(fail)?;
    let length = old.metadata().map_err(fail)?.len();
    let mut output = Output::create(path)?;
    output.write(&front.bytes)?;
    output.copy_from(&old, front.rest, length.saturating_sub(front.rest), progress)?;
    output.publish(true)
}

/// A new manifest behind the old one of a `.zt` file.
fn append(path: &Path, edit: &MetadataEdit) -> Result<()> {
    let mut writer = Writer::append(path)?;
    for change in &edit.changes {
        if change.kind.is_some() {
            return Err(Error::argument(format!("\"{}\": types are named in GGUF files only", change.key)));
        }
        let before = writer.attributes().get(&change.key);
        match &change.to {
            NewValue::Removed => match before {
                Some(_) => writer.remove_attribute(&change.key),
                None => return Err(no_such_key(&change.key)),
            },
            NewValue::Value(value) => writer.set_attribute(change.key.clone(), value.clone()),
            NewValue::Literal(text) => {
                let value = match before {
                    Some(Value::Text(_)) => Value::Text(text.clone()),
                    _ => guess(text),
                };
                writer.set_attribute(change.key.clone(), value);
            }
        }
    }
    writer.finish().map(drop)
}

pub(crate) fn no_such_key(key: &str) -> Error {
    Error::new(Kind::NoSuchTensor, format!("the metadata has no key \"{key}\""))
}

/// What a literal means that nothing else is known of: a JSON value other than a string, or the text itself.
pub(crate) fn guess(text: &str) -> Value {
    #[cfg(any(feature = "safetensors", feature = "pytorch"))]
    if let Some(value) = serde_json::from_str(text).ok().and_then(|json| from_json(&json))
        && !matches!(value, Value::Text(_))
    {
        return value;
    }
    Value::Text(text.to_owned())
}

#[cfg(any(feature = "safetensors", feature = "pytorch"))]
fn from_json(json: &serde_json::Value) -> Option<Value> {
    use serde_json::Value as Json;
    Some(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::Integer(value.into()),
            (None, Some(value)) => Value::Integer(value.into()),
            (None, None) => Value::Float(number.as_f64()?),
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(items) => Value::List(items.iter().map(from_json).collect::<Option<_>>()?),
        Json::Object(entries) => Value::Map(
            entries
                .iter()
                .map(|(key, value)| Some((key.clone(), from_json(value)?)))
                .collect::<Option<Attributes>>()?,
        ),
    })
}
