//! Files of servers that do not serve parts (`python -m http.server` is one): the whole is read once, in order, into a temporary copy, which is
//! the file from then on. How much is read without being asked has a bound, because `info` of a large model should not fill a disk.

use std::cell::Cell;

use futures_util::StreamExt;
use ztensor::limits::parse_size;
use ztensor::{Error, Hints, Kind, Result, Scratch};

use crate::failure::Failure;
use crate::fetch::{STALL, stalled};
use crate::options::StorageOptions;
use crate::origin::Body;
use crate::process::within;

/// Bytes that are read whole where nobody says how many: what is taken from a pipe, too.
const AUTOMATIC: u64 = 1 << 30;

/// Makes the display of one file's progress, from its name and its length where the server says it; what it gives is told of every length that is
/// reached.
pub type Watcher = fn(&str, Option<u64>) -> Box<dyn FnMut(u64) + Send>;

thread_local! {
    static WATCHER: Cell<Option<Watcher>> = const { Cell::new(None) };
}

/// Runs something that shows its user how far files are that are read whole.
pub fn with_watcher<R>(watcher: Watcher, action: impl FnOnce() -> R) -> R {
    /// Puts the former one back, also when `action` panics.
    struct Former(Option<Watcher>);
    impl Drop for Former {
        fn drop(&mut self) {
            WATCHER.set(self.0);
        }
    }
    let _former = Former(WATCHER.replace(Some(watcher)));
    action()
}

/// How a file may be read whole.
pub(crate) struct Terms {
    /// Its name for people.
    name: String,
    /// The most bytes.
    most: u64,
    watcher: Option<Watcher>,
}

/// The whole of a file, as it arrives.
pub(crate) struct Whole {
    /// Its bytes, where the server says how many.
    pub(crate) length: Option<u64>,
    pub(crate) body: Body,
}

impl Terms {
    /// What the options and the environment say.
    pub(crate) fn new(name: String, options: &StorageOptions) -> Result<Terms> {
        let given = options.get("whole").map(str::to_string).or_else(|| std::env::var("ZTENSOR_WHOLE").ok());
        let most = match given.unwrap_or_default().to_ascii_lowercase().as_str() {
            "" => AUTOMATIC,
            "true" | "1" => u64::MAX,
            "false" | "0" => 0,
            size => parse_size(size).ok_or_else(|| {
                Error::argument(format!("\"{size}\" does not say how much is read whole")).with_hint(
                    "Set ZTENSOR_WHOLE, or whole in storage_options, to true, to false, or to a size such as 20GB.",
                )
            })?,
        };
        Ok(Terms { name, most, watcher: WATCHER.get() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Takes all of a body.
    pub(crate) async fn read(&self, whole: Whole) -> Result<Scratch, Failure> {
        let Whole { length, mut body } = whole;
        if length.unwrap_or(1) > self.most {
            return Err(self.too_large(length));
        }
        let mut watch = self.watcher.map(|watcher| watcher(&self.name, length));
        let mut copy = Scratch::new();
        loop {
            let next = within(STALL, body.next()).await.ok_or_else(stalled)?;
            let Some(chunk) = next.transpose()? else { break };
            if copy.length() + chunk.len() as u64 > length.unwrap_or(self.most) {
                return Err(match length {
                    Some(_) => Failure::last(Error::new(Kind::Io, "the server sent more than it announced")),
                    None => self.too_large(None),
                });
            }
            copy.write(&chunk).map_err(Failure::last)?;
            if let Some(watch) = &mut watch {
                watch(copy.length());
            }
        }
        match length {
            Some(length) if copy.length() < length => {
                Err(Failure::passing(Error::new(Kind::Io, "the server's answer ended early")))
            }
            _ => Ok(copy),
        }
    }

    fn too_large(&self, length: Option<u64>) -> Failure {
        let why = match (length, self.most) {
            (_, 0) => String::new(),
            (Some(length), most) => {
                format!("; the whole has {length} bytes, more than the {most} that are read")
            }
            (None, most) => format!("; the whole has more than the {most} bytes that are read"),
        };
        let error =
            Error::new(Kind::Limit, format!("the server serves whole files only, not parts of them{why}"));
        Failure::last(error.with_hints(Hints::new(
            "Set the storage option \"whole\" to \"true\" to read all of it into a temporary file, or to the most bytes; or download it.",
            "Pass storage_options={\"whole\": True} to read all of it into a temporary file, or a size such as \"20GB\"; or download it.",
            "Set ZTENSOR_WHOLE=true to read all of it into a temporary file, or to a size such as 20GB; or download it.",
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_say_how_much() {
        let most = |value: &str| {
            let options = StorageOptions::new([("whole".to_string(), value.to_string())]).unwrap();
            Terms::new("m".into(), &options).map(|terms| terms.most)
        };
        assert_eq!(most("").unwrap(), AUTOMATIC);
        assert_eq!(most("true").unwrap(), u64::MAX);
        assert_eq!(most("false").unwrap(), 0);
        assert_eq!(most("20 GB").unwrap(), 20_000_000_000);
        for wrong in ["much", "-1", "GB"] {
            assert!(most(wrong).unwrap_err().to_string().contains(wrong), "{wrong}");
        }
    }
}
