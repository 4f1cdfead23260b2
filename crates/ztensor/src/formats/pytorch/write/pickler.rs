//! Pickles of protocol 2, which is what `torch.save` writes and the only one whose every opcode `torch.load(weights_only=True)` knows. Names and short
//! texts are written once and recalled; so is what the caller remembers.

use std::collections::HashMap;

use super::super::pickle::opcode::*;
use crate::error::{Error, Result};
use crate::tree::two_complement;

/// Longer texts hardly ever occur twice.
const LONGEST_RECALLED: usize = 256;

/// Items between a mark and the opcode that takes them, as in Python's pickler.
pub(super) const BATCH: usize = 1000;

#[derive(Default)]
pub(super) struct Pickler {
    pub(super) out: Vec<u8>,
    memo: u32,
    names: HashMap<(&'static str, String), u32>,
    texts: HashMap<String, u32>,
}

impl Pickler {
    pub(super) fn new() -> Self {
        Pickler { out: vec![PROTO, 2], ..Pickler::default() }
    }

    pub(super) fn op(&mut self, opcode: u8) {
        self.out.push(opcode);
    }

    /// Remembers what is on top of the stack.
    pub(super) fn put(&mut self) -> u32 {
        let number = self.memo;
        self.memo += 1;
        self.numbered(BINPUT, LONG_BINPUT, number);
        number
    }

    pub(super) fn get(&mut self, number: u32) {
        self.numbered(BINGET, LONG_BINGET, number);
    }

    fn numbered(&mut self, short: u8, long: u8, number: u32) {
        match u8::try_from(number) {
            Ok(number) => self.out.extend_from_slice(&[short, number]),
            Err(_) => {
                self.out.push(long);
                self.out.extend_from_slice(&number.to_le_bytes());
            }
        }
    }

    pub(super) fn boolean(&mut self, value: bool) {
        self.op(if value { NEWTRUE } else { NEWFALSE });
    }

    pub(super) fn float(&mut self, value: f64) {
        self.op(BINFLOAT);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn integer(&mut self, value: i64) {
        if let Ok(byte) = u8::try_from(value) {
            self.out.extend_from_slice(&[BININT1, byte]);
        } else if let Ok(short) = u16::try_from(value) {
            self.op(BININT2);
            self.out.extend_from_slice(&short.to_le_bytes());
        } else if let Ok(word) = i32::try_from(value) {
            self.op(BININT);
            self.out.extend_from_slice(&word.to_le_bytes());
        } else {
            self.long(&value.to_le_bytes());
        }
    }

    pub(super) fn unsigned(&mut self, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.integer(value),
            Err(_) => self.long(&[&value.to_le_bytes()[..], &[0]].concat()),
        }
    }

    /// An integer by its digits.
    pub(super) fn digits(&mut self, digits: &str) -> Result<()> {
        match digits.parse() {
            Ok(value) => self.integer(value),
            Err(_) => {
                let bytes = two_complement(digits)
                    .ok_or_else(|| Error::malformed(format!("\"{digits}\" is no integer")))?;
                self.long(&bytes);
            }
        }
        Ok(())
    }

    fn long(&mut self, bytes: &[u8]) {
        match u8::try_from(bytes.len()) {
            Ok(length) => self.out.extend_from_slice(&[LONG1, length]),
            Err(_) => {
                self.op(LONG4);
                self.out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            }
        }
        self.out.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) -> Result<()> {
        if let Some(number) = self.texts.get(text) {
            let number = *number;
            self.get(number);
            return Ok(());
        }
        let length = u32::try_from(text.len()).map_err(|_| Error::argument("a text has more than 4 GiB"))?;
        self.op(BINUNICODE);
        self.out.extend_from_slice(&length.to_le_bytes());
        self.out.extend_from_slice(text.as_bytes());
        if text.len() <= LONGEST_RECALLED {
            let number = self.put();
            self.texts.insert(text.to_owned(), number);
        }
        Ok(())
    }

    /// A name that is imported; only names of the standard library and of PyTorch and NumPy are ever written.
    pub(super) fn global(&mut self, module: &'static str, name: &str) {
        if let Some(number) = self.names.get(&(module, name.to_owned())) {
            let number = *number;
            self.get(number);
            return;
        }
        self.op(GLOBAL);
        self.out.extend_from_slice(format!("{module}\n{name}\n").as_bytes());
        let number = self.put();
        self.names.insert((module, name.to_owned()), number);
    }

    /// Bytes, which protocol 2 has no opcode for: a text whose characters are the bytes, and a call that encodes it.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.global("_codecs", "encode");
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        self.text(&text)?;
        self.text("latin1")?;
        self.op(TUPLE2);
        self.op(REDUCE);
        Ok(())
    }

    /// A tuple of numbers.
    pub(super) fn numbers(&mut self, numbers: impl IntoIterator<Item = u64>) {
        self.op(MARK);
        numbers.into_iter().for_each(|number| self.unsigned(number));
        self.op(TUPLE);
    }

    /// An empty `OrderedDict`, which every tensor has in the place of its hooks.
    pub(super) fn no_hooks(&mut self) {
        self.global("collections", "OrderedDict");
        self.op(EMPTY_TUPLE);
        self.op(REDUCE);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.op(STOP);
        self.out
    }
}
