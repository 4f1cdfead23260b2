//! A range of a file as a file of its own.

use std::sync::Arc;

use crate::error::Result;
use crate::index::Span;
use crate::source::Source;
use crate::source::assembly::Piece;

struct Part {
    file: Arc<Source>,
    offset: u64,
    length: u64,
}

/// A checked range of a file.
pub(super) fn source(file: &Arc<Source>, span: Span) -> Result<Source> {
    let part = Part { file: Arc::clone(file), offset: span.offset, length: span.length };
    Source::from_pieces(vec![Arc::new(part)], None)
}

impl Piece for Part {
    fn length(&self) -> u64 {
        self.length
    }

    fn stored(&self) -> u64 {
        self.length
    }

    fn cost(&self, _start: u64, length: u64) -> Result<u64> {
        Ok(length)
    }

    fn is_at_hand(&self) -> bool {
        true
    }

    fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_into(self.offset + start, out)
    }
}
