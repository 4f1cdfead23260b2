//! PyTorch files: the zip archives of `torch.save` and of TorchScript, the stream that came before them, and plain pickles. Tensors are found by running the
//! pickle in a machine that only notes what an unpickler would do (`pickle`), reading the noted calls that rebuild tensors
//! (`rebuild`), and walking the values for names (`walk`). Nothing is imported, nothing is called.

mod archive;
mod attributes;
mod globals;
mod left_out;
pub(crate) mod legacy;
mod numpy;
pub(crate) mod pickle;
mod plain;
mod quantized;
mod rebuild;
mod sparse;
pub(crate) mod spelling;
mod storage;
mod tree;
mod trust;
mod types;
mod view;
mod walk;
mod write;

pub use trust::Trust;
pub use write::{WriteEntry, WritePart, write};

pub(crate) use archive::plain_value;
pub(crate) use left_out::Trusts;
pub(crate) use trust::trust;

use super::{Input, zip};
use crate::error::{Error, Result};
use crate::index::Index;
use crate::tensor::ElementType;
use crate::tree::Tree;

/// The legacy stream's magic number, or a zip archive with a `data.pkl` in it, or the tar archive of the very first versions, or a pickle.
pub(crate) fn matches(head: &[u8], input: &Input) -> bool {
    legacy::matches(head)
        || is_old_tar(head)
        || plain::matches(head)
        || (zip::matches(head) && zip::any_name(&input.source(), archive::is_main_pickle))
}

/// Whether the first bytes are those of a pickle of protocol 2 or later, or of the stream. Earlier protocols begin with anything.
pub(crate) fn begins_like_a_pickle(head: &[u8]) -> bool {
    let protocol = matches!(head, [0x80, 0..=5, opcode, ..] if pickle::opcode::is_known(*opcode));
    protocol || legacy::matches(head)
}

/// The element type of `torch.<name>`; `None` if there is none.
pub(crate) fn element(name: &str) -> Option<ElementType> {
    types::dtype(name)?.element()
}

/// An index, and the tree of the values where it was asked for.
type Indexed = (Index, Option<Tree>);

/// Indexes a PyTorch file of any of the forms.
pub(crate) fn index(input: &mut Input) -> Result<Index> {
    indexed(input, false).map(|(index, _)| index)
}

/// The values of a PyTorch file as a tree; its tensors have the names that the index gives them.
pub(crate) fn tree(input: &mut Input) -> Result<Option<Tree>> {
    indexed(input, true).map(|(_, tree)| tree)
}

fn indexed(input: &mut Input, wants_tree: bool) -> Result<Indexed> {
    let source = input.source();
    let head = source.bytes(0, source.len().min(512))?.into_owned();
    if legacy::matches(&head) {
        legacy::index(input, wants_tree)
    } else if is_old_tar(&head) {
        Err(Error::unsupported("this is the tar form that PyTorch wrote before version 0.1.10")
            .with_hint("Load it with PyTorch and save it again with torch.save."))
    } else if plain::matches(&head) {
        plain::index(input, wants_tree)
    } else {
        archive::index(input, wants_tree)
    }
}

/// A tar archive whose first member is one of the four that the old form has.
fn is_old_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
        && [&b"sys_info\0"[..], b"pickle\0", b"storages\0", b"tensors\0"]
            .iter()
            .any(|name| head.starts_with(name))
}
