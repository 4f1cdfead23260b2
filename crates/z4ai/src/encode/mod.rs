//! The encoder: how data is cut into sections, which model each gets, and how its blocks are written.
//!
//! `section` has the decisions in order, `repeats` and `segments` say where to cut, `plan` chooses the model
//! (with what `subnormals` counts), `blocks` runs the threads.

mod blocks;
mod plan;
mod repeats;
mod section;
pub(crate) mod segments;
mod subnormals;

pub(crate) use plan::Plan;
pub(crate) use section::{SectionData, SectionEncoder, keep_shorter, section_length, section_length_within};
