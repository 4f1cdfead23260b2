//! One block: a mode byte, then the data coded with the section's model, or, where that is shorter, by one of the modes that need no model. The bytes of an
//! unfinished last element follow verbatim.

use crate::arch::Kernel;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::checksum;
use crate::frame::section::Section;
use crate::frame::wire::Reader;
use crate::model::Model;

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
    pub kernel: Kernel,
    /// What the section is coded against, from the section's first byte on; empty without a reference.
    pub reference: &'a [u8],
}

impl BlockContext<'_> {
    /// Encodes the block at byte `offset` of its section in place of whatever is in `memory`, and returns where there it begins; it ends where the memory does.
    pub fn encode(&self, bytes: &[u8], offset: usize, memory: &mut Vec<u8>) -> Result<usize> {
        let (elements, rest) = bytes.split_at(bytes.len() / self.width * self.width);
        let is_stored = matches!(self.model, Model::Stored);
        if !is_stored && self.reference(offset, bytes.len()) == Some(bytes) {
            return Ok(replace(memory, &[&[UNCHANGED]]));
        }
        if !is_stored && let Some(element) = constant_element(elements, self.width) {
            return Ok(replace(memory, &[&[CONSTANT], element, rest]));
        }
        let begin = match self.model {
            Model::Stored => return Ok(replace(memory, &[bytes])),
            Model::Float(model) => {
                let begin = model.encode_within(elements, offset / self.width, self.kernel, memory)? - 1;
                memory[begin] = CODED;
                memory.extend_from_slice(rest);
                begin
            }
            // zstd finds the end of its frame only in a payload of its own, so it takes the unfinished element too.
            Model::Opaque { .. } => {
                replace(memory, &[&[CODED]]);
                self.model.encode(bytes, offset / self.width, &[], self.kernel, memory)?;
                0
            }
            _ => {
                replace(memory, &[&[CODED]]);
                memory.reserve(bytes.len() / 4 * 3);
                let reference = self.reference(offset, elements.len()).unwrap_or_default();
                self.model.encode(elements, offset / self.width, reference, self.kernel, memory)?;
                memory.extend_from_slice(rest);
                0
            }
        };
        if memory.len() - begin > bytes.len() {
            return Ok(replace(memory, &[&[VERBATIM], bytes]));
        }
        Ok(begin)
    }

    /// How a block is coded.
    pub fn mode(&self, payload: &[u8]) -> Result<BlockMode> {
        if let Model::Stored = self.model {
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
        let Some(block) = section.blocks.get(index) else {
            return Err(Error::corrupt("a block outside its section"));
        };
        if let Model::Stored = self.model {
            if block.payload.len() != out.len() {
                return Err(Error::corrupt("a stored block of the wrong length"));
            }
            out.copy_from_slice(block.payload);
        } else {
            self.decode_payload(block.payload, index * section.block_length, out)?;
        }
        check(section, index, out)
    }

    /// Whether [`Self::decode_two`] is faster than decoding one block after the other.
    pub fn prefers_two(&self) -> bool {
        matches!(self.model, Model::Reference(_)) && self.kernel.restores_two(self.width)
    }

    /// Decodes two blocks of `section` as [`Self::decode`] does, in turn where that is faster.
    pub fn decode_two(&self, section: &Section, indices: [usize; 2], out: [&mut [u8]; 2]) -> Result<()> {
        let ([first, second], [out, second_out]) = (indices, out);
        let coded = |index: usize| {
            section.blocks.get(index)?.payload.split_first().filter(|payload| *payload.0 == CODED)
        };
        let reference = |index: usize, out: &[u8]| {
            self.reference(index * section.block_length, out.len())
                .filter(|_| out.len().is_multiple_of(self.width))
        };
        if let (
            Model::Reference(model),
            Some((_, payload)),
            Some((_, second_payload)),
            Some(base),
            Some(second_base),
        ) = (self.model, coded(first), coded(second), reference(first, out), reference(second, second_out))
        {
            let (mut reader, mut second_reader) =
                (Reader::new(payload, "block"), Reader::new(second_payload, "block"));
            let (readers, bases) = ([&mut reader, &mut second_reader], [base, second_base]);
            model.decode_two(readers, bases, self.kernel, [&mut *out, &mut *second_out])?;
            reader.finish()?;
            second_reader.finish()?;
            check(section, first, out)?;
            return check(section, second, second_out);
        }
        self.decode(section, first, out)?;
        self.decode(section, second, second_out)
    }

    fn decode_payload(&self, payload: &[u8], offset: usize, out: &mut [u8]) -> Result<()> {
        let mut reader = Reader::new(payload, "block");
        let (elements, rest) = out.split_at_mut(out.len() / self.width * self.width);
        match reader.u8()? {
            CODED => {
                if let Model::Opaque { .. } = self.model {
                    return self.model.decode(&mut reader, 0, &[], self.kernel, out);
                }
                let reference = self.reference(offset, elements.len()).unwrap_or_default();
                self.model.decode(&mut reader, offset / self.width, reference, self.kernel, elements)?;
            }
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
        self.reference.get(offset..offset.checked_add(length)?).filter(|same| !same.is_empty())
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
