//! The decoder: a cursor over the bytes that hands out heads, texts and numbers, borrowing where it can.

use std::borrow::Cow;

use half::f16;

use crate::error::{Error, Result};
use crate::tensor::{Attributes, Shape, Value};

/// A cursor over one CBOR item.
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    position: usize,
    strict: bool,
    depth: usize,
}

/// The argument of a head: a number, or the mark of an indefinite length.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Argument {
    Number(u64),
    Indefinite,
}

const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const LIST: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const SIMPLE: u8 = 7;
const BREAK: u8 = 0xFF;

impl<'a> Decoder<'a> {
    /// A decoder for any well-formed CBOR, with at most `depth` nested containers.
    pub(crate) fn new(bytes: &'a [u8], depth: usize) -> Self {
        Decoder { bytes, position: 0, strict: false, depth }
    }

    /// A decoder that accepts the Core Deterministic Encoding only.
    pub(crate) fn strict(bytes: &'a [u8], depth: usize) -> Self {
        Decoder { bytes, position: 0, strict: true, depth }
    }

    /// Refuses bytes behind the item.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.bytes.len() - self.position {
            0 => Ok(()),
            rest => Err(self.error(&format!("{rest} bytes follow the manifest"))),
        }
    }

    /// How many bytes have been consumed.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Consumes exactly these bytes, or nothing.
    #[inline]
    pub(crate) fn accept(&mut self, encoded: &[u8]) -> bool {
        let found = self.bytes.get(self.position..).is_some_and(|rest| rest.starts_with(encoded));
        self.position += if found { encoded.len() } else { 0 };
        found
    }

    /// Tries one way to read what follows; where it gives nothing, the cursor is back where it was.
    pub(crate) fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let start = self.position;
        let found = read(self);
        if found.is_none() {
            self.position = start;
        }
        found
    }

    /// Walks a map with text keys; `visit` must consume the value.
    pub(crate) fn map(&mut self, mut visit: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>) -> Result<()> {
        self.fields(|decoder, key| {
            let key = decoder.as_text(key)?;
            visit(decoder, key)
        })
    }

    /// Walks a map whose keys are mostly known: they are handed out as bytes, to be compared. What is none of the known ones goes to
    /// [`Decoder::unknown_field`], which checks it like any other text.
    pub(crate) fn fields(
        &mut self,
        mut visit: impl FnMut(&mut Self, Cow<'a, [u8]>) -> Result<()>,
    ) -> Result<()> {
        let (major, argument) = self.head()?;
        if major != MAP {
            return Err(self.error("a map is expected"));
        }
        let mut previous: &[u8] = &[];
        self.items(argument, |decoder| {
            let start = decoder.position;
            let key = decoder.key()?;
            if decoder.strict {
                let encoded = &decoder.bytes[start..decoder.position];
                if !previous.is_empty() && encoded <= previous {
                    return Err(decoder.error("map keys are not sorted and unique"));
                }
                previous = encoded;
            }
            visit(decoder, key)
        })
    }

    /// Skips the value of a field that the caller does not know, and returns its name.
    pub(crate) fn unknown_field(&mut self, key: Cow<'a, [u8]>) -> Result<Cow<'a, str>> {
        let name = self.as_text(key)?;
        self.skip()?;
        Ok(name)
    }

    /// Walks a list; `visit` must consume the element.
    pub(crate) fn list(&mut self, visit: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        match self.head()? {
            (LIST, argument) => self.items(argument, visit),
            _ => Err(self.error("a list is expected")),
        }
    }

    /// A text.
    pub(crate) fn text(&mut self) -> Result<Cow<'a, str>> {
        match self.head()? {
            (TEXT, argument) => self.text_body(argument),
            _ => Err(self.error("a text is expected")),
        }
    }

    /// An unsigned integer.
    pub(crate) fn unsigned(&mut self) -> Result<u64> {
        match self.head()? {
            (UNSIGNED, Argument::Number(value)) => Ok(value),
            _ => Err(self.error("an unsigned integer is expected")),
        }
    }

    /// A list of unsigned integers.
    pub(crate) fn unsigned_list(&mut self) -> Result<Vec<u64>> {
        let mut values = Vec::with_capacity(4);
        self.list(|decoder| {
            values.push(decoder.unsigned()?);
            Ok(())
        })?;
        Ok(values)
    }

    /// The dimensions of a tensor.
    pub(crate) fn shape(&mut self) -> Result<Shape> {
        let mut shape = Shape::default();
        self.list(|decoder| shape.push(decoder.unsigned()?))?;
        Ok(shape)
    }

    /// A map as attributes.
    pub(crate) fn attributes(&mut self) -> Result<Attributes> {
        let mut attributes = Attributes::new();
        self.map(|decoder, key| {
            let value = decoder.value()?;
            match attributes.insert(key.into_owned(), value) {
                None => Ok(()),
                Some(_) => Err(decoder.error("an attribute occurs twice")),
            }
        })?;
        Ok(attributes)
    }

    /// Any value.
    pub(crate) fn value(&mut self) -> Result<Value> {
        match self.peek()? >> 5 {
            MAP => return self.attributes().map(Value::Map),
            SIMPLE => return self.simple(),
            _ => {}
        }
        let (major, argument) = self.head()?;
        Ok(match (major, argument) {
            (UNSIGNED, Argument::Number(value)) => Value::Integer(value.into()),
            (NEGATIVE, Argument::Number(value)) => Value::Integer(-1 - i128::from(value)),
            (BYTES, argument) => Value::Bytes(self.bytes_body(argument, BYTES)?.into_owned()),
            (TEXT, argument) => Value::Text(self.text_body(argument)?.into_owned()),
            (LIST, argument) => {
                let mut values = Vec::new();
                self.items(argument, |decoder| {
                    values.push(decoder.value()?);
                    Ok(())
                })?;
                Value::List(values)
            }
            (TAG, Argument::Number(_)) if !self.strict => {
                // A tag only adds meaning to what follows; the value itself is kept.
                self.nested(|decoder| decoder.value())?
            }
            _ => return Err(self.error("an unknown kind of value")),
        })
    }

    /// Skips one item of any kind.
    pub(crate) fn skip(&mut self) -> Result<()> {
        // Unknown fields are small; decoding them bounds depth and checks them by the same rules as known ones.
        self.value().map(drop)
    }

    /// An error at the cursor.
    #[cold]
    pub(crate) fn error(&self, rule: &str) -> Error {
        Error::malformed(format!("the manifest is damaged: {rule} at its byte {}", self.position))
    }

    #[inline]
    fn key(&mut self) -> Result<Cow<'a, [u8]>> {
        match self.head()? {
            (TEXT, argument) => self.bytes_body(argument, TEXT),
            (UNSIGNED, Argument::Number(value)) if !self.strict => {
                Ok(Cow::Owned(value.to_string().into_bytes()))
            }
            (NEGATIVE, Argument::Number(value)) if !self.strict => {
                Ok(Cow::Owned((-1 - i128::from(value)).to_string().into_bytes()))
            }
            _ => Err(self.error("a map key that is not a text")),
        }
    }

    fn items(&mut self, argument: Argument, mut visit: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.nested(|decoder| match argument {
            Argument::Number(count) => (0..count).try_for_each(|_| visit(decoder)),
            Argument::Indefinite => {
                while decoder.peek()? != BREAK {
                    visit(decoder)?;
                }
                decoder.position += 1;
                Ok(())
            }
        })
    }

    fn nested<T>(&mut self, action: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let Some(depth) = self.depth.checked_sub(1) else {
            return Err(self.error("too many nested containers"));
        };
        self.depth = depth;
        let result = action(self);
        self.depth += 1;
        result
    }

    fn text_body(&mut self, argument: Argument) -> Result<Cow<'a, str>> {
        let bytes = self.bytes_body(argument, TEXT)?;
        self.as_text(bytes)
    }

    fn as_text(&self, bytes: Cow<'a, [u8]>) -> Result<Cow<'a, str>> {
        match bytes {
            Cow::Borrowed(bytes) => {
                std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| self.error("a text is not UTF-8"))
            }
            Cow::Owned(bytes) => {
                String::from_utf8(bytes).map(Cow::Owned).map_err(|_| self.error("a text is not UTF-8"))
            }
        }
    }

    #[inline]
    fn bytes_body(&mut self, argument: Argument, major: u8) -> Result<Cow<'a, [u8]>> {
        match argument {
            Argument::Number(length) => self.take(length).map(Cow::Borrowed),
            Argument::Indefinite => self.joined(major).map(Cow::Owned),
        }
    }

    /// The pieces of a text or byte string of indefinite length.
    #[cold]
    fn joined(&mut self, major: u8) -> Result<Vec<u8>> {
        let mut joined = Vec::new();
        while self.peek()? != BREAK {
            match self.head()? {
                (kind, Argument::Number(length)) if kind == major => {
                    joined.extend_from_slice(self.take(length)?)
                }
                _ => return Err(self.error("a piece of another kind inside a text")),
            }
        }
        self.position += 1;
        Ok(joined)
    }

    #[inline]
    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let end = usize::try_from(length).ok().and_then(|length| self.position.checked_add(length));
        let piece = end
            .and_then(|end| self.bytes.get(self.position..end))
            .ok_or_else(|| self.error("it ends early"))?;
        self.position += piece.len();
        Ok(piece)
    }

    #[inline]
    fn peek(&self) -> Result<u8> {
        self.bytes.get(self.position).copied().ok_or_else(|| self.error("it ends early"))
    }

    /// Reads a head. Simple values and floats are told apart by the caller through [`Decoder::value`].
    #[inline]
    fn head(&mut self) -> Result<(u8, Argument)> {
        let first = self.peek()?;
        let (major, low) = (first >> 5, first & 31);
        if major == SIMPLE {
            return Err(self.error("an unexpected simple value"));
        }
        self.position += 1;
        if low < 24 { Ok((major, Argument::Number(low.into()))) } else { self.long_head(major, low) }
    }

    /// The rest of a head whose argument does not fit the first byte.
    fn long_head(&mut self, major: u8, low: u8) -> Result<(u8, Argument)> {
        let (value, least) = match low {
            24 => (self.number::<1>()?, 24),
            25 => (self.number::<2>()?, 1 << 8),
            26 => (self.number::<4>()?, 1 << 16),
            27 => (self.number::<8>()?, 1 << 32),
            31 if matches!(major, BYTES | TEXT | LIST | MAP) && !self.strict => {
                return Ok((major, Argument::Indefinite));
            }
            _ => return Err(self.error("a reserved or indefinite length")),
        };
        if self.strict && value < least {
            return Err(self.error("a number is not in its shortest form"));
        }
        Ok((major, Argument::Number(value)))
    }

    fn number<const WIDTH: usize>(&mut self) -> Result<u64> {
        let bytes = self.take(WIDTH as u64)?;
        Ok(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn simple(&mut self) -> Result<Value> {
        let low = self.peek()? & 31;
        self.position += 1;
        Ok(match low {
            20 => Value::Bool(false),
            21 => Value::Bool(true),
            22 => Value::Null,
            23 if !self.strict => Value::Null,
            25 => {
                let half = f16::from_bits(self.number::<2>()? as u16);
                if self.strict && half.is_nan() && half.to_bits() != 0x7E00 {
                    return Err(self.error("a NaN is not in its canonical form"));
                }
                Value::Float(half.to_f64())
            }
            26 => {
                let value = f64::from(f32::from_bits(self.number::<4>()? as u32));
                self.check_shortest(value, f16::from_f64(value).to_f64())?
            }
            27 => {
                let value = f64::from_bits(self.number::<8>()?);
                self.check_shortest(value, f64::from(value as f32))?
            }
            _ => return Err(self.error("an unknown simple value")),
        })
    }

    /// In strict mode a float that a shorter form could hold is refused.
    fn check_shortest(&self, value: f64, shortened: f64) -> Result<Value> {
        if self.strict && (value.is_nan() || value.to_bits() == shortened.to_bits()) {
            return Err(self.error("a float is not in its shortest form"));
        }
        Ok(Value::Float(value))
    }
}
