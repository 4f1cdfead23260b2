//! Data that no transform makes smaller: the blocks are the bytes themselves, without a mode.

mod model;

pub(crate) use model::StoredModel;
