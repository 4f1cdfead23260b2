//! Levels: where a number, divided by the scale of its group, lies among those that a quantiser has. Integers are one rule; all else is a table of
//! thresholds and the codes between them, which the recipe brings along, so that a new table needs no new reader.

use super::node::{Precision, float, whole};
use super::number::{Number, clamp, nearest};
use super::{malformed, unknown};
use crate::error::Result;
use crate::tensor::Value;

/// Numbers whose levels are counted at once: their counts stay in registers.
const LANES: usize = 8;

/// Which numbers belong together: `down` rows by `across` numbers of rows of `row`; 0 for all rows, or for all of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Groups {
    pub row: u64,
    pub down: u64,
    pub across: u64,
}

/// What the levels of a quantiser are.
#[derive(Clone, Debug, PartialEq)]
pub enum Book {
    /// All integers from one to another.
    Integers(i16, i16),
    /// Codes between thresholds, one more than there are of those: a number has the code whose place is how many thresholds it is above.
    #[allow(missing_docs)]
    Table { thresholds: Vec<f32>, codes: Vec<u8> },
}

/// How numbers become levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    /// u8, which counts integers from the least, or i8.
    pub to: Number,
    /// What quotients are rounded to.
    pub precision: Precision,
    /// Numbers are multiplied by this over the scale; where it is 0, they are divided by the scale.
    pub factor: f32,
    /// The levels.
    pub book: Book,
    /// Which numbers have one scale.
    pub groups: Groups,
}

impl Book {
    pub(super) fn of(value: &Value) -> Result<Book> {
        let Value::List(parts) = value else { return Err(malformed("levels are no list")) };
        match &parts[..] {
            [Value::List(thresholds), Value::List(codes)] => {
                let thresholds = thresholds.iter().map(|of| Ok(float(of)? as f32)).collect::<Result<_>>()?;
                let code = |of: &Value| {
                    u8::try_from(whole(of)?).map_err(|_| malformed("a code has more than 8 bits"))
                };
                Ok(Book::Table { thresholds, codes: codes.iter().map(code).collect::<Result<_>>()? })
            }
            [low, high] => {
                let bound = |of: &Value| match of {
                    Value::Integer(of) => i16::try_from(*of).ok(),
                    _ => None,
                };
                match (bound(low), bound(high)) {
                    (Some(low), Some(high)) => Ok(Book::Integers(low, high)),
                    _ => Err(malformed("levels have no bounds")),
                }
            }
            _ => Err(unknown("such levels")),
        }
    }

    pub(super) fn to_value(&self) -> Value {
        Value::List(match self {
            Book::Integers(low, high) => {
                vec![Value::Integer(i128::from(*low)), Value::Integer(i128::from(*high))]
            }
            Book::Table { thresholds, codes } => vec![
                Value::List(thresholds.iter().map(|of| Value::Float(f64::from(*of))).collect()),
                Value::List(codes.iter().map(|code| u64::from(*code).into()).collect()),
            ],
        })
    }
}

impl Levels {
    /// Checks what [`Levels::count`] relies on.
    pub(super) fn check(&self) -> Result<()> {
        let fits = match (&self.book, self.to) {
            (Book::Integers(low, high), Number::U8) => {
                low <= high && i32::from(*high) - i32::from(*low) < 256 && *low >= -256 && *high <= 256
            }
            (Book::Integers(low, high), Number::I8) => low <= high && *low >= -128 && *high < 128,
            (Book::Table { thresholds, codes }, Number::U8) => {
                thresholds.len() + 1 == codes.len() && codes.len() <= 256
            }
            _ => false,
        };
        let fits = fits && self.precision != Precision::F64;
        if fits { Ok(()) } else { Err(malformed("levels do not fit their type")) }
    }

    pub(super) fn describe(&self) -> String {
        match &self.book {
            Book::Integers(low, high) => format!("levels {low} to {high}"),
            Book::Table { codes, .. } => format!("{} levels", codes.len()),
        }
    }

    /// Replaces numbers by their levels. There are as many scales, and zero points where there are any.
    pub(super) fn count(&self, values: &mut [f32], scales: &[f32], zeros: Option<&[f32]>, out: &mut [u8]) {
        let number = self.precision.number();
        if self.factor == 0.0 {
            let quotients = values.iter_mut().zip(scales);
            quotients.for_each(|(value, scale)| *value = if *scale == 0.0 { 0.0 } else { *value / scale });
        } else {
            let mut inverse: Vec<f32> = scales.iter().map(|scale| self.factor / scale).collect();
            number.round(&mut inverse);
            let products = values.iter_mut().zip(scales.iter().zip(&inverse));
            products.for_each(|(value, (scale, by))| *value = if *scale == 0.0 { 0.0 } else { *value * by });
        }
        number.round(values);
        if let Some(zeros) = zeros {
            values.iter_mut().zip(zeros).for_each(|(value, zero)| *value += zero);
            number.round(values);
        }
        match &self.book {
            Book::Integers(low, high) => {
                let (from, to) = (f32::from(*low), f32::from(*high));
                let less = if self.to == Number::U8 { i32::from(*low) } else { 0 };
                let pairs = values.iter().zip(out);
                pairs.for_each(|(value, out)| *out = (nearest(clamp(*value, from, to)) - less) as u8);
            }
            Book::Table { thresholds, codes } => {
                let mut table = [0; 256];
                table[..codes.len()].copy_from_slice(codes);
                let (values, rest) = values.as_chunks::<LANES>();
                let (out, last) = out.as_chunks_mut::<LANES>();
                let eights = values.iter().zip(out);
                eights.for_each(|(values, out)| *out = look_up(values, thresholds, &table));
                let mut eight = [0.0; LANES];
                eight[..rest.len()].copy_from_slice(rest);
                last.copy_from_slice(&look_up(&eight, thresholds, &table)[..last.len()]);
            }
        }
    }
}

/// The code of each, by how many thresholds it is above.
#[inline(always)]
fn look_up(values: &[f32; LANES], thresholds: &[f32], table: &[u8; 256]) -> [u8; LANES] {
    let mut above = [0u32; LANES];
    for threshold in thresholds {
        above.iter_mut().zip(values).for_each(|(count, value)| *count += u32::from(value > threshold));
    }
    above.map(|count| table[count as u8 as usize])
}
