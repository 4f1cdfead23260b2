//! The messages of object headers, one per file: each turns its bytes into plain values and nothing more.

pub(super) mod attribute;
pub(super) mod dataspace;
pub(super) mod datatype;
pub(super) mod fill;
pub(super) mod filters;
pub(super) mod layout;
pub(super) mod link;
