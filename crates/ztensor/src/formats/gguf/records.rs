//! The fields of each block type, for the codec: which bits of a block are scales and which are levels, with
//! low and high bits of a level put together.

use super::blocks::BlockType;
use z4ai::{BitArray, BitSlice, Dtype, Effort, Field, Given, RecordLayout};

impl BlockType {
    /// The layout of the blocks as records, and what their fields tell of each other.
    pub fn record_layout(self, effort: Effort) -> z4ai::Result<RecordLayout> {
        use BlockType as B;
        let layout = RecordLayout::new(self.bytes(), self.fields(effort))?;
        match self {
            B::Q4K | B::Q5K => {
                let zero = Given::ZeroPoint { scales: 2, offsets: 3, scale_factor: 0, offset_factor: 1 };
                layout.given(3, Given::Field(2))?.given(4, zero)
            }
            _ => Ok(layout),
        }
    }

    fn fields(self, effort: Effort) -> Vec<Field> {
        use BlockType as B;
        let bytes = Field::bytes;
        match self {
            B::Q1_0 | B::Q2_0 | B::Q2_0Wide | B::Q4_0 | B::Q8_0 | B::Iq4Nl => {
                vec![half(0), bytes(2, self.bytes() - 2)]
            }
            B::Q4_1 | B::Q8_1 => vec![half(0), half(2), bytes(4, self.bytes() - 4)],
            B::Q5_0 => vec![half(0), five_bits(2)],
            B::Q5_1 => vec![half(0), half(2), five_bits(4)],
            B::Q8_1Wide => vec![single(0), single(4), bytes(8, 32)],
            B::Q2K => vec![half(80), half(82), bytes(0, 16), bytes(16, 64)],
            B::Q3K => vec![half(108), six_bit_scales(), three_bits()],
            // Two levels at a time are faster, but have two zero points.
            B::Q4K if effort == Effort::Fast => [halves_and_pairs(), vec![bytes(16, 128)]].concat(),
            B::Q4K => {
                let levels = array([4, 2, 32], [bits(4, 8 * 16, [256, 4, 8])]);
                [halves_and_pairs(), vec![levels.into()]].concat()
            }
            B::Q5K => {
                let levels = array([4, 2, 32], [bits(4, 8 * 48, [256, 4, 8]), bits(1, 8 * 16, [2, 1, 8])]);
                [halves_and_pairs(), vec![levels.into()]].concat()
            }
            B::Q6K => {
                let high = bits(2, 8 * 128, [256, 4, 2, 8]);
                let levels = array([2, 2, 2, 32], [bits(4, 0, [512, 4, 256, 8]), high]);
                vec![half(208), bytes(192, 16), levels.into()]
            }
            B::Q8K => vec![single(0), bytes(4, 256), Field::numbers(Dtype::I16, 260, 16)],
            B::Iq1S => vec![half(0), bytes(2, 32), every_other_byte(34, 8), every_other_byte(35, 8)],
            B::Iq1M => {
                // The scale is in the upper nibbles of four words, whose other bits are scales of groups.
                let scale = array([], [48, 50, 52, 54].map(|byte| bits(4, 8 * byte + 12, [])));
                let rest = array([4], [bits(4, 8 * 49, [16])]);
                let scale = Field::new(Dtype::F16, [scale.0]);
                vec![scale, bytes(0, 32), bytes(32, 16), every_other_byte(48, 4), rest.into()]
            }
            B::Iq2Xxs => {
                let points = array([8, 4], [bits(8, 16, [64, 8])]);
                [vec![half(0), points.into()], signs_and_scale(6, 8)].concat()
            }
            B::Iq2Xs => vec![half(0), every_other_byte(2, 32), every_other_byte(3, 32), bytes(66, 8)],
            B::Iq2S => vec![half(0), bytes(2, 32), bytes(34, 32), bytes(66, 8), bytes(74, 8)],
            B::Iq3Xxs => [vec![half(0), bytes(2, 64)], signs_and_scale(66, 4)].concat(),
            B::Iq3S => vec![half(0), bytes(2, 64), bytes(66, 8), bytes(74, 32), bytes(106, 4)],
            B::Iq4Xs => {
                let scales = array([8], [bits(4, 32, [4]), bits(2, 16, [2])]);
                vec![half(0), scales.into(), bytes(8, 128)]
            }
            B::Tq1_0 => vec![half(52), bytes(0, 48), bytes(48, 4)],
            B::Tq2_0 => vec![half(64), bytes(0, 64)],
            B::Mxfp4 => vec![bytes(0, 1), bytes(1, 16)],
            B::Nvfp4 => vec![bytes(0, 4), bytes(4, 32)],
        }
    }
}

/// An array of small numbers, which is a field of its own.
struct Small(BitArray);

impl From<Small> for Field {
    fn from(array: Small) -> Self {
        Field::new(Dtype::U8, [array.0])
    }
}

fn array<const RANK: usize, const SLICES: usize>(
    dimensions: [usize; RANK],
    slices: [BitSlice; SLICES],
) -> Small {
    Small(BitArray::new(dimensions, slices))
}

fn bits<const RANK: usize>(count: usize, start: usize, strides: [usize; RANK]) -> BitSlice {
    BitSlice::new(count, start, strides)
}

fn half(offset: usize) -> Field {
    Field::number(Dtype::F16, offset)
}

fn single(offset: usize) -> Field {
    Field::number(Dtype::F32, offset)
}

fn every_other_byte(offset: usize, count: usize) -> Field {
    array([count], [bits(8, 8 * offset, [16])]).into()
}

/// Levels of 32 elements: the fifth bits in a word, the others in the nibbles behind it, the low ones first.
fn five_bits(offset: usize) -> Field {
    array([2, 16], [bits(4, 8 * offset + 32, [4, 8]), bits(1, 8 * offset, [16, 1])]).into()
}

/// Two levels of `q3_k` at a time, which have six bits together.
fn three_bits() -> Field {
    array([2, 2, 32], [bits(4, 8 * 32, [256, 4, 8]), bits(2, 0, [4, 2, 8])]).into()
}

/// The scales of `q3_k`.
fn six_bit_scales() -> Field {
    array([2, 2, 4], [bits(4, 8 * 96, [4, 32, 8]), bits(2, 8 * 104, [4, 2, 8])]).into()
}

/// What `q4_k` and `q5_k` begin with: two halves, then eight scales and eight offsets of six bits, of which
/// the last four have two bits beside those of the first.
fn halves_and_pairs() -> Vec<Field> {
    let six = |first: usize, nibble: usize| {
        let low = array([4], [bits(6, first, [8])]).0;
        let high = array([4], [bits(4, nibble, [8]), bits(2, first + 6, [8])]).0;
        Field::new(Dtype::U8, [low, high])
    };
    vec![half(0), half(2), six(8 * 4, 8 * 12), six(8 * 8, 8 * 12 + 4)]
}

/// Eight words, so many bytes apart, of 28 bits of signs and four of a scale.
fn signs_and_scale(offset: usize, apart: usize) -> Vec<Field> {
    let (start, apart) = (8 * offset, 8 * apart);
    vec![
        array([8, 3], [bits(8, start, [apart, 8])]).into(),
        array([8], [bits(4, start + 24, [apart])]).into(),
        array([8], [bits(4, start + 28, [apart])]).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_type_has_a_layout() {
        for &block in BlockType::ALL {
            for effort in [Effort::Fast, Effort::Default, Effort::Max] {
                let layout = block.record_layout(effort);
                let layout = layout.unwrap_or_else(|error| panic!("{}: {error}", block.name()));
                assert_eq!(layout.length(), block.bytes());
            }
        }
    }
}
