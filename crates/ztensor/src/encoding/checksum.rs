//! Checksums as files store them. Each names its algorithm; all use the CPU's instructions where it has them.

use std::hash::Hasher as _;

use sha2::{Digest as _, Sha256};
use twox_hash::XxHash3_64;

use crate::error::{Error, Kind, Result};
use crate::index::DigestValue;

/// A running checksum of one algorithm.
pub(crate) enum Hasher {
    Crc32c(u32),
    Sha256(Box<Sha256>),
    Xxh3(Box<XxHash3_64>),
}

impl Hasher {
    pub(crate) fn crc32c() -> Self {
        Hasher::Crc32c(0)
    }

    pub(crate) fn sha256() -> Self {
        Hasher::Sha256(Box::default())
    }

    pub(crate) fn xxh3() -> Self {
        Hasher::Xxh3(Box::default())
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Crc32c(state) => *state = crc32c::crc32c_append(*state, bytes),
            Hasher::Sha256(state) => state.update(bytes),
            Hasher::Xxh3(state) => state.write(bytes),
        }
    }

    pub(crate) fn finish(self) -> DigestValue {
        match self {
            Hasher::Crc32c(state) => DigestValue::Crc32c(state),
            Hasher::Sha256(state) => DigestValue::Sha256(Box::new(state.finalize().into())),
            Hasher::Xxh3(state) => DigestValue::Xxh3(state.finish()),
        }
    }
}

impl DigestValue {
    /// Checks some bytes against the stored value.
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<()> {
        self.check_stream(|hasher| {
            hasher.update(bytes);
            Ok(())
        })
    }

    /// Checks bytes that are fed to the hasher piece by piece.
    pub(crate) fn check_stream(&self, feed: impl FnOnce(&mut Hasher) -> Result<()>) -> Result<()> {
        let mut hasher = match self {
            DigestValue::Crc32c(_) => Hasher::crc32c(),
            DigestValue::Sha256(_) => Hasher::sha256(),
            DigestValue::Xxh3(_) => Hasher::xxh3(),
        };
        feed(&mut hasher)?;
        let found = hasher.finish();
        if found == *self {
            return Ok(());
        }
        Err(Error::new(
            Kind::Checksum,
            format!("the checksum does not match: stored {self}, computed {found}"),
        )
        .with_hint("The data is damaged; fetch the file again or restore it from a backup."))
    }

    /// The value of a stored text such as `crc32c:0x1A2B3C4D`; `None` if it is of no known form.
    pub(crate) fn parse(text: &str) -> Option<DigestValue> {
        let (algorithm, value) = text.split_once(':')?;
        match algorithm {
            "crc32c" => {
                let digits = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")).unwrap_or(value);
                u32::from_str_radix(digits, 16).ok().map(DigestValue::Crc32c)
            }
            "sha256" => {
                let mut bytes = [0; 32];
                let digits = value.as_bytes();
                if digits.len() != 64 {
                    return None;
                }
                for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
                    *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
                }
                Some(DigestValue::Sha256(Box::new(bytes)))
            }
            "xxh3" => {
                (value.len() == 16).then(|| u64::from_str_radix(value, 16).ok().map(DigestValue::Xxh3))?
            }
            _ => None,
        }
    }
}

impl std::fmt::Display for DigestValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DigestValue::Crc32c(value) => write!(f, "crc32c:0x{value:08X}"),
            DigestValue::Sha256(bytes) => {
                f.write_str("sha256:")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            DigestValue::Xxh3(value) => write!(f, "xxh3:{value:016x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_their_text_form() {
        for hasher in [Hasher::crc32c(), Hasher::sha256(), Hasher::xxh3()] {
            let mut hasher = hasher;
            hasher.update(b"weights");
            let value = hasher.finish();
            assert_eq!(DigestValue::parse(&value.to_string()), Some(value.clone()));
            assert!(value.check(b"weights").is_ok());
            assert_eq!(value.check(b"weight5").unwrap_err().kind(), Kind::Checksum);
        }
    }

    #[test]
    fn known_answers() {
        let mut hasher = Hasher::crc32c();
        hasher.update(b"123456789");
        assert_eq!(hasher.finish(), DigestValue::Crc32c(0xE306_9283));
    }
}
