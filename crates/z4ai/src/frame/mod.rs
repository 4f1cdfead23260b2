//! The on-disk structures of a frame, one per file, each with its own read and write.

pub(crate) mod wire;
