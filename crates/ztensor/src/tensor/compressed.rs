//! Sparse matrices of the compressed family: CSR, which `.zt` has a layout for, and PyTorch's CSC, BSR and BSC, which are carried under names of their own.

use super::{Attributes, Layout, Value};

/// How a compressed sparse matrix is laid out: `values`, `indices`, `indptr`, and for blocks an attribute `block_shape`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// Whether columns are compressed, not rows: `indptr` counts by columns and `indices` are rows.
    pub by_columns: bool,
    /// Whether values are blocks of elements.
    pub in_blocks: bool,
}

impl Compressed {
    /// The attribute with the rows and columns of a block.
    pub const BLOCK_SHAPE: &str = "block_shape";

    /// What a layout is, if it is one of these.
    pub fn of(layout: &Layout) -> Option<Compressed> {
        let (by_columns, in_blocks) = match layout.name() {
            "sparse_csr" => (false, false),
            "torch.sparse_csc/1" => (true, false),
            "torch.sparse_bsr/1" => (false, true),
            "torch.sparse_bsc/1" => (true, true),
            _ => return None,
        };
        Some(Compressed { by_columns, in_blocks })
    }

    /// The layout.
    pub fn layout(self) -> Layout {
        Layout::parse(match (self.by_columns, self.in_blocks) {
            (false, false) => "sparse_csr",
            (true, false) => "torch.sparse_csc/1",
            (false, true) => "torch.sparse_bsr/1",
            (true, true) => "torch.sparse_bsc/1",
        })
    }

    /// The rows and columns of one value: 1 and 1 without blocks. `None` where the attribute does not say, or blocks do not divide the shape.
    pub fn block(self, shape: &[u64], attributes: &Attributes) -> Option<[u64; 2]> {
        let block = match attributes.get(Self::BLOCK_SHAPE) {
            _ if !self.in_blocks => [1, 1],
            Some(Value::List(sizes)) => match sizes.as_slice() {
                [Value::Integer(rows), Value::Integer(columns)] => {
                    [u64::try_from(*rows).ok()?, u64::try_from(*columns).ok()?]
                }
                _ => return None,
            },
            _ => return None,
        };
        let divides = shape.len() == 2
            && shape.iter().zip(block).all(|(size, block)| block > 0 && size.is_multiple_of(block));
        divides.then_some(block)
    }
}
