//! Writing the `.zt` container: new files as 1.2, or as 2 on request, and existing ones changed so that a crash leaves the old state or the new
//! one. [`crate::formats`] reads it. `spec/zt.md` has the bytes.

mod append;
mod edit;
mod exclusive;
mod repair;
mod write;

pub use edit::{remove_tensors, replace_tensor};
pub use repair::{Repair, repair, repair_at};
pub use write::{
    Checksum, Compression, TensorInput, TensorStream, TensorWrite, Version, Writer, enclose_bytes,
};
