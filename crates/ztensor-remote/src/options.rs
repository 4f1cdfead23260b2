//! Endpoints, keys and the like, by the names that other packages use for them. What is not given comes from the environment, as each
//! cloud's own tools have it.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// Settings of a remote file: `endpoint_url`, `region`, `aws_access_key_id`, `token`, …
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageOptions(BTreeMap<String, String>);

impl StorageOptions {
    /// Options from pairs of names and values. Names are taken in any case.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        StorageOptions(pairs.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect())
    }

    /// The value of an option.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All options.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

thread_local! {
    static CURRENT: RefCell<StorageOptions> = RefCell::default();
}

/// Runs something with these options in force on this thread.
pub(crate) fn scope<R>(options: StorageOptions, action: impl FnOnce() -> R) -> R {
    /// Puts the former options back, also when `action` panics.
    struct Former(StorageOptions);
    impl Drop for Former {
        fn drop(&mut self) {
            CURRENT.with(|current| std::mem::swap(&mut *current.borrow_mut(), &mut self.0));
        }
    }
    let _former = Former(CURRENT.with(|current| current.replace(options)));
    action()
}

/// The options in force on this thread.
pub(crate) fn with_current<R>(action: impl FnOnce(&StorageOptions) -> R) -> R {
    let options = CURRENT.with(|current| current.borrow().clone());
    action(&options)
}
