//! Reversible changes of representation that bring out what the entropy coders can use.

pub(crate) mod grid;
pub(crate) mod palette;
pub(crate) mod sparse;
