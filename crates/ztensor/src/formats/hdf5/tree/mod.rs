//! The two generations of B-trees. Each walks its leaves in order and hands records to a visitor; levels must fall by one at each step
//! down and every node read is paid for, so trees with loops end in an error.

pub(super) mod version1;
pub(super) mod version2;
