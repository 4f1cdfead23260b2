//! The AVX2 kernel: eight lanes of 32 bits per register.

mod adaptive;
mod eight;
mod float;
mod nested;
mod rans;
mod reference;
mod sparse;

pub(in crate::arch) use eight::EightInts;
pub(in crate::arch) use float::{low_bits, low_bits_from};
pub(in crate::arch) use rans::encode::encode_groups;
pub(in crate::arch) use rans::{WORDS_TO_LANES, look_up};
pub(in crate::arch) use reference::restore::{ChunkWalk, prefetch_piece};

use crate::arch::Instructions;
use crate::transform::subnormal;

/// The kernel. A value exists only where the CPU has AVX2, BMI2 and POPCNT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The kernel, if this CPU has its instructions.
    pub fn detect() -> Option<Self> {
        let runs = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        runs.then_some(Self(()))
    }
}

impl Instructions for Avx2 {
    #[inline(always)]
    fn vectorised<R>(self, work: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx2,bmi2,popcnt")]
        fn run<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        unsafe { run(work) }
    }
}

impl subnormal::Steps for Avx2 {}
