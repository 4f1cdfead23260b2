//! From blocks to data: which blocks a range needs, where their bytes come from, and their decoding on all
//! threads.

use super::copies::restore_copies;
use super::open::Frame;
use super::section::{Section, SectionHead};
use super::source::BlockSource;
use crate::arch::{memory, pages};
use crate::block::{BlockContext, PartialReference};
use crate::dtype::Dtype;
use crate::error::Result;
use crate::reference::Identification;
use crate::threads;
use crate::transform::{Contents, Model};
use std::iter;
use std::ops::Range;

/// What data is decoded against, and the digest of it that is computed on the way.
pub(super) struct Identified<'r, 'i, R> {
    pub reference: Option<&'r R>,
    pub identification: Option<&'i Identification<'i>>,
}

/// A part of a section that is to be decoded.
struct Wanted<'f, 'o> {
    index: usize,
    head: &'f SectionHead,
    range: Range<usize>,
    target: &'o mut [u8],
}

/// Bytes of sections that are decoded together, at least, since short ones do not occupy all threads: a full
/// section. And the most sections, a guard, since their models take memory.
const DECODED_TOGETHER: usize = 64 << 20;
const MOST_MODELS: usize = 64;

/// Gaps between blocks up to so many bytes are read along with these, rather than in another request. A round
/// number: a page of memory.
const GAP: u64 = 4096;

/// Decodes `range` of the data into `out`, which is as long, block by block in parallel.
pub(super) fn decode<S: BlockSource, R: BlockSource<Error = S::Error>>(
    frame: &Frame<S>,
    against: Identified<R>,
    range: Range<u64>,
    out: &mut [u8],
) -> Result<(), S::Error> {
    let mut rest = out;
    let (mut wanted, mut waiting) = (Vec::new(), 0);
    let first = frame.sections.partition_point(|head| head.data_end() <= range.start);
    for (index, head) in frame.sections.iter().enumerate().skip(first) {
        let (start, end) = (range.start.max(head.start), range.end.min(head.data_end()));
        if start >= end {
            break;
        }
        let (target, after) = rest.split_at_mut((end - start) as usize);
        rest = after;
        waiting += target.len();
        let range = (start - head.start) as usize..(end - head.start) as usize;
        wanted.push(Wanted { index, head, range, target });
        if waiting >= DECODED_TOGETHER || wanted.len() == MOST_MODELS {
            decode_together(frame, &against, std::mem::take(&mut wanted))?;
            waiting = 0;
        }
    }
    decode_together(frame, &against, wanted)
}

/// Reads what parts of several sections need, and decodes them.
fn decode_together<S: BlockSource, R: BlockSource<Error = S::Error>>(
    frame: &Frame<S>,
    against: &Identified<R>,
    mut wanted: Vec<Wanted>,
) -> Result<(), S::Error> {
    let loaded = wanted.iter().map(|wanted| Loaded::read(frame, against.reference, wanted));
    let loaded = loaded.collect::<Result<Vec<_>, S::Error>>()?;
    wanted.iter_mut().for_each(|wanted| pages::bring_all(wanted.target));
    let mut parts = Vec::with_capacity(wanted.len());
    for (Wanted { index, head, range, target }, loaded) in wanted.into_iter().zip(&loaded) {
        let section = match frame.source.bytes() {
            Some(bytes) => head.of_frame(bytes)?,
            None => loaded.section(head, frame.models.get(index).map_or(&[], Vec::as_slice)),
        };
        let reference = match against.reference.and_then(BlockSource::bytes) {
            Some(bytes) => PartialReference { start: 0, bytes: stretch(bytes, head.start, head.data_end()) },
            None => PartialReference { start: loaded.reference_start, bytes: &loaded.reference },
        };
        parts.push(LoadedPart { section, reference, range, target });
    }
    Ok(decode_parts(frame.header.dtype, parts, against.identification)?)
}

/// What was read of a section that is not in memory.
#[derive(Default)]
struct Loaded {
    bytes: Vec<u8>,
    /// Where in the bytes the blocks are; empty for those that are not needed.
    blocks: Vec<Range<usize>>,
    /// The part of the reference that the blocks are coded against, and where that begins in the section.
    reference: Vec<u8>,
    reference_start: usize,
}

impl Loaded {
    fn read<S: BlockSource, R: BlockSource<Error = S::Error>>(
        frame: &Frame<S>,
        reference: Option<&R>,
        wanted: &Wanted,
    ) -> Result<Self, S::Error> {
        let mut loaded = Self::default();
        // Small tensors in memory decode in microseconds, of which lists of blocks would be a noticeable
        // part.
        if frame.source.bytes().is_some() && reference.is_none_or(|reference| reference.bytes().is_some()) {
            return Ok(loaded);
        }
        let (head, needed) = (wanted.head, wanted.head.needed(wanted.range.clone()));
        if frame.source.bytes().is_none() {
            loaded.read_blocks(&frame.source, head, &needed)?;
        }
        // What is coded against a reference has no copies: its offsets are those of the data.
        if let Some(reference) = reference.filter(|reference| reference.bytes().is_none())
            && head.copies.is_empty()
            && let (Some(first), Some(last)) =
                (needed.iter().position(|needed| *needed), needed.iter().rposition(|needed| *needed))
        {
            loaded.reference_start = first * head.block_length;
            let end = last * head.block_length + head.decoded_block_length(last);
            let place = |offset: usize| head.start.saturating_add(offset as u64).min(reference.length());
            let (start, end) = (place(loaded.reference_start), place(end));
            loaded.reference = memory::zeroed((end - start) as usize)?;
            if start < end {
                reference.read_at(start, &mut loaded.reference)?;
            }
        }
        Ok(loaded)
    }

    /// Reads the blocks that are needed, neighbours together.
    fn read_blocks<S: BlockSource>(
        &mut self,
        source: &S,
        head: &SectionHead,
        needed: &[bool],
    ) -> Result<(), S::Error> {
        let mut spans: Vec<Range<u64>> = Vec::new();
        let (mut place, mut length) = (head.blocks_start, 0);
        for (block, &needed) in head.blocks.iter().zip(needed) {
            let span = place..place.saturating_add(block.length as u64);
            place = span.end;
            if !needed {
                self.blocks.push(0..0);
                continue;
            }
            match spans.last_mut() {
                Some(last) if span.start - last.end <= GAP => {
                    length += (span.end - last.end) as usize;
                    last.end = span.end;
                }
                _ => {
                    length += block.length;
                    spans.push(span);
                }
            }
            self.blocks.push(length - block.length..length);
        }
        self.bytes = memory::zeroed(length)?;
        let mut rest = &mut self.bytes[..];
        for span in spans {
            let (part, after) = rest.split_at_mut((span.end - span.start) as usize);
            rest = after;
            source.read_at(span.start, part)?;
        }
        Ok(())
    }

    fn section<'a>(&'a self, head: &'a SectionHead, model: &'a [u8]) -> Section<'a> {
        let model = if head.model.is_none() { &super::section::STORED_MODEL } else { model };
        let payload = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        Section { head, model, payloads: self.blocks.iter().map(payload).collect() }
    }
}

/// A part of a section that is to be decoded, with its bytes.
struct LoadedPart<'a, 'o> {
    section: Section<'a>,
    /// What the section is coded against, if it is.
    reference: PartialReference<'a>,
    range: Range<usize>,
    target: &'o mut [u8],
}

/// Decodes all of a section that is in memory.
pub(crate) fn decode_section(
    dtype: Option<Dtype>,
    section: Section,
    reference: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let reference = PartialReference { start: 0, bytes: reference };
    let part = LoadedPart { range: 0..section.length, section, reference, target: out };
    decode_parts(dtype, vec![part], None)
}

/// Decodes parts of several sections, the blocks of all of them in parallel.
fn decode_parts(
    dtype: Option<Dtype>,
    mut wanted: Vec<LoadedPart>,
    identification: Option<&Identification>,
) -> Result<()> {
    let width = dtype.map_or(1, Dtype::scalar_width);
    let models = threads::map(wanted.iter(), |part| {
        let contents = Contents { dtype, length: part.section.original_length };
        Model::read(part.section.model, contents)
    });
    let models = models.into_iter().collect::<Result<Vec<_>>>()?;
    let end = wanted.last().map_or(0, |last| last.section.start + last.range.end as u64);
    let (mut tasks, mut last_tasks) = (Vec::new(), Vec::new());
    for (part, model) in wanted.iter_mut().zip(&models) {
        let LoadedPart { section, reference, range, target } = part;
        let (section, reference, range) = (&*section, *reference, range.clone());
        let target = std::mem::take(target);
        let context = BlockContext { model, width, reference };
        if !section.copies.is_empty() {
            let context = BlockContext { reference: PartialReference::default(), ..context };
            restore_copies(section, &context, range, target)?;
            continue;
        }
        let (first, skip) = (range.start / section.block_length, range.start % section.block_length);
        // The first block's share may be shorter; cut it off so that all others are regular.
        let (head, body) = target.split_at_mut((section.block_length - skip).min(target.len()));
        let body = body.chunks_mut(section.block_length).zip(first + 1..);
        let body = body.map(|(target, index)| WantedBlock { context, section, index, skip: 0, target });
        let head = WantedBlock { context, section, index: first, skip, target: head };
        for block in iter::once(head).chain(body) {
            let start = section.start + (block.index * section.block_length) as u64;
            let block_end = start + section.decoded_block_length(block.index) as u64;
            let mut pieces = identification.map_or(0..0, |id| id.pieces(start..block_end));
            if start + IDENTIFIED_LAST >= end {
                last_tasks.extend(pieces.map(|piece| Task { block: None, pieces: piece..piece + 1 }));
                pieces = 0..0;
            }
            tasks.push(Task { block: Some(block), pieces });
        }
    }
    tasks.append(&mut last_tasks);
    let results = threads::map(in_twos(tasks).into_iter(), |(task, beside)| {
        let pieces = iter::once(&task).chain(&beside).flat_map(|task| task.pieces.clone());
        let pieces: Vec<usize> = pieces.collect();
        match (task.block, beside.and_then(|task| task.block)) {
            (Some(block), Some(beside)) => block.decode_beside(beside)?,
            (block, _) => block.map_or(Ok(()), WantedBlock::decode)?,
        }
        for piece in pieces {
            identification.map(|identification| identification.digest(piece));
        }
        Ok(())
    });
    results.into_iter().collect()
}

/// A unit of work: a block, and the digests of the pieces of the reference that it needed, which are then in
/// the cache. Near the end of the data digests are units of their own: short work that comes last balances
/// the load.
struct Task<'a, 'o> {
    block: Option<WantedBlock<'a, 'o>>,
    pieces: Range<usize>,
}

/// Pairs tasks whose blocks decode faster interleaved, as long as every thread still has enough to do.
fn in_twos<'a, 'o>(tasks: Vec<Task<'a, 'o>>) -> Vec<(Task<'a, 'o>, Option<Task<'a, 'o>>)> {
    let (threads, mut left) = (threads::count(), tasks.len());
    let (mut twos, mut tasks) = (Vec::with_capacity(left), tasks.into_iter().peekable());
    while let Some(task) = tasks.next() {
        left -= 1;
        let fits =
            |next: &Task| task.block.as_ref().zip(next.block.as_ref()).is_some_and(|(a, b)| a.suits(b));
        let beside = if left > 2 * threads || threads == 1 { tasks.next_if(fits) } else { None };
        left -= usize::from(beside.is_some());
        twos.push((task, beside));
    }
    twos
}

/// Bytes at the end of the data whose reference is identified last.
const IDENTIFIED_LAST: u64 = 8 << 20;

/// A block of which all or a part is to be decoded.
struct WantedBlock<'a, 'o> {
    context: BlockContext<'a>,
    section: &'a Section<'a>,
    index: usize,
    /// Where the part begins.
    skip: usize,
    target: &'o mut [u8],
}

impl WantedBlock<'_, '_> {
    /// Whether this block and another decode faster as a pair.
    fn suits(&self, other: &Self) -> bool {
        let whole = |block: &Self| {
            block.skip == 0 && block.target.len() == block.section.decoded_block_length(block.index)
        };
        std::ptr::eq(self.section, other.section)
            && self.context.prefers_pairs()
            && whole(self)
            && whole(other)
    }

    /// Decodes two blocks that suit each other.
    fn decode_beside(self, other: Self) -> Result<()> {
        let indices = [self.index, other.index];
        self.context.decode_pair(self.section, indices, [self.target, other.target])
    }

    fn decode(self) -> Result<()> {
        let Self { context, section, index, skip, target } = self;
        let length = section.decoded_block_length(index);
        if skip == 0 && target.len() == length {
            return context.decode(section, index, target);
        }
        let mut whole = memory::zeroed(length)?;
        context.decode(section, index, &mut whole)?;
        target.copy_from_slice(&whole[skip..skip + target.len()]);
        Ok(())
    }
}

/// The part of `bytes` between two offsets, as far as there is one.
fn stretch(bytes: &[u8], start: u64, end: u64) -> &[u8] {
    let length = bytes.len() as u64;
    &bytes[start.min(length) as usize..end.min(length) as usize]
}
