//! How a piece is stored: by itself, as a difference to another, or as one to what a recipe computes of others. The last may name operations that a later
//! release knows: such a manifest is read, and only what needs the recipe is not.

use super::fields::{Items, as_bytes_of, as_list, as_number};
use super::manifest::{Entry, LARGEST_PIECE, as_index};
use ztensor::recipe::{Number, Recipe, Rounding};
use ztensor::{ElementType, Error, Kind, Result, Value};

/// How a piece is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    Raw,
    /// As a z4ai frame.
    Frame,
    /// As a z4ai delta against an earlier entry.
    Delta {
        /// Its number.
        base: usize,
    },
    /// As a z4ai delta against what a recipe yields.
    Derived {
        /// The encoded recipe.
        recipe: Vec<u8>,
        /// What it is applied to.
        operands: Vec<Operand>,
    },
}

/// What a recipe is applied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Earlier entries, one after the other.
    Entries(Vec<usize>),
    /// A z4ai frame that is stored with the piece, before its delta.
    Field {
        /// Bytes that it decodes to.
        length: u64,
        /// Bytes of the frame.
        stored: u64,
    },
}

impl Operand {
    /// The entries that it is made of.
    pub fn entries(&self) -> &[usize] {
        match self {
            Operand::Entries(entries) => entries,
            Operand::Field { .. } => &[],
        }
    }

    /// Its length, in a manifest with these entries.
    pub(crate) fn length(&self, entries: &[Entry]) -> Option<u64> {
        match self {
            Operand::Field { length, .. } => Some(*length),
            Operand::Entries(numbers) => {
                numbers.iter().try_fold(0u64, |sum, number| sum.checked_add(entries.get(*number)?.length))
            }
        }
    }
}

impl Encoding {
    /// The entries that decoding needs; one that it needs twice occurs twice.
    pub fn bases(&self) -> impl Iterator<Item = usize> + '_ {
        let (one, several): (Option<usize>, &[Operand]) = match self {
            Encoding::Raw | Encoding::Frame => (None, &[]),
            Encoding::Delta { base } => (Some(*base), &[]),
            Encoding::Derived { operands, .. } => (None, operands),
        };
        one.into_iter().chain(several.iter().flat_map(|operand| operand.entries().iter().copied()))
    }

    /// Whether a piece is not stored by itself.
    pub fn has_base(&self) -> bool {
        matches!(self, Encoding::Delta { .. } | Encoding::Derived { .. })
    }

    /// The same encoding in a manifest where entries have other numbers.
    pub fn renumbered(&self, number: impl Fn(usize) -> usize) -> Encoding {
        match self {
            Encoding::Raw | Encoding::Frame => self.clone(),
            Encoding::Delta { base } => Encoding::Delta { base: number(*base) },
            Encoding::Derived { recipe, operands } => {
                let operands = operands.iter().map(|operand| match operand {
                    Operand::Entries(entries) => {
                        Operand::Entries(entries.iter().map(|entry| number(*entry)).collect())
                    }
                    Operand::Field { .. } => operand.clone(),
                });
                Encoding::Derived { recipe: recipe.clone(), operands: operands.collect() }
            }
        }
    }

    /// Checks a recipe against what it is applied to. One that is not known here is left to whoever reads the entry.
    pub(super) fn check(&self, entry: &Entry, before: &[Entry]) -> Result<()> {
        let Encoding::Derived { recipe, operands } = self else { return Ok(()) };
        let fields = operands.iter().map(|operand| match operand {
            Operand::Field { stored, .. } => *stored,
            Operand::Entries(_) => 0,
        });
        if fields.fold(0, u64::saturating_add) > entry.stored {
            return Err(Error::malformed("its fields take more than is stored of it"));
        }
        let lengths = operands.iter().map(|operand| operand.length(before)).collect::<Option<Vec<u64>>>();
        let lengths = lengths.ok_or_else(|| Error::malformed("an operand does not exist, or is too long"))?;
        let recipe = match Recipe::decode(recipe) {
            Ok(recipe) => recipe,
            Err(error) if error.kind() == Kind::Unsupported => return Ok(()),
            Err(error) => return Err(error),
        };
        let found = recipe.length(&lengths)?;
        if found != entry.length {
            let message = format!("a recipe yields {found} bytes instead of {}", entry.length);
            return Err(Error::malformed(message));
        }
        match recipe.cost(&lengths, 0, found)? {
            0..=LARGEST_PIECE => Ok(()),
            _ => Err(Error::new(Kind::Limit, "what it is computed from is too long")),
        }
    }
}

/// What an entry says of its encoding: the number of it, and what stands at the entry's end.
pub(super) fn put_encoding(encoding: &Encoding) -> (u64, Vec<Value>) {
    match encoding {
        Encoding::Raw => (0, Vec::new()),
        Encoding::Frame => (1, Vec::new()),
        Encoding::Delta { base } => (2, vec![Value::from(*base as u64)]),
        Encoding::Derived { recipe, operands } => {
            let operand = |operand: &Operand| {
                Value::List(match operand {
                    Operand::Entries(entries) => {
                        let entries = entries.iter().map(|entry| Value::from(*entry as u64));
                        std::iter::once(Value::from(0u64)).chain(entries).collect()
                    }
                    Operand::Field { length, stored } => {
                        vec![Value::from(1u64), Value::from(*length), Value::from(*stored)]
                    }
                })
            };
            (4, vec![Value::Bytes(recipe.clone()), Value::List(operands.iter().map(operand).collect())])
        }
    }
}

/// Reads what stands at an entry's end. Records of format 1 know no recipes but casts.
pub(super) fn take_encoding(
    number: u64,
    mut items: Items,
    dtype: &str,
    before: &[Entry],
    format: u64,
) -> Result<Encoding> {
    let encoding = match number {
        0 => Encoding::Raw,
        1 => Encoding::Frame,
        2 => Encoding::Delta { base: as_index(items.next()?)? },
        3 => {
            let base = as_index(items.next()?)?;
            let from = before.get(base).ok_or_else(|| Error::malformed("a base is not an earlier entry"))?;
            let recipe = cast(&from.dtype, dtype);
            let recipe = recipe.ok_or_else(|| Error::malformed("a base cannot be cast to its entry"))?;
            Encoding::Derived { recipe: recipe.encode(), operands: vec![Operand::Entries(vec![base])] }
        }
        4 if format >= 2 => {
            let recipe = as_bytes_of(items.next()?, Recipe::MOST_BYTES)?;
            let operands = as_list(items.next()?)?;
            if operands.len() > Recipe::MOST_OPERANDS {
                return Err(Error::malformed("a recipe has too many operands"));
            }
            let operands = operands.into_iter().map(take_operand).collect::<Result<_>>()?;
            Encoding::Derived { recipe, operands }
        }
        _ => return Err(Error::malformed("an entry is of no known encoding")),
    };
    items.finish()?;
    Ok(encoding)
}

fn take_operand(value: Value) -> Result<Operand> {
    let mut items = as_list(value)?.into_iter();
    match items.next().map(as_number).transpose()? {
        Some(0) => Ok(Operand::Entries(items.map(as_index).collect::<Result<_>>()?)),
        Some(1) => {
            let mut items = Items::new(Value::List(items.collect()))?;
            let (length, stored) = (items.number()?, items.number()?);
            items.finish()?;
            Ok(Operand::Field { length, stored })
        }
        _ => Err(Error::malformed("an operand is of no known kind")),
    }
}

/// The recipe that makes floats of one type those of another; `None` where there is none, or nothing to cast.
fn cast(from: &str, to: &str) -> Option<Recipe> {
    let (from, to) = (float(from)?, float(to)?);
    (from != to).then(|| Recipe::operand(0, from).cast(to, Rounding::Nearest))
}

/// The float type of this name.
pub(crate) fn float(name: &str) -> Option<Number> {
    Number::of(&ElementType::parse(name)).filter(|number| number.is_float())
}
