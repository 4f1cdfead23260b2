//! How the components of an object together make one tensor.

use std::fmt;

/// The layout of an object. The set is open: a layout this library does not know is carried structurally.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// One component `data`, row-major.
    Dense,
    /// Compressed sparse rows: `values`, `indices`, `indptr`.
    SparseCsr,
    /// Coordinates: `values`, `coords` (ndim × nnz).
    SparseCoo,
    /// Group-quantised: `packed_weight`, `scales`, `zeros`, with `bits`, `group_size` and `packing` as attributes.
    QuantizedGroup,
    /// Anything else, by name: `gguf.q4_k/1` for ggml blocks, or a layout of someone else's.
    Other(Box<str>),
}

impl Layout {
    /// The name in `.zt` 1.2 manifests.
    pub fn name(&self) -> &str {
        match self {
            Layout::Dense => "dense",
            Layout::SparseCsr => "sparse_csr",
            Layout::SparseCoo => "sparse_coo",
            Layout::QuantizedGroup => "quantized_group",
            Layout::Other(name) => name,
        }
    }

    /// The layout of a `.zt` 1.2 name.
    pub fn parse(name: &str) -> Layout {
        match name {
            "dense" => Layout::Dense,
            "sparse_csr" => Layout::SparseCsr,
            "sparse_coo" => Layout::SparseCoo,
            "quantized_group" => Layout::QuantizedGroup,
            other => Layout::Other(other.into()),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
