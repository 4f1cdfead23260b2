//! Lossless compression of model weights.

mod arch;
mod damage;
mod entropy;
mod transform;
