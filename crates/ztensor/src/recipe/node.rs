//! The operations of recipes, and how they are written.

use super::blocks::Quantiser;
use super::levels::{Book, Groups, Levels};
use super::number::{Number, Rounding};
use super::packing::Packing;
use super::{malformed, unknown};
use crate::error::Result;
use crate::formats::zt::cbor::{Decoder, Encoder};
use crate::tensor::Value;

/// Bytes of a recipe, nodes of one, and how deep they are nested.
pub(super) const MOST_BYTES: usize = 64 << 10;
const MOST_NODES: usize = 1024;
const DEEPEST: usize = 16;
/// The ranks of all products of a recipe together: what an element costs.
pub(super) const MOST_RANKS: u64 = 256;
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
    /// Numbers times coefficients, added up and divided.
    Sum { precision: Precision, divisor: f64, coefficients: Vec<f64>, nodes: Vec<Node> },
    /// The sum of those numbers whose sign prevails, once small ones are left out.
    Consensus { precision: Precision, normalised: bool, voices: Vec<Voice>, nodes: Vec<Node> },
    /// Where numbers, divided by scales, lie among the levels of a quantiser.
    Levels { levels: Box<Levels>, scales: Box<Node>, zeros: Option<Box<Node>>, node: Box<Node> },
    /// The largest magnitude of each group.
    Largest { groups: Groups, node: Box<Node> },
    /// Matrices, their columns as rows. The node is an operand: all of a matrix is needed for any row of the result.
    Transposed { rows: u64, columns: u64, node: Box<Node> },
    /// Small numbers, several of them in a word.
    Packed { packing: Packing, node: Box<Node> },
    /// The product of two matrices of small integers, scaled.
    Product { rank: u64, rows: u64, row: u64, scale: f32, left: Box<Node>, right: Box<Node> },
}

impl PartialEq for Quantiser {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The type that each operation of a sum is rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Precision {
    F64,
    F32,
    F16,
    Bf16,
}

impl Precision {
    /// That of sixteen bits which a type is, if it is one.
    pub fn of_narrow(number: Number) -> Option<Precision> {
        match number {
            Number::F16 => Some(Precision::F16),
            Number::Bf16 => Some(Precision::Bf16),
            _ => None,
        }
    }

    /// What sums in it yield: f32 of those in f64.
    pub fn number(self) -> Number {
        match self {
            Precision::F64 | Precision::F32 => Number::F32,
            Precision::F16 => Number::F16,
            Precision::Bf16 => Number::Bf16,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Precision::F64 => "f64",
            other => other.number().name(),
        }
    }

    fn parse(name: &str) -> Result<Precision> {
        Ok(match name {
            "f64" => Precision::F64,
            "f32" => Precision::F32,
            "f16" => Precision::F16,
            "bf16" => Precision::Bf16,
            other => return Err(unknown(&format!("sums in \"{other}\""))),
        })
    }
}

/// What a number counts in a consensus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Voice {
    /// Its coefficient.
    pub weight: f64,
    /// Smaller magnitudes count as 0.
    pub threshold: f64,
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
        let mut left = Left { nodes: MOST_NODES, ranks: MOST_RANKS };
        Node::of(&value, &mut left, DEEPEST)
    }

    fn of(value: &Value, left: &mut Left, depth: usize) -> Result<Node> {
        left.nodes = left.nodes.checked_sub(1).ok_or_else(|| malformed("it has too many nodes"))?;
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
            ("sum", [precision, divisor, Value::List(coefficients), nodes @ ..])
                if nodes.len() == coefficients.len() && !nodes.is_empty() =>
            {
                Node::Sum {
                    precision: Precision::parse(text(precision)?)?,
                    divisor: float(divisor)?,
                    coefficients: coefficients.iter().map(float).collect::<Result<_>>()?,
                    nodes: nodes.iter().map(node).collect::<Result<_>>()?,
                }
            }
            (
                "consensus",
                [precision, normalised, Value::List(weights), Value::List(thresholds), nodes @ ..],
            ) if nodes.len() == weights.len() && nodes.len() == thresholds.len() && !nodes.is_empty() => {
                let voices = weights.iter().zip(thresholds).map(|(weight, threshold)| {
                    Ok(Voice { weight: float(weight)?, threshold: float(threshold)? })
                });
                Node::Consensus {
                    precision: Precision::parse(text(precision)?)?,
                    normalised: match whole(normalised)? {
                        0 => false,
                        1 => true,
                        other => return Err(unknown(&format!("consensus {other}"))),
                    },
                    voices: voices.collect::<Result<_>>()?,
                    nodes: nodes.iter().map(node).collect::<Result<_>>()?,
                }
            }
            ("product", [rank, rows, row, scale, of, by]) => {
                let (rank, rows, row) = (whole(rank)?, whole(rows)?, whole(row)?);
                if rank == 0 || rows == 0 || row < SHORTEST_ROW {
                    return Err(malformed("its matrices are too small"));
                }
                let (of, by) = (Box::new(node(of)?), Box::new(node(by)?));
                let ranks = left.ranks.checked_sub(rank);
                left.ranks = ranks.ok_or_else(|| malformed("its matrices have too high a rank"))?;
                Node::Product { rank, rows, row, scale: float(scale)? as f32, left: of, right: by }
            }
            ("levels", [to, precision, factor, book, row, down, across, nodes @ ..])
                if matches!(nodes.len(), 2 | 3) =>
            {
                let to = number_of(to)?;
                let precision = Precision::parse(text(precision)?)?;
                let groups = Groups { row: whole(row)?, down: whole(down)?, across: whole(across)? };
                let levels =
                    Levels { to, precision, factor: float(factor)? as f32, book: Book::of(book)?, groups };
                levels.check()?;
                let mut nodes = nodes.iter().map(node).collect::<Result<Vec<_>>>()?;
                let (of, scales) = (nodes.pop(), nodes.remove(0));
                let of = of.ok_or_else(|| malformed("levels of nothing"))?;
                Node::Levels {
                    levels: Box::new(levels),
                    scales: Box::new(scales),
                    zeros: nodes.pop().map(Box::new),
                    node: Box::new(of),
                }
            }
            ("largest", [row, down, across, of]) => {
                let groups = Groups { row: whole(row)?, down: whole(down)?, across: whole(across)? };
                Node::Largest { groups, node: Box::new(node(of)?) }
            }
            ("transposed", [rows, columns, of]) => {
                let (rows, columns, of) = (whole(rows)?, whole(columns)?, node(of)?);
                if rows == 0 || columns == 0 || !matches!(of, Node::Operand { .. }) {
                    return Err(malformed("what is transposed is no operand"));
                }
                Node::Transposed { rows, columns, node: Box::new(of) }
            }
            ("packed", [bits, Value::List(slots), columns, of]) => {
                let slots = slots.iter().map(whole).collect::<Result<Vec<_>>>()?;
                let packing = Packing::new(whole(bits)?, &slots, whole(columns)?)?;
                Node::Packed { packing, node: Box::new(node(of)?) }
            }
            (
                "operand" | "cast" | "blocks" | "interleave" | "separate" | "slice" | "join" | "scaled"
                | "sum" | "consensus" | "product" | "levels" | "largest" | "transposed" | "packed",
                _,
            ) => {
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
            Node::Sum { precision, divisor, coefficients, nodes } => {
                let coefficients = coefficients.iter().map(|of| Value::Float(*of)).collect();
                let mut list = vec![text("sum"), text(precision.name()), Value::Float(*divisor)];
                list.push(Value::List(coefficients));
                list.extend(nodes.iter().map(Node::to_value));
                list
            }
            Node::Consensus { precision, normalised, voices, nodes } => {
                let floats = |of: fn(&Voice) -> f64| {
                    Value::List(voices.iter().map(|voice| Value::Float(of(voice))).collect())
                };
                let mut list = vec![text("consensus"), text(precision.name()), u64::from(*normalised).into()];
                list.extend([floats(|voice| voice.weight), floats(|voice| voice.threshold)]);
                list.extend(nodes.iter().map(Node::to_value));
                list
            }
            Node::Levels { levels, scales, zeros, node } => {
                let Groups { row, down, across } = levels.groups;
                let mut list = vec![
                    text("levels"),
                    text(levels.to.name()),
                    text(levels.precision.name()),
                    Value::Float(f64::from(levels.factor)),
                    levels.book.to_value(),
                    row.into(),
                    down.into(),
                    across.into(),
                    scales.to_value(),
                ];
                list.extend(zeros.iter().map(|zeros| zeros.to_value()));
                list.push(node.to_value());
                list
            }
            Node::Largest { groups: Groups { row, down, across }, node } => {
                vec![text("largest"), (*row).into(), (*down).into(), (*across).into(), node.to_value()]
            }
            Node::Transposed { rows, columns, node } => {
                vec![text("transposed"), (*rows).into(), (*columns).into(), node.to_value()]
            }
            Node::Packed { packing, node } => {
                let slots = packing.slots.iter().map(|slot| u64::from(*slot).into()).collect();
                let bits = u64::from(packing.bits).into();
                vec![text("packed"), bits, Value::List(slots), packing.columns.into(), node.to_value()]
            }
            Node::Product { rank, rows, row, scale, left, right } => vec![
                text("product"),
                (*rank).into(),
                (*rows).into(),
                (*row).into(),
                Value::Float(f64::from(*scale)),
                left.to_value(),
                right.to_value(),
            ],
        };
        Value::List(list)
    }

    /// Numbers operands from `by` on.
    pub(super) fn shift(&mut self, by: usize) {
        match self {
            Node::Operand { number, .. } => *number += by,
            Node::Cast { node, .. }
            | Node::Rows { node, .. }
            | Node::Slice { node, .. }
            | Node::Largest { node, .. }
            | Node::Transposed { node, .. }
            | Node::Packed { node, .. } => node.shift(by),
            Node::Levels { scales, zeros, node, .. } => {
                scales.shift(by);
                node.shift(by);
                zeros.iter_mut().for_each(|zeros| zeros.shift(by));
            }
            Node::Join { nodes } | Node::Sum { nodes, .. } | Node::Consensus { nodes, .. } => {
                nodes.iter_mut().for_each(|node| node.shift(by));
            }
            Node::Blocks { node, fields, .. } => {
                node.shift(by);
                fields.iter_mut().for_each(|node| node.shift(by));
            }
            Node::Scaled { scales: one, node: other, .. } | Node::Product { left: one, right: other, .. } => {
                one.shift(by);
                other.shift(by);
            }
        }
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
            Node::Sum { divisor, coefficients, nodes, .. } => {
                let terms = coefficients.iter().zip(nodes).map(|(of, node)| match (of / divisor, node) {
                    (1.0, node @ Node::Product { .. }) => node.describe(),
                    (1.0, Node::Cast { node, .. }) if matches!(**node, Node::Product { .. }) => {
                        node.describe()
                    }
                    (of, node) => format!("{} {}", (of * 1e4).round() / 1e4, node.describe()),
                });
                terms.collect::<Vec<_>>().join(" + ")
            }
            Node::Consensus { nodes, .. } => format!("the consensus of {} tensors", nodes.len()),
            Node::Product { rank, .. } => format!("a product of rank {rank}"),
            Node::Levels { levels, zeros, node, .. } => {
                let zeros = if zeros.is_some() { " and zero points" } else { "" };
                format!("{} of {} and scales{zeros}", levels.describe(), node.describe())
            }
            Node::Largest { node, .. } => format!("the largest magnitudes of {}", node.describe()),
            Node::Transposed { node, .. } => format!("{}, transposed", node.describe()),
            Node::Packed { node, .. } => format!("{}, packed", node.describe()),
        }
    }
}

/// What a recipe may still have while it is read.
struct Left {
    nodes: usize,
    ranks: u64,
}

pub(super) fn float(value: &Value) -> Result<f64> {
    match value {
        Value::Float(float) if float.is_finite() => Ok(*float),
        _ => Err(malformed("a finite float is expected")),
    }
}

pub(super) fn whole(value: &Value) -> Result<u64> {
    let number = value.as_u64().filter(|number| *number <= i64::MAX as u64);
    number.ok_or_else(|| malformed("a number is expected"))
}

fn text(value: &Value) -> Result<&str> {
    value.as_text().ok_or_else(|| malformed("a name is expected"))
}

fn number_of(value: &Value) -> Result<Number> {
    Number::parse(text(value)?)
}
