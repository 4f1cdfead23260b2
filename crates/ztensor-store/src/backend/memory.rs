//! A store in memory, with a clock that tests turn. The simulation puts its faults in front of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Backend, Creation, Listed, Reach, Stat, Upload};
use ztensor::{Error, Kind, Result};

/// Objects in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, (Arc<[u8]>, Duration)>,
    now: Duration,
}

impl Memory {
    /// Nothing yet, at time zero.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Turns the storage's clock forward.
    pub fn advance(&self, time: Duration) {
        self.state().now += time;
    }

    /// All keys, in order.
    pub fn keys(&self) -> Vec<String> {
        self.state().objects.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, key: &str, bytes: &[u8]) -> Creation {
        let mut state = self.state();
        let now = state.now;
        if state.objects.contains_key(key) {
            return Creation::Exists;
        }
        state.objects.insert(key.to_owned(), (bytes.into(), now));
        Creation::Created
    }

    fn object(&self, key: &str) -> Option<Arc<[u8]>> {
        self.state().objects.get(key).map(|(bytes, _)| Arc::clone(bytes))
    }
}

impl Backend for Memory {
    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn is_at_hand(&self) -> bool {
        true
    }

    fn put(&self, key: &str) -> Result<Box<dyn Upload + '_>> {
        Ok(Box::new(MemoryUpload { memory: self, key: key.to_owned(), bytes: Vec::new() }))
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Creation> {
        Ok(self.insert(key, bytes))
    }

    fn get(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let bytes = self.object(key);
        let bytes =
            bytes.ok_or_else(|| Error::new(Kind::NotFound, format!("there is no object \"{key}\"")))?;
        let part = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)?.get(..out.len()));
        out.copy_from_slice(
            part.ok_or_else(|| Error::truncated(format!("the object \"{key}\" is too short")))?,
        );
        Ok(())
    }

    fn read(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>> {
        match self.object(key) {
            Some(bytes) if bytes.len() as u64 > most => {
                Err(Error::new(Kind::Limit, format!("the object \"{key}\" has more than {most} bytes")))
            }
            found => Ok(found.map(|bytes| bytes.to_vec())),
        }
    }

    fn stat(&self, key: &str) -> Result<Option<Stat>> {
        let state = self.state();
        let stat =
            |(bytes, written): &(Arc<[u8]>, Duration)| Stat { length: bytes.len() as u64, written: *written };
        Ok(state.objects.get(key).map(stat))
    }

    fn list(&self, prefix: &str, reach: Reach) -> Result<Vec<Listed>> {
        let state = self.state();
        let below = state.objects.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        let direct = below.filter(|(key, _)| reach == Reach::Tree || !key[prefix.len()..].contains('/'));
        let listed = direct.map(|(key, (bytes, written))| Listed {
            key: key.clone(),
            stat: Stat { length: bytes.len() as u64, written: *written },
        });
        Ok(listed.collect())
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.state().objects.remove(key);
        Ok(())
    }
}

struct MemoryUpload<'a> {
    memory: &'a Memory,
    key: String,
    bytes: Vec<u8>,
}

impl Upload for MemoryUpload<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        match self.memory.insert(&self.key, &self.bytes) {
            Creation::Created => Ok(()),
            Creation::Exists => {
                Err(Error::new(Kind::Conflict, "a random key is taken: the random numbers repeat"))
            }
        }
    }
}
