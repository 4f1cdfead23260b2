//! What is in a frame: sizes by transform and by plane, and how far the coder is from the entropy of what it
//! coded. Reads the structure of the frame and decodes only a few sample blocks for the entropy.

use crate::arch::memory;
use crate::block::{BlockContext, BlockMode, PartialReference};
use crate::dtype::Dtype;
use crate::entropy::plane::histogram;
use crate::entropy::table::entropy_bits;
use crate::error::Result;
use crate::frame::{Description, Frame};
use crate::options::Effort;
use crate::reference::ReferenceId;
use crate::transform::Model;

/// A frame's description.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Info {
    /// The elements' type, `None` for opaque bytes.
    pub dtype: Option<Dtype>,
    /// The tensor's shape, if the writer knew it.
    pub shape: Option<Vec<u64>>,
    /// The NumPy dtype string that the writer kept.
    pub numpy_dtype: Option<String>,
    /// The effort that the frame was written with.
    pub effort: Effort,
    /// Which buffer a delta was made against; `None` for frames that decode by themselves.
    pub reference: Option<ReferenceId>,
    /// Bytes before compression.
    pub decoded_len: u64,
    /// Bytes of the frame.
    pub encoded_len: u64,
    /// How many blocks there are.
    pub blocks: usize,
    /// Sizes by how blocks were coded, the largest first.
    pub transforms: Vec<Part>,
    /// Sizes of the planes of coded blocks, and of models and tables, in the order of their first appearance.
    pub planes: Vec<Part>,
    /// Bits per element that an ideal order-0 coder of the byte planes would take, from a sample; `None` for
    /// an empty frame or a delta.
    pub entropy_floor: Option<f64>,
}

/// A share of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// What it is.
    pub name: String,
    /// Bytes before compression that it stands for; 0 for side information.
    pub decoded_len: u64,
    /// Bytes in the frame.
    pub encoded_len: u64,
}

/// Blocks decoded for the entropy floor. A round number.
const SAMPLE_BLOCKS: usize = 4;

impl Info {
    /// Describes `frame`.
    ///
    /// ```
    /// let frame = z4ai::compress(&[0; 1000], &z4ai::Options::new(z4ai::Dtype::F32))?;
    /// let info = z4ai::Info::read(&frame)?;
    /// assert!(info.ratio() > 10.0);
    /// assert_eq!(info.transforms[0].name, "constant");
    /// # Ok::<(), z4ai::Error>(())
    /// ```
    pub fn read(frame: &[u8]) -> Result<Self> {
        let layout = Frame::open(frame)?;
        let mut transforms = PartList::default();
        let mut planes = PartList::default();
        let (mut blocks, mut side) = (0, frame.len());
        for head in layout.sections() {
            let section = &head.of_frame(frame)?;
            let model = Model::read(section.model, layout.contents(section))?;
            let context =
                BlockContext { model: &model, width: layout.width(), reference: PartialReference::default() };
            planes.add("model", 0, section.model.len());
            side -= section.model.len();
            for (index, payload) in section.payloads.iter().enumerate() {
                let decoded = section.decoded_block_length(index);
                let mode = context.mode(payload)?;
                transforms.add(mode.name(&model), decoded, payload.len());
                side -= payload.len();
                match mode {
                    BlockMode::Coded => {
                        for (name, bytes) in context.parts(payload, decoded)? {
                            planes.add(&name, 0, bytes);
                        }
                    }
                    _ => planes.add(mode.name(&model), decoded, payload.len()),
                }
            }
            if !section.copies.is_empty() {
                transforms.add("copy", section.length - section.original_length, 0);
            }
            blocks += section.payloads.len();
        }
        planes.add("frame structure", 0, side);
        transforms.0.sort_by_key(|part| std::cmp::Reverse(part.decoded_len));
        let Description { dtype, shape, numpy_dtype, effort, reference, length } = layout.description();
        Ok(Self {
            dtype,
            shape,
            numpy_dtype,
            effort,
            reference,
            decoded_len: length,
            encoded_len: frame.len() as u64,
            blocks,
            transforms: transforms.0,
            planes: planes.0,
            entropy_floor: entropy_floor(&layout, frame)?,
        })
    }

    /// Bytes before compression per byte after it.
    pub fn ratio(&self) -> f64 {
        self.decoded_len as f64 / (self.encoded_len as f64).max(1.0)
    }

    /// Bits per element of the frame, all overhead included.
    pub fn bits_per_element(&self) -> f64 {
        let width = self.dtype.map_or(1, Dtype::width) as f64;
        self.encoded_len as f64 * 8.0 / (self.decoded_len as f64 / width).max(1.0)
    }
}

#[derive(Default)]
struct PartList(Vec<Part>);

impl PartList {
    fn add(&mut self, name: &str, decoded: usize, encoded: usize) {
        let part = match self.0.iter_mut().find(|part| part.name == name) {
            Some(part) => part,
            None => {
                self.0.push(Part { name: name.to_owned(), decoded_len: 0, encoded_len: 0 });
                let last = self.0.len() - 1;
                &mut self.0[last]
            }
        };
        part.decoded_len += decoded as u64;
        part.encoded_len += encoded as u64;
    }
}

/// The order-0 entropy of the byte planes of a few blocks; of floats, the byte with the exponent is taken
/// without the sign.
fn entropy_floor(layout: &Frame<&[u8]>, frame: &[u8]) -> Result<Option<f64>> {
    let Description { dtype, reference, .. } = layout.description();
    if reference.is_some() {
        return Ok(None);
    }
    let width = layout.width();
    let rotate = dtype.is_some_and(|dtype| dtype.float_layout().is_some());
    let (mut bits, mut elements) = (0u64, 0usize);
    let sections = layout.sections().len().div_ceil(SAMPLE_BLOCKS).max(1);
    for head in layout.sections().iter().step_by(sections) {
        let section = &head.of_frame(frame)?;
        let model = Model::read(section.model, layout.contents(section))?;
        let context = BlockContext { model: &model, width, reference: PartialReference::default() };
        let mut bytes = memory::zeroed(section.decoded_block_length(0))?;
        context.decode(section, 0, &mut bytes)?;
        if rotate {
            bytes.chunks_exact_mut(width).for_each(sign_last);
        }
        for plane in 0..width {
            bits += entropy_bits(&histogram(bytes.iter().copied().skip(plane).step_by(width)));
        }
        elements += bytes.len() / width;
    }
    Ok((elements > 0).then(|| bits as f64 / elements as f64))
}

/// Moves the sign behind the mantissa, so that the exponent of a two- or four-byte float fills the top byte.
fn sign_last(element: &mut [u8]) {
    let mut carry = element.last().map_or(0, |top| top >> 7);
    for byte in element {
        let next = *byte >> 7;
        *byte = *byte << 1 | carry;
        carry = next;
    }
}
