//! From a buffer and its reference to a delta.

use crate::arch::memory;
use crate::dtype::{Dtype, FloatLayout};
use crate::encode::{Plan, SectionData, SectionEncoder, keep_shorter, section_length_within, segments};
use crate::error::Result;
use crate::frame::header::Header;
use crate::options::Options;
use crate::reference::ReferenceId;
use crate::threads;
use crate::transform::cast::Narrowed;
use crate::transform::difference::{DifferenceModel, differences};
use crate::transform::opaque::OpaqueModel;
use crate::transform::reference::{ElementFields, ReferenceModel};

/// Bytes per block where nothing changed: few enough to read a part of, many enough that their checksums cost
/// nothing. Deltas: half or double changes no size.
const UNCHANGED_BLOCK: usize = 4 << 20;

/// Sections that are looked at before any of them is written. Deltas: half or double changes no size.
const SECTIONS_TOGETHER: usize = 16;
/// The most bytes per section with a reference: each part of a concatenation, such as weights and optimizer
/// states, finds what suits it.
const DELTA_SECTION: usize = 16 << 20;
/// The fewest bytes of a part of such a section that is planned by itself because its data is of another kind
/// than that beside it. Deltas: optimizer states are 1.6 to 4.2 % smaller than without such parts; double
/// +0.3 to 0.8 % on them.
const DELTA_SEGMENT: usize = 1 << 20;
/// Elements per block of floats. Deltas: half +0.025 %, double -0.038 %, at the price of reading more for a
/// range.
const DELTA_BLOCK_ELEMENTS: usize = 1 << 17;
/// The most elements per block, where little changed. Deltas: half or double changes no size.
const MOST_DELTA_BLOCK_ELEMENTS: usize = 1 << 20;
/// Encoded bytes that a block should have. Deltas: half +0.009 %, double -0.029 %.
const DELTA_BLOCK_ENCODED: u64 = 1 << 16;
/// Bytes that are compressed for a guess of what the section takes without its reference. Deltas: half
/// +0.05 %, double no gain.
const ALONE_BYTES: usize = 1 << 18;
/// One part in so many is compressed for it where the section is short, but no less than a quarter of the
/// above.
const ALONE_SHARE: usize = 16;
/// Pieces that these are taken in. Deltas: half no gain, double +0.05 %.
const ALONE_PIECES: usize = 16;

/// Compresses `current` against `reference` into a frame that [`crate::Frame::against`] restores with the
/// same reference. The buffers may have different lengths; element *i* is coded against element *i*. The
/// frame is never much larger than that of [`crate::compress`], and depends on the two buffers and the
/// options only.
///
/// ```
/// use z4ai::{Dtype, Options};
/// let base: Vec<u8> = (0..10_000u16).flat_map(|i| (0x3c00 + i % 777).to_le_bytes()).collect();
/// let mut tuned = base.clone();
/// tuned[500] ^= 1;
/// let frame = z4ai::compress_delta(&tuned, &base, &Options::new(Dtype::Bf16))?;
/// assert!(frame.len() < 200);
/// assert_eq!(z4ai::Frame::open(&frame)?.against(&base)?.read()?, tuned);
/// # Ok::<(), z4ai::Error>(())
/// ```
pub fn compress_delta(current: &[u8], reference: &[u8], options: &Options) -> Result<Vec<u8>> {
    Ok(encode(current, reference, options)?.0)
}

/// Compresses `current` against `reference` if that helps anywhere: the frame, and whether it is a delta. One
/// that is not is an ordinary frame, which [`crate::decompress`] restores without the reference.
///
/// ```
/// use z4ai::{Dtype, Options};
/// let old: Vec<u8> = (0..10_000u16).flat_map(|i| i.wrapping_mul(40_503).to_le_bytes()).collect();
/// let (_, is_delta) = z4ai::compress_delta_if_useful(&old, &old, &Options::new(Dtype::Bf16))?;
/// assert!(is_delta);
/// let (frame, is_delta) = z4ai::compress_delta_if_useful(&[7; 20_000], &old, &Options::new(Dtype::Bf16))?;
/// assert!(!is_delta && z4ai::decompress(&frame)? == [7; 20_000]);
/// # Ok::<(), z4ai::Error>(())
/// ```
pub fn compress_delta_if_useful(
    current: &[u8],
    reference: &[u8],
    options: &Options,
) -> Result<(Vec<u8>, bool)> {
    let (frame, sections) = encode(current, reference, options)?;
    if sections.need_reference {
        return Ok((frame, true));
    }
    let mut alone = Vec::with_capacity(frame.len());
    Header::new(options, Some(current.len() as u64)).write(&mut alone);
    alone.extend_from_slice(frame.get(sections.start..).unwrap_or_default());
    Ok((alone, false))
}

/// The sections of a frame.
struct Sections {
    /// Where they begin.
    start: usize,
    /// Whether any of them is coded with the reference.
    need_reference: bool,
}

fn encode(current: &[u8], reference: &[u8], options: &Options) -> Result<(Vec<u8>, Sections)> {
    options.check_shape(current.len() as u64)?;
    let id = ReferenceId::of(reference, options.threads)?;
    let mut frame = memory::with_room_for(current.len());
    Header { reference: Some(id), ..Header::new(options, Some(current.len() as u64)) }.write(&mut frame);
    let mut sections = Sections { start: frame.len(), need_reference: false };
    threads::run(options.threads, || -> Result<()> {
        let shared = shared_length(current.len(), reference.len(), options);
        let (against, alone) = current.split_at(shared);
        let mut parts = cut(against, &reference[..shared], options);
        if let Some(last) = parts.last_mut().filter(|_| alone.is_empty()) {
            last.closing = true;
        }
        for group in parts.chunks(SECTIONS_TOGETHER) {
            // Much of a choice is work for one thread, so several are made at the same time.
            let choices = threads::map(group.iter(), |&part| Choice::of(part, options));
            for (&part, choice) in group.iter().zip(choices) {
                sections.need_reference |= choice?.encode(part, options, &mut frame)?;
            }
        }
        SectionEncoder::new(options).append_all(alone, &mut frame, &mut |_| Ok(()))
    })?;
    frame.shrink_to_fit();
    Ok((frame, sections))
}

/// Bytes of whole elements that both buffers have.
pub(super) fn shared_length(current: usize, reference: usize, options: &Options) -> usize {
    let width = options.scalar_width();
    current.min(reference) / width * width
}

/// Bytes of a full section with a reference.
pub(super) fn delta_section_length(options: &Options) -> usize {
    section_length_within(DELTA_SECTION, options)
}

/// Cuts a buffer and its reference into sections. Without a shape it may be many tensors, whose differences
/// have as little in common as their elements, and not all of which profit from the reference.
fn cut<'a>(current: &'a [u8], reference: &'a [u8], options: &Options) -> Vec<SectionData<'a>> {
    let length = delta_section_length(options);
    let layout = options.dtype.and_then(Dtype::float_layout).filter(|_| options.row_length().is_none());
    let mut parts = Vec::with_capacity(current.len().div_ceil(length));
    for (bytes, reference) in current.chunks(length).zip(reference.chunks(length)) {
        let lengths = match layout.filter(|_| bytes != reference) {
            Some(layout) => segment_lengths(layout, bytes),
            None => vec![bytes.len()],
        };
        let mut start = 0;
        for length in lengths {
            let range = start..start + length;
            parts.push(SectionData {
                reference: &reference[range.clone()],
                ..SectionData::new(&bytes[range])
            });
            start += length;
        }
    }
    parts
}

/// The bytes of each part of a section that is of one kind, none of them short.
fn segment_lengths(layout: FloatLayout, bytes: &[u8]) -> Vec<usize> {
    let mut lengths: Vec<usize> = Vec::new();
    for elements in segments::lengths(layout, bytes, None) {
        let length = elements * layout.width;
        match lengths.last_mut().filter(|last| **last < DELTA_SEGMENT || length < DELTA_SEGMENT) {
            Some(last) => *last += length,
            None => lengths.push(length),
        }
    }
    lengths
}

/// Appends the sections of data with a reference, each the shorter of one with it and one without. The
/// reference is as long as the data, and both are whole elements.
pub(super) fn append_against(
    current: &[u8],
    reference: &[u8],
    options: &Options,
    frame: &mut Vec<u8>,
) -> Result<()> {
    for part in cut(current, reference, options) {
        Choice::of(part, options)?.encode(part, options, frame)?;
    }
    Ok(())
}

/// How a section is coded.
#[derive(Debug)]
enum Choice {
    /// Without its reference.
    Alone,
    /// With it.
    Against(Plan),
    /// In the way that proves to be shorter.
    Shorter(Plan),
}

impl Choice {
    fn of(part: SectionData, options: &Options) -> Result<Self> {
        let SectionData { bytes, reference, .. } = part;
        let width = options.scalar_width();
        if bytes == reference {
            let model = DifferenceModel::new(width, OpaqueModel::default().into()).into();
            return Ok(Self::Against(Plan { model, block_length: UNCHANGED_BLOCK }));
        }
        let Some(fields) = options.dtype.and_then(ElementFields::of) else {
            let Plan { model, block_length } = Plan::choose(&differences(bytes, reference, width)?, options)?;
            let model = DifferenceModel::new(width, model).into();
            return Ok(Self::Shorter(Plan { model, block_length }));
        };
        let narrowed = Narrowed::pair(bytes, reference, options)?;
        let (model, bits, block_length) = match &narrowed {
            Some((bytes, reference, fields)) => {
                let (model, bits) = ReferenceModel::fit(*fields, &bytes.bytes, &reference.bytes)?;
                let block_length = block_length(bytes.bytes.len(), fields.width, bits);
                (bytes.model(model.into()), bits, bytes.wide_length(block_length))
            }
            None => {
                let (model, bits) = ReferenceModel::fit(fields, bytes, reference)?;
                (model.into(), bits, block_length(bytes.len(), width, bits))
            }
        };
        let with = bits / 8;
        // The less there is to gain, the shorter the sample.
        let most = if with < bytes.len() as u64 / 8 { ALONE_BYTES / 4 } else { ALONE_BYTES };
        let sample = (bytes.len() / ALONE_SHARE).clamp(ALONE_BYTES / 4, most);
        let without = alone_estimate(bytes, sample, options)?;
        // What the section takes with its reference is known well, without it from a sample, which knows no
        // rows; where that might be a little less, both are tried.
        if without < with - with / 10 {
            return Ok(Self::Alone);
        }
        let plan = Plan { model, block_length };
        let rows = if options.row_length().is_some() { without / 16 } else { 0 };
        Ok(if with + rows <= without { Self::Against(plan) } else { Self::Shorter(plan) })
    }

    /// Appends the section, and says whether its reference is needed.
    fn encode(self, part: SectionData, options: &Options, frame: &mut Vec<u8>) -> Result<bool> {
        let (encoder, alone) = (SectionEncoder::new(options), SectionData { reference: &[], ..part });
        let start = frame.len();
        match self {
            Self::Alone => encoder.append_cut(alone, frame).map(|()| false),
            Self::Against(plan) => encoder.append_planned(&plan, part, frame).map(|()| true),
            Self::Shorter(plan) => {
                encoder.append_planned(&plan, part, frame)?;
                let mut other = Vec::new();
                encoder.append_cut(alone, &mut other)?;
                let with_reference = frame.len() - start <= other.len();
                keep_shorter(frame, start, &other);
                Ok(with_reference)
            }
        }
    }
}

/// About how many bytes a section takes without its reference, from pieces all over it: optimizer states and
/// embeddings have long stretches of zeros. Where rows are known the pieces are whole rows, since scales of
/// rows and columns are what makes optimizer states small.
fn alone_estimate(bytes: &[u8], length: usize, options: &Options) -> Result<u64> {
    let width = options.scalar_width();
    let row = options.row_length().map(|row| row * width).filter(|&row| row <= length / ALONE_PIECES);
    let unit = row.unwrap_or(width);
    let piece = length / ALONE_PIECES / unit * unit;
    let mut sample = Vec::with_capacity(length);
    if bytes.len() <= length {
        sample.extend_from_slice(bytes);
    } else {
        let step = bytes.len() / ALONE_PIECES / unit * unit;
        bytes
            .chunks(step)
            .take(ALONE_PIECES)
            .for_each(|part| sample.extend_from_slice(&part[..piece.min(part.len())]));
    }
    let mut frame = Vec::new();
    let rows = row.map(|row| [(sample.len() / row) as u64, (row / width) as u64].to_vec());
    let options = Options { shape: rows, ..options.clone() };
    SectionEncoder::new(&options).append_cut(SectionData::new(&sample), &mut frame)?;
    Ok(frame.len() as u64 * bytes.len() as u64 / sample.len().max(1) as u64)
}

/// Bytes per block: more where little changed, because every block costs the same few hundred bytes of
/// states.
fn block_length(length: usize, width: usize, bits: u64) -> usize {
    let encoded = |elements: usize| bits / 8 * (elements * width) as u64 / (length as u64).max(1);
    let mut elements = DELTA_BLOCK_ELEMENTS;
    while elements < MOST_DELTA_BLOCK_ELEMENTS && encoded(elements) < DELTA_BLOCK_ENCODED {
        elements *= 2;
    }
    elements * width
}
