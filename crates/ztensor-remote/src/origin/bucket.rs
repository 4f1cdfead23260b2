//! Objects in S3, Google Cloud Storage and Azure, and in whatever speaks their protocols.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path as Key;
use object_store::{
    ClientOptions, GetOptions, GetRange, GetResult, ObjectStore, ObjectStoreExt, RetryConfig,
};
use url::Url;
use ztensor::{Error, Kind, Result};

use super::credentials::aws_profile;
use super::http::use_ring;
use super::{Body, Origin};
use crate::failure::Failure;
use crate::options::StorageOptions;
use crate::process::PerProcess;

/// Requests are tried again by us, part by part; a little patience below that covers answers that never began.
pub(crate) const RETRIES: usize = 3;
const RETRY_WITHIN: Duration = Duration::from_secs(30);

/// An object.
pub(crate) struct Bucket {
    url: Url,
    options: StorageOptions,
    key: Key,
    pin: OnceLock<Pin>,
}

/// What tells one state of an object from another.
#[derive(Clone, PartialEq, Eq)]
struct Pin {
    length: u64,
    tag: Option<String>,
    version: Option<String>,
}

impl Bucket {
    pub(crate) fn new(url: &Url, options: &StorageOptions) -> Result<Bucket> {
        let key = Key::from_url_path(url.path())
            .map_err(|cause| Error::argument(format!("the object's name cannot be read: {cause}")))?;
        let bucket = Bucket { url: url.clone(), options: options.clone(), key, pin: OnceLock::new() };
        bucket.store()?;
        Ok(bucket)
    }

    fn store(&self) -> Result<Arc<dyn ObjectStore>> {
        connect(&self.url, &self.options, RETRIES)
    }

    async fn ask(&self, range: Range<u64>) -> Result<(Pin, GetResult), Failure> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            if_match: self.pin.get().and_then(|pin| pin.tag.clone()),
            ..GetOptions::default()
        };
        let result = self.store().map_err(Failure::last)?.get_opts(&self.key, options).await;
        let result = result.map_err(|cause| explain(&self.url, &self.key, cause))?;
        let meta = &result.meta;
        let pin = Pin { length: meta.size, tag: meta.e_tag.clone(), version: meta.version.clone() };
        Ok((pin, result))
    }
}

/// What a failed request means to a person.
pub(crate) fn explain(url: &Url, key: &Key, cause: object_store::Error) -> Failure {
    use object_store::Error as Cause;
    let (host, scheme) = (url.host_str().unwrap_or_default(), url.scheme());
    let place = format!("bucket \"{host}\", object \"{key}\"");
    let (kind, message, hint) = match &cause {
        Cause::NotFound { .. } => (
            Kind::NotFound,
            format!("there is no such object ({place})"),
            "Check the bucket and the object's name; without permission to list, some servers say this for every object.",
        ),
        Cause::PermissionDenied { .. } | Cause::Unauthenticated { .. } => {
            (Kind::PermissionDenied, format!("the server refused access ({place})"), credentials_hint(scheme))
        }
        Cause::Precondition { .. } | Cause::NotModified { .. } => return Failure::changed(),
        _ => {
            let said = cause.to_string();
            let kind = Kind::Io;
            let hint = if said.contains("redirect") || said.contains("Redirect") || said.contains("301") {
                "The bucket is in another region: set AWS_REGION, or region in storage_options."
            } else if said.contains("169.254.") || said.contains("redential") {
                credentials_hint(scheme)
            } else {
                "Check the endpoint and the network; AWS_ENDPOINT_URL or endpoint_url in storage_options names a server of your own."
            };
            (kind, format!("the request failed ({place})"), hint)
        }
    };
    Failure::last(Error::new(kind, message).with_hint(hint).with_cause(cause))
}

impl Origin for Bucket {
    fn get(&self, range: Range<u64>) -> BoxFuture<'_, Result<Body, Failure>> {
        async move {
            let start = range.start;
            let (pin, result) = self.ask(range).await?;
            if self.pin.get() != Some(&pin) {
                return Err(Failure::changed());
            }
            if result.range.start != start {
                return Err(Failure::last(Error::new(
                    Kind::Io,
                    "the server sent another part than was asked for",
                )));
            }
            Ok(body(result))
        }
        .boxed()
    }

    fn open(&self, most: u64) -> BoxFuture<'_, Result<(u64, Body), Failure>> {
        async move {
            let (pin, body) = match self.ask(0..most).await {
                Ok((pin, result)) => (pin, body(result)),
                // An empty object has no range at all, which servers answer in various ways.
                Err(failure) if failure.error.kind() == Kind::Io => {
                    let meta = self.store().map_err(Failure::last)?.head(&self.key).await;
                    match meta {
                        Ok(meta) if meta.size == 0 => {
                            let pin = Pin { length: 0, tag: meta.e_tag, version: meta.version };
                            (pin, futures_util::stream::empty().boxed())
                        }
                        _ => return Err(failure),
                    }
                }
                Err(failure) => return Err(failure),
            };
            let length = pin.length;
            if *self.pin.get_or_init(|| pin.clone()) == pin {
                Ok((length, body))
            } else {
                Err(Failure::changed())
            }
        }
        .boxed()
    }
}

pub(crate) fn body(result: GetResult) -> Body {
    let broken = |cause: object_store::Error| {
        Failure::passing(Error::new(Kind::Io, "the server's answer broke off").with_cause(cause))
    };
    result.into_stream().map(move |chunk| chunk.map_err(broken)).boxed()
}

fn credentials_hint(scheme: &str) -> &'static str {
    match scheme {
        "s3" | "s3a" => {
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or AWS_PROFILE, or run on a machine with a role); for public buckets pass storage_options={\"anon\": \"true\"} or set AWS_SKIP_SIGNATURE=true."
        }
        "gs" | "gcs" => {
            "Set GOOGLE_APPLICATION_CREDENTIALS, or log in with `gcloud auth application-default login`."
        }
        _ => {
            "Set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or log in with `az login` and set AZURE_USE_AZURE_CLI=true."
        }
    }
}

type Stores = Mutex<HashMap<(String, StorageOptions, usize), Arc<dyn ObjectStore>>>;

/// The connection to a bucket that repeats a request so many times: one for all its objects, in each process.
pub(crate) fn connect(url: &Url, options: &StorageOptions, retries: usize) -> Result<Arc<dyn ObjectStore>> {
    static STORES: PerProcess<Stores> = PerProcess::new();
    let stores = STORES.get(|| Ok(Mutex::default()))?;
    let bucket = &url[..url::Position::AfterHost];
    let key = (bucket.to_string(), options.clone(), retries);
    let mut stores = stores.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = stores.get(&key) {
        return Ok(Arc::clone(store));
    }
    let store = build(url.scheme(), bucket, options, retries)?;
    stores.insert(key, Arc::clone(&store));
    Ok(store)
}

fn build(
    scheme: &str,
    bucket: &str,
    options: &StorageOptions,
    retries: usize,
) -> Result<Arc<dyn ObjectStore>> {
    use_ring();
    let retry = RetryConfig { max_retries: retries, retry_timeout: RETRY_WITHIN, ..RetryConfig::default() };
    let endpoint = options.get("endpoint_url").or_else(|| options.get("endpoint")).map(str::to_string);
    let client = ClientOptions::new()
        .with_timeout_disabled()
        .with_read_timeout(Duration::from_secs(30))
        .with_connect_timeout(Duration::from_secs(10));
    let failed = |cause: object_store::Error| {
        Error::argument(format!("the connection to {bucket} cannot be set up: {cause}")).with_hint(
            "Check the names and values of storage_options and of the cloud's environment variables.",
        )
    };
    Ok(match scheme {
        "s3" | "s3a" => {
            let mut builder = AmazonS3Builder::from_env().with_url(bucket).with_retry(retry);
            let given = |variable: &str| std::env::var(variable).is_ok_and(|value| !value.is_empty());
            if !given("AWS_ACCESS_KEY_ID")
                && options.get("aws_access_key_id").or(options.get("key")).is_none()
            {
                for (name, value) in aws_profile(options) {
                    builder = builder.with_config(name, value);
                }
            }
            let endpoint = endpoint
                .or_else(|| std::env::var("AWS_ENDPOINT_URL_S3").ok())
                .or_else(|| std::env::var("AWS_ENDPOINT_URL").ok());
            let plain = endpoint.as_deref().is_some_and(|address| address.starts_with("http://"));
            if let Some(endpoint) = endpoint {
                builder = builder.with_endpoint(endpoint);
            }
            for (name, value) in options.iter() {
                if let Some(key) = aws_key(name)? {
                    builder = builder.with_config(key, value);
                }
            }
            Arc::new(builder.with_client_options(client.with_allow_http(plain)).build().map_err(failed)?)
        }
        "gs" | "gcs" => {
            let bucket = bucket.replacen("gcs://", "gs://", 1);
            let mut builder = GoogleCloudStorageBuilder::from_env().with_url(bucket).with_retry(retry);
            let plain = endpoint.as_deref().is_some_and(|address| address.starts_with("http://"));
            if let Some(endpoint) = endpoint {
                builder = builder.with_config(GoogleConfigKey::BaseUrl, endpoint);
            }
            for (name, value) in options.iter().filter(|(name, _)| !name.starts_with("endpoint")) {
                builder = builder.with_config(parse::<GoogleConfigKey>(name)?, value);
            }
            Arc::new(builder.with_client_options(client.with_allow_http(plain)).build().map_err(failed)?)
        }
        _ => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_url(bucket).with_retry(retry);
            let plain = endpoint.as_deref().is_some_and(|address| address.starts_with("http://"));
            if let Some(endpoint) = endpoint {
                builder = builder.with_endpoint(endpoint);
            }
            for (name, value) in options.iter().filter(|(name, _)| !name.starts_with("endpoint")) {
                let key = match name {
                    "account_name" => AzureConfigKey::AccountName,
                    "account_key" => AzureConfigKey::AccessKey,
                    "sas_token" => AzureConfigKey::SasKey,
                    other => parse::<AzureConfigKey>(other)?,
                };
                builder = builder.with_config(key, value);
            }
            Arc::new(builder.with_client_options(client.with_allow_http(plain)).build().map_err(failed)?)
        }
    })
}

/// An option of S3 by any of the names that packages give it; `None` for the endpoint, which is handled apart.
fn aws_key(name: &str) -> Result<Option<AmazonS3ConfigKey>> {
    Ok(Some(match name {
        "endpoint" | "endpoint_url" | "profile" | "aws_profile" => return Ok(None),
        "key" => AmazonS3ConfigKey::AccessKeyId,
        "secret" => AmazonS3ConfigKey::SecretAccessKey,
        "anon" => AmazonS3ConfigKey::SkipSignature,
        other => parse(other)?,
    }))
}

fn parse<K: std::str::FromStr>(name: &str) -> Result<K> {
    name.parse().map_err(|_| {
        Error::argument(format!("\"{name}\" is no option of this kind of storage")).with_hint(
            "Options are named as in object_store and fsspec: endpoint_url, region, aws_access_key_id, …",
        )
    })
}
