//! One block: a mode byte, then the data coded with the section's model, or, where that is shorter, by one of
//! the modes that need no model. The bytes of an unfinished last element follow verbatim.

use crate::error::{Error, ErrorKind, Result};
use crate::frame::checksum;
use crate::frame::section::Section;
use crate::frame::wire::Reader;
use crate::transform::{Model, Position};

/// The section's model.
const CODED: u8 = 0;
/// The bytes themselves.
const VERBATIM: u8 = 1;
/// One element, repeated.
const CONSTANT: u8 = 2;
/// The bytes of the reference at the same place.
const UNCHANGED: u8 = 3;

/// How a block is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockMode {
    Coded,
    Verbatim,
    Constant,
    Unchanged,
}

impl BlockMode {
    /// The mode's name, for people.
    pub fn name(self, model: &Model) -> &'static str {
        match self {
            Self::Coded => model.name(),
            Self::Verbatim => "verbatim",
            Self::Constant => "constant",
            Self::Unchanged => "unchanged",
        }
    }
}

/// What is the same for all blocks of a section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockContext<'a> {
    pub model: &'a Model,
    /// Bytes per scalar.
    pub width: usize,
    /// What the section is coded against, if it is.
    pub reference: PartialReference<'a>,
}

/// The bytes of a reference that stand where a section, or some blocks of it, are; empty without a reference.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PartialReference<'a> {
    /// Where they begin, counted from the start of the section.
    pub start: usize,
    pub bytes: &'a [u8],
}

impl<'a> PartialReference<'a> {
    /// The bytes at `offset` of the section, if they are all there.
    fn at(self, offset: usize, length: usize) -> Option<&'a [u8]> {
        let start = offset.checked_sub(self.start)?;
        self.bytes.get(start..start.checked_add(length)?).filter(|same| !same.is_empty())
    }
}

impl BlockContext<'_> {
    /// Encodes the block at byte `offset` of its section in place of whatever is in `memory`, and returns
    /// where there it begins; it ends where the memory does.
    pub fn encode(&self, bytes: &[u8], offset: usize, memory: &mut Vec<u8>) -> Result<usize> {
        if !self.model.has_modes() {
            return Ok(replace(memory, &[bytes]));
        }
        let (elements, rest) = bytes.split_at(bytes.len() / self.width * self.width);
        if self.reference(offset, bytes.len()) == Some(bytes) {
            return Ok(replace(memory, &[&[UNCHANGED]]));
        }
        if let Some(element) = constant_element(elements, self.width) {
            return Ok(replace(memory, &[&[CONSTANT], element, rest]));
        }
        let (coded, rest) = if self.model.takes_all_bytes() { (bytes, &[][..]) } else { (elements, rest) };
        let begin = self.model.encode_within(coded, self.position(offset, coded.len()), memory)?;
        let begin = begin.saturating_sub(1);
        memory[begin] = CODED;
        memory.extend_from_slice(rest);
        if memory.len() - begin > bytes.len() {
            return Ok(replace(memory, &[&[VERBATIM], bytes]));
        }
        Ok(begin)
    }

    /// How a block is coded.
    pub fn mode(&self, payload: &[u8]) -> Result<BlockMode> {
        if !self.model.has_modes() {
            return Ok(BlockMode::Verbatim);
        }
        match payload.first() {
            Some(&CODED) => Ok(BlockMode::Coded),
            Some(&VERBATIM) => Ok(BlockMode::Verbatim),
            Some(&CONSTANT) => Ok(BlockMode::Constant),
            Some(&UNCHANGED) => Ok(BlockMode::Unchanged),
            _ => Err(Error::corrupt("unknown block mode")),
        }
    }

    /// The planes of a coded block of `decoded` bytes, by name and encoded length.
    pub fn parts(&self, payload: &[u8], decoded: usize) -> Result<Vec<(String, usize)>> {
        let mut reader = Reader::new(payload, "block");
        reader.u8()?;
        self.model.parts(&mut reader, decoded / self.width)
    }

    /// Decodes block `index` of `section` into `out`, which has its decoded length, and checks it.
    pub fn decode(&self, section: &Section, index: usize, out: &mut [u8]) -> Result<()> {
        let Some(payload) = section.payloads.get(index) else {
            return Err(Error::corrupt("a block outside its section"));
        };
        self.decode_payload(payload, index * section.block_length, out)?;
        check(section, index, out)
    }

    /// Whether [`Self::decode_pair`] is faster than decoding one block after the other.
    pub fn prefers_pairs(&self) -> bool {
        self.model.prefers_pairs()
    }

    /// Decodes two blocks of `section` as [`Self::decode`] does, interleaved where both are coded.
    pub fn decode_pair(
        &self,
        section: &Section,
        [first, second]: [usize; 2],
        [out, second_out]: [&mut [u8]; 2],
    ) -> Result<()> {
        let coded = |index: usize, out: &[u8]| {
            let payload = section.payloads.get(index)?.split_first();
            payload.filter(|(mode, _)| **mode == CODED && out.len().is_multiple_of(self.width))
        };
        let (Some((_, payload)), Some((_, second_payload))) = (coded(first, out), coded(second, second_out))
        else {
            self.decode(section, first, out)?;
            return self.decode(section, second, second_out);
        };
        let mut readers = [payload, second_payload].map(|payload| Reader::new(payload, "block"));
        let offsets = [first, second].map(|index| index * section.block_length);
        let at = [self.position(offsets[0], out.len()), self.position(offsets[1], second_out.len())];
        self.model.decode_pair(readers.each_mut(), at, [&mut *out, &mut *second_out])?;
        readers.iter().try_for_each(Reader::finish)?;
        check(section, first, out)?;
        check(section, second, second_out)
    }

    /// Where a block of so many bytes at `offset` of the section lies.
    fn position(&self, offset: usize, length: usize) -> Position<'_> {
        let reference = self.reference(offset, length).unwrap_or_default();
        Position { start: offset / self.width, reference }
    }

    fn decode_payload(&self, payload: &[u8], offset: usize, out: &mut [u8]) -> Result<()> {
        let mut reader = Reader::new(payload, "block");
        if !self.model.has_modes() {
            return self.model.decode(&mut reader, self.position(offset, out.len()), out);
        }
        let (elements, rest) = out.split_at_mut(out.len() / self.width * self.width);
        match reader.u8()? {
            CODED if self.model.takes_all_bytes() => {
                self.model.decode(&mut reader, self.position(offset, out.len()), out)?;
                return reader.finish();
            }
            CODED => self.model.decode(&mut reader, self.position(offset, elements.len()), elements)?,
            VERBATIM => elements.copy_from_slice(reader.take(elements.len())?),
            CONSTANT => {
                let element = reader.take(self.width)?;
                elements.chunks_exact_mut(self.width).for_each(|target| target.copy_from_slice(element));
            }
            UNCHANGED => {
                let same =
                    self.reference(offset, elements.len() + rest.len()).ok_or_else(outside_reference)?;
                elements.copy_from_slice(&same[..elements.len()]);
                rest.copy_from_slice(&same[elements.len()..]);
                return reader.finish();
            }
            mode => return Err(Error::corrupt(format!("unknown block mode {mode}"))),
        }
        rest.copy_from_slice(reader.take(rest.len())?);
        reader.finish()
    }

    /// The reference's bytes at `offset` of the section, if it has them all.
    fn reference(&self, offset: usize, length: usize) -> Option<&[u8]> {
        self.reference.at(offset, length)
    }
}

/// Fails unless the block with this index has the checksum that its section says.
fn check(section: &Section, index: usize, decoded: &[u8]) -> Result<()> {
    if section.blocks.get(index).is_some_and(|block| block.checksum == checksum(decoded)) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::ChecksumMismatch,
        format!("the checksum of block {index} does not match its decoded bytes"),
    ))
}

/// Replaces what is in `memory` by these parts, and says that they begin where it does.
fn replace(memory: &mut Vec<u8>, parts: &[&[u8]]) -> usize {
    memory.clear();
    parts.iter().for_each(|part| memory.extend_from_slice(part));
    0
}

fn outside_reference() -> Error {
    Error::corrupt("a block refers to bytes that the reference does not have")
}

/// The element that all of `bytes` repeats, if there is more than one and they are all the same.
fn constant_element(bytes: &[u8], width: usize) -> Option<&[u8]> {
    let first = bytes.get(..width)?;
    (bytes.len() > width && bytes[width..] == bytes[..bytes.len() - width]).then_some(first)
}
