//! The types of metadata values: what they are called, which one a value gets, and how it is written.

use super::cursor::Order;
use super::edit::{put, put_text};
use crate::error::{Error, Result};
use crate::tensor::Value;

/// The type of a value, or of the items of an array. Arrays of arrays are read but not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueType {
    pub number: u32,
    pub is_array: bool,
}

/// Names and numbers, as gguf-py has them.
const NAMES: [(&str, u32); 12] = [
    ("u8", 0),
    ("i8", 1),
    ("u16", 2),
    ("i16", 3),
    ("u32", 4),
    ("i32", 5),
    ("f32", 6),
    ("bool", 7),
    ("str", 8),
    ("u64", 10),
    ("i64", 11),
    ("f64", 12),
];

const ARRAY: u32 = 9;

impl ValueType {
    pub const STRING: ValueType = ValueType { number: 8, is_array: false };

    /// A type by its name, in brackets for an array of it.
    pub fn parse(name: &str) -> Result<ValueType> {
        let item = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let plain = item.unwrap_or(name);
        let found = NAMES.iter().find(|(known, _)| *known == plain || (plain == "string" && *known == "str"));
        match found {
            Some((_, number)) => Ok(ValueType { number: *number, is_array: item.is_some() }),
            None => {
                let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
                Err(Error::argument(format!(
                    "\"{name}\" is no type of GGUF; there are {}, and each in brackets for an array",
                    names.join(", ")
                )))
            }
        }
    }

    fn name(self) -> String {
        let name = NAMES.iter().find(|(_, number)| *number == self.number).map_or("?", |(name, _)| name);
        if self.is_array { format!("[{name}]") } else { name.to_owned() }
    }

    /// The type for a value of a new key: what llama.cpp expects where it expects a number.
    pub fn of(value: &Value) -> Result<ValueType> {
        let plain = |number| Ok(ValueType { number, is_array: false });
        match value {
            Value::Bool(_) => plain(7),
            Value::Integer(value) => match *value {
                value if u32::try_from(value).is_ok() => plain(4),
                value if i32::try_from(value).is_ok() => plain(5),
                value if i64::try_from(value).is_ok() => plain(11),
                _ => plain(10),
            },
            Value::Float(_) => plain(6),
            Value::Text(_) => Ok(ValueType::STRING),
            Value::Bytes(_) => Ok(ValueType { number: 0, is_array: true }),
            Value::List(items) => {
                let mut types = items.iter().map(ValueType::of);
                let first = types.next().ok_or_else(|| {
                    Error::argument("an empty list has no type of its own; name one, such as [str]")
                })??;
                let common = types.try_fold(first, |common, next| common.with(next?))?;
                match common.is_array {
                    true => Err(Error::unsupported("lists in lists")),
                    false => Ok(ValueType { is_array: true, ..common }),
                }
            }
            Value::Null | Value::Map(_) => Err(Error::unsupported("GGUF has neither null nor maps")),
        }
    }

    /// A type that holds the values of both.
    fn with(self, other: ValueType) -> Result<ValueType> {
        const INTEGERS: [u32; 4] = [4, 5, 10, 11];
        let is_number = |number| INTEGERS.contains(&number);
        let number = match (self.number, other.number) {
            (one, two) if one == two => one,
            (6, two) if is_number(two) => 6,
            (one, 6) if is_number(one) => 6,
            (10, two) | (two, 10) if matches!(two, 4 | 10) => 10,
            (one, two) if is_number(one) && is_number(two) => 11,
            _ => return Err(Error::argument("the items of a list are of several types")),
        };
        match self.is_array || other.is_array {
            true => Err(Error::unsupported("lists in lists")),
            false => Ok(ValueType { number, is_array: false }),
        }
    }

    /// Writes the type and the value.
    pub fn encode(self, out: &mut Vec<u8>, order: Order, value: &Value) -> Result<()> {
        if !self.is_array {
            put(out, order, self.number.to_le_bytes());
            return self.encode_plain(out, order, value);
        }
        put(out, order, ARRAY.to_le_bytes());
        put(out, order, self.number.to_le_bytes());
        match value {
            Value::Bytes(bytes) if self.number == 0 => {
                put(out, order, (bytes.len() as u64).to_le_bytes());
                out.extend_from_slice(bytes);
                Ok(())
            }
            Value::List(items) => {
                put(out, order, (items.len() as u64).to_le_bytes());
                items.iter().try_for_each(|item| self.encode_plain(out, order, item))
            }
            _ => Err(self.mismatch()),
        }
    }

    fn encode_plain(self, out: &mut Vec<u8>, order: Order, value: &Value) -> Result<()> {
        macro_rules! integer {
            ($value:expr, $type:ty) => {
                put(out, order, <$type>::try_from(*$value).map_err(|_| self.mismatch())?.to_le_bytes())
            };
        }
        match (self.number, value) {
            (0, Value::Integer(value)) => integer!(value, u8),
            (1, Value::Integer(value)) => integer!(value, i8),
            (2, Value::Integer(value)) => integer!(value, u16),
            (3, Value::Integer(value)) => integer!(value, i16),
            (4, Value::Integer(value)) => integer!(value, u32),
            (5, Value::Integer(value)) => integer!(value, i32),
            (10, Value::Integer(value)) => integer!(value, u64),
            (11, Value::Integer(value)) => integer!(value, i64),
            (6, Value::Float(value)) => put(out, order, (*value as f32).to_le_bytes()),
            (6, Value::Integer(value)) => put(out, order, (*value as f32).to_le_bytes()),
            (12, Value::Float(value)) => put(out, order, value.to_le_bytes()),
            (12, Value::Integer(value)) => put(out, order, (*value as f64).to_le_bytes()),
            (7, Value::Bool(value)) => out.push(u8::from(*value)),
            (8, Value::Text(text)) => put_text(out, order, text),
            _ => return Err(self.mismatch()),
        }
        Ok(())
    }

    fn mismatch(self) -> Error {
        Error::mismatch(format!("the value is not one of type {}", self.name())).with_hints(
            crate::error::Hints::new(
                "`MetadataEdit::set_typed` gives a key another type.",
                "types={key: type} gives a key another type.",
                "`key:type=value` gives a key another type.",
            ),
        )
    }
}
