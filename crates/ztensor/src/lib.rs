//! Tensors and the files they live in.
