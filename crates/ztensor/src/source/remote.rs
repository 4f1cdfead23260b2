//! Files whose bytes come in ranges from far away. The network itself lives in another crate (`ztensor-remote`), behind [`Ranges`]; here is
//! what every such file needs: the read-ahead window that turns a parser's many small reads into a few requests.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::window::Window;
use super::{Io, Source};
use crate::error::{Error, Hints, Result};

/// A function that opens URLs.
pub type Opener = fn(&str) -> Result<Source>;

static OPENER: OnceLock<Opener> = OnceLock::new();

/// Lets every place that takes a path take URLs as well. The first opener stays.
pub fn install_opener(opener: Opener) {
    // A second call comes from a second user of the same crate, with the same function.
    let _ = OPENER.set(opener);
}

/// Whether a path is a URL: `scheme://…`.
pub fn is_url(path: &Path) -> bool {
    scheme(path).is_some()
}

/// The name of the file that a URL leads to. Signatures and the like belong to the address, not to the file.
pub fn url_file_name(url: &Path) -> PathBuf {
    let text = url.to_string_lossy();
    let end = if text.starts_with("http") { text.find(['?', '#']).unwrap_or(text.len()) } else { text.len() };
    PathBuf::from(text[..end].rsplit('/').next().unwrap_or_default())
}

fn scheme(path: &Path) -> Option<&str> {
    let (scheme, _) = path.to_str()?.split_once("://")?;
    let sound = scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    sound.then_some(scheme)
}

/// A file in a folder, or beneath it, by a name that may have come out of a file. In URLs letters have a meaning that they lack in names.
pub(crate) fn join(folder: &Path, name: impl AsRef<Path>) -> PathBuf {
    let name = name.as_ref();
    match (scheme(folder), name.to_str()) {
        // Names on the hub are written as they are.
        (Some(scheme), Some(name)) if !scheme.eq_ignore_ascii_case("hf") => {
            folder.join(name.replace('%', "%25").replace('?', "%3F").replace('#', "%23"))
        }
        _ => folder.join(name),
    }
}

/// Opens a path that is a URL; `None` for others.
pub(super) fn open(path: &Path, io: Io) -> Option<Result<Source>> {
    let (scheme, url) = (scheme(path)?, path.to_str()?);
    if scheme.eq_ignore_ascii_case("file") {
        return Some(
            local(url).and_then(|path| Source::open(&path, io)).map_err(|error| error.with_path(path)),
        );
    }
    let Some(opener) = OPENER.get() else {
        let error = Error::unsupported("this program reads files, not URLs").with_path(path);
        return Some(Err(error.with_hints(Hints::new(
            "Call `ztensor_remote::install` first, or download the file.",
            "This build has no network; download the file.",
            "This build has no network; download the file.",
        ))));
    };
    Some(opener(url))
}

/// The path that a `file://` URL stands for.
fn local(url: &str) -> Result<PathBuf> {
    let bad = || Error::argument("a file URL is written file:///absolute/path");
    let path = url.get("file://".len()..).ok_or_else(bad)?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    if !path.starts_with('/') {
        return Err(bad());
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => (high * 16 + low) as u8,
                _ => return Err(bad()),
            },
            other => other,
        });
    }
    String::from_utf8(bytes).map(PathBuf::from).map_err(|_| bad())
}

/// A file that is fetched by ranges. Ranges are inside the file; implementations retry, and give an error rather than wait for ever.
pub trait Ranges: Send + Sync {
    /// The number of bytes, as of the moment the file was opened. A file that changes afterwards is an error, never a mixture.
    fn length(&self) -> u64;

    /// Fills a buffer with the bytes from `offset` on. Large buffers are fetched in several requests at once.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Announces that these ranges will be read, about in this order: they may be fetched ahead, within bounded memory. Replaces what was
    /// announced before; an empty list ends it.
    fn announce(&self, ranges: Vec<Range<u64>>) {
        let _ = ranges;
    }

    /// Whether a range was announced, so that it is here or on its way already.
    fn is_announced(&self, range: Range<u64>) -> bool {
        let _ = range;
        false
    }
}

/// A remote file and its read-ahead window.
pub(super) struct Remote {
    ranges: Box<dyn Ranges>,
    window: Window,
}

impl Remote {
    /// `head` is what opening the file has brought already: its first bytes.
    pub(super) fn new(ranges: Box<dyn Ranges>, head: Vec<u8>) -> Remote {
        let window = Window::new(ranges.length(), head);
        Remote { ranges, window }
    }

    pub(super) fn length(&self) -> u64 {
        self.ranges.length()
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        // What is fetched ahead is read once, so the window must not take more of it than was asked for.
        if self.ranges.is_announced(offset..offset.saturating_add(buffer.len() as u64)) {
            return self.ranges.read(offset, buffer);
        }
        self.window.read(offset, buffer, |offset, buffer| self.ranges.read(offset, buffer))
    }

    pub(super) fn announce(&self, ranges: Vec<Range<u64>>) {
        self.ranges.announce(ranges);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        for url in ["s3://bucket/key", "https://host/a", "hf://owner/name/file", "file:///a"] {
            assert!(is_url(Path::new(url)), "{url}");
        }
        for path in ["model.zt", "/a/b", "C:\\a", "c://a", "a b://c", "://x", "odd:name"] {
            assert!(!is_url(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn names_out_of_files_stay_names_in_urls() {
        let joined = |folder: &str, name: &str| join(Path::new(folder), name).display().to_string();
        assert_eq!(joined("s3://b/f", "%2e%2e/a?b#c"), "s3://b/f/%252e%252e/a%3Fb%23c");
        assert_eq!(joined("/f", "a%20b"), "/f/a%20b");
        assert_eq!(joined("hf://o/n", "a%20b"), "hf://o/n/a%20b");
    }

    #[test]
    fn file_urls_become_paths() {
        assert_eq!(local("file:///a%20b/c").unwrap(), PathBuf::from("/a b/c"));
        assert_eq!(local("file://localhost/a").unwrap(), PathBuf::from("/a"));
        for wrong in ["file://host/a", "file:///a%2", "file:///%zz", "file://"] {
            assert!(local(wrong).is_err(), "{wrong}");
        }
    }
}
