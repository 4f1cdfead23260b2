//! Entropy coders, each with its encoder and decoder side by side.

pub(crate) mod nested;
