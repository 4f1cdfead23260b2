//! The three heaps: local (names of old groups), global (texts of varying length) and fractal (links and attributes of large new
//! groups).

pub(super) mod fractal;
pub(super) mod global;
pub(super) mod local;
