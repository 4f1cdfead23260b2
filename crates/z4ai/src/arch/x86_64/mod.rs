//! Kernels for x86: AVX2 with BMI2, as CPUs have had since Haswell and Zen, and AVX-512 as since Ice Lake and Zen 4.
#![allow(unsafe_code)]

mod avx2;
mod avx512;
mod heads;

pub(crate) use avx2::Avx2;
pub(crate) use avx512::Avx512;
