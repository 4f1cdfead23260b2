//! Collections of related checkpoints in a directory or a bucket: equal tensors once, similar ones as differences, every file restored byte for byte.
//!
//! `backend/` is the storage: five operations. `record/` is what is written besides packs. `protocol/` lets any number of writers, readers and collectors
//! work on one store without locks; `spec/store.md` has its rules and why they are safe.

pub mod backend;
mod id;
mod name;
pub mod protocol;
pub mod record;

pub use id::{Id, Surroundings, System};
pub use name::Name;
