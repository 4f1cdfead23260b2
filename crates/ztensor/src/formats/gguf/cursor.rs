//! Reads the header in order, in the file's byte order. Nothing in a GGUF file says beforehand how long its header is.

use crate::error::{Error, Result};
use crate::limits::Budget;
use crate::source::{Ahead, Source};

/// Bytes that are read at once to begin with: a vocabulary takes megabytes.
const FIRST: u64 = 1 << 20;

/// The byte order of every number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

macro_rules! numbers {
    ($($name:ident: $type:ty;)*) => {
        impl Order {
            $(pub(super) fn $name(self, bytes: [u8; size_of::<$type>()]) -> $type {
                match self {
                    Order::Little => <$type>::from_le_bytes(bytes),
                    Order::Big => <$type>::from_be_bytes(bytes),
                }
            })*
        }
    };
}

numbers! { u16: u16; i16: i16; u32: u32; i32: i32; u64: u64; i64: i64; f32: f32; f64: f64; }

/// A position in the header.
pub(super) struct Cursor<'a> {
    source: &'a Source,
    ahead: Ahead<'a>,
    budget: &'a mut Budget,
    /// The byte order, known once the version has been read.
    pub(super) order: Order,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(source: &'a Source, budget: &'a mut Budget) -> Self {
        // A header may cost no more.
        let ahead = Ahead::within(source, FIRST, budget.limits().header_bytes);
        Cursor { source, ahead, budget, order: Order::Little }
    }

    /// The offset in the file of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.ahead.offset()
    }

    /// The account to charge for what is made of the bytes.
    pub(super) fn budget(&mut self) -> &mut Budget {
        self.budget
    }

    /// The next bytes.
    pub(super) fn take(&mut self, length: u64) -> Result<&[u8]> {
        if length > self.ahead.at_hand() {
            self.read_on(length)?;
        }
        Ok(self.ahead.take(length))
    }

    /// Reads on, if so many bytes follow in the file and in what a header may take.
    #[cold]
    fn read_on(&mut self, length: u64) -> Result<()> {
        self.source.check(self.offset(), length)?;
        self.budget.check_header(self.offset().saturating_add(length))?;
        self.ahead.read_on(length)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let found = self.take(N as u64)?.first_chunk().copied();
        found.ok_or_else(|| Error::truncated("the header ends early").with_offset(self.offset()))
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        let order = self.order;
        self.array().map(|bytes| order.u32(bytes))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        let order = self.order;
        self.array().map(|bytes| order.u64(bytes))
    }

    /// A fixed-width number of any type.
    pub(super) fn number<const N: usize, T>(&mut self, convert: fn(Order, [u8; N]) -> T) -> Result<T> {
        let order = self.order;
        self.array().map(|bytes| convert(order, bytes))
    }

    /// A string's bytes: a length and as many bytes.
    pub(super) fn string(&mut self) -> Result<&[u8]> {
        let length = self.u64()?;
        self.take(length)
    }

    /// A string that has to be text, such as a key.
    pub(super) fn text(&mut self, what: &str) -> Result<&str> {
        let offset = self.offset();
        std::str::from_utf8(self.string()?).map_err(|cause| {
            Error::malformed(format!("the {what} is not UTF-8")).with_offset(offset).with_cause(cause)
        })
    }

    /// Checks an announced count against the bytes that are left, given the least that one item takes.
    pub(super) fn check_count(&self, count: u64, least: u64, what: &str) -> Result<()> {
        let left = self.source.len() - self.offset();
        if count.checked_mul(least).is_some_and(|bytes| bytes <= left) {
            return Ok(());
        }
        Err(Error::truncated(format!("the file announces {count} {what}, but only {left} bytes follow"))
            .with_offset(self.offset()))
    }
}
