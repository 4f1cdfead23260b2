//! Reversible changes of representation that bring out what the entropy coders can use.

pub(crate) mod float;
pub(crate) mod grid;
pub(crate) mod opaque;
pub(crate) mod palette;
pub(crate) mod planes;
pub(crate) mod reference;
pub(crate) mod sparse;
pub(crate) mod subnormal;
