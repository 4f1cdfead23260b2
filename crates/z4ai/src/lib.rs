//! Lossless compression of model weights.
mod arch;
mod dtype;
mod entropy;
mod error;
mod frame;
mod transform;
