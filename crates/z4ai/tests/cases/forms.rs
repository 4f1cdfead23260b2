//! Which forms of the format a frame has, read from its bytes as `spec/z4ai.md` lays them out, without the
//! library. Models are walked to their last byte, so that a wrong step does not go unnoticed.

mod blocks;
mod fields;
mod models;

use fields::Bytes;
use std::collections::BTreeSet;

/// What has been found, in words.
pub type Forms = BTreeSet<String>;

/// Bytes of a scalar, by the code of its dtype; opaque bytes have code 0.
const WIDTHS: [usize; 18] = [1, 2, 2, 4, 8, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 1, 4, 8];

/// The forms of the header, the sections, the models and the blocks of a valid frame.
pub fn of(frame: &[u8]) -> Forms {
    let mut forms = Forms::new();
    let mut bytes = Bytes(frame);
    bytes.take(5);
    let (flags, dtype) = (bytes.u8(), bytes.u8());
    forms.insert(format!("dtype {dtype}"));
    let mut length = None;
    if flags & 2 != 0 {
        forms.insert("header with a shape".into());
        let dimensions = bytes.varint();
        let elements: usize = (0..dimensions).map(|_| bytes.varint()).product();
        // A complex element is two scalars.
        let scalars = if matches!(dtype, 16 | 17) { 2 } else { 1 };
        length = Some(elements * scalars * WIDTHS[usize::from(dtype)]);
    } else if flags & 1 != 0 {
        length = Some(bytes.varint());
    }
    if flags & 1 == 0 {
        forms.insert("header without a length".into());
        length = None;
    }
    if flags & 4 != 0 {
        forms.insert("header with a NumPy dtype".into());
        let length = bytes.varint();
        bytes.take(length);
    }
    if flags & 8 != 0 {
        forms.insert("header with a reference".into());
        bytes.varint();
        bytes.take(16);
    }
    bytes.take(2);
    while !bytes.0.is_empty() {
        let Some(section) = Section::read(&mut bytes, &mut length, &mut forms) else { continue };
        section.forms(dtype, &mut forms);
    }
    forms
}

/// A section in a frame.
struct Section<'a> {
    /// Decoded bytes of all blocks, and of each but the last.
    originals: usize,
    block_length: usize,
    model: &'a [u8],
    blocks: Vec<&'a [u8]>,
}

impl<'a> Section<'a> {
    /// The next section; none where an end mark or a stored section is next. `left` is what the frame has
    /// left of its data, where its header says.
    fn read(bytes: &mut Bytes<'a>, left: &mut Option<usize>, forms: &mut Forms) -> Option<Self> {
        match (bytes.varint(), *left) {
            (0, None) => {
                forms.insert("end mark".into());
                None
            }
            (0, Some(originals)) => {
                forms.insert("short section".into());
                let (model, block) = (bytes.varint(), bytes.varint());
                bytes.take(4);
                let (model, blocks) = (bytes.take(model), vec![bytes.take(block)]);
                Some(Self { originals, block_length: originals, model, blocks })
            }
            (1, Some(_)) => {
                forms.insert("short stored section".into());
                bytes.0 = &[];
                None
            }
            (length, _) => {
                *left = left.map(|left| left - (length >> 1));
                Some(Self::read_long(length, bytes, forms))
            }
        }
    }

    fn read_long(length: usize, bytes: &mut Bytes<'a>, forms: &mut Forms) -> Self {
        let mut originals = length >> 1;
        if length & 1 == 1 {
            forms.insert("section with copies".into());
            for _ in 0..bytes.varint() {
                bytes.varint();
                originals -= bytes.varint();
                bytes.varint();
            }
        }
        let block_length = match bytes.varint() {
            0 => originals,
            several => {
                forms.insert("section of several blocks".into());
                several
            }
        };
        let model_length = bytes.varint();
        let lengths: Vec<usize> = (0..originals.div_ceil(block_length)).map(|_| bytes.varint()).collect();
        bytes.take(4 * lengths.len());
        let model = bytes.take(model_length);
        bytes.take(4);
        let blocks = lengths.into_iter().map(|length| bytes.take(length)).collect();
        Self { originals, block_length, model, blocks }
    }

    /// The forms of the model and of the blocks.
    fn forms(&self, dtype: u8, forms: &mut Forms) {
        let width = WIDTHS[usize::from(dtype)];
        let mut model = Bytes(self.model);
        let walked = models::walk(&mut model, dtype, self.originals / width, forms);
        assert!(model.0.is_empty(), "{} bytes behind a model {}", model.0.len(), walked.tag);
        forms.insert(format!("model {} of dtype {dtype}", walked.tag));
        let lengths = (0..).map(|index| self.block_length.min(self.originals - index * self.block_length));
        for (block, length) in self.blocks.iter().zip(lengths).filter(|_| walked.tag != 0) {
            forms.insert(format!("block mode {}", block[0]));
            if block[0] == 0 {
                blocks::walk(&walked, Bytes(&block[1..]), dtype, length / width, forms);
            }
        }
    }
}
