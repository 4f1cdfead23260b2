//! Objects on their way into a bucket: small ones in one request, larger ones in parts that are sent while the next are still being made.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use object_store::path::Path as Key;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use tokio::task::JoinHandle;
use ztensor::{Error, Kind, Result};

use super::Bucket;
use crate::fetch::PART;
use crate::process::{block_on, runtime};

/// Parts on their way at once. What an upload holds in memory is so many parts and the one that is being filled.
const UNDER_WAY: usize = 4;

/// An object on its way. Dropped before it is finished, nothing is left under its key.
pub struct Upload {
    bucket: Bucket,
    key: Key,
    filling: Vec<u8>,
    parts: Option<Parts>,
}

struct Parts {
    /// The lock is never contended; it lets who holds an upload be shared between threads.
    upload: Mutex<Box<dyn MultipartUpload>>,
    under_way: VecDeque<JoinHandle<object_store::Result<()>>>,
}

impl Parts {
    fn upload(&mut self) -> &mut dyn MultipartUpload {
        self.upload.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut()
    }
}

impl Upload {
    pub(super) fn new(bucket: Bucket, key: Key) -> Upload {
        Upload { bucket, key, filling: Vec::new(), parts: None }
    }

    /// Takes the next bytes. Waits only while too many parts are on their way.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PART - self.filling.len()));
            self.filling.extend_from_slice(now);
            bytes = later;
            if self.filling.len() == PART {
                self.send()?;
            }
        }
        Ok(())
    }

    /// Sends the part that was filled.
    fn send(&mut self) -> Result<()> {
        let part = std::mem::take(&mut self.filling);
        let Upload { bucket, key, parts, .. } = self;
        let (bucket, key) = (&*bucket, &*key);
        let sending = async {
            let parts = match parts {
                Some(parts) => parts,
                None => {
                    let upload =
                        bucket.ask(key, |store| async move { store.put_multipart(key).await }).await?;
                    parts.insert(Parts { upload: Mutex::new(upload), under_way: VecDeque::new() })
                }
            };
            while parts.under_way.len() >= UNDER_WAY
                && let Some(first) = parts.under_way.pop_front()
            {
                arrived(bucket, key, first).await?;
            }
            let sent = parts.upload().put_part(PutPayload::from(part));
            parts.under_way.push_back(runtime()?.spawn(sent));
            Ok(())
        };
        block_on(sending)?
    }

    /// Makes the object exist.
    pub fn finish(mut self) -> Result<()> {
        let last = std::mem::take(&mut self.filling);
        let Upload { bucket, key, parts, .. } = &mut self;
        let (bucket, key) = (&*bucket, &*key);
        let Some(mut parts) = parts.take() else {
            let payload = PutPayload::from(last);
            let put = bucket.ask(key, |store| {
                let payload = payload.clone();
                async move { store.put(key, payload).await }
            });
            return block_on(put)?.map(drop);
        };
        let sent = block_on(async {
            if !last.is_empty() {
                let sent = parts.upload().put_part(PutPayload::from(last));
                parts.under_way.push_back(runtime()?.spawn(sent));
            }
            for part in parts.under_way.drain(..) {
                arrived(bucket, key, part).await?;
            }
            match parts.upload().complete().await {
                Ok(_) => Ok(()),
                // The answer may be lost of a completion that took place: then the object is there, and it is nobody else's.
                Err(cause) => match bucket.ask(key, |store| async move { store.head(key).await }).await {
                    Ok(_) => Ok(()),
                    Err(_) => Err(bucket.failed(key, cause).error),
                },
            }
        })?;
        if sent.is_err() {
            abort(parts);
        }
        sent
    }
}

async fn arrived(bucket: &Bucket, key: &Key, part: JoinHandle<object_store::Result<()>>) -> Result<()> {
    match part.await {
        Ok(sent) => sent.map_err(|cause| bucket.failed(key, cause).error),
        Err(cause) => Err(Error::new(Kind::Io, "a part was not sent").with_cause(cause)),
    }
}

/// Tells the server that the parts are not needed. If that does not reach it, they are garbage that its own rules clear away.
fn abort(parts: Parts) {
    parts.under_way.iter().for_each(JoinHandle::abort);
    let mut upload = parts.upload.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Ok(runtime) = runtime() {
        drop(runtime.spawn(async move { upload.abort().await }));
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            abort(parts);
        }
    }
}
