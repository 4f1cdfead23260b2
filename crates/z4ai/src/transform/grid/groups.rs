//! Where groups lie. Groups are counted from the start of each row, so a block may begin inside a row, or
//! inside a group, and still finds the same borders as its neighbours.

use std::ops::Range;

/// How the elements of a block lie in their tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Elements per row.
    pub(crate) length: usize,
    /// Column of the first element.
    pub(crate) first_column: usize,
}

impl Rows {
    /// Rows of this length, from the start of one.
    pub(crate) fn new(length: usize) -> Self {
        Self { length: length.max(1), first_column: 0 }
    }

    /// The groups of `size` elements that `count` elements fall into; the last of a row may be shorter.
    pub(crate) fn groups(self, size: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
        let length = self.length.max(1);
        let size = size.max(1);
        let (mut start, mut column) = (0, self.first_column % length);
        std::iter::from_fn(move || {
            if start >= count {
                return None;
            }
            let border = length.min((column / size).saturating_add(1).saturating_mul(size));
            let end = count.min(start.saturating_add(border - column));
            let group = start..end;
            column = if border == length { 0 } else { border };
            start = end;
            Some(group)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_restart_with_each_row() {
        let rows = Rows { length: 10, first_column: 6 };
        let groups: Vec<_> = rows.groups(4, 17).collect();
        assert_eq!(groups, [0..2, 2..4, 4..8, 8..12, 12..14, 14..17]);
        assert_eq!(Rows::new(3).groups(100, 7).collect::<Vec<_>>(), [0..3, 3..6, 6..7]);
        assert_eq!(Rows::new(0).groups(0, 2).count(), 2);
        assert_eq!(Rows { length: usize::MAX, first_column: 5 }.groups(usize::MAX, 9).count(), 1);
    }
}
