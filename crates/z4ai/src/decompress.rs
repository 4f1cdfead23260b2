//! From a frame to bytes: all of it, a range of it, into new memory or the caller's.

use crate::arch::memory;
use crate::block::BlockContext;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::header::Header;
use crate::frame::section::Section;
use crate::frame::wire::Reader;
use crate::reference::Identification;
use crate::threads;
use crate::transform::{Contents, Model};
use std::iter;
use std::ops::Range;

/// The structure of a frame, read without decoding anything.
#[derive(Debug)]
pub(crate) struct Layout<'a> {
    pub header: Header,
    pub sections: Vec<Section<'a>>,
    pub length: u64,
    /// What the data was coded against; empty in most frames.
    reference: &'a [u8],
    /// The identity of the reference, where decoding shall find it out.
    identification: Option<Identification<'a>>,
}

impl<'a> Layout<'a> {
    /// The layout of a frame that decodes by itself.
    pub fn of_standalone(frame: &'a [u8]) -> Result<Self> {
        let layout = Self::read(frame)?;
        layout.header.refuse_reference()?;
        Ok(layout)
    }

    /// The layout of any frame.
    pub fn read(frame: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(frame, "sections");
        let header = Header::read(&mut reader)?;
        let mut sections = Vec::new();
        let mut length = 0u64;
        while header.length.is_none_or(|declared| length < declared) {
            let left = header.length.map(|declared| declared - length);
            let Some(section) = Section::read(&mut reader, left)? else { break };
            length = length
                .checked_add(section.length as u64)
                .filter(|&sum| header.length.is_none_or(|declared| sum <= declared))
                .ok_or_else(|| Error::corrupt("the sections exceed the frame's declared length"))?;
            sections.push(section);
        }
        reader.finish()?;
        Ok(Self { header, sections, length, reference: &[], identification: None })
    }

    /// The same layout, decoding against `reference`, which the caller has verified.
    pub fn against(self, reference: &'a [u8]) -> Self {
        Self { reference, ..self }
    }

    /// The same layout, decoding against `reference` and finding out on the way whether that is the right one.
    pub fn identifying(self, reference: &'a [u8]) -> Self {
        Self { reference, identification: Some(Identification::new(reference)), ..self }
    }

    /// Decodes all data into `out`, which is as long, with this many threads (0: all cores). Should the reference prove to be a wrong one, that is the error, whatever else failed.
    pub fn decode_identifying(&self, out: &mut [u8], threads: usize) -> Result<()> {
        let decoded = threads::run(threads, || self.decode(0..self.length, out));
        if let Some(identification) = &self.identification {
            self.header.require_reference()?.check(&identification.finish(threads))?;
        }
        decoded
    }

    /// The layout of a frame that has this section only.
    pub fn of_section(header: &Header, section: Section<'a>) -> Self {
        Self {
            header: header.clone(),
            length: section.length as u64,
            sections: vec![section],
            reference: &[],
            identification: None,
        }
    }

    /// Fails unless `out` has room for exactly the data.
    pub fn check_output(&self, out: &[u8]) -> Result<()> {
        if self.length == out.len() as u64 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::WrongOutputSize,
            format!("the frame decodes to {} bytes, the output has {}", self.length, out.len()),
        ))
    }

    /// Fails unless `range` lies inside the data.
    pub fn check_range(&self, range: &Range<u64>) -> Result<()> {
        if range.start <= range.end && range.end <= self.length {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::OutOfRange,
            format!("bytes {}..{} of a frame that decodes to {}", range.start, range.end, self.length),
        ))
    }

    /// Fails unless `range` lies inside the data and is as long as `out`.
    pub fn check_range_output(&self, range: &Range<u64>, out: &[u8]) -> Result<()> {
        self.check_range(range)?;
        if range.end - range.start == out.len() as u64 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::WrongOutputSize,
            format!("a range of {} bytes into an output of {}", range.end - range.start, out.len()),
        ))
    }

    /// Bytes per scalar.
    pub fn width(&self) -> usize {
        self.header.dtype.map_or(1, Dtype::scalar_width)
    }

    /// What a section holds.
    pub fn contents(&self, section: &Section) -> Contents {
        Contents { dtype: self.header.dtype, length: section.original_length }
    }

    /// Decodes the parts of `range` into `out`, block by block in parallel. `range` is inside the data and as long as `out`.
    pub fn decode(&self, range: Range<u64>, out: &mut [u8]) -> Result<()> {
        let mut rest = out;
        let mut section_start = 0u64;
        let mut wanted = Vec::new();
        let mut waiting = 0;
        for section in &self.sections {
            let section_end = section_start + section.length as u64;
            let start = range.start.max(section_start);
            let end = range.end.min(section_end);
            if start < end {
                let (target, after) = rest.split_at_mut((end - start) as usize);
                rest = after;
                waiting += target.len();
                let range = (start - section_start) as usize..(end - section_start) as usize;
                let reference = stretch(self.reference, section_start, section_end);
                wanted.push(Wanted { section, start: section_start, reference, range, target });
            }
            if waiting >= TOGETHER || wanted.len() == MOST_MODELS {
                self.decode_sections(std::mem::take(&mut wanted))?;
                waiting = 0;
            }
            section_start = section_end;
        }
        self.decode_sections(wanted)
    }

    /// Decodes parts of several sections, the blocks of all of them in parallel.
    fn decode_sections(&self, wanted: Vec<Wanted>) -> Result<()> {
        let models = threads::map(wanted.iter(), |wanted| {
            let section = wanted.section;
            Model::read(section.model, self.contents(section))
        });
        let models = models.into_iter().collect::<Result<Vec<_>>>()?;
        let end = wanted.last().map_or(0, |last| last.start + last.range.end as u64);
        let (mut tasks, mut last_tasks) = (Vec::new(), Vec::new());
        for (Wanted { section, start, reference, range, target }, model) in wanted.into_iter().zip(&models) {
            let context = BlockContext { model, width: self.width(), reference };
            if !section.copies.is_empty() {
                // What is coded against a reference has no copies: its offsets are those of the data.
                restore_copies(section, &BlockContext { reference: &[], ..context }, range, target)?;
                continue;
            }
            let (first, skip) = (range.start / section.block_length, range.start % section.block_length);
            // The first block's share may be shorter; cut it off so that all others are regular.
            let (head, body) = target.split_at_mut((section.block_length - skip).min(target.len()));
            let body = body.chunks_mut(section.block_length).zip(first + 1..);
            let body = body.map(|(target, index)| WantedBlock { context, section, index, skip: 0, target });
            let head = WantedBlock { context, section, index: first, skip, target: head };
            for block in iter::once(head).chain(body) {
                let start = start + (block.index * section.block_length) as u64;
                let block_end = start + section.decoded_block_length(block.index) as u64;
                let mut pieces = self.identification.as_ref().map_or(0..0, |id| id.pieces(start..block_end));
                if start + LAST >= end {
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
                self.identification.as_ref().map(|identification| identification.digest(piece));
            }
            Ok(())
        });
        results.into_iter().collect()
    }
}

/// What a thread does at a time: it decodes a block, and takes the digests of the pieces of the reference that the block needed, which it then has at hand. At the end of the data digests are work of
/// their own: short work that comes last lets the threads end together.
struct Task<'a, 'o> {
    block: Option<WantedBlock<'a, 'o>>,
    pieces: Range<usize>,
}

/// The tasks, two together where their blocks are better decoded beside each other and no thread has to wait for that.
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
const LAST: u64 = 8 << 20;

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
    /// Whether this block and another are better decoded beside each other.
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

/// A part of a section that is to be decoded.
struct Wanted<'a, 'o> {
    section: &'a Section<'a>,
    /// Where the section begins in the data.
    start: u64,
    /// What the section is coded against, if it is.
    reference: &'a [u8],
    range: Range<usize>,
    target: &'o mut [u8],
}

/// Bytes of sections that are decoded together, at least, since short ones do not occupy all threads; and the most sections, whose models take memory.
const TOGETHER: usize = 64 << 20;
const MOST_MODELS: usize = 64;

/// Decodes `range` of a section with copies into `out`: first the blocks that it needs, each once, then the stretches that it is made of.
fn restore_copies(
    section: &Section,
    context: &BlockContext,
    range: Range<usize>,
    out: &mut [u8],
) -> Result<()> {
    if out.len() == section.length {
        return restore_in_place(section, context, out);
    }
    let needed = section.needed(range.clone());
    let mut originals = memory::zeroed(section.original_length)?;
    let blocks = originals.chunks_mut(section.block_length).enumerate();
    let blocks: Vec<_> = blocks.filter(|(index, _)| needed.get(*index) == Some(&true)).collect();
    let results = threads::map(blocks.into_iter(), |(index, target)| context.decode(section, index, target));
    results.into_iter().collect::<Result<()>>()?;
    let mut rest = out;
    for source in section.sources(range) {
        let (target, after) = rest.split_at_mut(source.len().min(rest.len()));
        target.copy_from_slice(originals.get(source).unwrap_or_default());
        rest = after;
    }
    Ok(())
}

/// Decodes all of a section with copies: the originals to the front of `out`, from where they are moved to their places, the last ones first, and copied.
fn restore_in_place(section: &Section, context: &BlockContext, out: &mut [u8]) -> Result<()> {
    let originals = out.get_mut(..section.original_length).unwrap_or_default();
    let blocks = originals.chunks_mut(section.block_length).enumerate();
    let results = threads::map(blocks, |(index, target)| context.decode(section, index, target));
    results.into_iter().collect::<Result<()>>()?;
    // Where the originals between copies begin, and by how much they move.
    let (mut gaps, mut original, mut moved) = (Vec::with_capacity(section.copies.len() + 1), 0, 0);
    for copy in &section.copies {
        gaps.push((original, moved));
        original += copy.gap;
        moved += copy.length;
    }
    gaps.push((original, moved));
    let mut end = section.original_length;
    for &(start, moved) in gaps.iter().rev() {
        out.copy_within(start..end, start + moved);
        end = start;
    }
    for (copy, &(start, moved)) in section.copies.iter().zip(&gaps) {
        let mut target = start + moved + copy.gap;
        let mut source = copy.source..copy.source + copy.length;
        // The source may span several gaps.
        while !source.is_empty() {
            let gap = gaps.partition_point(|gap| gap.0 <= source.start);
            let end = gaps.get(gap).map_or(source.end, |next| next.0.min(source.end));
            let moved = gaps[gap - 1].1;
            out.copy_within(source.start + moved..end + moved, target);
            target += end - source.start;
            source.start = end;
        }
    }
    Ok(())
}

/// The part of `bytes` between two offsets, as far as there is one.
fn stretch(bytes: &[u8], start: u64, end: u64) -> &[u8] {
    let length = bytes.len() as u64;
    &bytes[start.min(length) as usize..end.min(length) as usize]
}

/// How many bytes `frame` decodes to. Reads the frame's structure and decodes nothing.
pub fn decoded_len(frame: &[u8]) -> Result<u64> {
    Ok(Layout::read(frame)?.length)
}

/// How many bytes have to be decoded for bytes `range` of the data of `frame`: those of all blocks that hold them.
pub fn decoding_cost(frame: &[u8], range: Range<u64>) -> Result<u64> {
    let layout = Layout::read(frame)?;
    layout.check_range(&range)?;
    let (mut cost, mut section_start) = (0u64, 0u64);
    for section in &layout.sections {
        let section_end = section_start + section.length as u64;
        let (start, end) = (range.start.max(section_start), range.end.min(section_end));
        if start < end {
            let needed = section.needed((start - section_start) as usize..(end - section_start) as usize);
            let blocks = needed.iter().enumerate().filter(|(_, needed)| **needed);
            cost += blocks.map(|(index, _)| section.decoded_block_length(index) as u64).sum::<u64>();
        }
        section_start = section_end;
    }
    Ok(cost)
}

/// Whether `bytes` begin like a z4ai frame of any version.
pub fn is_frame(bytes: &[u8]) -> bool {
    bytes.starts_with(&crate::frame::MAGIC)
}

/// Restores the bytes of `frame`, on all cores.
pub fn decompress(frame: &[u8]) -> Result<Vec<u8>> {
    decompress_with(frame, 0)
}

/// Restores the bytes of `frame` with this many threads (0: all cores).
pub fn decompress_with(frame: &[u8], threads: usize) -> Result<Vec<u8>> {
    let layout = Layout::of_standalone(frame)?;
    let length = usize::try_from(layout.length).map_err(|_| Error::out_of_memory(usize::MAX))?;
    let mut out = memory::zeroed(length)?;
    threads::run(threads, || layout.decode(0..layout.length, &mut out))?;
    Ok(out)
}

/// Restores the bytes of `frame` into `out`, whose length must be exactly [`decoded_len`]; a wrong length is refused before anything is written.
pub fn decompress_into(frame: &[u8], out: &mut [u8]) -> Result<()> {
    decompress_into_with(frame, out, 0)
}

/// [`decompress_into`] with this many threads (0: all cores).
pub fn decompress_into_with(frame: &[u8], out: &mut [u8], threads: usize) -> Result<()> {
    let layout = Layout::of_standalone(frame)?;
    layout.check_output(out)?;
    threads::run(threads, || layout.decode(0..layout.length, out))
}

/// Restores bytes `range` of the decoded data into `out`, decoding only the blocks that hold them.
///
/// ```
/// let data = b"abcdefgh".repeat(100);
/// let frame = z4ai::compress(&data, &z4ai::Options::default())?;
/// let mut slice = [0; 4];
/// z4ai::decompress_range(&frame, 8..12, &mut slice)?;
/// assert_eq!(&slice, b"abcd");
/// # Ok::<(), z4ai::Error>(())
/// ```
pub fn decompress_range(frame: &[u8], range: Range<u64>, out: &mut [u8]) -> Result<()> {
    let layout = Layout::of_standalone(frame)?;
    layout.check_range_output(&range, out)?;
    layout.decode(range, out)
}
