//! Datatypes. Numbers in all the forms that NumPy, PyTorch and Keras write map onto element types; the rest is parsed just far enough
//! to say what it is.

use super::super::cursor::Cursor;
use crate::error::{Error, Result};
use crate::tensor::{DType, ElementType, FloatFields, Known, LogicalType};

/// How deep datatypes may lie inside each other: an array of an array of complex numbers is already unusual.
const DEEPEST: usize = 8;

/// A datatype and the bytes of one element.
#[derive(Clone, Debug)]
pub(in super::super) struct Datatype {
    pub size: u32,
    pub class: Class,
}

/// What an element is.
#[derive(Clone, Debug)]
pub(in super::super) enum Class {
    Integer {
        signed: bool,
        big_endian: bool,
    },
    Float {
        format: &'static Known,
        big_endian: bool,
    },
    Boolean,
    Complex {
        part: Box<Datatype>,
    },
    Text {
        padding: Padding,
    },
    VariableText,
    Opaque {
        tagged: bool,
    },
    Array {
        dimensions: Vec<u64>,
        element: Box<Datatype>,
    },
    /// Something that is not read, by the name it has in messages.
    Other(&'static str),
}

/// How a fixed-length text fills its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Padding {
    Terminated,
    Zeros,
    Spaces,
}

/// A datatype as tensors see it.
#[derive(Debug)]
pub(in super::super) struct Elements {
    pub element: ElementType,
    /// Width of the unit to reverse where the file's byte order is big-endian.
    pub swapped: Option<u8>,
    /// Dimensions of an array datatype, inside those of the dataset.
    pub inner: Vec<u64>,
}

impl Datatype {
    pub fn parse(cursor: &mut Cursor<'_>) -> Result<Datatype> {
        Datatype::parse_nested(cursor, 0)
    }

    fn parse_nested(cursor: &mut Cursor<'_>, depth: usize) -> Result<Datatype> {
        if depth > DEEPEST {
            return Err(cursor.error("datatypes are nested too deep"));
        }
        let head = cursor.u32()?;
        let (class, version, bits) = (head & 0x0F, (head >> 4) & 0x0F, head >> 8);
        let size = cursor.u32()?;
        if !(1..=5).contains(&version) {
            return Err(Error::unsupported(format!("version {version} of a datatype"))
                .with_offset(cursor.offset() - 8));
        }
        if size == 0 && class != 3 && class != 5 {
            return Err(cursor.error("its elements have no bytes"));
        }
        let big_endian = bits & 1 != 0;
        let class = match class {
            0 | 4 => {
                let (first, precision) = (cursor.u16()?, cursor.u16()?);
                let whole = first == 0 && u32::from(precision) == size.saturating_mul(8);
                match size {
                    1 | 2 | 4 | 8 if whole => {
                        Class::Integer { signed: class == 0 && bits & 8 != 0, big_endian }
                    }
                    _ => Class::Other("integers of an unusual width"),
                }
            }
            1 => float(cursor, size, bits)?,
            2 => Class::Other("times"),
            3 => match bits & 0x0F {
                0 => Class::Text { padding: Padding::Terminated },
                1 => Class::Text { padding: Padding::Zeros },
                2 => Class::Text { padding: Padding::Spaces },
                _ => return Err(cursor.error("the padding of a text is unknown")),
            },
            5 => {
                let tag = cursor.take((bits & 0xFF) as usize)?;
                Class::Opaque { tagged: tag.iter().any(|&byte| byte != 0) }
            }
            6 => compound(cursor, size, version, bits & 0xFFFF, depth)?,
            7 => Class::Other("references"),
            8 => enumeration(cursor, version, bits & 0xFFFF, depth)?,
            9 if bits & 0x0F == 1 => Class::VariableText,
            9 => Class::Other("sequences of varying length"),
            10 => array(cursor, size, version, depth)?,
            11 => {
                let part = Datatype::parse_nested(cursor, depth + 1)?;
                if part.size.checked_mul(2) != Some(size) {
                    return Err(cursor.error("a complex number is not two of its parts"));
                }
                Class::Complex { part: Box::new(part) }
            }
            _ => return Err(cursor.error("its class is unknown")),
        };
        Ok(Datatype { size, class })
    }

    /// The datatype as the element type of a tensor; the error says why it is none.
    pub fn elements(&self) -> Result<Elements> {
        let plain = |element: ElementType, big_endian: bool| Elements {
            element,
            swapped: (big_endian && self.size > 1).then_some(self.size.min(255) as u8),
            inner: Vec::new(),
        };
        Ok(match &self.class {
            Class::Integer { signed, big_endian } => {
                let storage = match (self.size, signed) {
                    (1, true) => DType::I8,
                    (1, false) => DType::U8,
                    (2, true) => DType::I16,
                    (2, false) => DType::U16,
                    (4, true) => DType::I32,
                    (4, false) => DType::U32,
                    (8, true) => DType::I64,
                    _ => DType::U64,
                };
                plain(storage.into(), *big_endian)
            }
            Class::Float { format, big_endian } => plain(format.element(), *big_endian),
            Class::Boolean => plain(DType::Bool.into(), false),
            Class::Complex { part } => {
                let part = part.elements()?;
                let logical = match part.element.storage {
                    DType::F32 if part.element.logical.is_none() => LogicalType::Complex64,
                    DType::F64 if part.element.logical.is_none() => LogicalType::Complex128,
                    _ => {
                        return Err(Error::unsupported(format!("complex numbers made of {}", part.element)));
                    }
                };
                Elements { element: ElementType::logical(logical), ..part }
            }
            // What h5py makes of NumPy's bfloat16, which has no type of its own there.
            Class::Opaque { tagged: false } if self.size == 2 => plain(DType::BF16.into(), false),
            Class::Opaque { .. } => {
                return Err(Error::unsupported(format!("opaque elements of {} bytes", self.size)));
            }
            Class::Text { .. } | Class::VariableText => return Err(Error::unsupported("texts, not numbers")),
            Class::Array { dimensions, element } => {
                let mut elements = element.elements()?;
                elements.inner.splice(0..0, dimensions.iter().copied());
                elements
            }
            Class::Other(what) => return Err(Error::unsupported(*what)),
        })
    }
}

/// A float is known by all of its bit fields together: size, sign, exponent, mantissa and bias.
fn float(cursor: &mut Cursor<'_>, size: u32, bits: u32) -> Result<Class> {
    let (first, precision) = (cursor.u16()?, cursor.u16()?);
    let (exponent_at, exponent, mantissa_at, mantissa) =
        (cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?);
    let bias = cursor.u32()?;
    let sign_at = bits >> 8 & 0xFF;
    // IEEE layout: sign, exponent, mantissa from the top, the mantissa's leading one implied, nothing left over.
    let regular = first == 0
        && u32::from(precision) == size.saturating_mul(8)
        && sign_at + 1 == u32::from(precision)
        && u32::from(exponent_at) + u32::from(exponent) == sign_at
        && mantissa_at == 0
        && mantissa == exponent_at
        && bits >> 4 & 3 == 2;
    let format = Known::find(|names| {
        let fields = names.float.filter(|_| names.hdf5_by_fields == Some(true));
        fields == Some(FloatFields { exponent, mantissa, bias })
    });
    let Some(format) = format.filter(|format| format.bits == u64::from(size) * 8) else {
        return Ok(Class::Other("floating-point numbers of an unusual format"));
    };
    let vax = bits & 0x40 != 0;
    if !regular || vax {
        return Ok(Class::Other("floating-point numbers of an unusual format"));
    }
    Ok(Class::Float { format, big_endian: bits & 1 != 0 })
}

/// Complex numbers as h5py has them, `{r, i}`; every other compound stays unread.
fn compound(cursor: &mut Cursor<'_>, size: u32, version: u32, members: u32, depth: usize) -> Result<Class> {
    const OTHER: Class = Class::Other("compound elements");
    if members != 2 {
        return Ok(OTHER);
    }
    let mut parts = Vec::with_capacity(2);
    for expected in [&b"r"[..], b"i"] {
        let name = name(cursor, version)?;
        let offset = match version {
            1 | 2 => cursor.u32()?.into(),
            _ => cursor.integer(width_of(size))?,
        };
        if version == 1 {
            cursor.skip(28)?;
        }
        if name != expected {
            return Ok(OTHER);
        }
        parts.push((offset, Datatype::parse_nested(cursor, depth + 1)?));
    }
    match <[(u64, Datatype); 2]>::try_from(parts) {
        Ok([(0, real), (second, imaginary)])
            if second == u64::from(real.size)
                && size == real.size.saturating_mul(2)
                && imaginary.size == real.size
                && same_float(&real.class, &imaginary.class) =>
        {
            Ok(Class::Complex { part: Box::new(real) })
        }
        _ => Ok(OTHER),
    }
}

fn same_float(one: &Class, other: &Class) -> bool {
    match (one, other) {
        (
            Class::Float { format, big_endian },
            Class::Float { format: other_format, big_endian: other_endian },
        ) => format == other_format && big_endian == other_endian,
        _ => false,
    }
}

/// h5py's booleans, `{FALSE = 0, TRUE = 1}` over a byte; other enumerations read as their integers.
fn enumeration(cursor: &mut Cursor<'_>, version: u32, members: u32, depth: usize) -> Result<Class> {
    let base = Datatype::parse_nested(cursor, depth + 1)?;
    if !matches!(base.class, Class::Integer { .. }) {
        return Err(cursor.error("an enumeration is not made of integers"));
    }
    if base.size == 1 && members == 2 {
        let names = [name(cursor, version)?, name(cursor, version)?];
        if names == [b"FALSE", b"TRUE".as_slice()] && cursor.take(2)? == [0, 1] {
            return Ok(Class::Boolean);
        }
    }
    Ok(base.class)
}

fn array(cursor: &mut Cursor<'_>, size: u32, version: u32, depth: usize) -> Result<Class> {
    let rank = usize::from(cursor.u8()?);
    if rank == 0 || rank > super::dataspace::MOST_DIMENSIONS {
        return Err(cursor.error("an array has no dimensions or more than 32"));
    }
    cursor.skip(if version < 3 { 3 } else { 0 })?;
    let dimensions = (0..rank).map(|_| cursor.u32().map(u64::from)).collect::<Result<Vec<_>>>()?;
    cursor.skip(if version < 3 { 4 * rank } else { 0 })?;
    let element = Datatype::parse_nested(cursor, depth + 1)?;
    let bytes = dimensions.iter().try_fold(u64::from(element.size), |bytes, &d| bytes.checked_mul(d));
    if bytes != Some(size.into()) {
        return Err(cursor.error("the dimensions of an array do not give its size"));
    }
    Ok(Class::Array { dimensions, element: Box::new(element) })
}

/// A member's name: padded to eight bytes in the older versions.
fn name<'a>(cursor: &mut Cursor<'a>, version: u32) -> Result<&'a [u8]> {
    let name = cursor.text()?;
    if version < 3 {
        cursor.skip((name.len() + 1).next_multiple_of(8) - (name.len() + 1))?;
    }
    Ok(name)
}

/// Bytes that the newest version takes for offsets inside an element of `size` bytes.
fn width_of(size: u32) -> usize {
    (32 - size.leading_zeros()).div_ceil(8).max(1) as usize
}
