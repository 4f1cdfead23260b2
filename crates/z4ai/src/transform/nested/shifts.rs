//! Row and column shifts: whole octaves taken off the exponents of a row or column before they are coded, so
//! that rows and columns of different scale share one short code. The caller chooses the shifts.

/// The shifts that apply to one block of a row-major matrix. An empty list shifts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shifts<'a> {
    /// Shift of each row the block touches, the row of the first element first.
    pub(crate) rows: &'a [u8],
    /// Shift of each column of the matrix.
    pub(crate) columns: &'a [u8],
    /// Elements per row; at least 1 when either list is given.
    pub(crate) row_length: usize,
    /// Column of the block's first element.
    pub(crate) first_column: usize,
}

impl Shifts<'_> {
    /// Whether every list reaches as far as a block of `count` elements needs.
    pub(crate) fn cover(&self, count: usize) -> bool {
        let Some(last) = self.first_column.checked_add(count.saturating_sub(1)) else { return false };
        let row_fits = self.rows.is_empty()
            || last.checked_div(self.row_length).is_some_and(|row| row < self.rows.len());
        let column_fits = self.columns.is_empty() || self.columns.len() == self.row_length;
        row_fits && column_fits && (self.is_none() || self.first_column < self.row_length)
    }

    fn is_none(&self) -> bool {
        self.rows.is_empty() && self.columns.is_empty()
    }

    /// Takes the shifts off the exponents of the elements from `start` on.
    #[inline(always)]
    pub(crate) fn subtract(&self, start: usize, exponents: &mut [u8]) {
        self.each_row(start, exponents, |exponent, shift| exponent.wrapping_sub(shift));
    }

    /// Puts the shifts back on the symbols of the elements from `start` on.
    #[inline(always)]
    pub(crate) fn add(&self, start: usize, symbols: &mut [u8]) {
        self.each_row(start, symbols, |symbol, shift| symbol.wrapping_add(shift));
    }

    #[inline(always)]
    fn each_row(&self, start: usize, mut values: &mut [u8], apply: impl Fn(u8, u8) -> u8) {
        if self.is_none() {
            return;
        }
        let position = self.first_column + start;
        let (mut row, mut column) = (position / self.row_length, position % self.row_length);
        while !values.is_empty() {
            let (run, rest) = values.split_at_mut((self.row_length - column).min(values.len()));
            let row_shift = self.rows.get(row).copied().unwrap_or(0);
            if self.columns.is_empty() {
                for value in run {
                    *value = apply(*value, row_shift);
                }
            } else {
                let columns = self.columns.get(column..).unwrap_or(&[]);
                for (value, &shift) in run.iter_mut().zip(columns) {
                    *value = apply(*value, shift.wrapping_add(row_shift));
                }
            }
            (values, row, column) = (rest, row + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_shifts_come_off_again() {
        let shifts = Shifts { rows: &[3, 250], columns: &[0, 1, 255], row_length: 3, first_column: 0 };
        assert!(shifts.cover(6) && !shifts.cover(7));
        let mut values = [10, 20, 30, 40, 50, 60];
        shifts.subtract(0, &mut values);
        assert_eq!(values, [7, 16, 28, 46, 55, 67]);
        shifts.add(0, &mut values);
        assert_eq!(values, [10, 20, 30, 40, 50, 60]);
    }

    #[test]
    fn a_block_may_start_inside_a_row() {
        let shifts = Shifts { rows: &[10, 20], columns: &[1, 2, 3], row_length: 3, first_column: 2 };
        let mut values = [0; 4];
        shifts.add(0, &mut values);
        assert_eq!(values, [13, 21, 22, 23]);
        let mut later = [0; 2];
        shifts.add(2, &mut later);
        assert_eq!(later, [22, 23]);
    }

    #[test]
    fn lists_that_do_not_reach_are_noticed() {
        assert!(Shifts::default().cover(1 << 40));
        assert!(!Shifts { rows: &[1], columns: &[], row_length: 0, first_column: 0 }.cover(1));
        assert!(!Shifts { rows: &[], columns: &[1, 2], row_length: 3, first_column: 0 }.cover(1));
        assert!(!Shifts { rows: &[1, 1], columns: &[], row_length: 3, first_column: 3 }.cover(1));
    }
}
