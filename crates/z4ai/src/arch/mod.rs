//! Kernels for particular processors, the only place in the crate that touches `unsafe`. Each kernel implements a trait
//! whose portable implementation lives beside the algorithm, and gives the same bytes.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2_nested;
