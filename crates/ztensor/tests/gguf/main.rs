//! The GGUF reader against files made byte by byte.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod builder;
mod corpus;
mod dequantize;
mod hostile;
mod reading;
#[path = "../shared/stored.rs"]
mod stored;
