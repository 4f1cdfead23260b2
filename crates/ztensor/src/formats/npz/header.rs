//! The `.npy` header: magic, version, length, and a dictionary of exactly three keys. It is the same at the start of a file and of a
//! member of an `.npz`.

use super::literal::{self, Literal};
use super::types::{self, ArrayType};
use crate::error::{Error, Result};
use crate::tensor::Shape;

/// The first bytes of every array.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header that is read. Version 1 cannot say more; later versions exist for records of very many fields.
pub(super) const LONGEST: u64 = 1 << 16;

/// Magic, version and the longer form of the header length.
const PREAMBLE: usize = 12;

/// What stands before the dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Preamble {
    pub version: (u8, u8),
    /// Where the dictionary starts.
    start: u64,
    /// Where the elements start.
    pub data: u64,
}

/// The array that a header describes.
#[derive(Debug)]
pub(super) struct Header {
    /// The element type, or why it is not read.
    pub kind: Result<ArrayType, String>,
    pub fortran_order: bool,
    pub shape: Shape,
}

impl Preamble {
    /// Reads the fixed part from the first bytes of an array that are at hand.
    pub(super) fn parse(bytes: &[u8]) -> Result<Preamble> {
        let short = || Error::truncated("the array ends within its header");
        let Some((magic, rest)) = bytes.split_at_checked(MAGIC.len()) else { return Err(short()) };
        if magic != MAGIC {
            return Err(Error::malformed("an array must start with \\x93NUMPY"));
        }
        let &[major, minor, ref lengths @ ..] = rest else { return Err(short()) };
        let (start, length) = match (major, minor) {
            (1, 0) => {
                let bytes = lengths.first_chunk::<2>().ok_or_else(short)?;
                (PREAMBLE as u64 - 2, u64::from(u16::from_le_bytes(*bytes)))
            }
            (2 | 3, 0) => {
                let bytes = lengths.first_chunk::<4>().ok_or_else(short)?;
                (PREAMBLE as u64, u64::from(u32::from_le_bytes(*bytes)))
            }
            _ => return Err(Error::unsupported(format!("version {major}.{minor} of the array format"))),
        };
        if length > LONGEST {
            return Err(Error::unsupported(format!(
                "a header of {length} bytes, as only records of very many fields have"
            )));
        }
        Ok(Preamble { version: (major, minor), start, data: start + length })
    }
}

impl Header {
    /// Parses the dictionary; `bytes` are those of the array up to its elements, or more.
    pub(super) fn parse(preamble: Preamble, bytes: &[u8]) -> Result<Header> {
        let dictionary = bytes
            .get(preamble.start as usize..preamble.data as usize)
            .ok_or_else(|| Error::truncated("the array ends within its header"))?;
        let latin;
        let text = match std::str::from_utf8(dictionary) {
            Ok(text) => text,
            // Before version 3 the encoding is Latin-1, where each byte is the code point of its number.
            Err(_) if preamble.version.0 < 3 => {
                latin = dictionary.iter().map(|byte| char::from(*byte)).collect::<String>();
                &latin
            }
            Err(_) => return Err(Error::malformed("the header is not UTF-8")),
        };
        let broken = |rule: &str| Error::malformed(format!("the array header: {rule}"));
        let literal = literal::parse(text)
            .map_err(|flaw| broken(&format!("{} at character {}", flaw.rule, flaw.position)))?;
        let Literal::Dictionary(entries) = literal else { return Err(broken("it is not a dictionary")) };
        let (mut kind, mut fortran_order, mut shape) = (None, None, None);
        for (key, value) in entries {
            let twice = match (key, value) {
                (Literal::Text("descr"), descr) => kind.replace(types::array_type(&descr)).is_some(),
                (Literal::Text("fortran_order"), Literal::Bool(value)) => {
                    fortran_order.replace(value).is_some()
                }
                (Literal::Text("shape"), Literal::Tuple(items)) => {
                    let dimensions =
                        dimensions(&items).ok_or_else(|| broken("the shape is not up to 64 counts"))?;
                    shape.replace(dimensions).is_some()
                }
                (Literal::Text("fortran_order"), _) => {
                    return Err(broken("fortran_order is not True or False"));
                }
                (Literal::Text("shape"), _) => return Err(broken("the shape is not a tuple")),
                _ => return Err(broken("a key other than descr, fortran_order and shape")),
            };
            if twice {
                return Err(broken("a key occurs twice"));
            }
        }
        match (kind, fortran_order, shape) {
            (Some(kind), Some(fortran_order), Some(shape)) => Ok(Header { kind, fortran_order, shape }),
            _ => Err(broken("descr, fortran_order or shape is missing")),
        }
    }
}

fn dimensions(items: &[Literal<'_>]) -> Option<Shape> {
    if items.len() > Shape::MOST_DIMENSIONS {
        return None;
    }
    let dimension = |item: &Literal<'_>| match item {
        Literal::Integer(value) => i64::try_from(*value).ok().and_then(|value| u64::try_from(value).ok()),
        _ => None,
    };
    items.iter().map(dimension).collect::<Option<Vec<u64>>>().map(Shape::from)
}
