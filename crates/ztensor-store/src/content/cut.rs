//! Tensors that are too long to be encoded at once are stored in parts. Where one is cut depends on its type and shape alone, so that equal tensors
//! have equal parts in every file format and checkpoint.

use crate::record::Piece;
use ztensor::archive::Run;
use ztensor::{DType, Shape};

/// The most bytes of one part: what the codec takes as one section.
const PART: u64 = 64 << 20;

/// Cuts what is too long. Of each part also the number of the run that it comes from.
pub(crate) fn cut_all(runs: &[Run]) -> (Vec<Run>, Vec<usize>) {
    let parts = runs
        .iter()
        .enumerate()
        .flat_map(|(number, run)| cut(run.clone()).into_iter().zip(std::iter::repeat(number)));
    parts.unzip()
}

/// Parts of whole rows, or of whole rows of deeper dimensions where one is too long.
pub(crate) fn cut(run: Run) -> Vec<Run> {
    if run.length <= PART {
        return vec![run];
    }
    let (element, row, deeper) = rows(&run).unwrap_or((DType::U8.into(), 1, Vec::new()));
    // Blocks are not cut either.
    let least = run.blocks.map_or(1, |blocks| blocks.bytes() as u64).max(row);
    let step = (PART / least).max(1) * least;
    let starts = (0..run.length.div_ceil(step)).map(|number| number * step);
    let part = |start: u64| {
        let length = step.min(run.length - start);
        let shape: Vec<u64> = std::iter::once(length / row).chain(deeper.iter().copied()).collect();
        Run {
            offset: run.offset + start,
            length,
            tensor: run.tensor.clone(),
            element: element.clone(),
            shape: Shape::from(shape),
            blocks: run.blocks,
        }
    };
    starts.map(part).collect()
}

/// The longest rows that fit a part: their type, bytes and dimensions. `None` where elements are not whole bytes.
fn rows(run: &Run) -> Option<(ztensor::ElementType, u64, Vec<u64>)> {
    let width = run.element.bits().filter(|bits| bits % 8 == 0)? / 8;
    let elements = run.shape.iter().try_fold(1u64, |product, length| product.checked_mul(*length))?;
    if elements.checked_mul(width)? != run.length {
        return None;
    }
    let mut row = run.length;
    for (place, length) in run.shape.iter().enumerate() {
        row /= (*length).max(1);
        if row <= PART {
            return Some((run.element.clone(), row, run.shape[place + 1..].to_vec()));
        }
    }
    None
}

/// Of each piece, which part of its tensor it is: parts of one tensor follow one another.
pub(crate) fn part_numbers<'a>(names: impl Iterator<Item = Option<&'a str>>) -> impl Iterator<Item = usize> {
    names.scan((None, 0), |(before, part), name| {
        *part = if name.is_some() && *before == Some(name) { *part + 1 } else { 0 };
        *before = Some(name);
        Some(*part)
    })
}

/// Tensors among pieces, each counted once however many parts it has.
pub(crate) fn count_tensors(pieces: &[Piece]) -> usize {
    let names = pieces.iter().map(|piece| piece.tensor.as_deref());
    part_numbers(names.clone()).zip(names).filter(|(part, name)| *part == 0 && name.is_some()).count()
}

/// What a part is found by.
pub(crate) fn part_key(tensor: &str, part: usize) -> String {
    match part {
        0 => tensor.to_owned(),
        _ => format!("{tensor}\0{part}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(element: DType, shape: &[u64]) -> Run {
        let length = shape.iter().product::<u64>() * element.width() as u64;
        let tensor = Some(("weight".to_owned(), "data".to_owned()));
        Run {
            offset: 64,
            length,
            tensor,
            element: element.into(),
            shape: Shape::from(shape.to_vec()),
            blocks: None,
        }
    }

    #[test]
    fn long_tensors_are_cut_between_rows_and_nothing_is_lost() {
        for (shape, expected) in [
            (vec![1000, 1000], vec![vec![1000, 1000]]),
            (vec![5, 4 << 20], vec![vec![4, 4 << 20], vec![1, 4 << 20]]),
            (vec![2, 3, 8 << 20], vec![vec![2, 8 << 20]; 3]),
            (vec![40 << 20], vec![vec![16 << 20], vec![16 << 20], vec![8 << 20]]),
        ] {
            let run = run(DType::F32, &shape);
            let (offset, length) = (run.offset, run.length);
            let parts = cut(run);
            assert_eq!(parts.iter().map(|part| part.shape.to_vec()).collect::<Vec<_>>(), expected);
            let mut end = offset;
            for part in &parts {
                assert_eq!(part.offset, end);
                assert!(part.length <= PART);
                end += part.length;
            }
            assert_eq!(end, offset + length);
        }
    }

    #[test]
    fn parts_are_numbered_by_tensor() {
        let names = [Some("a"), Some("a"), None, None, Some("a"), Some("b"), Some("b"), Some("b")];
        assert_eq!(part_numbers(names.into_iter()).collect::<Vec<_>>(), [0, 1, 0, 0, 0, 0, 1, 2]);
    }
}
