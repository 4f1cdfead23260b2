//! Lossless compression of model weights.
