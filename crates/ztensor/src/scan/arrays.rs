//! NumPy's arrays: one of objects is a pickle behind a header.

use super::{Part, pickles, place};
use crate::error::Result;
use crate::limits::Budget;
use crate::source::Source;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Whether the first bytes are those of an array.
pub(super) fn matches(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// Scans an array: the elements of one of objects, whatever their header says else.
pub(super) fn array(source: &Source, name: &str, budget: &mut Budget) -> Result<Vec<Part>> {
    let bytes = source.bytes(0, source.len().min(budget.limits().header_bytes))?;
    let number = |at: usize, width: usize| -> usize {
        let digits = bytes.get(at..at + width).unwrap_or_default();
        digits.iter().rev().fold(0, |number, byte| (number << 8) | usize::from(*byte))
    };
    let (start, length): (usize, usize) =
        if bytes.get(6) == Some(&1) { (10, number(8, 2)) } else { (12, number(8, 4)) };
    let header = bytes.get(start..start.saturating_add(length)).unwrap_or_default();
    let elements = bytes.get(start.saturating_add(length)..).unwrap_or_default();
    if !holds_objects(header) {
        return Ok(Vec::new());
    }
    let offset = (start + length) as u64;
    Ok(pickles::stream(elements, place(name), offset, budget))
}

/// Whether a header names the type of objects, alone or in a field of a record: `O` in quotes, behind the mark of a byte order or none.
fn holds_objects(header: &[u8]) -> bool {
    let quote = |byte: &u8| matches!(byte, b'\'' | b'"');
    let object = |text: &[u8]| {
        let text = text
            .strip_prefix(b"|")
            .or_else(|| text.strip_prefix(b"<"))
            .or_else(|| text.strip_prefix(b">"))
            .unwrap_or(text);
        matches!(text, b"O" | b"O4" | b"O8" | b"object")
    };
    header.split(quote).any(object)
}

#[cfg(test)]
mod tests {
    use super::holds_objects;

    #[test]
    fn objects_are_told_from_numbers() {
        assert!(holds_objects(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"));
        assert!(holds_objects(
            b"{'descr': [('O', '<f4'), ('b', '|O8')], 'fortran_order': False, 'shape': (1,), }"
        ));
        assert!(!holds_objects(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"));
    }
}
