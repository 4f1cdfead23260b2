//! Entropy coders, each with its encoder and decoder side by side.

pub(crate) mod bits;
pub(crate) mod mixing;
pub(crate) mod plane;
pub(crate) mod rans;
pub(crate) mod table;
