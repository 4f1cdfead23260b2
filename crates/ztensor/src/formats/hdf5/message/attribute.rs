//! Attributes: small named values on groups and datasets. Numbers, texts and lists of them become metadata; `value` decodes them, this file
//! only takes the message apart.

use super::super::cursor::Cursor;
use super::dataspace::Dataspace;
use super::datatype::Datatype;
use crate::error::{Error, Result};

/// An attribute, its value still in bytes.
#[derive(Debug)]
pub(in super::super) struct Attribute<'a> {
    pub name: String,
    /// What the value is; the error says why it is not read.
    pub shape: Result<(Datatype, Dataspace)>,
    pub bytes: &'a [u8],
}

impl<'a> Attribute<'a> {
    pub fn parse(cursor: &mut Cursor<'a>) -> Result<Attribute<'a>> {
        let version = cursor.version(1..=3)?;
        let flags = cursor.u8()?;
        let (name_length, type_length, space_length) = (cursor.u16()?, cursor.u16()?, cursor.u16()?);
        cursor.skip(if version == 3 { 1 } else { 0 })?;
        let mut field = |length: u16| {
            let field = cursor.take(length.into());
            if version == 1 {
                cursor.align();
            }
            field.map(|field| (field, cursor.offset() - field.len() as u64))
        };
        let (name, _) = field(name_length)?;
        let (datatype, type_offset) = field(type_length)?;
        let (dataspace, space_offset) = field(space_length)?;

        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        let shape = if version > 1 && flags & 3 != 0 {
            Err(Error::unsupported("an attribute with a named or shared datatype"))
        } else {
            let datatype = Datatype::parse(&mut cursor.over(datatype, type_offset));
            let dataspace = Dataspace::parse(&mut cursor.over(dataspace, space_offset));
            datatype.and_then(|datatype| Ok((datatype, dataspace?)))
        };
        Ok(Attribute { name, shape, bytes: cursor.rest() })
    }
}
