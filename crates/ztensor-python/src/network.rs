//! The network, where the extension is built with one (feature `remote`). Without it paths are local, and options for URLs are refused.

#[cfg(feature = "remote")]
mod built {
    pub(crate) use ztensor_remote::{Interruption, StorageOptions, install, with_options};

    /// Bytes of a file by URL, 0 where nobody tells; `None` for other paths.
    pub(crate) fn length(path: &std::path::Path) -> Option<u64> {
        let url = path.to_str().filter(|text| ztensor_remote::is_url(text))?;
        Some(ztensor_remote::length(url, &ztensor_remote::current_options()).ok().flatten().unwrap_or(0))
    }
}

#[cfg(not(feature = "remote"))]
mod built {
    use ztensor::{Error, Result};

    /// Options for URLs, of which there are none.
    #[derive(Clone, Default)]
    pub(crate) struct StorageOptions {}

    impl StorageOptions {
        pub(crate) fn new(pairs: Vec<(String, String)>) -> Result<StorageOptions> {
            match pairs.is_empty() {
                true => Ok(StorageOptions {}),
                false => {
                    Err(Error::unsupported("storage_options are for URLs, and this build has no network")
                        .with_hint("Install ztensor with its feature \"remote\", which its wheels have."))
                }
            }
        }
    }

    /// Nothing waits for a network.
    pub(crate) struct Interruption;

    impl Interruption {
        pub(crate) fn new() -> Interruption {
            Interruption
        }
    }

    pub(crate) fn install() {}

    pub(crate) fn with_options<R>(_: StorageOptions, action: impl FnOnce() -> R) -> R {
        action()
    }

    pub(crate) fn length(_: &std::path::Path) -> Option<u64> {
        None
    }
}

pub(crate) use built::{Interruption, StorageOptions, install, length, with_options};
