//! What a file may cost before its contents are trusted. Parsers charge a [`Budget`] before each allocation
//! whose size comes from the file, and a [`Meter`] counts what is decoded for them, so that a small hostile file cannot take large memory or
//! time; tensors are decoded as long as the file that holds them does not look like a bomb.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Hints, Kind, Result};

/// Upper bounds that protect the process. The defaults admit every model file seen in practice and suit a container of 2 GiB.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one manifest, header or pickle, and bytes that are decoded to index an archive (default 512 MiB).
    pub header_bytes: u64,
    /// Tensors in one file (default 16 million).
    pub objects: u64,
    /// Nesting of containers in metadata (default 64).
    pub depth: usize,
    /// Memory the index and the metadata may take (default 1 GiB).
    pub index_bytes: u64,
    /// Bytes that are taken into memory from a pipe (default 1 GiB).
    pub stream_bytes: u64,
    /// Bytes that the tensors of a file may take once decoded (default: any number). What is lent from a memory map is not decoded.
    pub decoded_bytes: u64,
    /// How many times as long as the file its tensors may be once decoded (default 200). Up to [`Limits::ALWAYS_DECODED`] they may be longer.
    pub ratio: u64,
    /// Steps of an interpreter such as the pickle machine (default 500 million).
    pub steps: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            header_bytes: 512 << 20,
            objects: 1 << 24,
            depth: 64,
            index_bytes: 1 << 30,
            stream_bytes: 1 << 30,
            decoded_bytes: u64::MAX,
            ratio: 200,
            steps: 500_000_000,
        }
    }
}

impl Limits {
    /// Bytes that any file may decode to, whatever its ratio. Constant tensors, such as the state of an optimizer that has not made a step,
    /// become a few bytes; a model of real weights is never a hundredth of itself, so larger files reach the ratio only on purpose.
    pub const ALWAYS_DECODED: u64 = 1 << 30;

    /// The names of the limits that users set.
    pub const NAMES: [&str; 6] = ["header", "index", "objects", "stream", "decoded", "ratio"];

    /// Sets a limit by the name it has in Python and at the shell.
    pub fn set(&mut self, name: &str, value: u64) -> Result<()> {
        let limit = match name {
            "header" => &mut self.header_bytes,
            "index" => &mut self.index_bytes,
            "objects" => &mut self.objects,
            "stream" => &mut self.stream_bytes,
            "decoded" => &mut self.decoded_bytes,
            "ratio" => &mut self.ratio,
            other => {
                let known = Limits::NAMES.join(", ");
                return Err(Error::argument(format!(
                    "there is no limit \"{other}\"; the limits are {known}"
                )));
            }
        };
        *limit = value;
        Ok(())
    }

    /// Refuses to decode `stored` bytes to so many that it looks like a bomb.
    pub fn check_decoded(&self, decoded: u64, stored: u64) -> Result<()> {
        if decoded > self.decoded_bytes {
            let what = format!("{decoded} bytes would have to be decoded, but the limit is");
            return Err(exceeded(&what, self.decoded_bytes, "bytes", "decoded"));
        }
        if decoded > Limits::ALWAYS_DECODED && decoded / self.ratio.max(1) >= stored.max(1) {
            let what = format!("{stored} bytes would decode to {decoded}, which is more than");
            return Err(exceeded(&what, self.ratio, "times as many", "ratio"));
        }
        Ok(())
    }
}

/// A running account against [`Limits`], charged before memory is allocated.
#[derive(Debug)]
pub(crate) struct Budget {
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

/// Counts the bytes that are decoded while a file is indexed, on any thread. Once the file is open, nothing is counted.
#[derive(Debug)]
pub(crate) struct Meter {
    most: u64,
    decoded: AtomicU64,
}

/// What a meter shows that has stopped.
const STOPPED: u64 = u64::MAX;

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Meter { most: limits.header_bytes, decoded: AtomicU64::new(0) }
    }

    /// Whether the file is still being indexed.
    pub(crate) fn runs(&self) -> bool {
        self.decoded.load(Ordering::Relaxed) != STOPPED
    }

    /// Counts bytes that are about to be decoded.
    pub(crate) fn charge(&self, bytes: u64) -> Result<()> {
        let add = |decoded: u64| (decoded != STOPPED).then(|| decoded.saturating_add(bytes).min(STOPPED - 1));
        let before = self.decoded.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        match before {
            Ok(before) if before.saturating_add(bytes) > self.most => Err(exceeded(
                "to index the file, one would have to decode more than",
                self.most,
                "bytes",
                "header",
            )),
            _ => Ok(()),
        }
    }

    /// Counts no more: the file is indexed.
    pub(crate) fn stop(&self) {
        self.decoded.store(STOPPED, Ordering::Relaxed);
    }
}

/// An error that names the limit to raise.
pub(crate) fn exceeded(what: &str, limit: u64, unit: &str, name: &str) -> Error {
    let trusted = "If the file is trusted, ";
    Error::new(Kind::Limit, format!("{what} {limit} {unit}")).with_hints(Hints {
        rust: format!("{trusted}raise the limit \"{name}\" in OpenOptions::limits.").into(),
        python: format!("{trusted}raise the limit: limits=ztensor.Limits({name}=...).").into(),
        shell: format!("{trusted}raise the limit: --limit {name}=...").into(),
    })
}

/// A size with a unit: decimal (KB, MB, GB) or binary (KiB, MiB, GiB); `None` if it is none.
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic() || letter == ' ');
    let factor: f64 = match text.get(digits.len()..)?.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kb" | "k" => 1e3,
        "mb" | "m" => 1e6,
        "gb" | "g" => 1e9,
        "tb" | "t" => 1e12,
        "kib" => 1024.0,
        "mib" => 1_048_576.0,
        "gib" => 1_073_741_824.0,
        "tib" => 1_099_511_627_776.0,
        _ => return None,
    };
    let number = digits.parse::<f64>().ok().filter(|number| *number > 0.0)?;
    Some((number * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        assert_eq!(parse_size("1.5 KiB"), Some(1536));
        assert_eq!(parse_size("5GB"), Some(5_000_000_000));
        assert_eq!([parse_size("5XB"), parse_size("-1"), parse_size("")], [None; 3]);
    }

    #[test]
    fn a_bomb_is_what_is_large_and_out_of_proportion() {
        let limits = Limits::default();
        let always = Limits::ALWAYS_DECODED;
        limits.check_decoded(always, 0).unwrap();
        limits.check_decoded(70 << 30, 40 << 30).unwrap();
        limits.check_decoded(199 * (always / 100), always / 100).unwrap();
        for (decoded, stored) in [(always + 1, 0), (always + 1, 242), (3 << 30, 481), (u64::MAX, 1 << 40)] {
            let error = limits.check_decoded(decoded, stored).unwrap_err();
            assert!(error.kind() == Kind::Limit && error.to_string().contains("ratio"), "{error}");
        }
        let strict = Limits { decoded_bytes: 1000, ..Limits::default() };
        strict.check_decoded(1000, 1000).unwrap();
        assert!(strict.check_decoded(1001, 1001).unwrap_err().to_string().contains("decoded"));
        let mut lenient = Limits::default();
        lenient.set("ratio", u64::MAX).unwrap();
        lenient.check_decoded(u64::MAX - 1, 1).unwrap();
        assert!(lenient.set("rate", 1).unwrap_err().to_string().contains("decoded, ratio"));
        Limits::NAMES.iter().for_each(|name| lenient.set(name, 7).unwrap());
    }

    #[test]
    fn a_meter_counts_until_it_is_stopped() {
        let meter = Meter::new(&Limits { header_bytes: 100, ..Limits::default() });
        meter.charge(60).unwrap();
        assert_eq!(meter.charge(60).unwrap_err().kind(), Kind::Limit);
        assert_eq!(meter.charge(u64::MAX).unwrap_err().kind(), Kind::Limit);
        assert!(meter.runs());
        meter.stop();
        assert!(!meter.runs());
        meter.charge(u64::MAX).unwrap();
    }
}
