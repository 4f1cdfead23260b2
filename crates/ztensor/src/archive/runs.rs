//! Which bytes of a file become pieces of its archive: tensors that lie plainly in it, and long stretches of anything else. What is left between
//! them is the skeleton, which a reader holds in memory.

use super::original::Original;
use crate::encoding;
use crate::formats::gguf::BlockType;
use crate::index::{Data, FileId, Span};
use crate::reader::Reader;
use crate::tensor::{DType, ElementType, Shape};
use z4ai::Effort;

/// Stretches without tensors are cut into pieces of this size, so that a parser that reads a few bytes of one does not decode all of it.
const STRETCH: u64 = 1 << 20;

/// A run of bytes in the original.
#[derive(Clone, Debug)]
pub struct Run {
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// The tensor and the component whose bytes these are; `None` where it is something else, or only a part of it.
    pub tensor: Option<(String, String)>,
    /// What the elements are; bytes where it is no tensor.
    pub element: ElementType,
    /// Their dimensions.
    pub shape: Shape,
    /// The type of the blocks, where these are what the bytes consist of.
    pub blocks: Option<BlockType>,
}

impl Run {
    /// What the codec is told of the bytes.
    pub fn codec_options(&self, bytes: &[u8], effort: Effort) -> z4ai::Options {
        let records = self.blocks.and_then(|blocks| blocks.record_layout(effort).ok());
        z4ai::Options { records, ..encoding::z4ai_options(bytes, &self.element, &self.shape, effort) }
    }

    fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// The pieces of the first file of a reader, by ascending offset, not overlapping.
pub fn runs(reader: &Reader, length: u64) -> Vec<Run> {
    runs_of(reader, FileId(0), length)
}

/// The pieces of all files of a model, by ascending offset, not overlapping. Offsets count from the start of the first file.
pub(super) fn runs_of_files(reader: &Reader, original: &Original) -> Vec<Run> {
    let mut all = Vec::new();
    for file in &original.files {
        let pieces = runs_of(reader, file.id, file.source.len());
        all.extend(pieces.into_iter().map(|run| Run { offset: file.start + run.offset, ..run }));
    }
    all
}

/// The pieces of one file.
fn runs_of(reader: &Reader, file: FileId, length: u64) -> Vec<Run> {
    let mut runs = tensors(reader, file);
    // Of tensors that share bytes the one with the longest run stands for them.
    runs.sort_by_key(|run| (run.offset, std::cmp::Reverse(run.length), run.tensor.is_none()));
    let mut end = 0;
    runs.retain(|run| {
        let free = run.offset >= end;
        if free {
            end = run.end();
        }
        free
    });
    let mut pieces = Vec::with_capacity(runs.len());
    let mut position = 0;
    for run in runs {
        pieces.extend(stretches(position, run.offset));
        position = run.end();
        pieces.push(run);
    }
    pieces.extend(stretches(position, length));
    pieces
}

fn tensors(reader: &Reader, wanted: FileId) -> Vec<Run> {
    let mut runs = Vec::new();
    for (name, object) in reader.objects() {
        for (role, component) in &object.components {
            let (data, whole) = match &component.data {
                Data::Strided(strided) => (&strided.inner, false),
                data => (data, true),
            };
            let Data::Raw(Span { file, offset, length }) = *data else { continue };
            if file != wanted || length == 0 {
                continue;
            }
            let fits = |shape: &Shape| {
                shape.elements().and_then(|count| component.element.byte_length(count)) == Some(length)
            };
            let shape = object.component_shape(role).filter(|shape| whole && fits(shape));
            let (element, shape) = match shape {
                Some(shape) => (component.element.clone(), shape),
                None => {
                    let width = component.element.storage.width() as u64;
                    let plain =
                        if length.is_multiple_of(width) { component.element.storage } else { DType::U8 };
                    (plain.into(), Shape::from([length / plain.width() as u64]))
                }
            };
            let tensor = whole.then(|| (name.to_owned(), role.to_string()));
            let blocks = BlockType::of(&object.layout).filter(|_| whole && role == "data");
            runs.push(Run { offset, length, tensor, element, shape, blocks });
        }
    }
    runs
}

/// The pieces of a stretch without tensors; none where it is short enough for the skeleton.
fn stretches(start: u64, end: u64) -> impl Iterator<Item = Run> {
    let count = (end - start) / STRETCH;
    (0..count).map(move |number| Run {
        offset: start + number * STRETCH,
        length: STRETCH,
        tensor: None,
        element: DType::U8.into(),
        shape: Shape::from([STRETCH]),
        blocks: None,
    })
}
