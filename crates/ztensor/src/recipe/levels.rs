//! Levels: where a number, divided by the scale of its group, lies among those that a quantiser has. Integers are one rule; all else is a table of
//! thresholds and the codes between them, which the recipe brings along, so that a new table needs no new reader.

use z4ai::kernels::vectorised;

use super::node::{Precision, float, whole};
use super::number::{Number, clamp, nearest};
use super::{malformed, unknown};
use crate::error::Result;
use crate::tensor::Value;

/// Numbers whose levels are counted at once: their codes stay in registers.
const LANES: usize = 8;
/// Thresholds that are gone through without a loop: as many as four bits need.
const STEPS: usize = 16;

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
        vectorised(
            #[inline(always)]
            || {
                self.divide(values, scales);
                number.round_each(values);
                if let Some(zeros) = zeros {
                    values.iter_mut().zip(zeros).for_each(|(value, zero)| *value += zero);
                    number.round_each(values);
                }
                self.look_up(values, out);
            },
        );
    }

    #[inline(always)]
    fn divide(&self, values: &mut [f32], scales: &[f32]) {
        let pairs = values.iter_mut().zip(scales);
        if self.factor == 0.0 {
            pairs.for_each(|(value, scale)| *value = if *scale == 0.0 { 0.0 } else { *value / scale });
            return;
        }
        let mut inverse: Vec<f32> = scales.iter().map(|scale| self.factor / scale).collect();
        self.precision.number().round_each(&mut inverse);
        let products = pairs.zip(&inverse);
        products.for_each(|((value, scale), by)| *value = if *scale == 0.0 { 0.0 } else { *value * by });
    }

    #[inline(always)]
    fn look_up(&self, values: &[f32], out: &mut [u8]) {
        match &self.book {
            Book::Integers(low, high) => {
                let (from, to) = (f32::from(*low), f32::from(*high));
                let less = if self.to == Number::U8 { i32::from(*low) } else { 0 };
                let pairs = values.iter().zip(out);
                pairs.for_each(|(value, out)| *out = (nearest(clamp(*value, from, to)) - less) as u8);
            }
            Book::Table { thresholds, codes } => {
                // What a code is more than the one before: whatever order thresholds are in, as many count as a number is above.
                let mut steps = [(f32::INFINITY, 0u32); 256];
                let mut thresholds = thresholds.clone();
                thresholds.sort_unstable_by(f32::total_cmp);
                for ((step, threshold), pair) in steps.iter_mut().zip(&thresholds).zip(codes.windows(2)) {
                    *step = (*threshold, u32::from(pair[1].wrapping_sub(pair[0])));
                }
                let steps = &steps.as_chunks().0[..thresholds.len().div_ceil(STEPS)];
                let first = u32::from(codes.first().copied().unwrap_or(0));
                let (values, rest) = values.as_chunks::<LANES>();
                let (out, last) = out.as_chunks_mut::<LANES>();
                for (values, out) in values.iter().zip(out) {
                    *out = codes_of(values, steps, first);
                }
                let mut lanes = [0.0; LANES];
                lanes[..rest.len()].copy_from_slice(rest);
                last.copy_from_slice(&codes_of(&lanes, steps, first)[..last.len()]);
            }
        }
    }
}

/// The code of each: the first one and what is more with each threshold that it is above.
#[inline(always)]
fn codes_of(values: &[f32; LANES], steps: &[[(f32, u32); STEPS]], first: u32) -> [u8; LANES] {
    let mut codes = [first; LANES];
    for steps in steps {
        for (threshold, more) in steps {
            let pairs = codes.iter_mut().zip(values);
            pairs.for_each(|(code, value)| *code += if value > threshold { *more } else { 0 });
        }
    }
    codes.map(|code| code as u8)
}
