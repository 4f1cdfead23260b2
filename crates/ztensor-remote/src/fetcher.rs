//! The way to a file's bytes: its origin, with the cache of ranges before it where there is one.

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use ztensor::Result;

use crate::cache::Cache;
use crate::fetch::{self, CONCURRENT, PART};
use crate::origin::Origin;

/// The origin of a file, and its cache.
pub(crate) struct Fetcher {
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) cache: Option<Cache>,
}

impl Fetcher {
    /// Fills a buffer with the bytes from `offset` on, several parts at once.
    pub(crate) async fn fetch(&self, offset: u64, mut buffer: &mut [u8]) -> Result<()> {
        if self.cache.is_none() {
            return fetch::fetch(&*self.origin, offset, buffer).await;
        }
        let mut parts = Vec::new();
        let mut position = offset;
        while !buffer.is_empty() {
            // Parts end where blocks do: no block belongs to two.
            let longest = PART - (position % PART as u64) as usize;
            let (part, rest) = buffer.split_at_mut(longest.min(buffer.len()));
            let start = position;
            position += part.len() as u64;
            parts.push(self.fetch_part(start, part).boxed());
            buffer = rest;
        }
        stream::iter(parts).buffer_unordered(CONCURRENT).try_collect().await
    }

    /// Fills a buffer with one request, or as many as it takes.
    pub(crate) async fn fetch_part(&self, offset: u64, part: &mut [u8]) -> Result<()> {
        match &self.cache {
            Some(cache) => cache.fetch_part(&*self.origin, offset, part).await,
            None => fetch::fetch_part(&*self.origin, offset, part).await,
        }
    }
}
