//! The operations of recipes, and how they are written.

use super::blocks::Quantiser;
use super::number::{Number, Rounding};
use super::{malformed, unknown};
use crate::error::Result;
use crate::formats::zt::cbor::{Decoder, Encoder};
use crate::tensor::Value;

/// Bytes of a recipe, nodes of one, and how deep they are nested.
pub(super) const MOST_BYTES: usize = 64 << 10;
const MOST_NODES: usize = 1024;
const DEEPEST: usize = 16;
/// Operands of one recipe.
pub(super) const MOST_OPERANDS: usize = 512;
/// Numbers that rows have at least where they are put into another order: a row is what is read at once.
pub(super) const SHORTEST_ROW: u64 = 16;

/// What yields numbers, or blocks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// The bytes of an operand.
    Operand { number: usize, of: Number },
    /// Numbers of another type.
    Cast { to: Number, rounding: Rounding, node: Box<Node> },
    /// ggml blocks; without fields, with those that follow.
    Blocks { quantiser: &'static Quantiser, node: Box<Node>, fields: Vec<Node> },
    /// Rows in another order.
    Rows { order: Order, heads: u64, row: u64, node: Box<Node> },
    /// Some of the numbers.
    Slice { first: u64, count: u64, node: Box<Node> },
    /// Numbers one after the other.
    Join { nodes: Vec<Node> },
    /// Numbers divided by a scale for each so many rows by so many columns.
    Scaled { to: Number, row: u64, down: u64, across: u64, scales: Box<Node>, node: Box<Node> },
}

impl PartialEq for Quantiser {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// How the rows of a head are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first half of a head's rows and the second one by one in turn: from Hugging Face's order to llama.cpp's.
    Interleaved,
    /// Back.
    Separated,
}

impl Node {
    pub(super) fn decode(bytes: &[u8]) -> Result<Node> {
        if bytes.len() > MOST_BYTES {
            return Err(malformed(&format!("it has {} bytes", bytes.len())));
        }
        let mut decoder = Decoder::new(bytes, DEEPEST + 2);
        let value = decoder.value()?;
        decoder.finish()?;
        let mut left = MOST_NODES;
        Node::of(&value, &mut left, DEEPEST)
    }

    fn of(value: &Value, left: &mut usize, depth: usize) -> Result<Node> {
        *left = left.checked_sub(1).ok_or_else(|| malformed("it has too many nodes"))?;
        let depth = depth.checked_sub(1).ok_or_else(|| malformed("it is nested too deeply"))?;
        let Value::List(items) = value else { return Err(malformed("a node is no list")) };
        let Some((Value::Text(name), rest)) = items.split_first() else {
            return Err(malformed("a node has no name"));
        };
        let mut node = |value: &Value| Node::of(value, left, depth);
        Ok(match (name.as_str(), rest) {
            ("operand", [number, of]) => {
                let number = whole(number)?;
                let number = usize::try_from(number).ok().filter(|number| *number < MOST_OPERANDS);
                let number = number.ok_or_else(|| malformed("it has too many operands"))?;
                Node::Operand { number, of: number_of(of)? }
            }
            ("cast", [to, rounding, of]) => {
                let rounding = match whole(rounding)? {
                    0 => Rounding::Nearest,
                    1 => Rounding::TowardsZero,
                    other => return Err(unknown(&format!("rounding {other}"))),
                };
                Node::Cast { to: number_of(to)?, rounding, node: Box::new(node(of)?) }
            }
            ("blocks", [name, of, fields @ ..]) => {
                let name = text(name)?;
                let quantiser =
                    Quantiser::named(name).ok_or_else(|| unknown(&format!("blocks \"{name}\"")))?;
                let of = Box::new(node(of)?);
                let fields = fields.iter().map(node).collect::<Result<Vec<_>>>()?;
                if fields.len() != quantiser.fields.len()
                    && !(fields.is_empty() && quantiser.computes_fields())
                {
                    return Err(malformed("blocks have other fields"));
                }
                Node::Blocks { quantiser, node: of, fields }
            }
            ("interleave" | "separate", [heads, row, of]) => {
                let order = if name == "separate" { Order::Separated } else { Order::Interleaved };
                let (heads, row) = (whole(heads)?, whole(row)?);
                if heads == 0 || row < SHORTEST_ROW {
                    return Err(malformed("its rows are too short, or no head has any"));
                }
                Node::Rows { order, heads, row, node: Box::new(node(of)?) }
            }
            ("slice", [first, count, of]) => {
                Node::Slice { first: whole(first)?, count: whole(count)?, node: Box::new(node(of)?) }
            }
            ("join", nodes @ [_, ..]) => {
                Node::Join { nodes: nodes.iter().map(node).collect::<Result<Vec<_>>>()? }
            }
            ("scaled", [to, row, down, across, scales, of]) => Node::Scaled {
                to: number_of(to)?,
                row: whole(row)?,
                down: whole(down)?,
                across: whole(across)?,
                scales: Box::new(node(scales)?),
                node: Box::new(node(of)?),
            },
            ("operand" | "cast" | "blocks" | "interleave" | "separate" | "slice" | "join" | "scaled", _) => {
                return Err(malformed(&format!("\"{name}\" has other elements")));
            }
            (name, _) => return Err(unknown(&format!("the operation \"{name}\""))),
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.value(&self.to_value());
        encoder.finish()
    }

    fn to_value(&self) -> Value {
        let text = |text: &str| Value::Text(text.to_owned());
        let list = match self {
            Node::Operand { number, of } => {
                vec![text("operand"), (*number as u64).into(), text(of.name())]
            }
            Node::Cast { to, rounding, node } => {
                let rounding = u64::from(*rounding == Rounding::TowardsZero);
                vec![text("cast"), text(to.name()), rounding.into(), node.to_value()]
            }
            Node::Blocks { quantiser, node, fields } => {
                let mut list = vec![text("blocks"), text(quantiser.name), node.to_value()];
                list.extend(fields.iter().map(Node::to_value));
                list
            }
            Node::Rows { order, heads, row, node } => {
                let name = if *order == Order::Separated { "separate" } else { "interleave" };
                vec![text(name), (*heads).into(), (*row).into(), node.to_value()]
            }
            Node::Slice { first, count, node } => {
                vec![text("slice"), (*first).into(), (*count).into(), node.to_value()]
            }
            Node::Join { nodes } => {
                let mut list = vec![text("join")];
                list.extend(nodes.iter().map(Node::to_value));
                list
            }
            Node::Scaled { to, row, down, across, scales, node } => vec![
                text("scaled"),
                text(to.name()),
                (*row).into(),
                (*down).into(),
                (*across).into(),
                scales.to_value(),
                node.to_value(),
            ],
        };
        Value::List(list)
    }

    /// In a few words, for people.
    pub(super) fn describe(&self) -> String {
        match self {
            Node::Operand { of, .. } => of.name().to_owned(),
            Node::Cast { to, rounding: Rounding::Nearest, node } => {
                format!("{} of {}", to.name(), node.describe())
            }
            Node::Cast { to, node, .. } => format!("{} of {}, cut off", to.name(), node.describe()),
            Node::Blocks { quantiser, node, fields } => {
                let scales = if fields.is_empty() { "" } else { " and scales" };
                format!("{} of {}{scales}", quantiser.name, node.describe())
            }
            Node::Rows { order: Order::Interleaved, node, .. } => {
                format!("{}, rows interleaved", node.describe())
            }
            Node::Rows { node, .. } => format!("{}, rows separated", node.describe()),
            Node::Slice { node, .. } => format!("a part of {}", node.describe()),
            Node::Join { nodes } => match nodes.first() {
                Some(first) => format!("{} tensors of {}, joined", nodes.len(), first.describe()),
                None => "nothing".to_owned(),
            },
            Node::Scaled { to, node, .. } => format!("{} of {}, scaled", to.name(), node.describe()),
        }
    }
}

fn whole(value: &Value) -> Result<u64> {
    let number = value.as_u64().filter(|number| *number <= i64::MAX as u64);
    number.ok_or_else(|| malformed("a number is expected"))
}

fn text(value: &Value) -> Result<&str> {
    value.as_text().ok_or_else(|| malformed("a name is expected"))
}

fn number_of(value: &Value) -> Result<Number> {
    Number::parse(text(value)?)
}
