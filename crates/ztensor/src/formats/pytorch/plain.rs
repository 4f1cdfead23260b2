//! A pickle on its own, as `pickle.dump` writes it: no storages, but it may hold NumPy arrays.

use super::globals;
use super::legacy;
use super::pickle::{Machine, opcode};
use super::rebuild::{Place, Rebuilder};
use super::storage::Storages;
use super::walk::Walk;
use super::{Indexed, left_out, tree};
use crate::error::Result;
use crate::formats::Input;
use crate::index::{FileId, Format, Index};

/// A protocol number of 2 to 5 and an opcode; but not the length of a safetensors header, which can look like it.
pub(super) fn matches(head: &[u8]) -> bool {
    match head {
        [0x80, 2..=5, opcode, ..] => opcode::is_known(*opcode) && head.get(8) != Some(&b'{'),
        _ => false,
    }
}

/// Indexes the first pickle of a file.
pub(super) fn index(input: &mut Input, wants_tree: bool) -> Result<Indexed> {
    let length = input.source().len();
    legacy::in_windows(input, |bytes, budget, _| {
        let pickle = Machine::new(bytes).finish(0, budget)?;
        let known = globals::known_in(&pickle.arena);
        let storages = Storages::default();
        let place = Place { bytes, origin: Some((FileId(0), 0)) };
        let mut index = Index::new(Format::Pytorch, "");
        let rebuilder = Rebuilder::new(&pickle.arena, &known, &storages, place);
        let mut walk = Walk::new(rebuilder, &mut index, budget).noting_tensors(wants_tree);
        walk.add(pickle.root, "")?;
        let (rebuilder, tensors) = walk.finish();
        let tree = wants_tree.then(|| tree::tree(&rebuilder, &tensors, pickle.root, budget)).transpose()?;
        left_out::note_left_out(&pickle.arena, &mut index);
        if (pickle.length as u64) < length {
            index.skip(
                format!("(byte {})", pickle.length),
                "what follows the first pickle of a file is not read",
            );
        }
        Ok((index, tree))
    })
}
