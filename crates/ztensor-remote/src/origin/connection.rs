//! Connections to buckets: what the environment and the options say about keys and endpoints, put together once, and one client for all
//! objects of a bucket in each process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use url::Url;
use ztensor::{Error, Result};

use super::credentials::aws_profile;
use super::http::use_ring;
use crate::options::{StorageOptions, aws_key, azure_key, google_key};
use crate::process::PerProcess;

/// Requests are tried again by us, part by part; a little patience below that covers answers that never began.
pub(crate) const RETRIES: usize = 3;
const RETRY_WITHIN: Duration = Duration::from_secs(30);

/// How to reach a bucket, with the environment as it was when a file in it was opened.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Connection {
    cloud: Cloud,
    /// The URL without the object's name.
    bucket: String,
    /// Names in lower case, and values.
    environment: Vec<(String, String)>,
    options: StorageOptions,
    /// How often a request is repeated.
    retries: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Cloud {
    Amazon,
    Google,
    Azure,
}

type Stores = Mutex<HashMap<Connection, Arc<dyn ObjectStore>>>;

impl Connection {
    pub(crate) fn new(url: &Url, options: &StorageOptions, retries: usize) -> Connection {
        let (cloud, prefix) = match url.scheme() {
            "s3" | "s3a" => (Cloud::Amazon, "AWS_"),
            "gs" | "gcs" => (Cloud::Google, "GOOGLE_"),
            _ => (Cloud::Azure, "AZURE_"),
        };
        let bucket = url[..url::Position::AfterHost].replacen("gcs://", "gs://", 1);
        let text = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok().filter(|value| !value.is_empty())?))
        });
        let cloudy = text.filter(|(name, _)| name.starts_with(prefix));
        let mut environment: Vec<_> =
            cloudy.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        environment.sort_unstable();
        Connection { cloud, bucket, environment, options: options.clone(), retries }
    }

    /// Which bucket it is: those of two servers may share a name.
    pub(crate) fn place(&self) -> String {
        let (endpoints, accounts): (&[&str], &[&str]) = match self.cloud {
            Cloud::Amazon => (&["aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint"], &[]),
            Cloud::Google => (&["google_base_url"], &[]),
            Cloud::Azure => (
                &["azure_storage_connection_string", "azure_storage_endpoint", "azure_endpoint"],
                &["account_name", "azure_storage_account_name", "connection_string"],
            ),
        };
        let endpoint = self.endpoint(endpoints).unwrap_or_default();
        let account = self.options.first(accounts);
        let account = account.or_else(|| accounts.iter().find_map(|name| self.variable(name)));
        format!("{}\n{endpoint}\n{}", self.bucket, account.unwrap_or_default())
    }

    /// The client of this process.
    pub(crate) fn open(&self) -> Result<Arc<dyn ObjectStore>> {
        static STORES: PerProcess<Stores> = PerProcess::new();
        let stores = STORES.get(|| Ok(Mutex::default()))?;
        let mut stores = stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(self) {
            return Ok(Arc::clone(store));
        }
        use_ring();
        let store = match self.cloud {
            Cloud::Amazon => self.amazon(),
            Cloud::Google => self.google(),
            Cloud::Azure => self.azure(),
        };
        let store = store.map_err(|cause| {
            Error::argument(format!("the connection to {} cannot be set up: {cause}", self.bucket)).with_hint(
                "Check the names and values of storage_options and of the cloud's environment variables.",
            )
        })?;
        stores.insert(self.clone(), Arc::clone(&store));
        Ok(store)
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let found = self.environment.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn endpoint(&self, variables: &[&str]) -> Option<String> {
        let given = self.options.first(&["endpoint_url", "endpoint", "aws_endpoint_url", "aws_endpoint"]);
        given.or_else(|| variables.iter().find_map(|name| self.variable(name))).map(str::to_string)
    }

    /// The client's own settings; those that are given by name come after them, and win.
    fn client(endpoint: Option<&str>) -> ClientOptions {
        ClientOptions::new()
            .with_timeout_disabled()
            .with_read_timeout(Duration::from_secs(30))
            .with_connect_timeout(Duration::from_secs(10))
            .with_allow_http(endpoint.is_some_and(|address| address.starts_with("http://")))
    }

    fn retry(&self) -> RetryConfig {
        RetryConfig { max_retries: self.retries, retry_timeout: RETRY_WITHIN, ..RetryConfig::default() }
    }

    fn amazon(&self) -> object_store::Result<Arc<dyn ObjectStore>> {
        let endpoint = self.endpoint(&["aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint"]);
        let mut builder = AmazonS3Builder::new()
            .with_client_options(Connection::client(endpoint.as_deref()))
            .with_url(&self.bucket)
            .with_retry(self.retry());
        let apart = |key: &AmazonS3ConfigKey| {
            matches!(key, AmazonS3ConfigKey::Endpoint | AmazonS3ConfigKey::S3Endpoint)
        };
        let variables = self.environment.iter().filter_map(|(name, value)| Some((name.parse().ok()?, value)));
        for (key, value) in variables.filter(|(key, _)| !apart(key)) {
            builder = builder.with_config(key, value);
        }
        let keys = ["key", "access_key", "access_key_id", "aws_access_key_id"];
        if self.variable("aws_access_key_id").is_none() && self.options.first(&keys).is_none() {
            for (key, value) in aws_profile(&self.options) {
                builder = builder.with_config(key, value);
            }
        }
        if let Some(endpoint) = endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        let options = self.options.iter().filter_map(|(name, value)| Some((aws_key(name)?, value)));
        for (key, value) in options.filter(|(key, _)| !apart(key)) {
            builder = builder.with_config(key, value);
        }
        Ok(Arc::new(builder.build()?))
    }

    fn google(&self) -> object_store::Result<Arc<dyn ObjectStore>> {
        let endpoint = self.endpoint(&["google_base_url"]);
        let mut builder = GoogleCloudStorageBuilder::new()
            .with_client_options(Connection::client(endpoint.as_deref()))
            .with_url(&self.bucket)
            .with_retry(self.retry());
        for (key, value) in
            self.environment.iter().filter_map(|(name, value)| Some((name.parse().ok()?, value)))
        {
            builder = builder.with_config(key, value);
        }
        if let Some(endpoint) = endpoint {
            builder = builder.with_base_url(endpoint.trim_end_matches('/'));
        }
        // As gcsfs has it: a file with credentials, or a word for none.
        match self.options.get("token") {
            Some("anon") => builder = builder.with_skip_signature(true),
            Some(file) => builder = builder.with_application_credentials(file),
            None => {}
        }
        for (key, value) in self.options.iter().filter_map(|(name, value)| Some((google_key(name)?, value))) {
            if key != GoogleConfigKey::BaseUrl {
                builder = builder.with_config(key, value);
            }
        }
        Ok(Arc::new(builder.build()?))
    }

    fn azure(&self) -> object_store::Result<Arc<dyn ObjectStore>> {
        let said = self.options.get("connection_string");
        let said = said.or_else(|| self.variable("azure_storage_connection_string")).unwrap_or_default();
        let connection = parse_connection_string(said);
        let stated = connection.iter().find(|(key, _)| *key == AzureConfigKey::Endpoint);
        let endpoint = self.endpoint(&[]).or_else(|| stated.map(|(_, value)| value.clone()));
        let endpoint = endpoint.or_else(|| self.endpoint(&["azure_storage_endpoint", "azure_endpoint"]));
        let mut builder = MicrosoftAzureBuilder::new()
            .with_client_options(Connection::client(endpoint.as_deref()))
            .with_url(&self.bucket)
            .with_retry(self.retry());
        let variables = self.environment.iter().filter_map(|(name, value)| {
            let key = name.parse::<AzureConfigKey>().ok()?;
            Some((key, value.clone()))
        });
        let options =
            self.options.iter().filter_map(|(name, value)| Some((azure_key(name)?, value.to_string())));
        for (key, value) in variables.chain(connection.iter().cloned()).chain(options) {
            if key != AzureConfigKey::Endpoint {
                builder = builder.with_config(key, value);
            }
        }
        if let Some(endpoint) = endpoint {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_string());
        }
        Ok(Arc::new(builder.build()?))
    }
}

/// `AccountName=…;AccountKey=…;BlobEndpoint=…`, as Azure's portal gives it.
fn parse_connection_string(text: &str) -> Vec<(AzureConfigKey, String)> {
    let parts = text.split(';').filter_map(|part| part.split_once('='));
    let known = parts.filter_map(|(name, value)| {
        let key = match name.trim().to_ascii_lowercase().as_str() {
            "accountname" => AzureConfigKey::AccountName,
            "accountkey" => AzureConfigKey::AccessKey,
            "sharedaccesssignature" => AzureConfigKey::SasKey,
            "blobendpoint" => AzureConfigKey::Endpoint,
            "usedevelopmentstorage" => AzureConfigKey::UseEmulator,
            _ => return None,
        };
        Some((key, value.trim().to_string()))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_strings_keep_the_padding_of_keys() {
        let text =
            "DefaultEndpointsProtocol=http;AccountName=dev;AccountKey=abc==;BlobEndpoint=http://host:1/dev;";
        assert_eq!(
            parse_connection_string(text),
            [
                (AzureConfigKey::AccountName, "dev".to_string()),
                (AzureConfigKey::AccessKey, "abc==".to_string()),
                (AzureConfigKey::Endpoint, "http://host:1/dev".to_string()),
            ]
        );
        assert_eq!(parse_connection_string(""), []);
    }

    #[test]
    fn options_tell_connections_apart() {
        let url = Url::parse("s3://bucket/a").unwrap();
        let one = Connection::new(&url, &StorageOptions::default(), 1);
        let options = StorageOptions::new([("endpoint_url".into(), "http://127.0.0.1:9".into())]).unwrap();
        assert!(one == Connection::new(&Url::parse("s3://bucket/b").unwrap(), &StorageOptions::default(), 1));
        assert!(one != Connection::new(&url, &options, 1));
    }
}
