//! A pickle machine that builds values and never objects: protocols 0 to 5, in an arena. Globals are noted by name and never imported; calls
//! are noted with their arguments and never made. Everything that the opcodes can build is bounded by the length of the pickle
//! and charged to a budget, and nothing here recurses, so neither deep nesting nor memo tricks can hurt the process.

mod arena;
mod cursor;
mod literal;
mod machine;
mod memo;
pub(crate) mod opcode;
mod stack;

pub(crate) use arena::{Arena, Call, Id, Node};
pub(crate) use machine::{Machine, Pickle};
