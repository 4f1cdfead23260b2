//! ggml's block types as functions of the floats they stand for. Each is split into its fields, the scales that are stored with the block, and its
//! levels, which follow from floats and fields: ggml chooses scales by a search and then rounds with the scales as they are stored. Those of
//! the first generation follow from the floats alone. `spec/recipes.md` has the arithmetic.

mod k_quants;
mod levels;
mod nonlinear;
mod simple;

use super::number::Number;

/// Numbers of one type that each block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Their type.
    pub number: Number,
    /// How many each block has.
    pub count: usize,
}

impl Field {
    /// Bytes of those of one block.
    pub fn bytes(&self) -> usize {
        self.number.width() * self.count
    }
}

type Given = fn(&[f32], &[&[u8]], &mut [u8]);
type Computed = fn(&[f32], &mut [u8]);

/// A block type whose levels can be computed.
#[derive(Debug)]
pub struct Quantiser {
    /// ggml's name in lower case.
    pub name: &'static str,
    /// Elements in one block.
    pub elements: usize,
    /// Bytes of one block.
    pub bytes: usize,
    /// What is stored besides the levels.
    pub fields: &'static [Field],
    /// Takes the fields out of blocks, one buffer for each.
    split: fn(&[u8], &mut [Vec<u8>]),
    given: Given,
    computed: Option<Computed>,
}

impl Quantiser {
    /// The block type of a name.
    pub fn named(name: &str) -> Option<&'static Quantiser> {
        QUANTISERS.iter().find(|quantiser| quantiser.name == name)
    }

    /// Whether the fields follow from the elements.
    pub fn computes_fields(&self) -> bool {
        self.computed.is_some()
    }

    /// The fields of whole blocks, each by itself.
    pub fn split(&self, blocks: &[u8]) -> Vec<Vec<u8>> {
        let count = blocks.len() / self.bytes;
        let mut fields: Vec<Vec<u8>> =
            self.fields.iter().map(|field| vec![0; field.bytes() * count]).collect();
        (self.split)(blocks, &mut fields);
        fields
    }

    /// Makes blocks of values and fields; without fields, of those that follow.
    pub(super) fn quantise(&self, values: &[f32], fields: &[&[u8]], out: &mut [u8]) {
        match (fields, self.computed) {
            ([], Some(computed)) => computed(values, out),
            _ => (self.given)(values, fields, out),
        }
    }
}

/// Goes through blocks, with the fields of each side by side.
#[inline(always)]
fn given<const BYTES: usize, const ELEMENTS: usize, const FIELDS: usize>(
    values: &[f32],
    fields: &[&[u8]],
    widths: &[Field],
    out: &mut [u8],
    quantise: impl Fn(&[f32; ELEMENTS], &[u8; FIELDS], &mut [u8; BYTES]),
) {
    let blocks = values.as_chunks().0.iter().zip(out.as_chunks_mut().0);
    for (number, (values, block)) in blocks.enumerate() {
        let mut together = [0; FIELDS];
        let mut end = 0;
        for (field, width) in fields.iter().zip(widths) {
            let width = width.bytes();
            let bytes = field.get(number * width..).and_then(|rest| rest.get(..width));
            if let (Some(bytes), Some(into)) = (bytes, together.get_mut(end..end + width)) {
                into.copy_from_slice(bytes);
            }
            end += width;
        }
        quantise(values, &together, block);
    }
}

#[inline(always)]
fn computed<const BYTES: usize, const ELEMENTS: usize>(
    values: &[f32],
    out: &mut [u8],
    quantise: impl Fn(&[f32; ELEMENTS], &mut [u8; BYTES]),
) {
    for (values, block) in values.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        quantise(values, block);
    }
}

/// Takes the fields out of blocks.
fn split<const BYTES: usize, const FIELDS: usize>(
    blocks: &[u8],
    fields: &mut [Vec<u8>],
    widths: &[Field],
    take: impl Fn(&[u8; BYTES]) -> [u8; FIELDS],
) {
    for (number, block) in blocks.as_chunks().0.iter().enumerate() {
        let together = take(block);
        let mut end = 0;
        for (field, width) in fields.iter_mut().zip(widths) {
            let width = width.bytes();
            let into = field.get_mut(number * width..).and_then(|rest| rest.get_mut(..width));
            if let (Some(into), Some(bytes)) = (into, together.get(end..end + width)) {
                into.copy_from_slice(bytes);
            }
            end += width;
        }
    }
}

macro_rules! quantisers {
    ($($name:literal $bytes:literal => $elements:literal, [$($number:ident $count:literal),*],
        $split:path, $given:path $(, $computed:path)?;)*) => {
        static QUANTISERS: &[Quantiser] = &[$({
            const FIELDS: &[Field] = &[$(Field { number: Number::$number, count: $count }),*];
            Quantiser {
                name: $name,
                elements: $elements,
                bytes: $bytes,
                fields: FIELDS,
                split: |blocks, fields| split::<$bytes, _>(blocks, fields, FIELDS, $split),
                given: |values, fields, out| given::<$bytes, $elements, _>(values, fields, FIELDS, out, $given),
                computed: [$(Some((|values, out| computed::<$bytes, $elements>(values, out, $computed)) as Computed),)? None][0],
            }
        }),*];
    };
}

quantisers! {
    "q4_0" 18 => 32, [F16 1], simple::scale, simple::q4_0, simple::computed_q4_0;
    "q4_1" 20 => 32, [F16 1, F16 1], simple::scale_and_offset, simple::q4_1, simple::computed_q4_1;
    "q5_0" 22 => 32, [F16 1], simple::scale, simple::q5_0, simple::computed_q5_0;
    "q5_1" 24 => 32, [F16 1, F16 1], simple::scale_and_offset, simple::q5_1, simple::computed_q5_1;
    "q8_0" 34 => 32, [F16 1], simple::scale, simple::q8_0, simple::computed_q8_0;
    "q2_k" 84 => 256, [F16 1, F16 1, U8 16], k_quants::split_q2_k, k_quants::q2_k;
    "q3_k" 110 => 256, [F16 1, U8 16], k_quants::split_q3_k, k_quants::q3_k;
    "q4_k" 144 => 256, [F16 1, F16 1, U8 8, U8 8], k_quants::split_pairs, k_quants::q4_k;
    "q5_k" 176 => 256, [F16 1, F16 1, U8 8, U8 8], k_quants::split_pairs, k_quants::q5_k;
    "q6_k" 210 => 256, [F16 1, I8 16], k_quants::split_q6_k, k_quants::q6_k;
    "iq4_nl" 18 => 32, [F16 1], simple::scale, nonlinear::iq4_nl;
    "iq4_xs" 136 => 256, [F16 1, U8 8], nonlinear::split_iq4_xs, nonlinear::iq4_xs;
    "mxfp4" 17 => 32, [U8 1], nonlinear::split_mxfp4, nonlinear::mxfp4;
    "nvfp4" 36 => 64, [U8 4], nonlinear::split_nvfp4, nonlinear::nvfp4;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of noise: whatever the fields are, splitting them and putting them back gives the same fields.
    #[test]
    fn fields_come_back() {
        for quantiser in QUANTISERS {
            let mut state = 0x2545_f491u32;
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                state
            };
            let blocks: Vec<u8> = (0..quantiser.bytes * 9).map(|_| next() as u8).collect();
            let values: Vec<f32> = (0..quantiser.elements * 9).map(|_| next() as f32 / 1e9 - 2.0).collect();
            let fields = quantiser.split(&blocks);
            let slices: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
            let mut again = vec![0; blocks.len()];
            quantiser.quantise(&values, &slices, &mut again);
            assert_eq!(quantiser.split(&again), fields, "{}", quantiser.name);
            // Blocks made so are a fixed point of the values that they stand for, wherever these are finite.
            assert_eq!(again.len(), blocks.len());
        }
    }

    #[cfg(feature = "gguf")]
    #[test]
    fn the_table_is_that_of_the_reader() {
        use crate::formats::gguf::BlockType;
        for quantiser in QUANTISERS {
            let block = BlockType::from_layout(&format!("gguf.{}/1", quantiser.name)).unwrap();
            assert_eq!((block.bytes(), block.elements()), (quantiser.bytes, quantiser.elements));
        }
    }

    /// Levels of decoded values are the levels they were decoded from: the layouts of both directions are the same.
    #[cfg(feature = "gguf")]
    #[test]
    fn decoded_blocks_give_themselves() {
        use crate::formats::gguf::{BlockType, dequantize};
        for quantiser in QUANTISERS {
            let block = BlockType::from_layout(&format!("gguf.{}/1", quantiser.name)).unwrap();
            let values: Vec<f32> = (0..quantiser.elements * 8)
                .map(|i| ((i * 7919 % 1013) as f32 / 1013.0 - 0.5) * if i % 5 == 0 { 3.0 } else { 1.0 })
                .collect();
            // Fields that suit the values: f16 scales near 0.01, everything else in the middle of its range.
            let fields: Vec<Vec<u8>> = quantiser
                .fields
                .iter()
                .enumerate()
                .map(|(which, field)| {
                    (0..field.count * 8)
                        .flat_map(|i| match (field.number, quantiser.name) {
                            (Number::F16, _) => {
                                super::super::number::to_f16(if which == 0 { 0.01 } else { 0.02 }).to_vec()
                            }
                            (_, "mxfp4") => vec![124 + (i % 3) as u8],
                            (_, "nvfp4") => vec![0x30 + (i % 9) as u8],
                            (_, "q6_k") => vec![(1 + i % 100) as u8],
                            _ => vec![33 + (i % 20) as u8],
                        })
                        .collect()
                })
                .collect();
            let slices: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
            let mut blocks = vec![0; quantiser.bytes * 8];
            quantiser.quantise(&values, &slices, &mut blocks);
            let mut decoded = vec![0f32; values.len()];
            dequantize(block, &blocks, &mut decoded).unwrap();
            let mut again = vec![0; blocks.len()];
            quantiser.quantise(&decoded, &slices, &mut again);
            assert_eq!(again, blocks, "{}", quantiser.name);
            assert!(decoded.iter().any(|value| *value != decoded[0]), "{}", quantiser.name);
        }
    }
}
