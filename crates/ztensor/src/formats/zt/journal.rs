//! The journal record: 56 bytes between the magic number and the first blob, zeros in a finished file. While a file is being changed they say where
//! its last complete state ends, so that nobody has to look for it: what lies behind may be anything, other `.zt` files included. The
//! record lies within one sector, so that it is on disk as a whole or not at all, and writing or clearing it is what commits a change.

use super::MAGIC;
use super::read::{FOOTER, Tail};
use crate::index::Edit;

/// Where the record lies, behind the magic number.
pub(crate) const OFFSET: u64 = MAGIC.len() as u64;
pub(crate) const LENGTH: usize = 56;
/// Where the record ends and the first blob may begin.
pub(crate) const END: u64 = OFFSET + LENGTH as u64;

/// The bytes of the record.
pub(crate) type Bytes = [u8; LENGTH];
/// No change is under way.
pub(crate) const NONE: Bytes = [0; LENGTH];

const RECORD: &[u8; 8] = b"ZTJOURNL";
const VERSION: u32 = 1;

/// The edits by their numbers, from 1.
const EDITS: [Edit; 3] = [Edit::Append, Edit::Replace, Edit::Repair];

/// What the record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    pub edit: Edit,
    /// The manifest of the last complete state.
    pub tail: Tail,
}

impl Journal {
    pub(crate) fn encode(self) -> Bytes {
        let mut bytes = NONE;
        let edit = EDITS.iter().position(|known| *known == self.edit).map_or(0, |at| at + 1);
        let fields = [
            u64::from(VERSION) | (edit as u64) << 32,
            self.tail.offset,
            self.tail.length,
            self.tail.end(),
            0,
        ];
        bytes[..8].copy_from_slice(RECORD);
        for (place, field) in bytes[8..].chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let hash = twox_hash::XxHash3_64::oneshot(&bytes[..LENGTH - 8]);
        bytes[LENGTH - 8..].copy_from_slice(&hash.to_le_bytes());
        bytes
    }

    /// The record, if there is one. A record that is not whole was never on disk: what it announces has not begun.
    pub(crate) fn decode(bytes: &Bytes) -> Option<Journal> {
        let number = |at: usize| bytes[at..].first_chunk().map_or(0, |field| u64::from_le_bytes(*field));
        let whole = twox_hash::XxHash3_64::oneshot(&bytes[..LENGTH - 8]) == number(LENGTH - 8);
        if !bytes.starts_with(RECORD) || !whole || number(8) as u32 != VERSION {
            return None;
        }
        let edit = (number(8) >> 32).checked_sub(1).and_then(|at| EDITS.get(at as usize));
        let tail = Tail { offset: number(16), length: number(24) };
        let end = tail.offset.checked_add(tail.length).and_then(|end| end.checked_add(FOOTER));
        (end == Some(number(32)) && tail.offset >= END)
            .then_some(Journal { edit: edit.copied().unwrap_or(Edit::Other), tail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_what_was_written_and_a_damaged_one_nothing() {
        let journal = Journal { edit: Edit::Replace, tail: Tail { offset: 4096, length: 300 } };
        let bytes = journal.encode();
        assert_eq!(Journal::decode(&bytes), Some(journal));
        assert_eq!(Journal::decode(&NONE), None);
        for at in 0..LENGTH {
            for bit in 0..8 {
                let mut damaged = bytes;
                damaged[at] ^= 1 << bit;
                assert_eq!(Journal::decode(&damaged), None, "byte {at}");
            }
        }
    }
}
