//! What is to change in a file's metadata, as the formats take it: [`crate::metadata`] writes what they make of it.

use crate::error::{Error, Kind};
#[cfg(any(feature = "safetensors", feature = "pytorch"))]
use crate::tensor::Attributes;
use crate::tensor::Value;

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

/// The first bytes of a file with its metadata changed, and where the rest begins in the old one.
pub(crate) struct Front {
    pub bytes: Vec<u8>,
    pub rest: u64,
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
