//! The memo: values by number. Picklers count upwards, so it is a vector; numbers far beyond the count, which only a hostile
//! or hand-made pickle has, go to a map, so that one opcode cannot ask for gigabytes.

use std::collections::HashMap;

use super::arena::Id;

#[derive(Default)]
pub(super) struct Memo {
    dense: Vec<Option<Id>>,
    sparse: HashMap<u64, Id>,
    count: u64,
}

impl Memo {
    pub(super) fn put(&mut self, number: u64, id: Id) {
        match usize::try_from(number) {
            Ok(position) if number <= 2 * self.count + 64 => {
                if position >= self.dense.len() {
                    self.dense.resize(position + 1, None);
                }
                self.dense[position] = Some(id);
            }
            _ => {
                self.sparse.insert(number, id);
            }
        }
        self.count += 1;
    }

    /// Stores under the next number, as protocol 4 does.
    pub(super) fn append(&mut self, id: Id) {
        self.put(self.count, id);
    }

    pub(super) fn get(&self, number: u64) -> Option<Id> {
        let position = usize::try_from(number).ok()?;
        self.dense.get(position).copied().flatten().or_else(|| self.sparse.get(&number).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_numbers_take_no_memory() {
        let mut memo = Memo::default();
        memo.put(0, Id::at(7));
        memo.put(u64::from(u32::MAX), Id::at(8));
        assert_eq!(memo.get(0), Some(Id::at(7)));
        assert_eq!(memo.get(u64::from(u32::MAX)), Some(Id::at(8)));
        assert_eq!(memo.get(5), None);
        assert!(memo.dense.len() < 100);
    }
}
