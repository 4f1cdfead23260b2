//! What the AVX-512 versions of the hot loops share. They want the instructions that CPUs have had since Ice Lake and Zen 4, among them byte permutations and expansion. Loops
//! without a version of their own run as for AVX2.
#![allow(unsafe_code)]

/// Whether this CPU has the instructions of this level, and those of AVX2 below it.
pub(super) fn runs() -> bool {
    super::avx2::runs()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
}

/// See [`super::Kernel::vectorised`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt"
)]
pub(super) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    work()
}
