//! From the header's list to objects: each tensor must begin exactly where the one before it ends, padded to the alignment, and
//! its bytes must be in the file.

use super::blocks::BlockType;
use super::cursor::Order;
use super::header::{Entry, Header, pad};
use super::types::TensorType;
use crate::error::{Error, Result};
use crate::formats::Input;
use crate::index::{Component, Data, FileId, Index, Object, SwappedBlocks};
use crate::tensor::{DType, ElementType, Layout};

/// Adds the tensors of one file to the index.
pub(super) fn add(input: &Input, file: FileId, header: Header, index: &mut Index) -> Result<()> {
    let file_length = input.file(file)?.len();
    let data = DataSection {
        input,
        file,
        order: header.order,
        alignment: header.alignment,
        start: header.data_start,
        length: file_length.saturating_sub(header.data_start),
        file_length,
    };
    index.objects.reserve(header.tensors.len());
    let mut expected = 0;
    let mut entries = header.tensors.into_iter().peekable();
    while let Some(entry) = entries.next() {
        if entry.offset != expected {
            return Err(Error::malformed(format!(
                "the data offset is {}, but the data before this tensor ends at {expected}",
                entry.offset
            ))
            .with_tensor(&entry.name)
            .with_offset(entry.position));
        }
        let placed = data.place(&entry, entries.peek()).map_err(|error| error.with_tensor(&entry.name))?;
        expected = placed.end;
        match placed.content {
            Ok(object) => {
                index.insert(entry.name, object).map_err(|error| error.with_offset(entry.position))?
            }
            Err(reason) => index.skip(entry.name, reason),
        }
    }
    Ok(())
}

struct DataSection<'a> {
    input: &'a Input,
    file: FileId,
    order: Order,
    alignment: u64,
    start: u64,
    length: u64,
    file_length: u64,
}

/// Where a tensor ends, with its padding, and what it is: an object, or the reason why it is not read.
struct Placed {
    end: u64,
    content: Result<Object, String>,
}

impl DataSection<'_> {
    fn place(&self, entry: &Entry, next: Option<&Entry>) -> Result<Placed> {
        let elements = entry.shape.elements().ok_or_else(|| {
            Error::malformed(format!("shape {} has too many elements", entry.shape))
                .with_offset(entry.position)
        })?;
        match TensorType::from_number(entry.type_number) {
            TensorType::Plain(element) => self.plain(entry, &element, elements),
            TensorType::Blocks(candidates) => self.blocks(entry, candidates, elements, next),
            TensorType::Unknown => self.unknown(entry, next),
        }
    }

    fn plain(&self, entry: &Entry, element: &ElementType, elements: u64) -> Result<Placed> {
        let length = element.byte_length(elements).ok_or_else(|| too_large(entry))?;
        let width = element.storage.width();
        let component = self.component(element.clone(), entry, length, |raw| match (self.order, width) {
            (Order::Little, _) | (Order::Big, 1) => raw,
            (Order::Big, width) => Data::Swapped { width: width as u8, inner: Box::new(raw) },
        })?;
        self.placed(entry, length, Ok(Object::dense(entry.shape.clone(), component)))
    }

    fn blocks(
        &self,
        entry: &Entry,
        candidates: &[BlockType],
        elements: u64,
        next: Option<&Entry>,
    ) -> Result<Placed> {
        let row = entry.shape.last().copied().unwrap_or(1);
        let whole = || candidates.iter().filter(|block| row % block.elements() as u64 == 0);
        let size = |block: &BlockType| (elements / block.elements() as u64).checked_mul(block.bytes() as u64);
        let fits = |block: &&BlockType| size(block).is_some_and(|length| self.fills(entry, length, next));
        let block = *whole().find(fits).or_else(|| whole().next()).ok_or_else(|| {
            let name = candidates.first().map_or("", |block| block.name());
            Error::malformed(format!("rows of {row} elements are not a whole number of {name} blocks"))
                .with_offset(entry.position)
        })?;
        let length = size(&block).ok_or_else(|| too_large(entry))?;
        let swapped = match (self.order, block.swapped_fields()) {
            (Order::Little, _) | (Order::Big, Some([])) => None,
            (Order::Big, Some(fields)) => Some(fields),
            (Order::Big, None) => {
                let reason = format!("ggml does not define big-endian {} blocks", block.name());
                return self.placed(entry, length, Err(reason));
            }
        };
        let component = self.component(DType::U8, entry, length, |raw| match swapped {
            None => raw,
            Some(fields) => {
                Data::SwappedBlocks(Box::new(SwappedBlocks { block: block.bytes(), fields, inner: raw }))
            }
        })?;
        let layout = Layout::Other(block.layout_name().into());
        self.placed(entry, length, Ok(Object { layout, ..Object::dense(entry.shape.clone(), component) }))
    }

    /// A type whose size is not known: all bytes up to the next tensor, padding included, are kept as they are.
    fn unknown(&self, entry: &Entry, next: Option<&Entry>) -> Result<Placed> {
        let end = next.map_or(self.length, |next| next.offset);
        let length = end.checked_sub(entry.offset).ok_or_else(|| {
            Error::malformed(format!("the data offset {} is not behind {end}", entry.offset))
                .with_offset(entry.position)
        })?;
        let number = entry.type_number;
        if self.order == Order::Big {
            let reason = format!("ggml type {number} is not known, so its byte order cannot be changed");
            return self.placed(entry, length, Err(reason));
        }
        let component = self.component(DType::U8, entry, length, |raw| raw)?;
        let layout = Layout::Other(format!("gguf.type_{number}/1").into());
        self.placed(entry, length, Ok(Object { layout, ..Object::dense(entry.shape.clone(), component) }))
    }

    /// Whether a tensor of this length ends where the next one, or the file, begins.
    fn fills(&self, entry: &Entry, length: u64, next: Option<&Entry>) -> bool {
        let end = entry.offset.saturating_add(length);
        let padded = end.checked_next_multiple_of(self.alignment);
        match next {
            Some(next) => padded == Some(next.offset),
            None => end == self.length || padded == Some(self.length),
        }
    }

    fn component(
        &self,
        element: impl Into<ElementType>,
        entry: &Entry,
        length: u64,
        encode: impl FnOnce(Data) -> Data,
    ) -> Result<Component> {
        let offset = self.start.checked_add(entry.offset).ok_or_else(|| too_large(entry))?;
        // A tensor without elements may stand behind the end of a file that leaves out the last padding.
        let offset = if length == 0 { offset.min(self.file_length) } else { offset };
        let span = self.input.span(self.file, offset, length)?;
        Ok(Component::encoded(element, encode(Data::Raw(span)), length))
    }

    fn placed(&self, entry: &Entry, length: u64, content: Result<Object, String>) -> Result<Placed> {
        let end = entry.offset.checked_add(length).ok_or_else(|| too_large(entry))?;
        Ok(Placed { end: pad(end, self.alignment)?, content })
    }
}

fn too_large(entry: &Entry) -> Error {
    Error::malformed("the tensor's size does not fit 64 bits").with_offset(entry.position)
}
