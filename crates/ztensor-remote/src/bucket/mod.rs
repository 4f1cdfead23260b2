//! A folder of a bucket as storage for objects that are written once: put, create if absent, ranges, lists and deletes. Requests that change nothing when
//! they arrive twice are repeated here; a create is sent exactly once, because only who sent it can find out what became of it.

mod upload;

pub use upload::Upload;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use url::Url;
use ztensor::{Error, Kind, Result};

use crate::failure::{Failure, Retry};
use crate::fetch::{self, Patience};
use crate::location;
use crate::options::StorageOptions;
use crate::origin::bucket::explain;
use crate::origin::connection::{Connection, RETRIES};
use crate::origin::{Body, Origin, Start};
use crate::process::block_on;

/// Requests at once, where many small objects are asked for.
const SIDE_BY_SIDE: usize = 16;

/// Length and time of writing of an object, by the server's clock since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The number of bytes.
    pub length: u64,
    /// When it was written.
    pub written: Duration,
}

/// A folder of a bucket.
#[derive(Clone)]
pub struct Bucket {
    url: Url,
    options: StorageOptions,
    prefix: String,
}

/// Whether a path is the URL of a bucket or of a folder in one.
pub fn is_bucket(path: &str) -> bool {
    location::scheme(path).is_some_and(|scheme| !scheme.starts_with("http") && scheme != "hf")
}

impl Bucket {
    /// The folder at a URL such as `s3://bucket/folder`. No request is made.
    pub fn open(url: &str, options: &StorageOptions) -> Result<Bucket> {
        let bad = |reason: String| Error::argument(reason).with_path(&location::shown(url));
        if !is_bucket(url) {
            return Err(bad("this is no URL of a bucket; known are s3://, gs:// and az://".into()));
        }
        let parsed = Url::parse(url).map_err(|cause| bad(format!("the URL cannot be read: {cause}")))?;
        if parsed.host_str().is_none_or(str::is_empty) {
            return Err(bad("the URL names no bucket".into()));
        }
        let prefix = Key::from_url_path(parsed.path())
            .map_err(|cause| bad(format!("the folder's name cannot be read: {cause}")))?;
        let bucket = Bucket { url: parsed, options: options.clone(), prefix: prefix.to_string() };
        bucket.store()?;
        Ok(bucket)
    }

    /// The URL, as messages show it.
    pub fn describe(&self) -> String {
        format!("\"{}\"", location::shown(self.url.as_str()).display())
    }

    fn store(&self) -> Result<Arc<dyn ObjectStore>> {
        Connection::new(&self.url, &self.options, RETRIES).open()
    }

    fn key(&self, key: &str) -> Result<Key> {
        let whole = if self.prefix.is_empty() { key.to_owned() } else { format!("{}/{key}", self.prefix) };
        Key::parse(&whole).map_err(|cause| Error::argument(format!("\"{whole}\" is no key: {cause}")))
    }

    /// What a failure means, and whether another try may help: trouble on the way may pass, answers do not.
    fn failed(&self, key: &Key, cause: object_store::Error) -> Failure {
        use object_store::Error as Cause;
        let passing = matches!(cause, Cause::Generic { .. } | Cause::JoinError { .. });
        let mut failure = explain(&self.url, key, cause);
        failure.retry = if passing { Retry::Soon } else { Retry::Never };
        failure
    }

    /// Repeats a request that may be repeated until it is answered.
    async fn ask<T, F>(&self, key: &Key, request: impl Fn(Arc<dyn ObjectStore>) -> F) -> Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let mut patience = Patience::new();
        loop {
            let request = request(self.store()?);
            match fetch::answer(async { request.await.map_err(|cause| self.failed(key, cause)) }).await {
                Ok(found) => return Ok(found),
                Err(failure) => patience.wait(failure, false).await?,
            }
        }
    }

    /// Starts an object under a key that nobody else writes. It exists once it is finished.
    pub fn put(&self, key: &str) -> Result<Upload> {
        Ok(Upload::new(self.clone(), self.key(key)?))
    }

    /// Creates an object if the key is free; `false` where the server says that it is taken, or that somebody else is at it. The request is sent once.
    pub fn create(&self, key: &str, bytes: &[u8]) -> Result<bool> {
        let key = self.key(key)?;
        let once = Connection::new(&self.url, &self.options, 0).open()?;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let payload = bytes.to_vec().into();
        let sent = async {
            let put = once.put_opts(&key, payload, options);
            fetch::answer(put.map(|done| match done {
                Ok(_) => Ok(true),
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                    Ok(false)
                }
                Err(cause @ object_store::Error::NotFound { .. }) => Err(self.no_bucket(cause)),
                Err(cause) => Err(self.failed(&key, cause)),
            }))
            .await
        };
        block_on(sent)?.map_err(|failure| failure.error)
    }

    fn no_bucket(&self, cause: object_store::Error) -> Failure {
        let host = self.url.host_str().unwrap_or_default();
        let error = Error::new(Kind::NotFound, format!("there is no bucket \"{host}\""));
        Failure::last(
            error.with_hint("Make the bucket first, or check its name and the endpoint.").with_cause(cause),
        )
    }

    /// Fills a buffer with the bytes of an object from `offset` on. Parts are fetched side by side, and again where an answer broke off.
    pub fn get(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let origin = Object { bucket: self, key: self.key(key)? };
        block_on(fetch::fetch(&origin, offset, out))?
    }

    /// Reads a whole object of at most `most` bytes; `None` where there is none.
    pub fn read(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>> {
        block_on(self.read_whole(key, most))?
    }

    /// Reads whole objects, many at once; in the order of the keys.
    pub fn read_all(&self, keys: &[String], most: u64) -> Result<Vec<Option<Vec<u8>>>> {
        let reads: Vec<_> = keys.iter().map(|key| self.read_whole(key, most).boxed()).collect();
        block_on(stream::iter(reads).buffered(SIDE_BY_SIDE).try_collect())?
    }

    async fn read_whole(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let key = self.key(key)?;
        let mut patience = Patience::new();
        loop {
            let failure = match self.try_read(&key, most).await {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(failure) if failure.error.kind() == Kind::NotFound => return Ok(None),
                Err(failure) => failure,
            };
            patience.wait(failure, false).await?;
        }
    }

    async fn try_read(&self, key: &Key, most: u64) -> Result<Vec<u8>, Failure> {
        let store = self.store().map_err(Failure::last)?;
        let got = store.get_opts(key, GetOptions::default());
        let result = fetch::answer(got.map(|got| got.map_err(|cause| self.failed(key, cause)))).await?;
        let length = result.meta.size;
        if length > most {
            let message = format!("the object \"{key}\" has more than {most} bytes");
            return Err(Failure::last(Error::new(Kind::Limit, message)));
        }
        let mut bytes = vec![0; length as usize];
        let mut done = 0;
        fetch::copy(crate::origin::bucket::body(result), &mut bytes, &mut done).await?;
        match done == bytes.len() {
            true => Ok(bytes),
            false => Err(Failure::passing(Error::new(Kind::Io, "the server's answer ended early"))),
        }
    }

    /// Length and time of writing of an object; `None` where there is none.
    pub fn stat(&self, key: &str) -> Result<Option<Stat>> {
        block_on(self.head(key))?
    }

    /// Length and time of writing of many objects, in the order of the keys.
    pub fn stat_all(&self, keys: &[String]) -> Result<Vec<Option<Stat>>> {
        let heads: Vec<_> = keys.iter().map(|key| self.head(key).boxed()).collect();
        block_on(stream::iter(heads).buffered(SIDE_BY_SIDE).try_collect())?
    }

    async fn head(&self, key: &str) -> Result<Option<Stat>> {
        let key = &self.key(key)?;
        match self.ask(key, |store| async move { store.head(key).await }).await {
            Ok(meta) => Ok(Some(stat(&meta))),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The objects below a prefix that ends with `/` (all of them if it is empty), or, unless `deep`, directly below it. Keys are given as they are asked for.
    pub fn list(&self, prefix: &str, deep: bool) -> Result<Vec<(String, Stat)>> {
        let whole = &self.key(prefix)?;
        let below = match whole.as_ref().is_empty() {
            true => None,
            false => Some(whole),
        };
        let listed = block_on(self.ask(whole, |store| async move {
            match deep {
                true => store.list(below).try_collect().await,
                false => store.list_with_delimiter(below).await.map(|found| found.objects),
            }
        }))?;
        let listed: Vec<ObjectMeta> = match listed {
            Ok(listed) => listed,
            // Some servers say so of an empty folder, and all of a bucket that is not there.
            Err(error) if error.kind() == Kind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let own = |meta: ObjectMeta| {
            let key = meta.location.as_ref().strip_prefix(self.prefix.as_str())?;
            let key = if self.prefix.is_empty() { key } else { key.strip_prefix('/')? };
            Some((key.to_owned(), stat(&meta)))
        };
        Ok(listed.into_iter().filter_map(own).collect())
    }

    /// Deletes an object. That there is none is no error.
    pub fn delete(&self, key: &str) -> Result<()> {
        let key = &self.key(key)?;
        match block_on(self.ask(key, |store| async move { store.delete(key).await }))? {
            Err(error) if error.kind() != Kind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// An object whose ranges are read. It was written once, so that no state of it has to be held on to.
struct Object<'a> {
    bucket: &'a Bucket,
    key: Key,
}

impl Origin for Object<'_> {
    fn get(&self, range: Range<u64>) -> BoxFuture<'_, Result<Body, Failure>> {
        async move {
            let start = range.start;
            let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
            let store = self.bucket.store().map_err(Failure::last)?;
            let result = store.get_opts(&self.key, options).await;
            let result = result.map_err(|cause| self.bucket.failed(&self.key, cause))?;
            if result.range.start != start {
                let error = Error::new(Kind::Io, "the server sent another part than was asked for");
                return Err(Failure::last(error));
            }
            Ok(crate::origin::bucket::body(result))
        }
        .boxed()
    }

    fn open(&self, most: u64) -> BoxFuture<'_, Result<Start, Failure>> {
        async move {
            let store = self.bucket.store().map_err(Failure::last)?;
            let meta = store.head(&self.key).await.map_err(|cause| self.bucket.failed(&self.key, cause))?;
            Ok(Start::InParts(meta.size, self.get(0..most.min(meta.size)).await?))
        }
        .boxed()
    }
}

fn stat(meta: &ObjectMeta) -> Stat {
    let written = meta.last_modified.timestamp_millis();
    Stat { length: meta.size, written: Duration::from_millis(u64::try_from(written).unwrap_or_default()) }
}
