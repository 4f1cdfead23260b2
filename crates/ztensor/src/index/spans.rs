//! The byte ranges that elements are read from.

use std::convert::identity;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Data, FileId, Span};

/// What is stored in one range: the pattern for all of these encodings.
macro_rules! in_one_span {
    ($span:ident) => {
        Data::Raw($span)
            | Data::Zstd($span)
            | Data::ZstdSeekable($span)
            | Data::Z4ai($span)
            | Data::Deflate($span)
    };
}

/// Visits the ranges of a [`Data`], by reference or, with `mut`, to be changed.
macro_rules! visit_spans {
    ($data:expr, $visit:expr, $recurse:ident, $iterate:ident, $unshare:expr $(, $mutable:tt)?) => {
        match $data {
            in_one_span!(span) => $visit(span),
            Data::PackedMember(member) => $visit(& $($mutable)? member.span),
            Data::Inline(_) | Data::Fill(_) => ControlFlow::Continue(()),
            Data::Pieces(spans) => $unshare(spans).$iterate().try_for_each($visit),
            Data::Varints(runs) => $unshare(runs).$iterate().try_for_each(|run| $visit(& $($mutable)? run.span)),
            Data::Unraveled(positions) => positions.inner.$recurse($visit),
            Data::SwappedBlocks(blocks) => blocks.inner.$recurse($visit),
            Data::Swapped { inner, .. } | Data::Negated { inner, .. } => inner.$recurse($visit),
            Data::Strided(view) => view.inner.$recurse($visit),
            Data::Chunked(chunked) => {
                $unshare(chunked).chunks.$iterate().try_for_each(|chunk| $visit(& $($mutable)? chunk.span))
            }
            Data::Boxes(boxes) => {
                $unshare(boxes).boxes.$iterate().try_for_each(|stored| stored.component.data.$recurse($visit))
            }
        }
    };
}

impl Data {
    /// Visits every byte range that the elements are read from, until told to stop.
    fn visit_spans(&self, visit: &mut dyn FnMut(&Span) -> ControlFlow<()>) -> ControlFlow<()> {
        visit_spans!(self, &mut *visit, visit_spans, iter, identity)
    }

    fn visit_spans_mut(&mut self, visit: &mut dyn FnMut(&mut Span) -> ControlFlow<()>) -> ControlFlow<()> {
        visit_spans!(self, &mut *visit, visit_spans_mut, iter_mut, Arc::make_mut, mut)
    }

    /// Visits every byte range that the elements are read from.
    pub(crate) fn for_each_span(&self, visit: &mut dyn FnMut(Span)) {
        let _ = self.visit_spans(&mut |span| {
            visit(*span);
            ControlFlow::Continue(())
        });
    }

    /// Counts the files of byte ranges from `by` on.
    pub(crate) fn shift_files(&mut self, by: u32) {
        self.move_spans(&|span| Span { file: FileId(span.file.0 + by), ..span });
    }

    /// Puts other byte ranges in the place of those that the elements are read from.
    pub(crate) fn move_spans(&mut self, moved: &dyn Fn(Span) -> Span) {
        let _ = self.visit_spans_mut(&mut |span| {
            *span = moved(*span);
            ControlFlow::Continue(())
        });
    }

    /// Bytes taken in the file.
    pub fn stored_length(&self) -> u64 {
        let mut length = match self {
            Data::Inline(bytes) => bytes.len() as u64,
            _ => 0,
        };
        self.for_each_span(&mut |span| length = length.saturating_add(span.length));
        length
    }

    /// The first byte in the file, to read tensors in file order.
    pub fn first_span(&self) -> Option<Span> {
        let mut first = None;
        let _ = self.visit_spans(&mut |span| {
            first = Some(*span);
            ControlFlow::Break(())
        });
        first
    }

    /// The byte range, where the stored bytes are exactly one.
    pub fn only_span(&self) -> Option<Span> {
        match self {
            in_one_span!(span) => Some(*span),
            Data::Swapped { inner, .. } | Data::Negated { inner, .. } => inner.only_span(),
            _ => None,
        }
    }

    /// The same, to be moved; `None` where elements are changed on the way.
    pub(crate) fn span_mut(&mut self) -> Option<&mut Span> {
        match self {
            in_one_span!(span) => Some(span),
            _ => None,
        }
    }
}
