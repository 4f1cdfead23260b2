//! Bytes in contexts: of rows and columns, and of an earlier field of a record.

use super::{Frequencies, Handmade, U8, rans, short, varint, zigzag};
use crate::cases::Random;

/// Bytes about as large as their contexts, of which there are `2^bits`, and the model's tables.
fn bytes_in(contexts: &[usize], bits: u32, precision: u32) -> (Vec<u8>, Vec<Frequencies>) {
    let mut random = Random::new(u64::from(bits + precision));
    let bytes: Vec<u8> =
        contexts.iter().map(|&context| (3 * context as u64 + random.below(5)) as u8).collect();
    let table = |context: usize| {
        let mine = bytes.iter().zip(contexts).filter(|(_, of)| **of == context);
        Frequencies::of(mine.map(|(byte, _)| *byte), [0, 1], precision)
    };
    let tables = (0..1 << bits).map(table).collect();
    (bytes, tables)
}

/// Few bytes, in rows and columns of which these `parts` have scales.
pub fn scaled(bits: u32, parts: u8) -> Handmade {
    const ROWS: usize = 12;
    const ROW: usize = 30;
    let (base, first) = (20, 21);
    let of_row = |row: usize| if parts & 1 == 0 { 0 } else { row as i64 };
    let of_column = |column: usize| if parts & 2 == 0 { 0 } else { column as i64 % 5 - 2 };
    let context = |index: usize| {
        let expected = base + of_row(index / ROW) + of_column(index % ROW);
        (expected - first).clamp(0, (1 << bits) - 1) as usize
    };
    let contexts: Vec<usize> = (0..ROWS * ROW).map(context).collect();
    let (bytes, tables) = bytes_in(&contexts, bits, 12);
    let mut model = vec![14, bits as u8];
    model.extend(zigzag(base));
    model.push(parts);
    if parts != 0 {
        model.extend(varint(ROW));
    }
    // Planes of bytes as they are.
    if parts & 1 != 0 {
        model.push(0);
        model.extend((0..ROWS).map(|row| of_row(row) as u8));
    }
    if parts & 2 != 0 {
        model.push(0);
        model.extend((0..ROW).map(|column| of_column(column) as u8));
    }
    model.extend(zigzag(first));
    tables.iter().for_each(|table| model.extend(table.write()));
    let block = rans(&bytes, &contexts, &tables);
    short(&format!("scaled-{}-contexts", 1 << bits), U8, bytes, &model, &block)
}

/// Records of a byte and of four bytes in the context of half of it.
pub fn given(bits: u32, precision: u32) -> Handmade {
    const RECORDS: usize = 150;
    const SHIFT: i64 = 1;
    let first = 2;
    let mut random = Random::new(77);
    let sources: Vec<u8> = (0..RECORDS).map(|_| random.below(40) as u8).collect();
    let context = |source: &u8| ((i64::from(*source) >> SHIFT) - first).clamp(0, (1 << bits) - 1) as usize;
    let contexts: Vec<usize> = sources.iter().flat_map(|source| [context(source); 4]).collect();
    let (levels, tables) = bytes_in(&contexts, bits, precision);
    // Two fields of one array each, of one dimension, whose elements are whole bytes.
    let field = |count: u8, start: u8| [U8, 1, 1, count, 1, 8, start, 8];
    let mut model = [&[13, 5, 2][..], &field(1, 0), &field(4, 8)].concat();
    // The first in planes of bytes as they are, the second given the first.
    model.extend([3, 0, 15, 0, 0, bits as u8 | (precision as u8) << 3]);
    model.extend([zigzag(SHIFT), zigzag(first)].concat());
    tables.iter().for_each(|table| model.extend(table.write()));
    let coded = rans(&levels, &contexts, &tables);
    let block = [&varint(sources.len())[..], &sources, &varint(coded.len()), &coded].concat();
    let records = sources.iter().zip(levels.chunks_exact(4));
    let bytes = records.flat_map(|(&source, levels)| [&[source], levels].concat()).collect();
    short(&format!("given-{}-contexts-{precision}-bits", 1 << bits), U8, bytes, &model, &block)
}
