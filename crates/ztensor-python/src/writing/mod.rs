//! Writing: from what Python hands in to the core, and functions that make or change files.

pub(crate) mod edit;
pub(crate) mod incoming;
pub(crate) mod metadata_edit;
pub(crate) mod save;
pub(crate) mod storage;
