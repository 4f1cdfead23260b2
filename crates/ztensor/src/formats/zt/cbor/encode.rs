//! The encoder: shortest heads, definite lengths, shortest floats. Map order is the caller's, except for attributes in the
//! deterministic form.

use half::f16;

use crate::tensor::{Attributes, Value};

/// Bytes being encoded.
#[derive(Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
    sorted: bool,
}

impl Encoder {
    /// An encoder that keeps the order of attributes.
    pub(crate) fn new() -> Self {
        Encoder::default()
    }

    /// An encoder that sorts attributes as the Core Deterministic Encoding asks.
    pub(crate) fn deterministic() -> Self {
        Encoder { bytes: Vec::new(), sorted: true }
    }

    /// The encoded bytes.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Opens a map of so many pairs.
    pub(crate) fn map(&mut self, pairs: usize) {
        self.head(5, pairs as u64);
    }

    /// An item that is already encoded.
    pub(crate) fn raw(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
    }

    /// A text.
    pub(crate) fn text(&mut self, text: &str) {
        self.head(3, text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// An unsigned integer.
    pub(crate) fn unsigned(&mut self, value: u64) {
        self.head(0, value);
    }

    /// A list of unsigned integers.
    pub(crate) fn unsigned_list(&mut self, values: &[u64]) {
        self.head(4, values.len() as u64);
        values.iter().for_each(|&value| self.unsigned(value));
    }

    /// A map of attributes.
    pub(crate) fn attributes(&mut self, attributes: &Attributes) {
        self.map(attributes.len());
        let mut pairs: Vec<_> = attributes.iter().collect();
        if self.sorted {
            pairs.sort_by_key(|(key, _)| deterministic_order(key));
        }
        for (key, value) in pairs {
            self.text(key);
            self.value(value);
        }
    }

    /// Any value.
    pub(crate) fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.bytes.push(0xF6),
            Value::Bool(value) => self.bytes.push(if *value { 0xF5 } else { 0xF4 }),
            Value::Integer(value) => self.integer(*value),
            Value::Float(value) => self.float(*value),
            Value::Text(text) => self.text(text),
            Value::Bytes(bytes) => {
                self.head(2, bytes.len() as u64);
                self.bytes.extend_from_slice(bytes);
            }
            Value::List(values) => {
                self.head(4, values.len() as u64);
                values.iter().for_each(|value| self.value(value));
            }
            Value::Map(map) => self.attributes(map),
        }
    }

    /// Integers beyond 64 bits do not occur in any metadata that is read; they would become the nearest float.
    fn integer(&mut self, value: i128) {
        match (u64::try_from(value), u64::try_from(-1 - value)) {
            (Ok(value), _) => self.head(0, value),
            (_, Ok(value)) => self.head(1, value),
            _ => self.float(value as f64),
        }
    }

    fn float(&mut self, value: f64) {
        let (half, single) = (f16::from_f64(value), value as f32);
        if value.is_nan() {
            self.bytes.extend_from_slice(&[0xF9, 0x7E, 0x00]);
        } else if half.to_f64().to_bits() == value.to_bits() {
            self.bytes.push(0xF9);
            self.bytes.extend_from_slice(&half.to_bits().to_be_bytes());
        } else if f64::from(single).to_bits() == value.to_bits() {
            self.bytes.push(0xFA);
            self.bytes.extend_from_slice(&single.to_bits().to_be_bytes());
        } else {
            self.bytes.push(0xFB);
            self.bytes.extend_from_slice(&value.to_bits().to_be_bytes());
        }
    }

    fn head(&mut self, major: u8, value: u64) {
        let major = major << 5;
        match value {
            0..=23 => self.bytes.push(major | value as u8),
            24..=0xFF => self.bytes.extend_from_slice(&[major | 24, value as u8]),
            0x100..=0xFFFF => {
                self.bytes.push(major | 25);
                self.bytes.extend_from_slice(&(value as u16).to_be_bytes());
            }
            0x1_0000..=0xFFFF_FFFF => {
                self.bytes.push(major | 26);
                self.bytes.extend_from_slice(&(value as u32).to_be_bytes());
            }
            _ => {
                self.bytes.push(major | 27);
                self.bytes.extend_from_slice(&value.to_be_bytes());
            }
        }
    }
}

/// The order of text keys in the Core Deterministic Encoding: by length of the encoded head, then bytewise, which for texts is
/// length first.
fn deterministic_order(key: &str) -> (usize, &[u8]) {
    (key.len(), key.as_bytes())
}
