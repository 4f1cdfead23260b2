//! The extension module behind the Python packages `ztensor` and `z4ai`: one file per Python class, and the few that carry tensors between
//! the core and NumPy or PyTorch. Everything that reads or writes files is in the `ztensor` crate.

mod archive;
mod array;
mod arrays;
mod attributes;
mod blocks;
mod booleans;
mod cli;
mod codec;
mod delta;
mod destinations;
mod edit;
mod element;
mod errors;
mod incoming;
mod limits;
mod load;
mod memory;
mod metadata;
mod metadata_edit;
mod objects;
mod packed;
mod quantized;
mod reader;
mod safe_open;
mod save;
mod scan;
mod single;
mod slices;
mod spare;
mod sparse;
mod storage;
mod tensor;
mod torch;
mod work;
mod writer;

use pyo3::pymodule;

/// The native half of ztensor and z4ai.
#[pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::archive::{
        apply_bytes, apply_file, archive_bytes, archive_file, archive_tensors, delta_bytes, delta_file,
        restore_bytes, restore_file,
    };
    #[pymodule_export]
    use crate::cli::{run_cli, run_z4ai};
    #[pymodule_export]
    use crate::codec::{compress, decompress, decompress_array};
    #[pymodule_export]
    use crate::delta::{compress_delta, decompress_delta, is_delta};
    #[pymodule_export]
    use crate::edit::{remove_tensors, repair, replace_tensor};
    #[pymodule_export]
    use crate::errors::printable;
    #[pymodule_export]
    use crate::limits::Limits;
    #[pymodule_export]
    use crate::memory::Memory;
    #[pymodule_export]
    use crate::metadata::TensorMetadata;
    #[pymodule_export]
    use crate::metadata_edit::{read_metadata, write_metadata};
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::safe_open::safe_open;
    #[pymodule_export]
    use crate::save::{save, save_file};
    #[pymodule_export]
    use crate::scan::scan;
    #[pymodule_export]
    use crate::slices::TensorSlice;
    #[pymodule_export]
    use crate::tensor::PyTensor;
    #[pymodule_export]
    use crate::writer::Writer;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        ztensor_remote::install();
        crate::work::watch_forks(module)
    }
}
