//! The key-value pairs: thirteen value types, arrays among them. Everything a file says about itself, the vocabulary included, goes
//! into the index's attributes; integers and floats widen without loss, and strings that are not UTF-8 are kept as bytes.

use std::ops::Range;

use super::cursor::{Cursor, Order};
use super::value_type::ValueType;
use crate::error::{Error, Kind, Result};
use crate::tensor::{Attributes, Value};

/// The least a pair can take: an empty key, a type and a one-byte value.
const SHORTEST_PAIR: u64 = 8 + 4 + 1;

/// The type number of an array.
const ARRAY: u32 = 9;

/// Reads `count` pairs.
pub(super) fn read(cursor: &mut Cursor<'_>, count: u64) -> Result<Attributes> {
    cursor.check_count(count, SHORTEST_PAIR, "metadata entries")?;
    let mut attributes = Attributes::new();
    for _ in 0..count {
        let offset = cursor.offset();
        let key = cursor.text("metadata key")?.to_owned();
        cursor.budget().charge((size_of::<(String, Value)>() + key.len()) as u64)?;
        let value_type = cursor.u32()?;
        let depth = cursor.budget().limits().depth;
        let value = value(cursor, value_type, depth).map_err(|error| match error.kind() {
            Kind::Malformed => error.with_context(&format!("metadata \"{key}\"")),
            _ => error,
        })?;
        match attributes.entry(key) {
            indexmap::map::Entry::Vacant(entry) => entry.insert(value),
            indexmap::map::Entry::Occupied(entry) => {
                return Err(Error::new(
                    Kind::Duplicate,
                    format!("the metadata key \"{}\" occurs twice", entry.key()),
                )
                .with_offset(offset));
            }
        };
    }
    Ok(attributes)
}

/// A pair as it stands in the file.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub key: String,
    pub value_type: ValueType,
    /// The bytes it takes, key and type included.
    pub range: Range<u64>,
}

/// Where each of `count` pairs lies.
pub(super) fn pairs(cursor: &mut Cursor<'_>, count: u64) -> Result<Vec<Pair>> {
    cursor.check_count(count, SHORTEST_PAIR, "metadata entries")?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        let start = cursor.offset();
        let key = cursor.text("metadata key")?.to_owned();
        cursor.budget().charge((size_of::<Pair>() + key.len()) as u64)?;
        let number = cursor.u32()?;
        let depth = cursor.budget().limits().depth;
        let value_type = if number == ARRAY {
            let item = cursor.u32()?;
            items(cursor, item, depth)?;
            ValueType { number: item, is_array: true }
        } else {
            value(cursor, number, depth)?;
            ValueType { number, is_array: false }
        };
        pairs.push(Pair { key, value_type, range: start..cursor.offset() });
    }
    Ok(pairs)
}

fn value(cursor: &mut Cursor<'_>, value_type: u32, depth: usize) -> Result<Value> {
    Ok(match value_type {
        0 => Value::Integer(cursor.u8()?.into()),
        1 => Value::Integer(cursor.u8()?.cast_signed().into()),
        2 => Value::Integer(cursor.number(Order::u16)?.into()),
        3 => Value::Integer(cursor.number(Order::i16)?.into()),
        4 => Value::Integer(cursor.number(Order::u32)?.into()),
        5 => Value::Integer(cursor.number(Order::i32)?.into()),
        6 => Value::Float(cursor.number(Order::f32)?.into()),
        7 => boolean(cursor)?,
        8 => string(cursor)?,
        ARRAY => array(cursor, depth)?,
        10 => Value::Integer(cursor.number(Order::u64)?.into()),
        11 => Value::Integer(cursor.number(Order::i64)?.into()),
        12 => Value::Float(cursor.number(Order::f64)?),
        other => return Err(unknown_type(cursor, other)),
    })
}

fn array(cursor: &mut Cursor<'_>, depth: usize) -> Result<Value> {
    let item_type = cursor.u32()?;
    items(cursor, item_type, depth)
}

/// The items of an array behind their type.
fn items(cursor: &mut Cursor<'_>, item_type: u32, depth: usize) -> Result<Value> {
    let count = cursor.u64()?;
    let least = match item_type {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        8 | 10..=12 => 8,
        ARRAY => 4 + 8,
        other => return Err(unknown_type(cursor, other)),
    };
    cursor.check_count(count, least, "array items")?;
    if item_type == 0 {
        // Bytes stay bytes: a compiled character map is a quarter of a megabyte of them.
        cursor.budget().charge(count)?;
        return Ok(Value::Bytes(cursor.take(count)?.to_vec()));
    }
    let depth = depth.checked_sub(1).ok_or_else(|| {
        Error::new(Kind::Limit, "the metadata arrays are nested too deeply").with_offset(cursor.offset())
    })?;
    cursor.budget().charge(count.saturating_mul(size_of::<Value>() as u64))?;
    let mut list = Vec::new();
    list.try_reserve_exact(usize::try_from(count).unwrap_or(usize::MAX))
        .map_err(|_| Error::new(Kind::Limit, format!("not enough memory for {count} array items")))?;
    for _ in 0..count {
        list.push(value(cursor, item_type, depth)?);
    }
    Ok(Value::List(list))
}

fn boolean(cursor: &mut Cursor<'_>) -> Result<Value> {
    let offset = cursor.offset();
    match cursor.u8()? {
        0 => Ok(Value::Bool(false)),
        1 => Ok(Value::Bool(true)),
        other => Err(Error::malformed(format!("a boolean is {other}, not 0 or 1")).with_offset(offset)),
    }
}

fn string(cursor: &mut Cursor<'_>) -> Result<Value> {
    let length = cursor.u64()?;
    cursor.budget().charge(length)?;
    let bytes = cursor.take(length)?;
    Ok(match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Bytes(bytes.to_vec()),
    })
}

fn unknown_type(cursor: &Cursor<'_>, value_type: u32) -> Error {
    // Without its size nothing behind it can be found.
    Error::malformed(format!("value type {value_type} does not exist")).with_offset(cursor.offset())
}
