//! ONNX has no magic number. A file is taken for a model when it reads, from the first byte to the last, as the fields of `ModelProto`,
//! with a plausible version and a graph; a truncated one must at least get as far as a graph. The extension `.onnx` relaxes this, so that
//! a damaged model is named as such.

use super::wire::{Field, Value, Wire};
use crate::formats::Input;

/// More fields than any model has at its top; each is one function, property or operator set.
const MOST_FIELDS: usize = 1 << 20;

/// Field 7 of `ModelProto`, length-delimited.
const GRAPH_TAG: u8 = 0x3A;

pub(crate) fn matches(head: &[u8], input: &Input) -> bool {
    // Cheap and decisive for almost everything that is not a model: the first tag.
    let plausible = head.first().is_some_and(|&tag| expected(tag >> 3).is_some_and(|kind| kind == tag & 7));
    if !plausible || head.len() < 2 {
        return false;
    }
    input.extension() == "onnx" || is_model(input)
}

fn is_model(input: &Input) -> bool {
    let source = input.source();
    let wire = Wire::new(&source);
    let mut message = wire.message();
    let (mut version, mut graph) = (false, false);
    for _ in 0..MOST_FIELDS {
        match message.next() {
            Ok(Some(field)) => match field.value {
                Value::Varint { value, .. } if field.number == 1 => {
                    version = (1..256).contains(&value);
                    if !version {
                        return false;
                    }
                }
                Value::Bytes(span) if field.number == 7 => graph = starts_as_graph(&wire, span.offset),
                _ if !is_expected(&field) => return false,
                _ => {}
            },
            Ok(None) => return version && graph,
            Err(_) => {
                // The walk stopped inside a field: a model that was cut off, if it got as far as the graph.
                return version && (graph || cut_off_graph(&wire, message.position()));
            }
        }
    }
    false
}

/// Number and wire type of a field of `ModelProto`.
fn expected(number: u8) -> Option<u8> {
    match number {
        1 | 5 => Some(0),
        2 | 3 | 4 | 6 | 7 | 8 | 14 | 20 | 25 | 26 => Some(2),
        _ => None,
    }
}

fn is_expected(field: &Field) -> bool {
    let kind = match field.value {
        Value::Varint { .. } => 0,
        Value::Bytes(_) => 2,
        Value::Fixed(_) => return false,
    };
    u8::try_from(field.number).ok().and_then(expected) == Some(kind)
}

/// Whether a graph starts at the tag, though the file ends before it does.
fn cut_off_graph(wire: &Wire<'_>, tag: u64) -> bool {
    // Behind the tag stands the length, whose last byte is the first below 0x80.
    let length_end = (tag + 1..tag + 11).find(|&at| wire.byte(at).is_none_or(|byte| byte < 0x80));
    wire.byte(tag) == Some(GRAPH_TAG) && length_end.is_some_and(|end| starts_as_graph(wire, end + 1))
}

/// Whether the byte at the start of a graph is the tag of one of its fields: node, name, initializer, description, input, …
fn starts_as_graph(wire: &Wire<'_>, offset: u64) -> bool {
    matches!(wire.byte(offset), Some(0x0A | 0x12 | 0x2A | 0x52 | 0x5A | 0x62 | 0x6A | 0x72 | 0x7A | 0x82))
}
