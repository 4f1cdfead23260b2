//! The rules of sparse tensors that only the indices themselves can break. Libraries that multiply with such tensors trust their indices, so a
//! tensor is not handed out before they are known to lie inside its shape.

use std::borrow::Cow;

use crate::error::{Error, Kind, Result};
use crate::index::Object;
use crate::tensor::{Compressed, Layout};

/// Checks the indices of a sparse tensor; `once` also asks that no element occurs twice.
pub(crate) fn check<'a>(
    object: &Object,
    once: bool,
    read: impl Fn(&'static str) -> Result<Cow<'a, [u8]>>,
) -> Result<()> {
    let indices = |role: &'static str| -> Result<Indices<'a>> {
        let width = object.component(role).map_or(0, |component| component.element.storage.width());
        match width {
            4 | 8 => Ok(Indices { bytes: read(role)?, width }),
            _ => Err(Error::malformed(format!("\"{role}\" are not integers of 32 or 64 bits"))),
        }
    };
    match (Compressed::of(&object.layout), &object.layout) {
        (Some(compressed), _) => {
            let block = compressed.block(&object.shape, &object.attributes);
            let (Some(block), &[rows, columns]) = (block, &*object.shape) else {
                return Err(Error::malformed(format!(
                    "a {} tensor of shape {} without blocks that divide it",
                    object.layout, object.shape
                )));
            };
            // Along which `indptr` goes, and how many places `indices` choose from, both counted in blocks.
            let (lines, places) = match compressed.by_columns {
                true => (columns / block[1], rows / block[0]),
                false => (rows / block[0], columns / block[1]),
            };
            let (pointers, indices) = (indices("indptr")?, indices("indices")?);
            if compressed != (Compressed { by_columns: false, in_blocks: false }) {
                check_counts(object, block, pointers.len() as u64, lines, indices.len() as u64)?;
            }
            check_rows(&pointers, &indices, places, once)
        }
        (None, Layout::SparseCoo) => check_coordinates(&indices("coords")?, &object.shape, once),
        _ => Ok(()),
    }
}

/// The size equations of layouts that containers do not know, and so have not checked.
fn check_counts(object: &Object, block: [u64; 2], pointers: u64, lines: u64, blocks: u64) -> Result<()> {
    let values = object.component("values").and_then(|values| values.elements());
    let expected = block[0].checked_mul(block[1]).and_then(|size| size.checked_mul(blocks));
    if lines.checked_add(1) == Some(pointers) && expected.is_some() && values == expected {
        return Ok(());
    }
    Err(Error::malformed(format!("the parts of a {} tensor differ in length", object.layout)))
}

/// Unsigned integers, little-endian. A negative one, where the file has signed ones, is larger than any dimension.
struct Indices<'a> {
    bytes: Cow<'a, [u8]>,
    width: usize,
}

impl Indices<'_> {
    fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    fn iter(&self, start: usize, end: usize) -> impl Iterator<Item = u64> {
        let range = start.saturating_mul(self.width)..end.saturating_mul(self.width);
        self.bytes.get(range).unwrap_or_default().chunks_exact(self.width).map(|chunk| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(bytes)
        })
    }
}

fn check_rows(pointers: &Indices<'_>, indices: &Indices<'_>, columns: u64, once: bool) -> Result<()> {
    let count = indices.len();
    let mut start = None;
    for (row, end) in pointers.iter(0, pointers.len()).enumerate() {
        let end = usize::try_from(end).ok().filter(|end| *end <= count && start.unwrap_or(0) <= *end);
        let Some(end) = end else {
            return Err(Error::malformed(format!("the row pointers do not rise to {count} at row {row}")));
        };
        match start {
            None if end != 0 => return Err(Error::malformed("the first row pointer is not 0")),
            None => {}
            Some(start) => check_row(indices.iter(start, end), row - 1, columns, once)?,
        }
        start = Some(end);
    }
    match start {
        Some(last) if last == count => Ok(()),
        _ => Err(Error::malformed(format!("the last row pointer is not {count}, the number of values"))),
    }
}

fn check_row(indices: impl Iterator<Item = u64>, row: usize, columns: u64, once: bool) -> Result<()> {
    let mut before = None;
    for index in indices {
        if index >= columns {
            return Err(Error::malformed(format!("row {row} has an element in column {index} of {columns}")));
        }
        if once && before.is_some_and(|before| before >= index) {
            return Err(Error::malformed(format!("the columns of row {row} do not rise")));
        }
        before = Some(index);
    }
    Ok(())
}

fn check_coordinates(coordinates: &Indices<'_>, shape: &[u64], once: bool) -> Result<()> {
    let count = coordinates.len().checked_div(shape.len()).unwrap_or(0);
    // Row-major positions; the product of the shape was checked when the file was opened, so they do not overflow once in range.
    let mut positions: Vec<u64> = Vec::new();
    if once {
        let too_many = |_| Error::new(Kind::Limit, format!("not enough memory for {count} coordinates"));
        positions.try_reserve_exact(count).map_err(too_many)?;
        positions.resize(count, 0);
    }
    for (dimension, &size) in shape.iter().enumerate() {
        let along = coordinates.iter(dimension * count, (dimension + 1) * count);
        for (number, coordinate) in along.enumerate() {
            if coordinate >= size {
                return Err(Error::malformed(format!(
                    "value {number} has coordinate {coordinate} in dimension {dimension} of {size}"
                )));
            }
            if let Some(position) = positions.get_mut(number) {
                *position = position.wrapping_mul(size).wrapping_add(coordinate);
            }
        }
    }
    if !positions.is_sorted() {
        positions.sort_unstable();
    }
    if positions.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::malformed("two values have the same coordinates"));
    }
    Ok(())
}
