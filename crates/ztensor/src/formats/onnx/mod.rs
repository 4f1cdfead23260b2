//! ONNX: a protobuf message whose graphs hold tensors as initializers, as attributes of nodes and, recursively, in the graphs of control-flow
//! nodes and functions. The walk keeps byte offsets, so tensors stored as raw bytes are read in place, also past protobuf's 2 GB.

mod constant;
mod detect;
mod external;
mod sparse;
mod tensor;
mod types;
mod values;
mod walk;
mod wire;

pub(crate) use detect::matches;

use super::Input;
use crate::error::Result;
use crate::index::{Format, Index, Span};
use crate::tensor::{Attributes, Value};
use walk::Walk;
use wire::Wire;

/// Indexes a model.
pub(crate) fn index(input: &mut Input) -> Result<Index> {
    let source = input.source();
    let wire = Wire::new(&source);
    let mut index = Index::new(Format::Onnx, "");
    let mut walk = Walk::new(&wire, input, &mut index);
    let (mut operator_sets, mut properties) = (Attributes::new(), Attributes::new());
    let (mut functions, mut trainings) = (0, 0);
    let mut message = wire.message();
    while let Some(field) = message.next()? {
        match field.number {
            1 => walk.attribute("ir_version", signed(field.integer()?)),
            2 => walk.attribute("producer_name", wire.text(field.bytes()?)?),
            3 => walk.attribute("producer_version", wire.text(field.bytes()?)?),
            4 => walk.attribute("domain", wire.text(field.bytes()?)?),
            5 => walk.attribute("model_version", signed(field.integer()?)),
            6 => walk.attribute("doc_string", wire.text(field.bytes()?)?),
            7 => walk.graph(field.bytes()?, 0)?,
            8 => {
                let (domain, version) = operator_set(&wire, field.bytes()?)?;
                operator_sets.insert(domain, version);
            }
            14 => {
                let (key, value) = external::text_pair(&wire, field.bytes()?)?;
                properties.insert(key, Value::Text(value));
            }
            20 => {
                walk.training(field.bytes()?, trainings)?;
                trainings += 1;
            }
            25 => {
                walk.function(field.bytes()?, functions)?;
                functions += 1;
            }
            _ => {}
        }
    }
    if let Some(Value::Integer(version)) = index.attributes.get("ir_version") {
        index.version = version.to_string().into();
    }
    for (key, values) in [("opset_import", operator_sets), ("metadata_props", properties)] {
        if !values.is_empty() {
            index.attributes.insert(key.to_owned(), Value::Map(values));
        }
    }
    Ok(index)
}

/// A domain and its version. The default domain has two spellings, of which the empty one is unhelpful as a key.
fn operator_set<'a>(wire: &'a Wire<'a>, span: Span) -> Result<(String, Value)> {
    let (mut domain, mut version) = (String::new(), 0);
    let mut message = wire.message_in(span);
    while let Some(field) = message.next()? {
        match field.number {
            1 => domain = wire.text(field.bytes()?)?,
            2 => version = signed(field.integer()?),
            _ => {}
        }
    }
    let domain = if domain.is_empty() { "ai.onnx".to_owned() } else { domain };
    Ok((domain, Value::from(version)))
}

/// An `int64` field: protobuf sends its two's complement.
fn signed(value: u64) -> i64 {
    value as i64
}
