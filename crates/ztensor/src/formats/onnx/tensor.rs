//! `TensorProto`: the message, and how its data becomes a component. The data lies in `raw_data`, in a typed field, or in another file.

use super::external::ExternalFiles;
use super::types::{self, field};
use super::values::{Encoding, Values, wrong_size};
use super::wire::{Value, Wire};
use crate::error::{Error, Result};
use crate::formats::Input;
use crate::index::{Component, Span};
use crate::tensor::{ElementType, Shape};

/// The fields of a tensor message that matter here.
#[derive(Default)]
pub(super) struct Tensor {
    pub offset: u64,
    pub name: Option<Span>,
    pub description: Option<Span>,
    pub properties: Vec<Span>,
    dimensions: Vec<u64>,
    pub data_type: u64,
    raw: Option<Span>,
    /// The typed fields, each with its number.
    typed: Vec<(u32, Values)>,
    external: bool,
    external_entries: Vec<Span>,
    segmented: bool,
}

impl Tensor {
    pub(super) fn parse<'a>(wire: &'a Wire<'a>, span: Span) -> Result<Tensor> {
        let mut tensor = Tensor { offset: span.offset, ..Tensor::default() };
        let mut message = wire.message_in(span);
        while let Some(found) = message.next()? {
            match found.number {
                1 => dimensions(wire, found.value, &mut tensor.dimensions)
                    .ok_or_else(|| found.wrong_type("a list of up to 64 dimensions"))?,
                2 => tensor.data_type = found.integer()?,
                3 => tensor.segmented = true,
                field::FLOATS => tensor.values(field::FLOATS).push(&found, Encoding::Fixed(4))?,
                field::DOUBLES => tensor.values(field::DOUBLES).push(&found, Encoding::Fixed(8))?,
                number @ (field::INT32S | field::INT64S | field::UINT64S) => {
                    tensor.values(number).push(&found, Encoding::Varint)?;
                }
                8 => tensor.name = Some(found.bytes()?),
                9 => tensor.raw = Some(found.bytes()?),
                12 => tensor.description = Some(found.bytes()?),
                13 => tensor.external_entries.push(found.bytes()?),
                14 => tensor.external = found.integer()? == 1,
                16 => tensor.properties.push(found.bytes()?),
                _ => {}
            }
        }
        Ok(tensor)
    }

    fn values(&mut self, number: u32) -> &mut Values {
        let known = self.typed.iter().position(|(held, _)| *held == number).unwrap_or_else(|| {
            self.typed.push((number, Values::default()));
            self.typed.len() - 1
        });
        &mut self.typed[known].1
    }

    pub(super) fn shape(&self) -> Shape {
        Shape::from(self.dimensions.as_slice())
    }

    /// The tensor's elements. An error of the kind *unsupported* concerns this tensor alone.
    pub(super) fn component<'a>(
        &self,
        wire: &'a Wire<'a>,
        input: &mut Input,
        files: &mut ExternalFiles,
    ) -> Result<Component> {
        let (element, number) = types::element_of(self.data_type).ok_or_else(|| match self.data_type {
            types::STRING => Error::unsupported("strings are not tensors of numbers"),
            other => Error::unsupported(format!("unknown ONNX data type {other}")),
        })?;
        if self.segmented {
            return Err(Error::unsupported("a tensor stored in segments"));
        }
        input.budget.charge(8 * self.dimensions.len() as u64)?;
        let shape = self.shape();
        let elements = shape.elements();
        let length = elements.and_then(|count| element.byte_length(count)).ok_or_else(|| {
            Error::malformed(format!("the shape {shape} overflows")).with_offset(self.offset)
        })?;
        if self.external {
            let span = files.locate(wire, input, &self.external_entries, length)?;
            return Ok(Component::raw(element, span));
        }
        if let Some(span) = self.raw {
            if span.length != length {
                return Err(wrong_size(span.length, length, span.offset));
            }
            return Ok(Component::raw(element, span));
        }
        self.typed_component(element, number, elements.unwrap_or(0), length, input)
    }

    fn typed_component(
        &self,
        element: ElementType,
        number: u32,
        elements: u64,
        length: u64,
        input: &mut Input,
    ) -> Result<Component> {
        let none = Values::default();
        let values = self.typed.iter().find(|(held, _)| *held == number).map_or(&none, |(_, values)| values);
        let data = match number {
            field::FLOATS => values.fixed(4, &self.shape(), length, &mut input.budget)?,
            field::DOUBLES => values.fixed(8, &self.shape(), length, &mut input.budget)?,
            // Six-bit codes come one to a value; narrower types come as packed bytes.
            _ if element.bits() == Some(6) => values.varints(elements, true)?,
            _ => values.varints(length / element.storage.width() as u64, false)?,
        };
        Ok(Component::encoded(element, data, length))
    }
}

/// Dimensions, packed or one by one; `None` if one is negative or not an integer, or if there are too many.
pub(super) fn dimensions<'a>(wire: &'a Wire<'a>, value: Value, into: &mut Vec<u64>) -> Option<()> {
    let mut add = |dimension: u64| {
        into.push(dimension);
        (into.len() <= Shape::MOST_DIMENSIONS && i64::try_from(dimension).is_ok()).then_some(())
    };
    match value {
        Value::Varint { value, .. } => add(value),
        Value::Fixed(_) => None,
        Value::Bytes(span) => {
            let bytes = wire.bytes(span).ok()?;
            let mut rest = &*bytes;
            while !rest.is_empty() {
                let (dimension, taken) = crate::encoding::read_varint(rest)?;
                add(dimension)?;
                rest = &rest[taken..];
            }
            Some(())
        }
    }
}
