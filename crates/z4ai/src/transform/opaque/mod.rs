//! Bytes of unknown structure: zstd, in independent blocks where that costs nothing, else in one block with
//! long-distance matching.

mod decode;
mod encode;
mod model;

pub(crate) use decode::decode;
pub(crate) use encode::encode;
pub(crate) use model::OpaqueModel;
