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

/// Whether an array that begins so may hold objects. A header that does not end among the first bytes may say anything.
pub(super) fn may_hold_objects(head: &[u8]) -> bool {
    let (start, end) = header_range(head);
    head.get(start..end).is_none_or(holds_objects)
}

/// Scans an array: the elements of one of objects, whatever their header says else.
pub(super) fn array(source: &Source, name: &str, budget: &mut Budget) -> Result<Vec<Part>> {
    let bytes = source.bytes(0, source.len().min(budget.limits().header_bytes))?;
    let (start, end) = header_range(&bytes);
    if !holds_objects(bytes.get(start..end).unwrap_or_default()) {
        return Ok(Vec::new());
    }
    Ok(pickles::stream(bytes.get(end..).unwrap_or_default(), place(name), end as u64, budget))
}

/// Where the header of an array stands.
fn header_range(bytes: &[u8]) -> (usize, usize) {
    let number = |at: usize, width: usize| -> usize {
        let digits = bytes.get(at..at + width).unwrap_or_default();
        digits.iter().rev().fold(0, |number, byte| (number << 8) | usize::from(*byte))
    };
    let (start, length) = if bytes.get(6) == Some(&1) { (10, number(8, 2)) } else { (12, number(8, 4)) };
    (start, start.saturating_add(length))
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
    use super::{holds_objects, may_hold_objects};

    #[test]
    fn a_header_that_is_not_there_yet_may_say_objects() {
        assert!(!may_hold_objects(b"\x93NUMPY\x01\0\x0f\0{'descr': '<f4'}"));
        assert!(may_hold_objects(b"\x93NUMPY\x01\0\x0e\0{'descr': '|O'}"));
        assert!(may_hold_objects(b"\x93NUMPY\x01\0\xff\0{'descr': '<f4'}"));
    }

    #[test]
    fn objects_are_told_from_numbers() {
        assert!(holds_objects(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"));
        assert!(holds_objects(
            b"{'descr': [('O', '<f4'), ('b', '|O8')], 'fortran_order': False, 'shape': (1,), }"
        ));
        assert!(!holds_objects(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"));
    }
}
