//! Kernels for x86: AVX2 with BMI2, as CPUs have had since Haswell and Zen, and AVX-512 as since Ice Lake and
//! Zen 4.
#![allow(unsafe_code)]

mod avx2;
mod avx512;

pub(crate) use avx2::Avx2;
pub(crate) use avx512::Avx512;

use std::arch::x86_64::_mm_prefetch;

/// How far ahead of its use memory is prefetched: bytes of words and of a reference, and heads that are
/// written. A round number.
const PREFETCHED: usize = 2048;

/// Asks for the cache line at this address, with a hint of the compiler's (`_MM_HINT_T0` …).
#[inline(always)]
fn prefetch<const HINT: i32, T>(address: *const T) {
    // SAFETY: a hint, which may name any address.
    unsafe { _mm_prefetch::<HINT>(address.cast()) };
}
