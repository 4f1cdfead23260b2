//! The header with other key-value pairs in it. Pairs that do not change, and the list of tensors, are copied as they stand.

use super::cursor::{Cursor, Order};
use super::header::{self, Header};
use super::metadata::{self, Pair};
use super::value_type::ValueType;
use crate::error::{Error, Result};
use crate::formats::edit::{Front, MetadataEdit, NewValue, guess, no_such_key};
use crate::limits::Budget;
use crate::source::Source;
use crate::tensor::Value;

/// Magic, version and the two counts.
const FIXED: u64 = 24;

/// The beginning of a file with its metadata changed.
pub(crate) fn with_metadata(source: &Source, edit: &MetadataEdit, budget: &mut Budget) -> Result<Front> {
    let header = Header::read(source, budget)?;
    let mut cursor = Cursor::new(source, budget);
    cursor.order = header.order;
    cursor.take(FIXED - 8)?;
    let count = cursor.u64()?;
    let mut pairs: Vec<(Pair, Option<Vec<u8>>)> =
        metadata::pairs(&mut cursor, count)?.into_iter().map(|pair| (pair, None)).collect();
    for change in &edit.changes {
        if change.key == "general.alignment" {
            return Err(Error::argument(
                "general.alignment says where the tensors lie; it cannot be changed alone",
            ));
        }
        let place = pairs.iter().position(|(pair, _)| pair.key == change.key);
        let named = change.kind.as_deref().map(ValueType::parse).transpose()?;
        let before = place.map(|place| pairs[place].0.value_type);
        let value = match &change.to {
            NewValue::Removed => {
                pairs.remove(place.ok_or_else(|| no_such_key(&change.key))?);
                continue;
            }
            NewValue::Value(value) => value.clone(),
            NewValue::Literal(text) => match named.or(before) {
                Some(ValueType::STRING) => Value::Text(text.clone()),
                _ => guess(text),
            },
        };
        let about = |error: Error| error.with_context(&format!("metadata \"{}\"", change.key));
        let value_type = match named.or(before) {
            Some(known) => known,
            None => ValueType::of(&value).map_err(about)?,
        };
        let mut bytes = Vec::new();
        put_text(&mut bytes, header.order, &change.key);
        value_type.encode(&mut bytes, header.order, &value).map_err(about)?;
        match place {
            Some(place) => pairs[place] = (Pair { value_type, ..pairs[place].0.clone() }, Some(bytes)),
            None => pairs.push((Pair { key: change.key.clone(), value_type, range: 0..0 }, Some(bytes))),
        }
    }

    let mut bytes = source.bytes(0, FIXED - 8)?.into_owned();
    put(&mut bytes, header.order, (pairs.len() as u64).to_le_bytes());
    for (pair, changed) in &pairs {
        match changed {
            Some(changed) => bytes.extend_from_slice(changed),
            None => {
                bytes.extend_from_slice(&source.bytes(pair.range.start, pair.range.end - pair.range.start)?)
            }
        }
    }
    bytes.extend_from_slice(&source.bytes(header.pairs_end, header.end - header.pairs_end)?);
    let padded = header::pad(bytes.len() as u64, header.alignment)?;
    // A file without tensors may end with its header.
    if source.len() >= header.data_start {
        bytes.resize(padded as usize, 0);
    }
    Ok(Front { bytes, rest: header.data_start.min(source.len()) })
}

/// Writes a number in a file's byte order.
pub(super) fn put<const N: usize>(out: &mut Vec<u8>, order: Order, mut little: [u8; N]) {
    if order == Order::Big {
        little.reverse();
    }
    out.extend_from_slice(&little);
}

pub(super) fn put_text(out: &mut Vec<u8>, order: Order, text: &str) {
    put(out, order, (text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}
