//! Metadata values: what JSON, CBOR and GGUF key-value pairs have in common.

use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use indexmap::IndexMap;

/// The map that empty attributes show.
static EMPTY: LazyLock<IndexMap<String, Value>> = LazyLock::new(IndexMap::new);

/// Metadata of a file or of an object, in file order: a map from texts to values. Most tensors have none, and a file may have a hundred thousand
/// of those, so an empty one takes a single word.
#[derive(Clone, Debug, Default)]
pub struct Attributes(Option<Box<IndexMap<String, Value>>>);

impl Attributes {
    /// No attributes.
    pub const fn new() -> Self {
        Attributes(None)
    }
}

impl Deref for Attributes {
    type Target = IndexMap<String, Value>;
    fn deref(&self) -> &Self::Target {
        self.0.as_deref().unwrap_or_else(|| &EMPTY)
    }
}

impl DerefMut for Attributes {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.get_or_insert_default()
    }
}

impl PartialEq for Attributes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl FromIterator<(String, Value)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(entries: I) -> Self {
        let map: IndexMap<String, Value> = entries.into_iter().collect();
        Attributes((!map.is_empty()).then(|| Box::new(map)))
    }
}

impl<const N: usize> From<[(String, Value); N]> for Attributes {
    fn from(entries: [(String, Value); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl IntoIterator for Attributes {
    type Item = (String, Value);
    type IntoIter = indexmap::map::IntoIter<String, Value>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.map(|map| *map).unwrap_or_default().into_iter()
    }
}

impl<'a> IntoIterator for &'a Attributes {
    type Item = (&'a String, &'a Value);
    type IntoIter = indexmap::map::Iter<'a, String, Value>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// One metadata value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Map(Attributes),
}

impl Value {
    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a number by NumPy's name of its type and its little-endian bytes; complex numbers have none.
    pub fn of_number(name: &str, bytes: &[u8]) -> Option<Value> {
        Some(match (name, bytes) {
            ("bool", [byte]) => Value::Bool(*byte != 0),
            ("float64", bytes) => Value::Float(f64::from_le_bytes(bytes.try_into().ok()?)),
            ("float32", bytes) => Value::Float(f32::from_le_bytes(bytes.try_into().ok()?).into()),
            ("float16", bytes) => Value::Float(half::f16::from_le_bytes(bytes.try_into().ok()?).into()),
            ("int64", bytes) => Value::Integer(i64::from_le_bytes(bytes.try_into().ok()?).into()),
            ("int32", bytes) => Value::Integer(i32::from_le_bytes(bytes.try_into().ok()?).into()),
            ("int16", bytes) => Value::Integer(i16::from_le_bytes(bytes.try_into().ok()?).into()),
            ("int8", bytes) => Value::Integer(i8::from_le_bytes(bytes.try_into().ok()?).into()),
            ("uint64", bytes) => Value::Integer(u64::from_le_bytes(bytes.try_into().ok()?).into()),
            ("uint32", bytes) => Value::Integer(u32::from_le_bytes(bytes.try_into().ok()?).into()),
            ("uint16", bytes) => Value::Integer(u16::from_le_bytes(bytes.try_into().ok()?).into()),
            ("uint8", [byte]) => Value::Integer((*byte).into()),
            _ => return None,
        })
    }

    /// The value as an unsigned integer, if it is one.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Integer(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Value::Integer(value.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Integer(value.into())
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Value::Integer(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

/// A metadata value as text, for formats whose metadata is text only.
pub fn text_of(value: &Value) -> String {
    let quoted = |text: &str| format!("{text:?}");
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Text(text) => text.clone(),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Value::List(values) => {
            let items: Vec<String> =
                values.iter().map(|v| v.as_text().map_or_else(|| text_of(v), quoted)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let items: Vec<String> = map
                .iter()
                .map(|(k, v)| format!("{}: {}", quoted(k), v.as_text().map_or_else(|| text_of(v), quoted)))
                .collect();
            format!("{{{}}}", items.join(", "))
        }
    }
}
