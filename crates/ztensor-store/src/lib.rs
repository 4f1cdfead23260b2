//! Collections of related checkpoints in a directory or a bucket: equal tensors once, similar ones as differences, every file restored byte for byte.
//!
//! ```
//! # fn main() -> ztensor::Result<()> {
//! # let folder = tempfile::tempdir()?; let file = folder.path().join("model.zt");
//! # let mut writer = ztensor::Writer::create(&file)?; writer.add("weight", &[2, 2], &[1f32, 2.0, 3.0, 4.0])?; writer.finish()?;
//! use ztensor_store::{AddOptions, CreateOptions, Store};
//!
//! let store = Store::create(folder.path().join("models"), &CreateOptions::default())?;
//! store.add(&file, "run-7/step-1000", &AddOptions::default(), &mut |_| Ok(()))?;
//! let (reader, name) = store.checkpoint("run-7/step-1000")?.find("weight")?;
//! assert_eq!(reader.read_as::<f32>(&name)?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok(())
//! # }
//! ```
//!
//! `backend/` is the storage: five operations. `record/` is what is written besides packs. `protocol/` lets any number of writers, readers and collectors
//! work on one store without locks; `spec/store.md` has its rules and why they are safe. `content/` is between files and manifests.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod address;
pub mod backend;
mod content;
mod diff;
mod export;
mod id;
mod name;
mod parts;
mod pins;
pub mod protocol;
mod prune;
pub mod record;
mod settings;
mod store;

pub use address::install;
pub use content::{AddOptions, AddStats, Base, Checkpoint, GetStats};
pub use diff::Difference;
pub use id::{Id, Surroundings, System};
pub use name::Name;
pub use parts::Part;
pub use pins::PinListing;
pub use prune::{Keep, Pruned, matches};
pub use settings::Settings;
pub use store::{CreateOptions, Listing, Problem, Store, StoreStats};
