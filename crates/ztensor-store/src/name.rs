//! Names of checkpoints, and how they become keys that every file system and bucket takes. `spec/store.md` has the rules.

use std::fmt;

use crate::id::Id;
use ztensor::{Error, Result};

const LONGEST_SEGMENT: usize = 200;
const LONGEST_NAME: usize = 700;
/// The first segment of pins. No name of a user's begins with a bare dot.
const PINS: &str = ".pin";
const RESERVED: [&str; 4] = ["con", "prn", "aux", "nul"];

/// The name of a checkpoint, such as `run-7/step-1000`, or of a pin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    text: String,
    escaped: String,
}

impl Name {
    /// Checks a name that a user gave.
    pub fn new(text: &str) -> Result<Name> {
        let refuse = |why: &str| {
            Error::argument(format!("\"{}\" is no name for a checkpoint: {why}", text.escape_debug()))
                .with_hint(
                    "Names are like run-7/step-1000: segments between slashes, at most 200 bytes each.",
                )
        };
        if text.is_empty() {
            return Err(refuse("it is empty"));
        }
        let mut escaped = String::with_capacity(text.len());
        for segment in text.split('/') {
            match segment {
                "" => return Err(refuse("a segment between its slashes is empty")),
                "." | ".." => return Err(refuse("it has a segment of dots")),
                _ if segment.chars().any(char::is_control) => {
                    return Err(refuse("it has a control character"));
                }
                _ => {}
            }
            let segment = escape(segment);
            if segment.len() > LONGEST_SEGMENT {
                return Err(refuse("one of its segments is too long"));
            }
            if !escaped.is_empty() {
                escaped.push('/');
            }
            escaped.push_str(&segment);
        }
        if escaped.len() > LONGEST_NAME {
            return Err(refuse("it is too long"));
        }
        Ok(Name { text: text.to_owned(), escaped })
    }

    /// The number at its end, such as the 1000 of `run-7/step-1000`.
    pub fn step(&self) -> Option<u64> {
        let digits = self.text.len() - self.text.bytes().rev().take_while(u8::is_ascii_digit).count();
        self.text[digits..].parse().ok()
    }

    /// The hidden name of a pin.
    pub fn pin(id: Id) -> Name {
        let text = format!("{PINS}/{id}");
        Name { escaped: text.clone(), text }
    }

    /// Whether this is the name of a pin, not of a checkpoint.
    pub fn is_hidden(&self) -> bool {
        self.escaped.starts_with('.')
    }

    /// The name as people know it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// A name as a manifest states it.
    pub(crate) fn stated(text: &str) -> Result<Name> {
        match text.strip_prefix(".pin/").and_then(Id::parse) {
            Some(id) => Ok(Name::pin(id)),
            None => Name::new(text),
        }
    }

    /// Where the generations are.
    pub(crate) fn folder(&self) -> String {
        format!("checkpoints/{}/", self.escaped)
    }

    /// The key of one generation.
    pub(crate) fn key(&self, generation: u64) -> String {
        format!("checkpoints/{}/{generation}.m", self.escaped)
    }

    /// The name and generation of a key; `None` for keys that no name has.
    pub(crate) fn of_key(key: &str) -> Option<(Name, u64)> {
        let (folder, file) = key.strip_prefix("checkpoints/")?.rsplit_once('/')?;
        let digits = file.strip_suffix(".m")?;
        let generation: u64 = digits.parse().ok().filter(|number: &u64| number.to_string() == digits)?;
        let name = match folder.strip_prefix(".pin/").and_then(Id::parse) {
            Some(id) => Name::pin(id),
            None => Name::new(&unescape(folder)?).ok().filter(|name| name.escaped == folder)?,
        };
        Some((name, generation))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn escape(segment: &str) -> String {
    let bytes = segment.as_bytes();
    let last = bytes.len() - 1;
    let suffix = segment.ends_with(".m").then(|| last - 1);
    let mut escaped = String::with_capacity(bytes.len());
    for (position, &byte) in bytes.iter().enumerate() {
        let plain = match byte {
            b'.' => position != 0 && position != last && Some(position) != suffix,
            b'_' | b'-' => true,
            _ => byte.is_ascii_alphanumeric(),
        };
        if plain && !(position == 0 && is_reserved(segment)) {
            escaped.push(byte as char);
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// Names of devices, with any extension.
fn is_reserved(segment: &str) -> bool {
    let stem = segment.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let numbered = ["com", "lpt"].iter().find_map(|device| stem.strip_prefix(device));
    RESERVED.contains(&stem.as_str()) || numbered.is_some_and(|rest| matches!(rest.as_bytes(), [b'1'..=b'9']))
}

fn unescape(escaped: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_their_keys() {
        let names = [
            "a",
            "run-7/step-1000",
            "Größe/ü",
            "a.m",
            "a.m/0.m",
            ".hidden",
            "end.",
            "CON",
            "con.txt/com1",
            "com10",
            "a b",
            "100%",
            "%2E",
            ".pin/x",
            "a\\b",
            "0",
            "0.m/1.m",
            "*?<>|:\"",
        ];
        for text in names {
            let name = Name::new(text).unwrap();
            let key = name.key(17);
            assert_eq!(Name::of_key(&key), Some((name, 17)), "{text} {key}");
            let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"._-%/".contains(&byte);
            assert!(key.bytes().all(safe), "{key}");
            assert!(
                key.split('/').all(|segment| !segment.starts_with('.') && !segment.ends_with('.')),
                "{key}"
            );
        }
        assert_eq!(Name::new("a.m").unwrap().escaped, "a%2Em");
        assert_eq!(Name::new("Nul.txt").unwrap().escaped, "%4Eul.txt");
    }

    #[test]
    fn keys_that_are_not_canonical_are_no_checkpoints() {
        for key in [
            "checkpoints/a/00.m",
            "checkpoints/a/+1.m",
            "checkpoints/%61/0.m",
            "checkpoints/a%2em/0.m",
            "checkpoints/0.m",
            "checkpoints/a/x.m",
            "checkpoints/a/0",
            "checkpoints/../0.m",
            "checkpoints/a//0.m",
            "checkpoints/.pin/x/0.m",
            "checkpoints/.b/0.m",
            "checkpoints/a/18446744073709551616.m",
            "other/a/0.m",
        ] {
            assert_eq!(Name::of_key(key), None, "{key}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "x".repeat(201);
        for text in ["", "/", "a/", "/a", "a//b", ".", "a/..", "a\nb", long.as_str()] {
            assert!(Name::new(text).is_err(), "{text}");
        }
        assert!(Name::new(&vec!["x".repeat(100); 8].join("/")).is_err());
    }
}
