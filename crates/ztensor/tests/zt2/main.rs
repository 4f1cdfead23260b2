//! Version 2 of the container: what is written, what is read, and every rule that a reader must enforce.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod builder;
mod corpus;
mod reading;
#[path = "../shared/stored.rs"]
mod stored;
