//! The NEON kernel: four lanes of 32 bits per register, eight of which share a refill from a stream.

mod adaptive;
mod eight;
mod float;
mod nested;
mod rans;
mod reference;
mod sparse;
mod words;

use crate::arch::Instructions;
use crate::transform::subnormal;
use std::arch::is_aarch64_feature_detected;

/// The kernel. A value exists only where the CPU has NEON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neon(());

impl Neon {
    /// The kernel, if this CPU has its instructions.
    pub fn detect() -> Option<Self> {
        is_aarch64_feature_detected!("neon").then_some(Self(()))
    }
}

impl Instructions for Neon {}
impl subnormal::Steps for Neon {}
