//! The few largest singular vectors of a matrix, by subspace iteration from a fixed start: the same factors come of the same matrix.

use rayon::prelude::*;

/// Columns of a matrix that are transposed at once: of 4096 rows they take a MiB.
const COLUMNS: usize = 64;
/// Sums of one row that stay in registers, four of 128 bits, while a row is gone through; two rows are, side by side.
const TILE: usize = 16;

/// A matrix by rows.
pub(super) struct Matrix {
    pub rows: usize,
    pub row: usize,
    pub values: Vec<f32>,
}

/// `left`, with orthonormal columns, times `right` is about the matrix. Both have `rank` vectors, one after the other, the largest first.
pub(super) struct Factors {
    pub rank: usize,
    pub left: Vec<f32>,
    pub right: Vec<f32>,
    /// The squares of the singular values.
    pub squares: Vec<f64>,
}

impl Matrix {
    /// The sum of all squares.
    pub(super) fn energy(&self) -> f64 {
        let rows = self.values.par_chunks(self.row.max(1));
        let sums: Vec<f64> =
            rows.map(|row| row.iter().map(|of| f64::from(*of) * f64::from(*of)).sum()).collect();
        sums.into_iter().sum()
    }

    /// Every so many rows and columns of it.
    pub(super) fn part(&self, most: usize) -> Matrix {
        let (rows, row) = (self.rows.min(most), self.row.min(most));
        let places = (0..rows).map(|place| place * self.rows / rows);
        let values = places.flat_map(|place| {
            let columns = (0..row).map(|column| column * self.row / row);
            columns.map(move |column| self.values[place * self.row + column])
        });
        Matrix { rows, row, values: values.collect() }
    }

    /// The singular vectors of the `width` largest singular values, about.
    pub(super) fn factors(&self, width: usize) -> Option<Factors> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let start = (0..self.row * width).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u32 << 24) as f32 - 0.5
        });
        let mut left = self.times(&start.collect::<Vec<f32>>(), width);
        orthonormalise(&mut left, width)?;
        let mut right = self.transposed_times(&left, width);
        orthonormalise(&mut right, width)?;
        left = self.times(&right, width);
        orthonormalise(&mut left, width)?;
        right = self.transposed_times(&left, width);
        // Of the small matrix right' · right the eigenvectors turn both into singular vectors.
        let (squares, vectors) = eigen(gram(&right, width), width);
        let turned = |matrix: &[f32], length: usize| {
            let mut out = vec![0.0f32; width * length];
            for (place, row) in matrix.chunks_exact(width).enumerate() {
                for (k, vector) in vectors.iter().enumerate() {
                    let sum: f64 = row.iter().zip(vector).map(|(of, by)| f64::from(*of) * by).sum();
                    out[k * length + place] = sum as f32;
                }
            }
            out
        };
        let (left, right) = (turned(&left, self.rows), turned(&right, self.row));
        Some(Factors { rank: width, left, right, squares })
    }

    /// This matrix times one of `width` columns.
    fn times(&self, other: &[f32], width: usize) -> Vec<f32> {
        let tiles = tiles(other, width);
        let mut out = vec![0.0; self.rows * width];
        let pairs = out.par_chunks_mut(2 * width).zip(self.values.par_chunks(2 * self.row));
        pairs.for_each(|(out, rows)| multiply(rows, self.row, &tiles, out, width));
        out
    }

    /// The transposed of this matrix times one of `width` columns.
    fn transposed_times(&self, other: &[f32], width: usize) -> Vec<f32> {
        let tiles = tiles(other, width);
        let mut out = vec![0.0; self.row * width];
        out.par_chunks_mut(COLUMNS * width).enumerate().for_each(|(block, out)| {
            let columns = out.len() / width;
            let mut turned = vec![0.0; columns * self.rows];
            for (place, row) in self.values.chunks_exact(self.row).enumerate() {
                let values = &row[block * COLUMNS..][..columns];
                for (column, value) in values.iter().enumerate() {
                    turned[column * self.rows + place] = *value;
                }
            }
            for (out, rows) in out.chunks_mut(2 * width).zip(turned.chunks(2 * self.rows)) {
                multiply(rows, self.rows, &tiles, out, width);
            }
        });
        out
    }
}

/// A matrix by tiles of its columns, each row by row; the last one is filled up with 0.
fn tiles(matrix: &[f32], width: usize) -> Vec<Vec<[f32; TILE]>> {
    let tile = |first: usize| {
        let rows = matrix.chunks_exact(width).map(move |row| {
            let mut tile = [0.0; TILE];
            let part = &row[first..(first + TILE).min(width)];
            tile[..part.len()].copy_from_slice(part);
            tile
        });
        rows.collect()
    };
    (0..width).step_by(TILE).map(tile).collect()
}

/// One or two rows times a matrix.
fn multiply(rows: &[f32], row: usize, tiles: &[Vec<[f32; TILE]>], out: &mut [f32], width: usize) {
    let (one, other) = rows.split_at(row);
    for (tile, first) in tiles.iter().zip((0..width).step_by(TILE)) {
        let wanted = TILE.min(width - first);
        let mut sums = [[0.0f32; TILE]; 2];
        if other.is_empty() {
            for (value, tile) in one.iter().zip(tile) {
                sums[0].iter_mut().zip(tile).for_each(|(sum, of)| *sum += value * of);
            }
        } else {
            let [first_sums, second_sums] = &mut sums;
            for ((value, second), tile) in one.iter().zip(other).zip(tile) {
                for ((sum, second_sum), of) in first_sums.iter_mut().zip(second_sums.iter_mut()).zip(tile) {
                    *sum += value * of;
                    *second_sum += second * of;
                }
            }
        }
        for (out, sums) in out.chunks_exact_mut(width).zip(&sums) {
            out[first..first + wanted].copy_from_slice(&sums[..wanted]);
        }
    }
}

/// The products of all pairs of columns.
fn gram(matrix: &[f32], width: usize) -> Vec<f64> {
    let mut sums = vec![0.0f64; width * width];
    for row in matrix.chunks_exact(width) {
        for (one, sums) in row.iter().zip(sums.chunks_exact_mut(width)) {
            let one = f64::from(*one);
            sums.iter_mut().zip(row).for_each(|(sum, other)| *sum += one * f64::from(*other));
        }
    }
    sums
}

/// Makes columns orthonormal, twice, by Cholesky's factor of their products. Columns that depend on others become 0. `None` where numbers are no numbers.
fn orthonormalise(matrix: &mut [f32], width: usize) -> Option<()> {
    for _ in 0..2 {
        let mut factor = gram(matrix, width);
        let largest = (0..width).map(|k| factor[k * width + k]).fold(0.0, f64::max);
        if !largest.is_finite() || largest <= 0.0 {
            return None;
        }
        for k in 0..width {
            for j in 0..k {
                let known: f64 = (0..j).map(|i| factor[k * width + i] * factor[j * width + i]).sum();
                let pivot = factor[j * width + j];
                factor[k * width + j] =
                    if pivot > 0.0 { (factor[k * width + j] - known) / pivot } else { 0.0 };
            }
            let known: f64 = (0..k).map(|i| factor[k * width + i] * factor[k * width + i]).sum();
            let square = factor[k * width + k] - known;
            factor[k * width + k] = if square > 1e-10 * largest { square.sqrt() } else { 0.0 };
        }
        let factor = &factor;
        matrix.par_chunks_exact_mut(width).for_each(|row| {
            for k in 0..width {
                let known: f64 = (0..k).map(|i| f64::from(row[i]) * factor[k * width + i]).sum();
                let pivot = factor[k * width + k];
                row[k] = if pivot > 0.0 { ((f64::from(row[k]) - known) / pivot) as f32 } else { 0.0 };
            }
        });
    }
    Some(())
}

/// Eigenvalues, the largest first, and eigenvectors of a symmetric matrix, by Jacobi's rotations.
fn eigen(mut matrix: Vec<f64>, width: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    let mut vectors = vec![vec![0.0; width]; width];
    (0..width).for_each(|k| vectors[k][k] = 1.0);
    for _ in 0..30 {
        let diagonal: f64 = (0..width).map(|k| matrix[k * width + k].abs()).sum();
        let beside = matrix.iter().map(|of| of.abs()).sum::<f64>() - diagonal;
        if beside <= 1e-12 * diagonal {
            break;
        }
        for p in 0..width {
            for q in p + 1..width {
                let (a, b, c) = (matrix[p * width + p], matrix[q * width + q], matrix[p * width + q]);
                if c.abs() <= 1e-15 * (a.abs() + b.abs()) {
                    continue;
                }
                let theta = (b - a) / (2.0 * c);
                let tangent = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
                let sine = tangent * cosine;
                for k in 0..width {
                    let (one, other) = (matrix[k * width + p], matrix[k * width + q]);
                    matrix[k * width + p] = cosine * one - sine * other;
                    matrix[k * width + q] = sine * one + cosine * other;
                }
                for k in 0..width {
                    let (one, other) = (matrix[p * width + k], matrix[q * width + k]);
                    matrix[p * width + k] = cosine * one - sine * other;
                    matrix[q * width + k] = sine * one + cosine * other;
                }
                let (before, behind) = vectors.split_at_mut(q);
                for (one, other) in before[p].iter_mut().zip(&mut behind[0]) {
                    (*one, *other) = (cosine * *one - sine * *other, sine * *one + cosine * *other);
                }
            }
        }
    }
    let mut order: Vec<usize> = (0..width).collect();
    let value = |k: usize| matrix[k * width + k];
    order.sort_by(|one, other| value(*other).total_cmp(&value(*one)));
    let squares = order.iter().map(|k| value(*k).max(0.0)).collect();
    (squares, order.iter().map(|k| std::mem::take(&mut vectors[*k])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_of_a_low_rank_are_found() {
        let (rows, row, rank) = (90, 130, 5);
        let wave = |k: usize, place: usize| ((k * 37 + place * (k + 3)) as f32 * 0.71).sin();
        let value =
            |i: usize, j: usize| (0..rank).map(|k| wave(k, i) * wave(k + 9, j) * (k + 1) as f32).sum::<f32>();
        let values = (0..rows * row).map(|place| value(place / row, place % row)).collect();
        let matrix = Matrix { rows, row, values };
        let factors = matrix.factors(8).unwrap();
        assert!(factors.squares[rank] < 1e-8 * factors.squares[0], "{:?}", factors.squares);
        for place in 0..rows * row {
            let (i, j) = (place / row, place % row);
            let made: f32 = (0..8).map(|k| factors.left[k * rows + i] * factors.right[k * row + j]).sum();
            assert!((made - matrix.values[place]).abs() < 1e-3, "{made} {}", matrix.values[place]);
        }
        let energy: f64 = factors.squares.iter().sum();
        assert!((energy / matrix.energy() - 1.0).abs() < 1e-5);
    }
}
