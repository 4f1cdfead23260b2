//! What a file may cost before its contents are trusted. Parsers charge a [`Budget`] before each allocation
//! whose size comes from the file, so that a small hostile file cannot take large memory or time.

use crate::error::{Error, Kind, Result};

/// Upper bounds that protect the process while a file is indexed. The defaults admit every model file seen in practice.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one manifest, header or pickle (default 1 GiB).
    pub header_bytes: u64,
    /// Tensors in one file (default 16 million).
    pub objects: u64,
    /// Nesting of containers in metadata (default 64).
    pub depth: usize,
    /// Memory the index and the metadata may take (default 4 GiB).
    pub index_bytes: u64,
    /// Bytes that are taken into memory from a pipe (default 1 GiB).
    pub stream_bytes: u64,
    /// Steps of an interpreter such as the pickle machine (default 500 million).
    pub steps: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            header_bytes: 1 << 30,
            objects: 1 << 24,
            depth: 64,
            index_bytes: 4 << 30,
            stream_bytes: 1 << 30,
            steps: 500_000_000,
        }
    }
}

/// A running account against [`Limits`], charged before memory is allocated.
#[derive(Debug)]
pub struct Budget {
    limits: Limits,
    objects: u64,
    bytes: u64,
}

impl Budget {
    /// A fresh account.
    pub fn new(limits: Limits) -> Self {
        Budget { limits, objects: 0, bytes: 0 }
    }

    /// The limits behind the account.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Accounts for `bytes` of memory about to be allocated.
    pub fn charge(&mut self, bytes: u64) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limits.index_bytes {
            return Err(exceeded(
                "the index would take more than",
                self.limits.index_bytes,
                "bytes of memory",
                "index",
            ));
        }
        Ok(())
    }

    /// An account for another thread, with the memory that is left; its [`charged`](Self::charged) bytes are to be charged here.
    #[cfg(feature = "hdf5")]
    pub(crate) fn share(&self) -> Budget {
        let index_bytes = self.limits.index_bytes.saturating_sub(self.bytes);
        Budget::new(Limits { index_bytes, ..self.limits.clone() })
    }

    /// The memory accounted for so far.
    #[cfg(feature = "hdf5")]
    pub(crate) fn charged(&self) -> u64 {
        self.bytes
    }

    /// Accounts for one more tensor.
    pub fn charge_object(&mut self) -> Result<()> {
        self.objects += 1;
        if self.objects > self.limits.objects {
            return Err(exceeded("the file has more than", self.limits.objects, "tensors", "objects"));
        }
        Ok(())
    }

    /// Checks the length of a header before it is read.
    pub fn check_header(&self, length: u64) -> Result<()> {
        if length > self.limits.header_bytes {
            return Err(exceeded("the header is longer than", self.limits.header_bytes, "bytes", "header"));
        }
        Ok(())
    }
}

/// An error that names the limit to raise.
pub(crate) fn exceeded(what: &str, limit: u64, unit: &str, name: &str) -> Error {
    Error::new(Kind::Limit, format!("{what} {limit} {unit}")).with_hint(format!(
        "If the file is trusted, raise the limit: limits=ztensor.Limits({name}=...) in Python, --limit {name}=... at the shell."
    ))
}
