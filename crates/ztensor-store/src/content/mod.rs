//! What is in a checkpoint, and how it gets into a store and out again.

mod add;
mod chain;
mod checkpoint;
pub(crate) mod cut;
pub(crate) mod given;
mod known;
mod pack;
pub(crate) mod restore;
pub(crate) mod scan;
mod similar;

pub(crate) use add::Builder;
pub use add::{AddOptions, AddStats};
pub use checkpoint::Checkpoint;
pub use known::Base;
pub(crate) use known::Known;
pub use restore::GetStats;
