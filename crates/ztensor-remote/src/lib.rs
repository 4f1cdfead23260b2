//! Model files by URL: `s3:// gs:// az:// http(s):// hf://`. A URL becomes a [`ztensor::Source`] like any other; what it costs in requests is
//! decided here (ranges are split, merged and fetched side by side) and in the source's read-ahead window.
//!
//! The `ztensor` crate itself knows no network. A program that wants URLs wherever it takes paths calls [`install`] once.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod ahead;
pub mod bucket;
mod cache;
mod download;
mod failure;
mod fetch;
mod fetcher;
mod file;
mod location;
mod options;
mod origin;
mod process;
mod whole;

pub use download::{Download, Downloaded, Watch};
pub use options::StorageOptions;
pub use process::Interruption;
pub use whole::{Watcher, with_watcher};

use ztensor::{Result, Source};

/// Whether a path is a URL that [`open`] takes.
pub fn is_url(path: &str) -> bool {
    location::scheme(path).is_some()
}

/// Opens a file by URL. One request brings its length and its first bytes, or all of it where the server does not serve parts.
pub fn open(url: &str, options: &StorageOptions) -> Result<Source> {
    let location = location::Location::parse(url)?;
    file::open(location, options).map_err(|error| error.with_path(&location::shown(url)))
}

/// Bytes of a file by URL, without reading it; `None` where the server does not say.
pub fn length(url: &str, options: &StorageOptions) -> Result<Option<u64>> {
    let location = location::Location::parse(url)?;
    file::length(location, options).map_err(|error| error.with_path(&location::shown(url)))
}

/// Lets every place of `ztensor` that takes a path take URLs as well, with the options of [`with_options`] around it.
pub fn install() {
    ztensor::source::install_opener(|url| options::with_current(|options| open(url, options)));
}

/// The options of the [`with_options`] around the call.
pub fn current_options() -> StorageOptions {
    options::with_current(StorageOptions::clone)
}

/// Runs something with these options for every URL that it opens, files beside the opened one and bases of deltas included.
pub fn with_options<R>(options: StorageOptions, action: impl FnOnce() -> R) -> R {
    options::scope(options, action)
}
