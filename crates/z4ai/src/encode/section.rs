//! From data to sections: one method for each decision, from how data is cut down to how a block is written.

use super::blocks::{encode_blocks, keep_spare, take_spare};
use super::plan::Plan;
use super::repeats::{self, Repeats};
use super::segments;
use crate::block::{BlockContext, PartialReference};
use crate::error::{Error, Result};
use crate::frame::section::{BlockEntry, Copy, Outline};
use crate::frame::{FULL_SECTION, MAX_SECTION, STORED, checksum};
use crate::options::{Effort, Options};
use crate::record::RecordLayout;
use crate::threads;

/// What a section is made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SectionData<'a> {
    /// The data, without what the copies restore.
    pub bytes: &'a [u8],
    /// Repeats of `bytes`.
    pub copies: &'a [Copy],
    /// What the data is coded against: as many bytes as there are in `bytes`, or none.
    pub reference: &'a [u8],
    /// Whether it is the last section of a frame that has its length in the header.
    pub closing: bool,
}

impl<'a> SectionData<'a> {
    /// A section of this data alone.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, copies: &[], reference: &[], closing: false }
    }
}

/// Sections from this many bytes on may occupy all threads by themselves; shorter ones are encoded side by
/// side. A round number: four blocks of two-byte elements.
const LONG_SEGMENT: usize = 1 << 20;

/// One part in so many is what learning must save. At maximum effort: half +0.041 %, double -0.024 %, with
/// more that decodes slowly.
const LEARNING_GAIN: u64 = 512;

/// Encodes sections with the same options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SectionEncoder<'o> {
    options: &'o Options,
}

impl<'o> SectionEncoder<'o> {
    pub fn new(options: &'o Options) -> Self {
        Self { options }
    }

    /// Appends the sections of the last `bytes` of a frame that has its length in the header. `progress` is
    /// told the bytes of each.
    pub fn append_all<E: From<Error>>(
        &self,
        bytes: &[u8],
        frame: &mut Vec<u8>,
        progress: &mut dyn FnMut(u64) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let options = self.options;
        let cut = [FULL_SECTION, MAX_SECTION].map(|limit| section_length_within(limit, options));
        let sections = sections(bytes, cut, options);
        let last = sections.len();
        for (index, bytes) in sections.into_iter().enumerate() {
            self.append_cut(SectionData { closing: index + 1 == last, ..SectionData::new(bytes) }, frame)?;
            progress(bytes.len() as u64)?;
        }
        Ok(())
    }

    /// Appends a section; without its repeats where there are some, or cut into several where the parts of
    /// the data have little in common.
    pub fn append_cut(&self, part: SectionData, frame: &mut Vec<u8>) -> Result<()> {
        let options = self.options;
        let find = if options.effort == Effort::Max { repeats::search } else { repeats::find };
        let repeats = find(part.bytes, options.scalar_width(), options.cut_unit());
        let segments = self.segments(part)?;
        let start = frame.len();
        // Segments save more than so few copies could.
        let copied = |repeats: &Repeats| part.bytes.len() - repeats.originals.len();
        let is_worthwhile = |repeats: &Repeats| {
            segments.len() == 1 || copied(repeats) > part.bytes.len() / segments::WORTHWHILE_SEGMENTS
        };
        let Some(repeats) = repeats.filter(is_worthwhile) else {
            self.append_segments(&segments, frame)?;
            // Sections that do not shrink cost a few bytes each, which one for all of them saves.
            if segments.len() > 1 && frame.len() - start > part.bytes.len() {
                frame.truncate(start);
                self.try_efforts(part, frame)?;
            }
            return Ok(());
        };
        let once = SectionData { bytes: &repeats.originals, copies: &repeats.copies, ..part };
        self.try_efforts(once, frame)?;
        // Copies do not reach from one section to another, so it is the one or the other.
        if segments.len() > 1 {
            let mut apart = Vec::new();
            self.append_segments(&segments, &mut apart)?;
            keep_shorter(frame, start, &apart);
        }
        Ok(())
    }

    /// Appends a section for each segment, short ones side by side.
    fn append_segments(&self, segments: &[SectionData], frame: &mut Vec<u8>) -> Result<()> {
        // One thread has no use for sections of their own, which would have to be put together.
        if segments.len() == 1 || threads::count() == 1 {
            return segments.iter().try_for_each(|part| self.try_efforts(*part, frame));
        }
        // What is more than a thread's share would keep one busy when the others are done.
        let share = segments.iter().map(|part| part.bytes.len()).sum::<usize>() / threads::count();
        let is_long = |part: &SectionData| part.bytes.len() >= LONG_SEGMENT.max(share);
        for group in segments.chunk_by(|first, second| !is_long(first) && !is_long(second)) {
            if let [part] = group {
                self.try_efforts(*part, frame)?;
                continue;
            }
            // The longest first, so that threads end together.
            let mut order: Vec<usize> = (0..group.len()).collect();
            order.sort_by_key(|&index| std::cmp::Reverse(group[index].bytes.len()));
            let encoded = threads::map(order.iter().map(|&index| (index, &group[index])), |(index, part)| {
                let mut section = take_spare();
                section.clear();
                let outcome = threads::run(1, || self.try_efforts(*part, &mut section));
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
    fn segments<'a>(&self, part: SectionData<'a>) -> Result<Vec<SectionData<'a>>> {
        let options = self.options;
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
            parts.push(SectionData { bytes, closing: false, ..part });
            rest = after;
        }
        parts.push(SectionData { bytes: rest, ..part });
        Ok(parts)
    }

    /// Appends one section. Maximum effort is never larger than the default, because it tries that too.
    fn try_efforts(&self, part: SectionData, frame: &mut Vec<u8>) -> Result<()> {
        let options = self.options;
        let start = frame.len();
        self.try_plans(part, frame)?;
        if options.effort == Effort::Max {
            let mut plain = Vec::new();
            let options = Options { effort: Effort::Default, ..options.clone() };
            SectionEncoder::new(&options).try_plans(part, &mut plain)?;
            keep_shorter(frame, start, &plain);
        }
        Ok(())
    }

    /// Appends one section with the plan for its data, or with one that learns or sees further where that is
    /// worth its price.
    fn try_plans(&self, part: SectionData, frame: &mut Vec<u8>) -> Result<()> {
        let options = self.options;
        let start = frame.len();
        let plan = Plan::choose(part.bytes, options)?;
        self.append_planned(&plan, part, frame)?;
        if let Some(learning) = plan.with_learning(part.bytes, options)? {
            let mut other = Vec::new();
            self.append_planned(&learning, part, &mut other)?;
            // It decodes several times more slowly, so the gain must be worth that.
            if (other.len() as u64) * LEARNING_GAIN < (frame.len() - start) as u64 * (LEARNING_GAIN - 1) {
                keep_shorter(frame, start, &other);
            }
        }
        // Opaque data may repeat itself over distances that blocks cut off; one block for all of it is then
        // worth its price.
        if let Some(long) = plan.with_long_distances(part.bytes.len()) {
            let mut whole = Vec::new();
            self.append_planned(&long, part, &mut whole)?;
            keep_shorter(frame, start, &whole);
        }
        Ok(())
    }

    /// Appends one section with this plan, or the bytes as they are where that is shorter.
    pub fn append_planned(&self, plan: &Plan, part: SectionData, frame: &mut Vec<u8>) -> Result<()> {
        let options = self.options;
        let SectionData { bytes, copies, reference, closing } = part;
        let block_length = plan.block_length.min(bytes.len());
        let context = BlockContext {
            model: &plan.model,
            width: options.scalar_width(),
            reference: PartialReference { start: 0, bytes: reference },
        };
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
}

/// Cuts data into full sections; into larger ones where something repeats, because copies do not reach
/// across.
fn sections<'a>(bytes: &'a [u8], [full, largest]: [usize; 2], options: &Options) -> Vec<&'a [u8]> {
    let repeats = |span: &[u8]| span.len() > full && repeats::are_likely(span, options.scalar_width());
    bytes.chunks(largest).flat_map(|span| span.chunks(if repeats(span) { largest } else { full })).collect()
}

/// The bytes of a full section.
pub(crate) fn section_length(options: &Options) -> usize {
    section_length_within(FULL_SECTION, options)
}

/// The bytes of a full section of at most `limit` bytes: as many whole rows as fit, so that columns stay
/// aligned, else as many whole records or elements.
pub(crate) fn section_length_within(limit: usize, options: &Options) -> usize {
    let rows = options.cut_unit();
    let least = options.record_layout().map_or(options.scalar_width(), RecordLayout::length);
    let unit = if rows <= limit { rows } else { least };
    limit / unit * unit
}

/// Replaces the section that begins at `start` of `frame` if `other` is shorter.
pub(crate) fn keep_shorter(frame: &mut Vec<u8>, start: usize, other: &[u8]) {
    if other.len() < frame.len() - start {
        frame.truncate(start);
        frame.extend_from_slice(other);
    }
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
