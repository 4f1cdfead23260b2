//! Pieces of an original that are read from a base: as they are there, or with a difference applied.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use z4ai::ReferenceId;

use super::wrong_base;
use crate::archive::{BaseTensor, decoding_cost};
use crate::encoding::z4ai_failure;
use crate::error::{Error, Result};
use crate::index::Span;
use crate::reader::Reader;
use crate::source::Source;
use crate::source::assembly::{Announcement, Piece};

/// A tensor of the base that a piece refers to.
pub(crate) struct Reference {
    base: Arc<Reader>,
    tensor: BaseTensor,
    length: u64,
    /// Whether the tensor's digest has been found right.
    checked: AtomicBool,
}

impl Reference {
    pub(super) fn new(base: Arc<Reader>, tensor: BaseTensor, length: u64) -> Reference {
        Reference { base, tensor, length, checked: AtomicBool::new(false) }
    }

    /// A piece that equals the tensor.
    pub(crate) fn copy(self, digest: [u8; 16]) -> Arc<dyn Piece> {
        Arc::new(Copy { expected: ReferenceId { length: self.length, digest }, reference: self })
    }

    /// A piece that differs from the tensor by a delta in one of the archive's files.
    pub(crate) fn delta(self, files: Arc<Vec<Arc<Source>>>, span: Span) -> Arc<dyn Piece> {
        Arc::new(Delta { reference: self, files, span })
    }

    fn bytes(&self) -> Result<Cow<'_, [u8]>> {
        self.base.component_bytes(&self.tensor.name, &self.tensor.role).map_err(|error| self.name(error))
    }

    fn announce(&self, announcement: &mut Announcement) {
        self.base.announce_component(&self.tensor.name, &self.tensor.role, announcement);
    }

    fn is_checked(&self) -> bool {
        self.checked.load(Ordering::Acquire)
    }

    fn set_checked(&self) {
        self.checked.store(true, Ordering::Release);
    }

    fn name(&self, error: Error) -> Error {
        error.with_context(&format!("tensor \"{}\" of the base", self.tensor.name))
    }
}

struct Copy {
    reference: Reference,
    expected: ReferenceId,
}

impl Piece for Copy {
    fn length(&self) -> u64 {
        self.reference.length
    }

    fn stored(&self) -> u64 {
        0
    }

    fn encoding(&self) -> &'static str {
        "in the base"
    }

    fn weight(&self) -> u64 {
        self.reference.length
    }

    fn cost(&self, _start: u64, length: u64) -> Result<u64> {
        // The first time all of the tensor is identified.
        Ok(if self.reference.is_checked() { length } else { self.reference.length })
    }

    fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let BaseTensor { name, role, .. } = &self.reference.tensor;
        if self.reference.is_checked() {
            let read = self.reference.base.component_range_into(name, role, start, out);
            return read.map_err(|error| self.reference.name(error));
        }
        let bytes = self.reference.bytes()?;
        let found = ReferenceId::of(&bytes, 0).map_err(z4ai_failure)?;
        let part = bytes.get(start as usize..).and_then(|rest| rest.get(..out.len()));
        match part {
            Some(part) if found == self.expected => out.copy_from_slice(part),
            _ => {
                let error =
                    wrong_base("wrong base: its values are not those that the delta was made against");
                return Err(self.reference.name(error));
            }
        }
        self.reference.set_checked();
        Ok(())
    }

    fn announce(&self, announcement: &mut Announcement) {
        self.reference.announce(announcement);
    }
}

struct Delta {
    reference: Reference,
    files: Arc<Vec<Arc<Source>>>,
    span: Span,
}

impl Piece for Delta {
    fn length(&self) -> u64 {
        self.reference.length
    }

    fn stored(&self) -> u64 {
        self.span.length
    }

    fn encoding(&self) -> &'static str {
        "delta"
    }

    fn weight(&self) -> u64 {
        self.span.length.saturating_add(self.reference.length)
    }

    fn cost(&self, start: u64, length: u64) -> Result<u64> {
        decoding_cost(self.file()?, self.span, start, length)
    }

    fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        if out.len() as u64 != self.reference.length {
            match self.read_blocks(start, out) {
                // Nothing is known of the base yet, so it may be what is wrong.
                Err(_) if !self.reference.is_checked() => {}
                other => return other,
            }
        }
        let frame = self.file()?.bytes(self.span.offset, self.span.length)?;
        let base = self.reference.bytes()?;
        if out.len() as u64 == self.reference.length {
            z4ai::Frame::open(&frame).and_then(|frame| frame.against(&base)?.read_all_into(out))
        } else {
            let range = start..start + out.len() as u64;
            z4ai::Frame::open(&frame).and_then(|frame| frame.against(&base)?.read_into(range, out))
        }
        .map_err(|cause| self.reference.name(z4ai_failure(cause)))?;
        self.reference.set_checked();
        Ok(())
    }

    fn announce(&self, announcement: &mut Announcement) {
        if let Some(file) = self.files.get(self.span.file.0 as usize) {
            announcement.add(file, self.span.offset..self.span.offset + self.span.length);
        }
        self.reference.announce(announcement);
    }
}

impl Delta {
    fn file(&self) -> Result<&Source> {
        let file = self.files.get(self.span.file.0 as usize);
        file.map(Arc::as_ref).ok_or_else(|| Error::malformed("a byte range names a file that is not open"))
    }

    /// Decodes only the blocks that a range needs, from no more of the delta and of the base than these take. Each block has a checksum, so this is safe whatever the base is.
    fn read_blocks(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let (file, base) = (self.file()?, &self.reference.base);
        let BaseTensor { name, role, .. } = &self.reference.tensor;
        let range = start..start + out.len() as u64;
        file.check(self.span.offset, self.span.length)?;
        let named = |error| self.reference.name(error);
        let view = base.component_view(name, role).map_err(named)?.filter(|view| view.strides.is_none());
        if let (Some(view), Some(frame)) = (view, file.slice(self.span.offset, self.span.length)) {
            let read = z4ai::Frame::open(frame)
                .and_then(|frame| frame.against(view.bytes)?.trusted().read_into(range, out));
            return read.map_err(|cause| named(z4ai_failure(cause)));
        }
        let read_frame = |offset: u64, bytes: &mut [u8]| file.read_into(self.span.offset + offset, bytes);
        let read_base = |offset: u64, bytes: &mut [u8]| base.component_range_into(name, role, offset, bytes);
        let frame = z4ai::Fetch::new(self.span.length, read_frame);
        let delta = z4ai::Frame::open(frame)
            .and_then(|frame| frame.against(z4ai::Fetch::new(self.reference.length, read_base)));
        delta.and_then(|delta| delta.trusted().read_into(range, out)).map_err(named)
    }
}
