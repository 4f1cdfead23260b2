//! The extension module behind the Python packages `ztensor` and `z4ai`: `classes/` has one file per Python class; `reading/`
//! and `writing/` carry tensors between the core and NumPy or PyTorch, over the memory of `memory/`. Everything that reads or writes files is in the `ztensor` crate.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod archive;
mod attributes;
mod classes;
mod cli;
mod codec;
mod delta;
mod element;
mod errors;
mod memory;
mod network;
mod reading;
mod remote;
mod scan;
mod store;
mod torch;
mod work;
mod writing;

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
    use crate::classes::limits::Limits;
    #[pymodule_export]
    use crate::classes::metadata::TensorMetadata;
    #[pymodule_export]
    use crate::classes::reader::Reader;
    #[pymodule_export]
    use crate::classes::safe_open::safe_open;
    #[pymodule_export]
    use crate::classes::tensor::PyTensor;
    #[pymodule_export]
    use crate::classes::tensor_slice::TensorSlice;
    #[pymodule_export]
    use crate::classes::writer::Writer;
    #[pymodule_export]
    use crate::cli::{run_cli, run_z4ai};
    #[pymodule_export]
    use crate::codec::{codec_widths, compress, decompress, decompress_array};
    #[pymodule_export]
    use crate::delta::{compress_delta, decompress_delta, is_delta};
    #[pymodule_export]
    use crate::element::element_types;
    #[pymodule_export]
    use crate::errors::printable;
    #[pymodule_export]
    use crate::memory::Memory;
    #[pymodule_export]
    use crate::remote::{fetch, file_length, read_file};
    #[pymodule_export]
    use crate::scan::scan;
    #[pymodule_export]
    use crate::store::{Snapshot, Store};
    #[pymodule_export]
    use crate::writing::edit::{remove_tensors, repair, replace_tensor};
    #[pymodule_export]
    use crate::writing::metadata_edit::{read_metadata, write_metadata};
    #[pymodule_export]
    use crate::writing::save::{save, save_file};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::network::install();
        ztensor_store::install();
        crate::work::watch_forks(module)
    }
}
