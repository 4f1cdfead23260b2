//! What is in a checkpoint, and how it gets into a store and out again.

mod add;
mod chain;
mod checkpoint;
mod computed;
mod cost;
pub(crate) mod cut;
pub(crate) mod given;
mod intact;
mod kin;
mod known;
mod pack;
mod parent;
pub(crate) mod restore;
pub(crate) mod scan;
mod similar;
mod spare;
mod stream;

pub use add::{AddOptions, AddStats};
pub(crate) use add::{Builder, contents, hangs_on_removed};
pub use checkpoint::Checkpoint;
pub(crate) use checkpoint::SEPARATOR;
pub use known::Base;
pub(crate) use known::Known;
pub use restore::GetStats;
