//! The extension module behind the Python packages `ztensor` and `z4ai`: one file per Python class, and the few that carry tensors between
//! the core and NumPy or PyTorch. Everything that reads or writes files is in the `ztensor` crate.

mod array;
mod arrays;
mod attributes;
mod blocks;
mod element;
mod errors;
mod load;
mod memory;
mod metadata;
mod objects;
mod packed;
mod reader;
mod tensor;
mod torch;

use pyo3::pymodule;

/// The native half of ztensor and z4ai.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::memory::Memory;
    #[pymodule_export]
    use crate::metadata::TensorMetadata;
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::tensor::PyTensor;
}
