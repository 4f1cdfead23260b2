//! The attributes of an object as metadata values: numbers, booleans, texts, and lists of them. What else there is, is noted as not read.

use super::header::{Message, ObjectHeader, kind};
use super::heap::fractal::FractalHeap;
use super::heap::global::GlobalHeaps;
use super::image::Image;
use super::message::attribute::Attribute;
use super::message::dataspace::Dataspace;
use super::message::datatype::{Class, Datatype, Padding};
use super::tree::version2::Tree;
use crate::error::{Error, Kind, Result};
use crate::limits::Budget;
use crate::tensor::{Attributes, DType, Known, Value};

/// B-tree of attributes by name.
const ATTRIBUTES_BY_NAME: u8 = 8;
/// What one value costs beside its bytes.
const VALUE_COST: u64 = size_of::<Value>() as u64;

/// Turns attributes into values; keeps the global heaps it has met.
pub(super) struct AttributeReader<'a> {
    heaps: GlobalHeaps<'a>,
}

/// The attributes of one object, and the names and reasons of those that are not read.
#[derive(Default)]
pub(super) struct Found {
    pub values: Attributes,
    pub unread: Vec<(String, String)>,
}

impl<'a> AttributeReader<'a> {
    pub fn new() -> Self {
        AttributeReader { heaps: GlobalHeaps::default() }
    }

    /// All attributes of an object.
    pub fn read(
        &mut self,
        image: &Image<'a>,
        budget: &mut Budget,
        header: &ObjectHeader<'a>,
    ) -> Result<Found> {
        let mut found = Found::default();
        for message in header.all(kind::ATTRIBUTE) {
            if message.is_shared() {
                found
                    .unread
                    .push(("?".to_owned(), "an attribute in the file's table of shared messages".to_owned()));
                continue;
            }
            self.add(image, budget, &message.body, message.address, &mut found)?;
        }
        for message in header.all(kind::ATTRIBUTE_INFO) {
            match self.dense(image, budget, message, &mut found) {
                Err(error) if error.kind() == Kind::Unsupported => {
                    found.unread.push(("*".to_owned(), error.message().to_owned()));
                }
                other => other?,
            }
        }
        Ok(found)
    }

    fn dense(
        &mut self,
        image: &Image<'a>,
        budget: &mut Budget,
        message: &Message<'a>,
        found: &mut Found,
    ) -> Result<()> {
        let mut cursor = image.cursor(&message.body, message.address, "list of attributes");
        cursor.version(0..=0)?;
        let flags = cursor.u8()?;
        cursor.skip(if flags & 1 != 0 { 2 } else { 0 })?;
        let (Some(heap), Some(tree)) = (cursor.address()?, cursor.address()?) else { return Ok(()) };
        let mut heap = FractalHeap::read(image, heap)?;
        let tree = Tree::read(image, tree)?;
        tree.walk(image, |record| {
            if tree.kind() != ATTRIBUTES_BY_NAME {
                return Err(record.error("the tree does not list attributes by name"));
            }
            let (bytes, address) = heap.object(image, record.take(heap.identifier_length())?)?;
            self.add(image, budget, &bytes, address, found)
        })
    }

    fn add(
        &mut self,
        image: &Image<'a>,
        budget: &mut Budget,
        bytes: &[u8],
        address: u64,
        found: &mut Found,
    ) -> Result<()> {
        let attribute = Attribute::parse(&mut image.cursor(bytes, address, "attribute"))?;
        let name = attribute.name;
        budget.charge(2 * VALUE_COST + name.len() as u64)?;
        let value = attribute.shape.and_then(|(datatype, dataspace)| {
            self.value(image, budget, &datatype, &dataspace, attribute.bytes)
        });
        match value {
            Ok(value) => {
                if found.values.contains_key(&name) {
                    return Err(Error::new(Kind::Duplicate, format!("attribute \"{name}\" occurs twice"))
                        .with_offset(image.offset(address)));
                }
                found.values.insert(name, value);
                Ok(())
            }
            Err(error) if error.kind() == Kind::Unsupported => {
                found.unread.push((name, error.message().to_owned()));
                Ok(())
            }
            Err(error) => Err(error.with_context(&format!("attribute \"{name}\""))),
        }
    }

    fn value(
        &mut self,
        image: &Image<'a>,
        budget: &mut Budget,
        datatype: &Datatype,
        dataspace: &Dataspace,
        bytes: &[u8],
    ) -> Result<Value> {
        let (mut dimensions, mut datatype) = match dataspace {
            Dataspace::Null => return Ok(Value::Null),
            Dataspace::Simple { dimensions, .. } => (dimensions.to_vec(), datatype),
        };
        while let Class::Array { dimensions: inner, element } = &datatype.class {
            dimensions.extend(inner);
            datatype = element;
        }
        let size = datatype.size as usize;
        let count = dimensions.iter().try_fold(1u64, |count, &dimension| count.checked_mul(dimension));
        let needed = count.and_then(|count| usize::try_from(count).ok()?.checked_mul(size));
        let bytes = needed
            .and_then(|needed| bytes.get(..needed))
            .ok_or_else(|| Error::malformed("the value is shorter than its shape says"))?;
        let (Some(count), true) = (count, size > 0) else {
            return Ok(if count == Some(1) { Value::Text(String::new()) } else { Value::List(Vec::new()) });
        };
        budget.charge(count.saturating_mul(VALUE_COST).saturating_add(bytes.len() as u64))?;
        let mut values = Vec::with_capacity(bytes.len() / size);
        for element in bytes.chunks_exact(size) {
            values.push(self.element(image, budget, datatype, element)?);
        }
        Ok(nest(values, &dimensions))
    }

    fn element(
        &mut self,
        image: &Image<'a>,
        budget: &mut Budget,
        datatype: &Datatype,
        bytes: &[u8],
    ) -> Result<Value> {
        let bits = |big_endian: bool| {
            let mut wide = [0; 8];
            for (place, &byte) in wide.iter_mut().zip(bytes) {
                *place = byte;
            }
            if big_endian {
                wide.get_mut(..bytes.len()).unwrap_or_default().reverse();
            }
            u64::from_le_bytes(wide)
        };
        Ok(match datatype.class {
            Class::Integer { signed: true, big_endian } => {
                let unused = 64 - 8 * datatype.size.clamp(1, 8);
                Value::Integer(((bits(big_endian) << unused) as i64 >> unused).into())
            }
            Class::Integer { signed: false, big_endian } => Value::Integer(bits(big_endian).into()),
            Class::Boolean => Value::Bool(bits(false) != 0),
            Class::Float { format, big_endian } => Value::Float(float(format, bits(big_endian))?),
            Class::Text { padding } => text(match padding {
                Padding::Terminated => bytes.split(|&byte| byte == 0).next().unwrap_or_default(),
                Padding::Zeros => trim(bytes, 0),
                Padding::Spaces => trim(bytes, b' '),
            }),
            Class::VariableText => {
                let mut cursor = image.cursor(bytes, 0, "text of varying length");
                let (length, address, number) = (cursor.u32()?, cursor.address()?, cursor.u32()?);
                match address {
                    Some(address) if length > 0 && address > 0 => {
                        let object = self.heaps.object(image, budget, address, number)?;
                        let stored = object.get(..length as usize);
                        let stored = stored.ok_or_else(|| cursor.error("it is longer than stored"))?;
                        budget.charge(length.into())?;
                        text(stored.split(|&byte| byte == 0).next().unwrap_or_default())
                    }
                    _ => Value::Text(String::new()),
                }
            }
            Class::Complex { .. } => return Err(Error::unsupported("complex numbers in attributes")),
            Class::Opaque { .. } => Value::Bytes(bytes.to_vec()),
            Class::Array { .. } => return Err(Error::unsupported("arrays in arrays")),
            Class::Other(what) => return Err(Error::unsupported(what)),
        })
    }
}

fn float(format: &Known, bits: u64) -> Result<f64> {
    let element = format.element();
    match (element.storage, &element.logical) {
        (DType::F64, None) => Ok(f64::from_bits(bits)),
        (DType::F32, None) => Ok(f32::from_bits(bits as u32).into()),
        (DType::F16, None) => Ok(half::f16::from_bits(bits as u16).into()),
        (DType::BF16, None) => Ok(half::bf16::from_bits(bits as u16).into()),
        _ => Err(Error::unsupported("eight-bit floats in attributes")),
    }
}

fn trim(bytes: &[u8], padding: u8) -> &[u8] {
    let length = bytes.iter().rposition(|&byte| byte != padding).map_or(0, |last| last + 1);
    bytes.get(..length).unwrap_or_default()
}

/// Text where it is UTF-8, bytes otherwise.
fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Bytes(bytes.to_vec()),
    }
}

/// Lists inside lists, one level per dimension; a scalar stands alone.
fn nest(values: Vec<Value>, dimensions: &[u64]) -> Value {
    let Some((_, inner)) = dimensions.split_first() else {
        return values.into_iter().next().unwrap_or(Value::Null);
    };
    let mut values = values;
    for &dimension in inner.iter().rev() {
        let length = usize::try_from(dimension).unwrap_or(usize::MAX).max(1);
        let mut grouped = Vec::with_capacity(values.len().div_ceil(length));
        let mut rest = values.into_iter();
        loop {
            let group: Vec<Value> = rest.by_ref().take(length).collect();
            if group.is_empty() {
                break;
            }
            grouped.push(Value::List(group));
        }
        values = grouped;
    }
    Value::List(values)
}
