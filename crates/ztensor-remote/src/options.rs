//! Endpoints, keys and the like, by the names that other packages use for them: fsspec (s3fs, gcsfs, adlfs), boto3, obstore and polars. What
//! is not given comes from the environment, as each cloud's own tools have it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;
use ztensor::{Error, Result};

/// The names that are said to be known; the longer ones of each cloud's environment variables are understood as well.
const KNOWN: [(&str, &str); 6] = [
    (
        "s3://",
        "endpoint_url, key, secret, token, region, anon, profile (also aws_access_key_id, aws_secret_access_key, aws_session_token, region_name)",
    ),
    (
        "gs://",
        "token (a credentials file, or \"anon\"), service_account_key, bearer_token, anon, endpoint_url",
    ),
    (
        "az://",
        "account_name, account_key, sas_token, connection_string, tenant_id, client_id, client_secret, anon, endpoint_url",
    ),
    ("http(s)://", "headers"),
    ("hf://", "token, endpoint_url"),
    ("all of them", "cache (a folder), cache_size, whole (how much is read from servers without ranges)"),
];

/// Options that need more than another name; each is handled where it is used.
const OWN: [&str; 12] = [
    "endpoint_url",
    "endpoint",
    "anon",
    "profile",
    "profile_name",
    "aws_profile",
    "token",
    "hf_token",
    "connection_string",
    "cache",
    "cache_size",
    "whole",
];

/// How the name of an option begins that is a header of HTTP requests.
pub(crate) const HEADER: &str = "header.";

/// Settings of remote files: `endpoint_url`, `region`, `aws_access_key_id`, `token`, …
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageOptions(BTreeMap<String, String>);

impl StorageOptions {
    /// Options from pairs of names and values. Names are taken in any case; one that no kind of storage has is an error. Options of
    /// another kind than a file's are left alone: the base of a delta may be elsewhere.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let mut options = BTreeMap::new();
        for (name, value) in pairs {
            let name = name.to_ascii_lowercase();
            let known = OWN.contains(&name.as_str())
                || name.len() > HEADER.len() && name.starts_with(HEADER)
                || aws_key(&name).is_some()
                || google_key(&name).is_some()
                || azure_key(&name).is_some();
            if !known {
                let listed = KNOWN.map(|(scheme, names)| format!("{scheme}: {names}")).join("; ");
                return Err(Error::argument(format!("\"{name}\" is no storage option"))
                    .with_hint(format!("Known are, for {listed}.")));
            }
            options.insert(name, value);
        }
        Ok(StorageOptions(options))
    }

    /// The value of an option.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of the first of some options that is there.
    pub(crate) fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// All options.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Names only: values may be secrets.
impl std::fmt::Debug for StorageOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// An option of S3 by any of the names that packages give it; `None` for others, and for those that are handled apart.
pub(crate) fn aws_key(name: &str) -> Option<AmazonS3ConfigKey> {
    match name {
        "endpoint" | "endpoint_url" | "aws_endpoint" | "aws_endpoint_url" => {
            Some(AmazonS3ConfigKey::Endpoint)
        }
        "key" | "access_key" => Some(AmazonS3ConfigKey::AccessKeyId),
        "secret" | "secret_key" => Some(AmazonS3ConfigKey::SecretAccessKey),
        "anon" => Some(AmazonS3ConfigKey::SkipSignature),
        "region_name" => Some(AmazonS3ConfigKey::Region),
        other => other.parse().ok(),
    }
}

/// An option of Google Cloud Storage.
pub(crate) fn google_key(name: &str) -> Option<GoogleConfigKey> {
    match name {
        "endpoint" | "endpoint_url" => Some(GoogleConfigKey::BaseUrl),
        "anon" => Some(GoogleConfigKey::SkipSignature),
        other => other.parse().ok(),
    }
}

/// An option of Azure.
pub(crate) fn azure_key(name: &str) -> Option<AzureConfigKey> {
    match name {
        "endpoint_url" => Some(AzureConfigKey::Endpoint),
        "anon" => Some(AzureConfigKey::SkipSignature),
        other => other.parse().ok(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Result<StorageOptions> {
        StorageOptions::new(pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())))
    }

    #[test]
    fn names_of_other_packages_are_known_and_strangers_are_not() {
        for name in
            ["key", "AWS_ACCESS_KEY_ID", "region_name", "account_key", "google_service_account", "header.X-Y"]
        {
            assert!(options(&[(name, "x")]).is_ok(), "{name}");
        }
        for name in ["acess_key_id", "header.", "cheese"] {
            let error = options(&[(name, "x")]).unwrap_err();
            let said = error.told(ztensor::Caller::Python).to_string();
            assert!(
                said.contains(name) && said.contains("account_name") && said.contains("region"),
                "{said}"
            );
        }
    }

    #[test]
    fn values_are_not_shown() {
        let shown = format!("{:?}", options(&[("secret", "hush")]).unwrap());
        assert!(shown.contains("secret") && !shown.contains("hush"));
    }
}
