//! From a frame to bytes, in one call; [`Frame`] has more to choose from.

use crate::error::Result;
use crate::frame::{Frame, MAGIC};

/// Restores the bytes of `frame`, on all cores.
pub fn decompress(frame: &[u8]) -> Result<Vec<u8>> {
    Frame::open(frame)?.read()
}

/// Whether `bytes` begin like a z4ai frame of any version.
pub fn is_frame(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}
