//! From bytes to a frame, in one call.

use crate::arch::memory;
use crate::block::BlockContext;
use crate::error::Result;
use crate::frame::header::Header;
use crate::frame::section::{BlockEntry, Copy, Outline};
use crate::frame::{FULL_SECTION, MAX_SECTION, STORED, checksum};
use crate::options::{Effort, Options};
use crate::plan::Plan;
use crate::repeats::{self, Repeats};
use crate::segments;
use crate::threads;
use std::sync::Mutex;

/// Compresses `bytes` into one frame. The frame depends on the bytes and the options only, not on the machine or the number of threads.
///
/// ```
/// use z4ai::{Dtype, Options};
/// let weights: Vec<u8> = (0..1000u16).flat_map(|i| (0x3c00 + i % 77).to_le_bytes()).collect();
/// let frame = z4ai::compress(&weights, &Options::new(Dtype::Bf16))?;
/// assert!(frame.len() < weights.len());
/// assert_eq!(z4ai::decompress(&frame)?, weights);
/// # Ok::<(), z4ai::Error>(())
/// ```
pub fn compress(bytes: &[u8], options: &Options) -> Result<Vec<u8>> {
    let mut frame = Vec::new();
    compress_into(bytes, options, &mut frame)?;
    Ok(frame)
}

/// Compresses `bytes` into one frame that replaces the contents of `frame`, whose memory is used again: new memory takes about as long to bring in as
/// compressing does.
pub fn compress_into(bytes: &[u8], options: &Options, frame: &mut Vec<u8>) -> Result<()> {
    options.check_shape(bytes.len() as u64)?;
    compress_to(bytes, options, frame)
}

fn compress_to(bytes: &[u8], options: &Options, frame: &mut Vec<u8>) -> Result<()> {
    frame.clear();
    // More room than is written to costs nothing.
    if frame.capacity() < bytes.len() {
        *frame = memory::with_room_for(bytes.len());
    }
    Header::new(options, Some(bytes.len() as u64)).write(frame);
    threads::run(options.threads, || encode_sections(bytes, options, frame))
}

/// Appends the sections of the last `bytes` of a frame that has its length in the header.
pub(crate) fn encode_sections(bytes: &[u8], options: &Options, frame: &mut Vec<u8>) -> Result<()> {
    let cut = [FULL_SECTION, MAX_SECTION].map(|limit| section_length_within(limit, options));
    let sections = sections(bytes, cut, options);
    let last = sections.len();
    for (index, bytes) in sections.into_iter().enumerate() {
        encode_section(Part { closing: index + 1 == last, ..Part::new(bytes) }, options, frame)?;
    }
    Ok(())
}

/// Cuts data into full sections; into larger ones where something repeats, because copies do not reach across.
fn sections<'a>(bytes: &'a [u8], [full, largest]: [usize; 2], options: &Options) -> Vec<&'a [u8]> {
    let repeats = |span: &[u8]| span.len() > full && repeats::are_likely(span, options.scalar_width());
    bytes.chunks(largest).flat_map(|span| span.chunks(if repeats(span) { largest } else { full })).collect()
}

/// The bytes of a full section.
pub(crate) fn section_length(options: &Options) -> usize {
    section_length_within(FULL_SECTION, options)
}

/// The bytes of a full section of at most `limit` bytes: as many whole rows as fit, so that columns stay aligned, else as many whole elements.
pub(crate) fn section_length_within(limit: usize, options: &Options) -> usize {
    let width = options.scalar_width();
    let row = options.row_length().and_then(|length| length.checked_mul(width)).filter(|&row| row <= limit);
    let unit = row.unwrap_or(width);
    limit / unit * unit
}

/// Copies begin and end between rows where these are known, so that columns stay aligned in what is left.
fn copy_unit(options: &Options) -> usize {
    let width = options.scalar_width();
    options.row_length().and_then(|length| length.checked_mul(width)).unwrap_or(width)
}

/// Appends a section, or several where the parts of the data have little in common.
pub(crate) fn encode_section(part: Part, options: &Options, frame: &mut Vec<u8>) -> Result<()> {
    let find = if options.effort == Effort::Max { repeats::search } else { repeats::find };
    let repeats = find(part.bytes, options.scalar_width(), copy_unit(options));
    let segments = segments(part, options)?;
    let start = frame.len();
    // Segments save more than so few copies could.
    let copied = |repeats: &Repeats| part.bytes.len() - repeats.originals.len();
    let is_worthwhile =
        |repeats: &Repeats| segments.len() == 1 || copied(repeats) > part.bytes.len() / segments::WORTHWHILE;
    let Some(repeats) = repeats.filter(is_worthwhile) else {
        encode_segments(&segments, options, frame)?;
        // Sections that do not shrink cost a few bytes each, which one for all of them saves.
        if segments.len() > 1 && frame.len() - start > part.bytes.len() {
            frame.truncate(start);
            encode_best(part, options, frame)?;
        }
        return Ok(());
    };
    let once = Part { bytes: &repeats.originals, copies: &repeats.copies, ..part };
    encode_best(once, options, frame)?;
    // Copies do not reach from one section to another, so it is the one or the other.
    if segments.len() > 1 {
        let mut apart = Vec::new();
        encode_segments(&segments, options, &mut apart)?;
        keep_shorter(frame, start, &apart);
    }
    Ok(())
}

/// Sections from this many bytes on may occupy all threads by themselves; shorter ones are encoded side by side.
const LONG_SEGMENT: usize = 1 << 20;

/// Appends a section for each segment.
fn encode_segments(segments: &[Part], options: &Options, frame: &mut Vec<u8>) -> Result<()> {
    // One thread has no use for sections of their own, which would have to be put together.
    if segments.len() == 1 || threads::count() == 1 {
        return segments.iter().try_for_each(|part| encode_best(*part, options, frame));
    }
    // What is more than a thread's share would keep one busy when the others are done.
    let share = segments.iter().map(|part| part.bytes.len()).sum::<usize>() / threads::count();
    let is_long = |part: &Part| part.bytes.len() >= LONG_SEGMENT.max(share);
    for group in segments.chunk_by(|first, second| !is_long(first) && !is_long(second)) {
        if let [part] = group {
            encode_best(*part, options, frame)?;
            continue;
        }
        // The longest first, so that threads end together.
        let mut order: Vec<usize> = (0..group.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(group[index].bytes.len()));
        let encoded = threads::map(order.iter().map(|&index| (index, &group[index])), |(index, part)| {
            let mut section = take_spare();
            section.clear();
            let outcome = threads::run(1, || encode_best(*part, options, &mut section));
            outcome.map(|()| (index, section))
        });
        let mut sections = encoded.into_iter().collect::<Result<Vec<_>>>()?;
        sections.sort_by_key(|&(index, _)| index);
        for (_, section) in sections {
            frame.extend_from_slice(&section);
            keep_spare(section);
        }
    }
    Ok(())
}

/// Cuts data where it changes, between rows if these are known.
fn segments<'a>(part: Part<'a>, options: &Options) -> Result<Vec<Part<'a>>> {
    let dtype = options.dtype.filter(|_| part.reference.is_empty());
    let Some((dtype, layout)) = dtype.and_then(|dtype| Some((dtype, dtype.float_layout()?))) else {
        return Ok(vec![part]);
    };
    let elements = &part.bytes[..part.bytes.len() / layout.width * layout.width];
    let mut lengths = segments::lengths(layout, elements, options.row_length());
    // The groups of a grid differ in scale, but not in what is to be known of them.
    if lengths.len() > 1 && Plan::has_grid(elements, dtype, options)? {
        return Ok(vec![part]);
    }
    // The last one has the bytes of an unfinished element too.
    lengths.pop();
    let mut parts = Vec::with_capacity(lengths.len() + 1);
    let mut rest = part.bytes;
    for length in lengths {
        let (bytes, after) = rest.split_at(length * layout.width);
        parts.push(Part { bytes, closing: false, ..part });
        rest = after;
    }
    parts.push(Part { bytes: rest, ..part });
    Ok(parts)
}

/// Appends one section: the planned one, or the bytes as they are where that is shorter. Maximum effort is never larger than the default, because it tries
/// that too.
fn encode_best(part: Part, options: &Options, frame: &mut Vec<u8>) -> Result<()> {
    let start = frame.len();
    encode_planned(part, options, frame)?;
    if options.effort == Effort::Max {
        let mut plain = Vec::new();
        let options = Options { effort: Effort::Default, ..options.clone() };
        encode_planned(part, &options, &mut plain)?;
        keep_shorter(frame, start, &plain);
    }
    Ok(())
}

fn encode_planned(part: Part, options: &Options, frame: &mut Vec<u8>) -> Result<()> {
    let start = frame.len();
    let plan = Plan::choose(part.bytes, options)?;
    encode_with(&plan, part, options, frame)?;
    if let Some(learning) = plan.with_learning(part.bytes, options)? {
        let mut other = Vec::new();
        encode_with(&learning, part, options, &mut other)?;
        // It decodes much slower, so a hair's breadth is not enough.
        if (other.len() as u64) * LEARNING_GAIN < (frame.len() - start) as u64 * (LEARNING_GAIN - 1) {
            keep_shorter(frame, start, &other);
        }
    }
    // Opaque data may repeat itself over distances that blocks cut off; one block for all of it is then worth its price.
    if let Some(long) = plan.with_long_distances(part.bytes.len()) {
        let mut whole = Vec::new();
        encode_with(&long, part, options, &mut whole)?;
        keep_shorter(frame, start, &whole);
    }
    Ok(())
}

/// Replaces the section that begins at `start` of `frame` if `other` is shorter.
pub(crate) fn keep_shorter(frame: &mut Vec<u8>, start: usize, other: &[u8]) {
    if other.len() < frame.len() - start {
        frame.truncate(start);
        frame.extend_from_slice(other);
    }
}

/// One part in so many is what learning must save.
const LEARNING_GAIN: u64 = 512;

/// What a section is made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    /// The data, without what the copies restore.
    pub bytes: &'a [u8],
    /// Repeats of `bytes`.
    pub copies: &'a [Copy],
    /// What the data is coded against: as many bytes as there are in `bytes`, or none.
    pub reference: &'a [u8],
    /// Whether it is the last section of a frame that has its length in the header.
    pub closing: bool,
}

impl<'a> Part<'a> {
    /// A section of this data alone.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, copies: &[], reference: &[], closing: false }
    }
}

/// Appends one section with this plan, or the bytes as they are where that is shorter.
pub(crate) fn encode_with(plan: &Plan, part: Part, options: &Options, frame: &mut Vec<u8>) -> Result<()> {
    let Part { bytes, copies, reference, closing } = part;
    let block_length = plan.block_length.min(bytes.len());
    let context = BlockContext { model: &plan.model, width: options.scalar_width(), reference };
    let mut model = Vec::new();
    plan.model.write(&mut model)?;
    let outline = Outline { length: bytes.len(), closing, copies, block_length, model: &model };
    let start = frame.len();
    outline.write(frame, |frame| encode_blocks(&context, bytes, block_length, frame))?;
    if frame.len() - start > bytes.len() {
        let mut stored = Vec::new();
        let outline = Outline { block_length: bytes.len(), model: &[STORED], ..outline };
        outline.write(&mut stored, |stored| {
            stored.extend_from_slice(bytes);
            Ok(vec![BlockEntry { length: bytes.len(), checksum: checksum(bytes) }])
        })?;
        keep_shorter(frame, start, &stored);
    }
    Ok(())
}

/// Memory of blocks, kept for the next: bringing in new memory takes about as long as encoding does. Never waited for: in a forked process its holder may not
/// exist any more.
static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
/// How many are kept, and the most bytes of each.
const SPARE_BLOCKS: usize = 16;
const SPARE_BYTES: usize = 2 << 20;

fn take_spare() -> Vec<u8> {
    SPARE.try_lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default()
}

fn keep_spare(block: Vec<u8>) {
    if block.capacity() <= SPARE_BYTES
        && let Ok(mut spare) = SPARE.try_lock()
        && spare.len() < SPARE_BLOCKS
    {
        spare.push(block);
    }
}

/// Appends the blocks of a section.
fn encode_blocks(
    context: &BlockContext,
    bytes: &[u8],
    block_length: usize,
    frame: &mut Vec<u8>,
) -> Result<Vec<BlockEntry>> {
    let mut entries = Vec::with_capacity(bytes.len().div_ceil(block_length));
    let mut failure = Ok(());
    threads::deliver(
        bytes.chunks(block_length).enumerate(),
        |(index, block)| {
            let mut memory = take_spare();
            let begin = context.encode(block, index * block_length, &mut memory)?;
            Ok((memory, begin, checksum(block)))
        },
        |result: Result<(Vec<u8>, usize, u32)>| match result {
            Ok((memory, begin, checksum)) => {
                let encoded = memory.get(begin..).unwrap_or_default();
                frame.extend_from_slice(encoded);
                entries.push(BlockEntry { length: encoded.len(), checksum });
                keep_spare(memory);
            }
            Err(error) => failure = Err(error),
        },
    );
    failure.map(|()| entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    #[test]
    fn sections_are_larger_where_data_repeats_across_them() {
        let mut state = 1u64;
        let mut noise = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        let different: Vec<u8> = (0..1 << 20).map(|_| noise()).collect();
        let repeated = [&different[..1 << 19], &different[..1 << 19]].concat();
        let options = Options::new(Dtype::Bf16);
        let lengths = |bytes: &[u8]| -> Vec<usize> {
            let cut = [1 << 18, 1 << 20];
            sections(bytes, cut, &options).into_iter().map(<[u8]>::len).collect()
        };
        assert_eq!(lengths(&different), [1 << 18; 4]);
        assert_eq!(lengths(&repeated), [1 << 20]);
        assert_eq!(
            lengths(&[&repeated[..], &different].concat()),
            [1 << 20, 1 << 18, 1 << 18, 1 << 18, 1 << 18]
        );
        assert_eq!(lengths(&repeated[..1000]), [1000]);
        assert!(lengths(&[]).is_empty());
    }
}
