//! The HDF5 reader against files made byte by byte, and against files that h5py made.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod builder;
mod corpus;
mod hostile;
mod reading;
#[path = "../shared/stored.rs"]
mod stored;
