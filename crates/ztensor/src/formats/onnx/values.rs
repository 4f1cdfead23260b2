//! Repeated numbers of a message: packed into one field, spread over many, or both, as protobuf allows. They are kept as byte ranges;
//! neighbouring unpacked fields become one range with a step, so that memory does not grow with the number of elements.

use std::sync::Arc;

use super::wire::{Field, Value, Wire};
use crate::error::{Error, Result};
use crate::index::{Data, Span, Strided, VarintRun};
use crate::limits::Budget;
use crate::tensor::Shape;

/// How one number is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Varint,
    /// A float of this many bytes.
    Fixed(u64),
}

/// The numbers of one field.
#[derive(Default)]
pub(super) struct Values {
    runs: Vec<Run>,
}

struct Run {
    /// From the first byte of the first value to the last byte of the last.
    span: Span,
    kind: RunKind,
}

enum RunKind {
    /// Values side by side.
    Packed,
    /// This many values, each but the first behind a tag of one byte.
    Tagged(u64),
    /// One value behind a tag of an unusual length, which cannot begin a longer run.
    Alone,
}

impl Values {
    /// Takes in one occurrence of the field.
    pub(super) fn push(&mut self, field: &Field, encoding: Encoding) -> Result<()> {
        let span = match (field.value, encoding) {
            (Value::Bytes(span), _) => {
                if span.length > 0 {
                    self.runs.push(Run { span, kind: RunKind::Packed });
                }
                return Ok(());
            }
            (Value::Varint { span, .. }, Encoding::Varint) => span,
            (Value::Fixed(span), Encoding::Fixed(width)) if span.length == width => span,
            _ => return Err(field.wrong_type("of the wire type of its numbers")),
        };
        let neighbour = span.offset - field.start == 1;
        match self.runs.last_mut() {
            Some(Run { span: before, kind: RunKind::Tagged(count) })
                if neighbour && before.offset + before.length == field.start =>
            {
                before.length += 1 + span.length;
                *count += 1;
            }
            _ => self
                .runs
                .push(Run { span, kind: if neighbour { RunKind::Tagged(1) } else { RunKind::Alone } }),
        }
        Ok(())
    }

    /// How many numbers there are. Packed varints have to be looked at for that; only short lists are counted.
    pub(super) fn count(&self, wire: &Wire<'_>, encoding: Encoding) -> Result<u64> {
        let mut total = 0;
        for run in &self.runs {
            total += match (&run.kind, encoding) {
                (RunKind::Tagged(count), _) => *count,
                (RunKind::Alone, _) => 1,
                (RunKind::Packed, Encoding::Fixed(width)) => run.span.length / width,
                (RunKind::Packed, Encoding::Varint) => {
                    wire.bytes(run.span)?.iter().filter(|byte| **byte < 0x80).count() as u64
                }
            };
        }
        Ok(total)
    }

    /// The numbers as floats of `width` bytes that make up `length` bytes of elements of a shape.
    pub(super) fn fixed(&self, width: u64, shape: &Shape, length: u64, budget: &mut Budget) -> Result<Data> {
        let stored = self.runs.iter().map(|run| run.fixed_length(width)).fold(0, u64::saturating_add);
        if stored != length {
            return Err(wrong_size(stored, length, self.first_offset()));
        }
        let elements = shape.elements().unwrap_or(0);
        Ok(match self.runs.as_slice() {
            [] => Data::Inline(Arc::from([])),
            [Run { span, kind: RunKind::Packed | RunKind::Alone | RunKind::Tagged(1) }] => Data::Raw(*span),
            [Run { span, kind: RunKind::Tagged(count) }] if *count == elements => {
                Data::Strided(Box::new(Strided {
                    inner: Data::Raw(*span),
                    inner_length: span.length,
                    offset: 0,
                    shape: shape.clone(),
                    strides: row_major(shape, width + 1)
                        .ok_or_else(|| Error::malformed("the shape overflows"))?,
                }))
            }
            runs => {
                let pieces = runs.iter().map(|run| run.pieces()).fold(0, u64::saturating_add);
                budget.charge(pieces.saturating_mul(size_of::<Span>() as u64))?;
                Data::Pieces(runs.iter().flat_map(|run| run.split(width)).collect())
            }
        })
    }

    /// The numbers as varints, `entries` of them. They are only bounded here; the exact count shows when they are decoded.
    pub(super) fn varints(&self, entries: u64, one_byte_each: bool) -> Result<Data> {
        let mut tagged = 0u64;
        let mut packed = 0u64;
        for run in &self.runs {
            match run.kind {
                RunKind::Packed => packed += run.span.length,
                RunKind::Tagged(count) => tagged += count,
                RunKind::Alone => tagged += 1,
            }
        }
        let fewest = tagged + if one_byte_each { packed } else { packed.div_ceil(10) };
        if !(fewest..=tagged + packed).contains(&entries) {
            return Err(Error::malformed(format!(
                "the shape needs {entries} values, but {packed} packed bytes and {tagged} single values cannot be that many"
            ))
            .with_offset(self.first_offset()));
        }
        let run = |run: &Run| match run.kind {
            RunKind::Packed | RunKind::Alone | RunKind::Tagged(1) => {
                VarintRun { span: run.span, tagged: false }
            }
            RunKind::Tagged(_) => {
                let Span { file, offset, length } = run.span;
                VarintRun { span: Span { file, offset: offset - 1, length: length + 1 }, tagged: true }
            }
        };
        Ok(Data::Varints(self.runs.iter().map(run).collect()))
    }

    fn first_offset(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.span.offset)
    }
}

impl Run {
    fn pieces(&self) -> u64 {
        match self.kind {
            RunKind::Packed | RunKind::Alone => 1,
            RunKind::Tagged(count) => count,
        }
    }

    fn fixed_length(&self, width: u64) -> u64 {
        match self.kind {
            RunKind::Packed => self.span.length,
            RunKind::Alone => width,
            RunKind::Tagged(count) => count * width,
        }
    }

    /// The values alone, without the tags between them.
    fn split(&self, width: u64) -> impl Iterator<Item = Span> {
        let Span { file, offset, length } = self.span;
        let length = if matches!(self.kind, RunKind::Packed) { length } else { width };
        (0..self.pieces()).map(move |i| Span { file, offset: offset + i * (width + 1), length })
    }
}

/// Strides of row-major elements that lie `step` bytes apart.
fn row_major(shape: &Shape, step: u64) -> Option<Vec<i64>> {
    let mut strides = vec![0; shape.len()];
    let mut stride = i64::try_from(step).ok()?;
    for (slot, &dimension) in strides.iter_mut().zip(shape.iter()).rev() {
        *slot = stride;
        stride = stride.checked_mul(i64::try_from(dimension).ok()?)?;
    }
    Some(strides)
}

pub(super) fn wrong_size(stored: u64, needed: u64, offset: u64) -> Error {
    Error::malformed(format!("the shape needs {needed} bytes, but {stored} are stored")).with_offset(offset)
}
