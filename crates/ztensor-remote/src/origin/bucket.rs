//! Objects in S3, Google Cloud Storage and Azure, and in whatever speaks their protocols.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, GetResult, ObjectStore, ObjectStoreExt};
use url::Url;
use ztensor::{Error, Kind, Result};

use super::connection::{Connection, RETRIES};
use super::{Body, Origin, Start};
use crate::failure::Failure;
use crate::options::StorageOptions;

/// An object.
pub(crate) struct Bucket {
    url: Url,
    connection: Connection,
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
        let connection = Connection::new(url, options, RETRIES);
        let bucket = Bucket { url: url.clone(), connection, key, pin: OnceLock::new() };
        bucket.store()?;
        Ok(bucket)
    }

    fn store(&self) -> Result<Arc<dyn ObjectStore>> {
        self.connection.open()
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
    let reason = Reason::of(&cause);
    let place = format!("{reason}bucket \"{host}\", object \"{key}\"");
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
        _ if reason.misses_credentials => {
            (Kind::PermissionDenied, format!("there are no credentials ({place})"), credentials_hint(scheme))
        }
        _ => {
            let hint = if reason.redirected {
                "The bucket is in another region: set AWS_REGION, or region in storage_options."
            } else {
                "Check the endpoint and the network; AWS_ENDPOINT_URL or endpoint_url in storage_options names a server of your own."
            };
            (Kind::Io, format!("the request failed ({place})"), hint)
        }
    };
    Failure::last(Error::new(kind, message).with_hint(hint).with_cause(cause))
}

/// What the client's error says in the words of the server, or of the system where there was no answer.
struct Reason {
    said: Option<String>,
    misses_credentials: bool,
    redirected: bool,
}

impl Reason {
    fn of(cause: &dyn std::error::Error) -> Reason {
        let whole = cause.to_string();
        let mut innermost = cause;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        // Where no key is set, the client asks the service that gives machines of a cloud their roles.
        let asked =
            ["/latest/api/token", "/latest/meta-data", "/metadata/identity", "metadata.google.internal"];
        let misses_credentials =
            asked.iter().any(|place| whole.contains(place)) || whole.contains("169.254.");
        let redirected = ["Received redirect", "status code: 301"].iter().any(|word| whole.contains(word));
        let status =
            whole.split_once("status code: ").map(|(_, rest)| rest.split(':').next().unwrap_or(rest));
        let said = match (misses_credentials, status) {
            (true, _) => None,
            (false, Some(status)) => Some(format!("status {}", status.trim())),
            // The outermost sentence names addresses, which may hold a signature.
            (false, None) => {
                Some(innermost.to_string()).filter(|said| said.len() < 200 && !said.contains("://"))
            }
        };
        Reason { said, misses_credentials, redirected }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.said.as_ref().map_or(Ok(()), |said| write!(f, "{said}; "))
    }
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

    fn open(&self, most: u64) -> BoxFuture<'_, Result<Start, Failure>> {
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
                Ok(Start::InParts(length, body))
            } else {
                Err(Failure::changed())
            }
        }
        .boxed()
    }

    fn identity(&self) -> Option<String> {
        let Pin { tag, version, .. } = self.pin.get()?;
        // Tags of buckets are strong, but for what passes a proxy that compresses.
        let tag = tag.as_deref().filter(|tag| !tag.starts_with("W/"))?;
        let version = version.as_deref().unwrap_or_default();
        Some(format!("{}\n{}\n{tag}\n{version}", self.connection.place(), self.key))
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
