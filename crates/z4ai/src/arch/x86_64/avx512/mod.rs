//! The AVX-512 kernel. It wants the instructions that CPUs have had since Ice Lake and Zen 4, among them byte
//! permutations and expansion. Steps without a version of their own run as for AVX2.

mod adaptive;
mod float;
mod nested;
mod rans;
mod reference;
mod subnormal;

use super::Avx2;
use crate::arch::Instructions;
use crate::transform::sparse;

/// The kernel. A value exists only where the CPU has these instructions, and those of AVX2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Avx512(Avx2);

impl Avx512 {
    /// The kernel, if this CPU has its instructions.
    pub fn detect() -> Option<Self> {
        let runs = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2");
        Avx2::detect().filter(|_| runs).map(Self)
    }
}

impl Instructions for Avx512 {
    #[inline(always)]
    fn vectorised<R>(self, work: impl FnOnce() -> R) -> R {
        #[target_feature(
            enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt"
        )]
        fn run<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        // SAFETY: an `Avx512` exists only where the CPU has these instructions.
        unsafe { run(work) }
    }
}

impl sparse::Steps for Avx512 {
    fn spread<const WIDTH: usize>(self, bitmap: &[u8], dense: &[[u8; WIDTH]], elements: &mut [[u8; WIDTH]]) {
        self.0.spread(bitmap, dense, elements);
    }
}
