//! ggml's type numbers.

use super::blocks::BlockType;
use crate::tensor::{ElementType, Known};

/// What a type number stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TensorType {
    /// Plain elements.
    Plain(ElementType),
    /// Blocks. Two numbers have had a second geometry, which the tensor's extent gives away; the usual one comes first.
    Blocks(&'static [BlockType]),
    /// A number this library does not know, or one that ggml has withdrawn.
    Unknown,
}

impl TensorType {
    pub(super) fn from_number(number: u32) -> TensorType {
        use BlockType as B;
        use TensorType::{Blocks, Plain, Unknown};
        match number {
            2 => Blocks(&[B::Q4_0]),
            3 => Blocks(&[B::Q4_1]),
            6 => Blocks(&[B::Q5_0]),
            7 => Blocks(&[B::Q5_1]),
            8 => Blocks(&[B::Q8_0]),
            9 => Blocks(&[B::Q8_1, B::Q8_1Wide]),
            10 => Blocks(&[B::Q2K]),
            11 => Blocks(&[B::Q3K]),
            12 => Blocks(&[B::Q4K]),
            13 => Blocks(&[B::Q5K]),
            14 => Blocks(&[B::Q6K]),
            15 => Blocks(&[B::Q8K]),
            16 => Blocks(&[B::Iq2Xxs]),
            17 => Blocks(&[B::Iq2Xs]),
            18 => Blocks(&[B::Iq3Xxs]),
            19 => Blocks(&[B::Iq1S]),
            20 => Blocks(&[B::Iq4Nl]),
            21 => Blocks(&[B::Iq3S]),
            22 => Blocks(&[B::Iq2S]),
            23 => Blocks(&[B::Iq4Xs]),
            29 => Blocks(&[B::Iq1M]),
            34 => Blocks(&[B::Tq1_0]),
            35 => Blocks(&[B::Tq2_0]),
            39 => Blocks(&[B::Mxfp4]),
            40 => Blocks(&[B::Nvfp4]),
            41 => Blocks(&[B::Q1_0]),
            42 => Blocks(&[B::Q2_0, B::Q2_0Wide]),
            _ => match Known::find(|names| names.gguf == Some(number)) {
                Some(known) => Plain(known.element()),
                None => Unknown,
            },
        }
    }
}
