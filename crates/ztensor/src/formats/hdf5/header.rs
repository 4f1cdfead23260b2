//! Object headers: the lists of messages that describe a group or a dataset, in their two versions, with continuation blocks.

use super::image::Image;
use crate::error::{Error, Result};
use crate::source::headers::Piece;

/// The message types that are understood; the others are passed over.
pub(super) mod kind {
    pub const DATASPACE: u16 = 0x01;
    pub const LINK_INFO: u16 = 0x02;
    pub const DATATYPE: u16 = 0x03;
    pub const OLD_FILL: u16 = 0x04;
    pub const FILL: u16 = 0x05;
    pub const LINK: u16 = 0x06;
    pub const EXTERNAL_FILES: u16 = 0x07;
    pub const LAYOUT: u16 = 0x08;
    pub const GROUP_INFO: u16 = 0x0A;
    pub const FILTERS: u16 = 0x0B;
    pub const ATTRIBUTE: u16 = 0x0C;
    pub const CONTINUATION: u16 = 0x10;
    pub const SYMBOL_TABLE: u16 = 0x11;
    pub const ATTRIBUTE_INFO: u16 = 0x15;
    pub const REFERENCE_COUNT: u16 = 0x16;
    /// The highest type the format defines.
    pub const LAST: u16 = 0x18;
}

/// The fields before the first message, in the old form and at most in the new one.
const OLD_PREFIX: u64 = 16;
const LONGEST_PREFIX: u64 = 34;
/// Message flag: the body is not the message but says where it is.
const SHARED: u8 = 0x02;
/// Message flag: a reader that does not know the type must not read the object.
const MUST_UNDERSTAND: u8 = 0x80;

/// One message.
pub(super) struct Message<'a> {
    pub kind: u16,
    flags: u8,
    /// The address of the body.
    pub address: u64,
    pub body: Piece<'a>,
}

impl Message<'_> {
    /// Whether the body only says where the message is.
    pub fn is_shared(&self) -> bool {
        self.flags & SHARED != 0
    }
}

/// A group's or dataset's description.
#[derive(Default)]
pub(super) struct ObjectHeader<'a> {
    pub messages: Vec<Message<'a>>,
    /// Hard links that lead here, as the header counts them.
    pub references: u32,
    /// The blocks that the header is made of, as far as they are known.
    blocks: Vec<(u64, u64)>,
}

impl<'a> ObjectHeader<'a> {
    /// Reads the header at an address, with all its continuation blocks.
    pub fn read(image: &Image<'a>, address: u64) -> Result<ObjectHeader<'a>> {
        let mut header = ObjectHeader::default();
        header.reread(image, address)?;
        Ok(header)
    }

    /// Replaces this header by the one at an address. Walks over many objects reuse one header's memory.
    pub fn reread(&mut self, image: &Image<'a>, address: u64) -> Result<()> {
        self.messages.clear();
        self.blocks.clear();
        self.references = 1;
        let available = image.length().saturating_sub(address).min(LONGEST_PREFIX);
        let prefix = image.read(address, available)?;
        if prefix.starts_with(b"OHDR") {
            self.read_new(image, address, &prefix)
        } else {
            self.read_old(image, address, &prefix)
        }
    }

    /// The only message of a type, if there is one.
    pub fn find(&self, kind: u16) -> Option<&Message<'a>> {
        self.messages.iter().find(|message| message.kind == kind)
    }

    /// All messages of a type.
    pub fn all(&self, kind: u16) -> impl Iterator<Item = &Message<'a>> {
        self.messages.iter().filter(move |message| message.kind == kind)
    }

    fn read_old(&mut self, image: &Image<'a>, address: u64, prefix: &[u8]) -> Result<()> {
        let mut cursor = image.cursor(prefix, address, "object header");
        if cursor.u8()? != 1 {
            return Err(cursor.error("there is none at this address"));
        }
        cursor.skip(3)?;
        self.references = cursor.u32()?;
        let length = u64::from(cursor.u32()?);
        self.blocks.push((address.saturating_add(OLD_PREFIX), length));
        let mut left = image.length();
        let mut number = 0;
        while let Some((address, length)) = self.next_block(image, number, &mut left)? {
            let block = image.read(address, length)?;
            self.add_messages(image, block, address, Style::Old)?;
            number += 1;
        }
        Ok(())
    }

    fn read_new(&mut self, image: &Image<'a>, address: u64, prefix: &[u8]) -> Result<()> {
        let mut cursor = image.cursor(prefix, address, "object header");
        cursor.signature(b"OHDR")?;
        cursor.version(2..=2)?;
        let flags = cursor.u8()?;
        cursor.skip(if flags & 0x20 != 0 { 16 } else { 0 })?;
        cursor.skip(if flags & 0x10 != 0 { 4 } else { 0 })?;
        let length = cursor.integer(1 << (flags & 3))?;
        let prefix = cursor.position() as u64;
        let style = Style::New { ordered: flags & 0x04 != 0 };

        self.blocks.push((address, prefix.saturating_add(length).saturating_add(4)));
        let mut left = image.length();
        let mut leading = prefix;
        let mut number = 0;
        while let Some((address, length)) = self.next_block(image, number, &mut left)? {
            let whole = image.read_checked(address, length, "object header")?;
            if leading == 4 && !whole.starts_with(b"OCHK") {
                return Err(Error::malformed("a continuation of an object header has no signature")
                    .with_offset(image.offset(address)));
            }
            let block = whole.part(leading as usize..whole.len().saturating_sub(4));
            let block = block.ok_or_else(|| {
                Error::malformed("a block of an object header is too short")
                    .with_offset(image.offset(address))
            })?;
            self.add_messages(image, block, address + leading, style)?;
            leading = 4;
            number += 1;
        }
        Ok(())
    }

    /// The next block to be read. Together they cannot be longer than the file, which ends chains that lead back to themselves.
    fn next_block(&self, image: &Image<'_>, number: usize, left: &mut u64) -> Result<Option<(u64, u64)>> {
        let Some(&(address, length)) = self.blocks.get(number) else { return Ok(None) };
        *left = left.checked_sub(length.max(1)).ok_or_else(|| {
            Error::malformed(
                "the blocks of an object header are longer than the file, or lead back to themselves",
            )
            .with_offset(image.offset(address))
        })?;
        Ok(Some((address, length)))
    }

    fn add_messages(
        &mut self,
        image: &Image<'a>,
        block: Piece<'a>,
        address: u64,
        style: Style,
    ) -> Result<()> {
        let mut cursor = image.cursor(&block, address, "object header");
        let shortest = match style {
            Style::Old => 8,
            Style::New { ordered } => 4 + 2 * usize::from(ordered),
        };
        // A gap too short for another message may close the block.
        while cursor.rest().len() >= shortest {
            let (kind, length, flags) = match style {
                Style::Old => {
                    let fields = (cursor.u16()?, cursor.u16()?, cursor.u8()?);
                    cursor.skip(3)?;
                    fields
                }
                Style::New { ordered } => {
                    let fields = (cursor.u8()?.into(), cursor.u16()?, cursor.u8()?);
                    cursor.skip(if ordered { 2 } else { 0 })?;
                    fields
                }
            };
            let start = cursor.position();
            cursor.skip(length.into())?;
            let body = block
                .part(start..start + usize::from(length))
                .ok_or_else(|| cursor.error("a message reaches past its block"))?;
            let message = Message { kind, flags, address: address + start as u64, body };
            self.accept(image, message)?;
        }
        Ok(())
    }

    fn accept(&mut self, image: &Image<'a>, message: Message<'a>) -> Result<()> {
        let mut cursor = image.cursor(&message.body, message.address, "object header");
        match message.kind {
            kind::CONTINUATION => self.blocks.push((cursor.place()?, cursor.length()?)),
            kind::REFERENCE_COUNT => {
                cursor.version(0..=0)?;
                self.references = cursor.u32()?;
            }
            kind::DATASPACE..=kind::LAYOUT
            | kind::GROUP_INFO..=kind::ATTRIBUTE
            | kind::SYMBOL_TABLE
            | kind::ATTRIBUTE_INFO => self.messages.push(message),
            unknown if unknown > kind::LAST && message.flags & MUST_UNDERSTAND != 0 => {
                return Err(Error::unsupported(format!("messages of type {unknown}")));
            }
            _ => {}
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Style {
    Old,
    New { ordered: bool },
}
