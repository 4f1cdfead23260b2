//! The kernel that every CPU runs: the default methods of all `Steps` traits, without `unsafe` or intrinsics.

use super::Instructions;
use crate::entropy::rans;
use crate::transform::{adaptive, float, nested, reference, sparse, subnormal};

/// The portable kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Portable;

impl Instructions for Portable {}
impl rans::Steps for Portable {}
impl adaptive::Steps for Portable {}
impl float::Steps for Portable {}
impl nested::Steps for Portable {}
impl reference::Steps for Portable {}
impl sparse::Steps for Portable {}
impl subnormal::Steps for Portable {}
