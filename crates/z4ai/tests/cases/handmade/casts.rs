//! The same few numbers as elements of each dtype, from each dtype that these may come from.

use super::{Handmade, short, varint};
use crate::cases::{bf16, narrow};

const NUMBERS: [f32; 6] = [1.5, -2.0, 0.25, 6.0, -0.5, 3.0];
/// Places after the point that the numbers have.
const PLACES: u8 = 2;

/// The dtypes that others may come from, by code, and whether they are integers over a power of ten.
const SOURCES: [(u8, &[u8]); 7] = [
    (1, &[2, 3, 4, 16, 17]),
    (2, &[3, 4, 16, 17]),
    (3, &[4, 17]),
    (5, &[1, 2, 3, 4, 16, 17]),
    (6, &[1, 2, 3, 4, 16, 17]),
    (INT16, &[1, 2, 3, 4, 16, 17]),
    (INT32, &[3, 4, 16, 17]),
];
const INT16: u8 = 9;
const INT32: u8 = 11;

/// A frame of each pair.
pub fn all() -> impl Iterator<Item = Handmade> {
    SOURCES.into_iter().flat_map(|(source, dtypes)| dtypes.iter().map(move |&dtype| cast(source, dtype)))
}

fn cast(source: u8, dtype: u8) -> Handmade {
    let narrow: Vec<Vec<u8>> = NUMBERS.iter().map(|&number| element(number, source)).collect();
    let width = narrow[0].len();
    // Planes of bytes as they are.
    let planes: Vec<u8> =
        (0..width).flat_map(|byte| narrow.iter().map(move |element| element[byte])).collect();
    let places: &[u8] = if matches!(source, INT16 | INT32) { &[PLACES] } else { &[] };
    let model = [&[12, source], places, &[3], &vec![0; width]].concat();
    // No exceptions.
    let block = [&[0], &varint(planes.len())[..], &planes].concat();
    let bytes = NUMBERS.iter().flat_map(|&number| element(number, dtype)).collect();
    short(&format!("cast-from-dtype-{source}-to-{dtype}"), dtype, bytes, &model, &block)
}

/// A number, which all dtypes have, as an element (or half of a complex one).
fn element(number: f32, dtype: u8) -> Vec<u8> {
    let hundredths = number * 10f32.powi(i32::from(PLACES));
    match dtype {
        1 => bf16(number).to_le_bytes().to_vec(),
        2 => (narrow(number, 5, 10) as u16).to_le_bytes().to_vec(),
        5 => vec![narrow(number, 4, 3) as u8],
        6 => vec![narrow(number, 5, 2) as u8],
        INT16 => (hundredths as i16).to_le_bytes().to_vec(),
        INT32 => (hundredths as i32).to_le_bytes().to_vec(),
        3 | 16 => number.to_le_bytes().to_vec(),
        _ => f64::from(number).to_le_bytes().to_vec(),
    }
}
