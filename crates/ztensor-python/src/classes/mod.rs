//! The Python classes, one file each.

pub(crate) mod archive_info;
pub(crate) mod limits;
pub(crate) mod metadata;
pub(crate) mod reader;
pub(crate) mod safe_open;
pub(crate) mod tensor;
pub(crate) mod tensor_slice;
pub(crate) mod writer;
