//! The Python classes, one file each.

pub(crate) mod limits;
pub(crate) mod metadata;
pub(crate) mod reader;
pub(crate) mod safe_open;
pub(crate) mod slices;
pub(crate) mod tensor;
pub(crate) mod writer;
