//! `Constant` nodes: a whole tensor, or numbers written straight into an attribute.

use super::values::{Encoding, Values};
use super::wire::{Field, Value, Wire};
use crate::error::{Error, Result};
use crate::index::{Component, Data, Object, Span, VarintRun};
use crate::limits::Budget;
use crate::tensor::{DType, Shape};

/// What an attribute of a `Constant` node holds.
pub(super) enum Constant {
    /// A tensor message.
    Tensor(Span),
    /// A sparse tensor message.
    Sparse(Span),
    /// Numbers.
    Numbers(Object),
    /// Something that is no tensor, with the reason.
    Unread(&'static str),
    /// Not the constant's value, or a value that the caller of a function gives.
    Nothing,
}

/// The fields of `AttributeProto` that can hold a constant.
mod field {
    pub(super) const FLOAT: u32 = 2;
    pub(super) const INTEGER: u32 = 3;
    pub(super) const TENSOR: u32 = 5;
    pub(super) const FLOATS: u32 = 7;
    pub(super) const INTEGERS: u32 = 8;
    pub(super) const REFERENCE: u32 = 21;
    pub(super) const SPARSE_TENSOR: u32 = 22;
}

/// Reads the attribute `name` of a `Constant` node.
pub(super) fn read<'a>(wire: &'a Wire<'a>, name: &str, span: Span, budget: &mut Budget) -> Result<Constant> {
    let number = match name {
        "value" => field::TENSOR,
        "sparse_value" => field::SPARSE_TENSOR,
        "value_float" => field::FLOAT,
        "value_floats" => field::FLOATS,
        "value_int" => field::INTEGER,
        "value_ints" => field::INTEGERS,
        "value_string" | "value_strings" => {
            return Ok(Constant::Unread("strings are not tensors of numbers"));
        }
        _ => return Ok(Constant::Nothing),
    };
    let (element, encoding) = match number {
        field::FLOAT | field::FLOATS => (DType::F32, Encoding::Fixed(4)),
        _ => (DType::I64, Encoding::Varint),
    };
    let mut last = None;
    let mut list = Values::default();
    let mut message = wire.message_in(span);
    while let Some(found) = message.next()? {
        match found.number {
            field::REFERENCE => return Ok(Constant::Nothing),
            field::FLOATS | field::INTEGERS if found.number == number => list.push(&found, encoding)?,
            _ if found.number == number => last = Some(found),
            _ => {}
        }
    }
    let message =
        || last.ok_or_else(|| Error::malformed("a constant has no value").with_offset(span.offset))?.bytes();
    let (shape, data) = match number {
        field::TENSOR => return Ok(Constant::Tensor(message()?)),
        field::SPARSE_TENSOR => return Ok(Constant::Sparse(message()?)),
        field::FLOAT | field::INTEGER => (Shape::new([]), scalar(last, element)?),
        _ => {
            let count = list.count(wire, encoding)?;
            let shape = Shape::from([count]);
            let data = match encoding {
                Encoding::Fixed(width) => list.fixed(width, &shape, count * width, budget)?,
                Encoding::Varint => list.varints(count, false)?,
            };
            (shape, data)
        }
    };
    let length = element.width() as u64 * shape.elements().unwrap_or(0);
    Ok(Constant::Numbers(Object::dense(shape, Component::encoded(element, data, length))))
}

fn scalar(field: Option<Field>, element: DType) -> Result<Data> {
    // Writers may leave out a zero.
    let Some(field) = field else { return Ok(Data::Fill(vec![0; element.width()].into())) };
    match (field.value, element) {
        (Value::Varint { span, .. }, DType::I64) => {
            Ok(Data::Varints([VarintRun { span, tagged: false }].into()))
        }
        (Value::Fixed(span), DType::F32) if span.length == 4 => Ok(Data::Raw(span)),
        _ => Err(field.wrong_type("of the type that the attribute's name says")),
    }
}
