//! Links: the names in a group and where they lead.

use super::super::cursor::Cursor;
use crate::error::{Error, Result};

/// A name in a group.
#[derive(Debug)]
pub(in super::super) struct Link {
    pub name: String,
    /// The position in the order of creation, where the group keeps it.
    pub order: Option<u64>,
    pub target: Target,
}

/// Where a name leads.
#[derive(Debug)]
pub(in super::super) enum Target {
    /// To the object at an address.
    Hard(u64),
    /// To a path in this file.
    Soft(String),
    /// To a path in another file.
    External { file: String, path: String },
    /// To something that only the program that made it knows.
    UserDefined,
}

impl Link {
    pub fn parse(cursor: &mut Cursor<'_>) -> Result<Link> {
        cursor.version(1..=1)?;
        let flags = cursor.u8()?;
        let kind = if flags & 0x08 != 0 { cursor.u8()? } else { 0 };
        let order = if flags & 0x04 != 0 { Some(cursor.u64()?) } else { None };
        cursor.skip(if flags & 0x10 != 0 { 1 } else { 0 })?;
        let length = cursor.integer(1 << (flags & 3))?;
        let length = usize::try_from(length).map_err(|_| cursor.error("a name is too long"))?;
        let name = checked_name(cursor.take(length)?, cursor.offset())?;
        let target = match kind {
            0 => Target::Hard(cursor.place()?),
            1 => {
                let length = cursor.u16()?;
                Target::Soft(checked_text(cursor.take(length.into())?, cursor.offset())?)
            }
            64 => {
                let length = cursor.u16()?;
                external(cursor.take(length.into())?, cursor.offset())?
            }
            _ => Target::UserDefined,
        };
        Ok(Link { name, order, target })
    }
}

/// What an external link holds: its version and flags, the name of a file and a path in it.
fn external(value: &[u8], offset: u64) -> Result<Target> {
    let wrong = || Error::malformed("a link to another file is not of the known form").with_offset(offset);
    let mut parts = value.get(1..).ok_or_else(wrong)?.split(|byte| *byte == 0);
    let (file, path) = (parts.next().ok_or_else(wrong)?, parts.next().ok_or_else(wrong)?);
    Ok(Target::External { file: checked_text(file, offset)?, path: checked_text(path, offset)? })
}

/// A link's name: UTF-8, not empty, and without the separator of paths.
pub(in super::super) fn checked_name(bytes: &[u8], offset: u64) -> Result<String> {
    let name = checked_text(bytes, offset)?;
    if name.is_empty() || name == "." || bytes.contains(&b'/') || bytes.contains(&0) {
        return Err(Error::malformed(format!("\"{name}\" cannot be the name of a link")).with_offset(offset));
    }
    Ok(name)
}

/// Text as names and paths have it.
pub(in super::super) fn checked_text(bytes: &[u8], offset: u64) -> Result<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(cause) => {
            Err(Error::malformed("the name of a link is not UTF-8").with_offset(offset).with_cause(cause))
        }
    }
}
