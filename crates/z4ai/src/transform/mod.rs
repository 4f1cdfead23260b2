//! Reversible changes of representation that bring out what the entropy coders can use.

pub(crate) mod grid;
