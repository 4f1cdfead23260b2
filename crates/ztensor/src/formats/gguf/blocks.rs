//! The block types: fixed-size records that hold a row's elements together with their scales. One table gives each its name, its
//! geometry, its decoder and the fields wider than a byte, which is what a big-endian file stores the other way round.

use super::dequantize::{Real, run};
use super::dequantize::{k_quants, lattice, microscaling, nonlinear, simple, ternary};
use crate::index::SwappedFields;
use crate::tensor::Layout;

/// A run of equally wide fields inside a block.
macro_rules! fields {
    ($([$offset:literal; $count:literal x $width:literal])*) => {
        &[$(SwappedFields { offset: $offset, width: $width, count: $count }),*]
    };
}

macro_rules! block_types {
    ($($(#[$note:meta])* $variant:ident $name:literal $bytes:literal => $elements:literal, $decoder:path, $swap:expr;)*) => {
        /// A ggml block type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum BlockType { $($(#[$note])* $variant),* }

        impl BlockType {
            /// Every block type.
            pub const ALL: &'static [BlockType] = &[$(BlockType::$variant),*];

            /// ggml's name in lower case, such as `q4_k`.
            pub fn name(self) -> &'static str {
                match self { $(BlockType::$variant => $name),* }
            }

            /// The layout of tensors made of these blocks, such as `gguf.q4_k/1`.
            pub fn layout_name(self) -> &'static str {
                match self { $(BlockType::$variant => concat!("gguf.", $name, "/1")),* }
            }

            /// Elements in one block.
            pub fn elements(self) -> usize {
                match self { $(BlockType::$variant => $elements),* }
            }

            /// Bytes of one block.
            pub fn bytes(self) -> usize {
                match self { $(BlockType::$variant => $bytes),* }
            }

            /// The fields that a big-endian file stores in its own order; `None` where ggml itself does not define that order.
            pub(super) fn swapped_fields(self) -> Option<&'static [SwappedFields]> {
                match self { $(BlockType::$variant => $swap),* }
            }

            /// Decodes whole blocks; the caller has matched the lengths.
            pub(super) fn decode<T: Real>(self, blocks: &[u8], out: &mut [T]) {
                match self { $(BlockType::$variant => run::<$bytes, $elements, T>($decoder, blocks, out)),* }
            }
        }
    };
}

block_types! {
    Q1_0 "q1_0" 18 => 128, simple::q1_0, Some(fields!([0; 1 x 2]));
    Q2_0 "q2_0" 18 => 64, simple::q2_0, Some(fields!([0; 1 x 2]));
    /// The type as its first users had it, with twice the elements per scale; told apart by the tensor's extent.
    Q2_0Wide "q2_0_wide" 34 => 128, simple::q2_0, Some(fields!([0; 1 x 2]));
    Q4_0 "q4_0" 18 => 32, simple::q4_0, Some(fields!([0; 1 x 2]));
    Q4_1 "q4_1" 20 => 32, simple::q4_1, Some(fields!([0; 2 x 2]));
    Q5_0 "q5_0" 22 => 32, simple::q5_0, Some(fields!([0; 1 x 2] [2; 1 x 4]));
    Q5_1 "q5_1" 24 => 32, simple::q5_1, Some(fields!([0; 2 x 2] [4; 1 x 4]));
    Q8_0 "q8_0" 34 => 32, simple::q8_0, Some(fields!([0; 1 x 2]));
    Q8_1 "q8_1" 36 => 32, simple::q8_1, Some(fields!([0; 2 x 2]));
    /// The type before 2024, with its scale and sum as f32; told apart by the tensor's extent.
    Q8_1Wide "q8_1_wide" 40 => 32, simple::q8_1_wide, Some(fields!([0; 2 x 4]));
    Q2K "q2_k" 84 => 256, k_quants::q2_k, Some(fields!([80; 2 x 2]));
    Q3K "q3_k" 110 => 256, k_quants::q3_k, Some(fields!([108; 1 x 2]));
    Q4K "q4_k" 144 => 256, k_quants::q4_k, Some(fields!([0; 2 x 2]));
    Q5K "q5_k" 176 => 256, k_quants::q5_k, Some(fields!([0; 2 x 2]));
    Q6K "q6_k" 210 => 256, k_quants::q6_k, Some(fields!([208; 1 x 2]));
    Q8K "q8_k" 292 => 256, k_quants::q8_k, Some(fields!([0; 1 x 4] [260; 16 x 2]));
    Iq1S "iq1_s" 50 => 256, lattice::iq1_s, Some(fields!([0; 1 x 2] [34; 8 x 2]));
    Iq1M "iq1_m" 56 => 256, lattice::iq1_m, Some(fields!([48; 4 x 2]));
    /// ggml writes its words as 32-bit numbers and reads them as bytes, so big-endian machines disagree with themselves.
    Iq2Xxs "iq2_xxs" 66 => 256, lattice::iq2_xxs, None;
    Iq2Xs "iq2_xs" 74 => 256, lattice::iq2_xs, Some(fields!([0; 33 x 2]));
    Iq2S "iq2_s" 82 => 256, lattice::iq2_s, Some(fields!([0; 1 x 2]));
    Iq3Xxs "iq3_xxs" 98 => 256, lattice::iq3_xxs, Some(fields!([0; 1 x 2] [66; 8 x 4]));
    Iq3S "iq3_s" 110 => 256, lattice::iq3_s, Some(fields!([0; 1 x 2]));
    Iq4Nl "iq4_nl" 18 => 32, nonlinear::iq4_nl, Some(fields!([0; 1 x 2]));
    Iq4Xs "iq4_xs" 136 => 256, nonlinear::iq4_xs, Some(fields!([0; 2 x 2]));
    Tq1_0 "tq1_0" 54 => 256, ternary::tq1_0, Some(fields!([52; 1 x 2]));
    Tq2_0 "tq2_0" 66 => 256, ternary::tq2_0, Some(fields!([64; 1 x 2]));
    Mxfp4 "mxfp4" 17 => 32, microscaling::mxfp4, Some(fields!());
    Nvfp4 "nvfp4" 36 => 64, microscaling::nvfp4, Some(fields!());
}

impl BlockType {
    /// The block type of a layout name such as `gguf.q4_k/1`.
    pub fn from_layout(name: &str) -> Option<BlockType> {
        BlockType::ALL.iter().copied().find(|block| block.layout_name() == name)
    }

    /// The block type of an object's layout, if it is one.
    pub fn of(layout: &Layout) -> Option<BlockType> {
        match layout {
            Layout::Other(name) => BlockType::from_layout(name),
            _ => None,
        }
    }
}
