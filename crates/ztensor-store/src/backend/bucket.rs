//! A store in a bucket. The requests are made by `ztensor-remote`; a create is sent once, and the protocol reads back what became of it.

use super::{Backend, Creation, Listed, Reach, Stat, Upload};
use ztensor::Result;
use ztensor_remote::StorageOptions;
use ztensor_remote::bucket;

/// Objects in a folder of a bucket.
pub struct Bucket {
    folder: bucket::Bucket,
}

impl Bucket {
    /// Storage at a URL such as `s3://bucket/folder`.
    pub fn open(url: &str, options: &StorageOptions) -> Result<Bucket> {
        Ok(Bucket { folder: bucket::Bucket::open(url, options)? })
    }
}

fn known(stat: bucket::Stat) -> Stat {
    Stat { length: stat.length, written: stat.written }
}

impl Backend for Bucket {
    fn describe(&self) -> String {
        self.folder.describe()
    }

    fn put(&self, key: &str) -> Result<Box<dyn Upload + '_>> {
        Ok(Box::new(self.folder.put(key)?))
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Creation> {
        Ok(if self.folder.create(key, bytes)? { Creation::Created } else { Creation::Exists })
    }

    fn get(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.folder.get(key, offset, out)
    }

    fn read(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>> {
        self.folder.read(key, most)
    }

    fn read_all(&self, keys: &[String], most: u64) -> Result<Vec<Option<Vec<u8>>>> {
        self.folder.read_all(keys, most)
    }

    fn stat(&self, key: &str) -> Result<Option<Stat>> {
        Ok(self.folder.stat(key)?.map(known))
    }

    fn stat_all(&self, keys: &[String]) -> Result<Vec<Option<Stat>>> {
        Ok(self.folder.stat_all(keys)?.into_iter().map(|stat| stat.map(known)).collect())
    }

    fn list(&self, prefix: &str, reach: Reach) -> Result<Vec<Listed>> {
        let listed = self.folder.list(prefix, reach == Reach::Tree)?;
        Ok(listed.into_iter().map(|(key, stat)| Listed { key, stat: known(stat) }).collect())
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.folder.delete(key)
    }
}

impl Upload for bucket::Upload {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        bucket::Upload::write(self, bytes)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        bucket::Upload::finish(*self)
    }
}
