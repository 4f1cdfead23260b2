//! How many elements of fp16 are subnormal, which decides what a section is tried as: subnormals are small
//! integers whatever they were made from, and have fewer bits than the model of floats gives them.

use crate::dtype::Dtype;

/// Elements that are looked at, from all over the section: a round number.
const ELEMENTS: usize = 4096;

/// Counts among some elements of a section. Other types than fp16 have none: their subnormals are rare.
#[derive(Default)]
pub(super) struct Subnormals {
    looked: usize,
    zeros: usize,
    subnormals: usize,
}

impl Subnormals {
    pub(super) fn of(elements: &[u8], dtype: Dtype) -> Self {
        let mut found = Self::default();
        if dtype == Dtype::F16 {
            let (elements, _) = elements.as_chunks::<2>();
            for element in elements.iter().step_by(elements.len().div_ceil(ELEMENTS).max(1)) {
                let magnitude = u16::from_le_bytes(*element) & 0x7fff;
                found.looked += 1;
                found.zeros += usize::from(magnitude == 0);
                found.subnormals += usize::from((1..0x400).contains(&magnitude));
            }
        }
        found
    }

    /// Whether a sixteenth of the elements are subnormal.
    pub(super) fn abound(&self) -> bool {
        self.of_256(self.subnormals) > 16
    }

    /// Whether most of those that are not zero are.
    pub(super) fn lead(&self) -> bool {
        2 * self.subnormals > self.looked - self.zeros
    }

    /// Whether they are, with zeros, so many that bits they do not have would add up.
    pub(super) fn matter(&self) -> bool {
        self.of_256(self.zeros + self.subnormals) > 4
    }

    /// Whether so many are that the model of floats does not come into question.
    pub(super) fn prevail(&self) -> bool {
        self.of_256(self.subnormals) > 64
    }

    fn of_256(&self, count: usize) -> usize {
        count * 256 / self.looked.max(1)
    }
}
