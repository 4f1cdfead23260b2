//! Kernels for 64-bit ARM: NEON, which all of these CPUs have. The portable code is compiled for it as well,
//! so loops that compilers vectorise are not overridden; these kernels have what takes table look-ups, bit
//! deposits and words dealt to lanes.
#![allow(unsafe_code)]

mod neon;

pub(crate) use neon::Neon;
