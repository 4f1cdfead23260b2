//! The stream that `torch.save` wrote before 1.6: a magic number, a protocol number, a description of the machine, the pickle and the keys of
//! the storages as five pickles in a row, then each storage as a count and its elements, always little-endian.

use std::collections::HashMap;

use super::globals::{self, Known};
use super::pickle::{Machine, Node, Pickle};
use super::rebuild::{Place, Rebuilder};
use super::storage::{self, Storages, Stored};
use super::walk::Walk;
use super::{Indexed, left_out, tree};
use crate::error::{Error, Kind, Result};
use crate::formats::Input;
use crate::index::{Data, FileId, Format, Index};
use crate::limits::{Budget, exceeded};
use crate::source::Ahead;

/// The magic number as protocol 2 and later pickle it, without the protocol opcode.
const MAGIC: &[u8] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
/// The same in the digits of protocols 0 and 1.
const MAGIC_DIGITS: &[u8] = b"L119547037146038801333356L\n.";

/// How many pickles there are before the storages.
pub(crate) const PICKLES: usize = 5;

/// Version of the stream; there was only ever one.
const VERSION: i64 = 1001;

/// What is read first of a file that is not in the address space; then four times as much, and so on.
const FIRST_WINDOW: u64 = 1 << 20;

/// Whether the first bytes are those of the stream.
pub(crate) fn matches(head: &[u8]) -> bool {
    let body = match head {
        [0x80, 2..=5, body @ ..] => body,
        _ => head,
    };
    // Protocol 4 and later put a frame around each pickle.
    let body = match body {
        [0x95, rest @ ..] => rest.get(8..).unwrap_or_default(),
        _ => body,
    };
    body.starts_with(MAGIC) || body.starts_with(MAGIC_DIGITS)
}

/// Indexes a stream.
pub(super) fn index(input: &mut Input, wants_tree: bool) -> Result<Indexed> {
    in_windows(input, |bytes, budget, input| index_window(bytes, budget, input, wants_tree))
}

/// Indexes what stands at the beginning of a file and does not say how long it is: all of the file where it is in the address space,
/// otherwise more and more of it until it is enough.
pub(super) fn in_windows(
    input: &mut Input,
    index: impl Fn(&[u8], &mut Budget, &Input) -> Result<Indexed>,
) -> Result<Indexed> {
    let source = input.source();
    let most = source.len().min(input.budget.limits().header_bytes);
    let mut window = if source.is_addressable() { most } else { FIRST_WINDOW.min(most) };
    let mut ahead = Ahead::new(&source, FIRST_WINDOW);
    loop {
        let bytes = ahead.bytes(0, window)?;
        let mut budget = Budget::new(input.budget.limits().clone());
        match index(bytes, &mut budget, input) {
            Err(error) if error.kind() == Kind::Truncated && window < most => {
                window = window.saturating_mul(4).min(most);
            }
            Err(error) if error.kind() == Kind::Truncated && most < source.len() => {
                return Err(exceeded("the pickle is longer than", most, "bytes", "header"));
            }
            result => return result,
        }
    }
}

fn index_window(bytes: &[u8], budget: &mut Budget, input: &Input, wants_tree: bool) -> Result<Indexed> {
    let mut stream = Stream { bytes, position: 0 };
    stream.next(budget)?; // the magic number, already seen
    let protocol = stream.next(budget)?;
    if protocol.arena.integer(protocol.root) != Some(VERSION) {
        return Err(Error::unsupported("the stream has a version that PyTorch never wrote"));
    }
    stream.next(budget)?; // the machine that wrote it; storages are little-endian whatever it says
    let pickle = stream.next(budget)?;
    let keys = stream.next(budget)?;

    let known = globals::known_in(&pickle.arena);
    let widths = widths(&pickle, &known)?;
    let storages = storages(&keys, &widths, stream.position as u64, input)?;
    let mut index = Index::new(Format::Pytorch, "legacy");
    let place = Place { bytes, origin: Some((FileId(0), 0)) };
    let rebuilder = Rebuilder::new(&pickle.arena, &known, &storages, place);
    let mut walk = Walk::new(rebuilder, &mut index, budget).noting_tensors(wants_tree);
    walk.add(pickle.root, "")?;
    let (rebuilder, tensors) = walk.finish();
    let tree = wants_tree.then(|| tree::tree(&rebuilder, &tensors, pickle.root, budget)).transpose()?;
    left_out::note_left_out(&pickle.arena, &mut index);
    Ok((index, tree))
}

/// Pickles one after the other.
struct Stream<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Stream<'a> {
    fn next(&mut self, budget: &mut Budget) -> Result<Pickle<'a>> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let pickle = Machine::new(rest).finish(self.position as u64, budget)?;
        self.position += pickle.length;
        Ok(pickle)
    }
}

/// Bytes of an element of each storage that the pickle refers to. The stream itself only says how many elements there are.
fn widths<'p>(pickle: &'p Pickle<'_>, known: &[Known]) -> Result<HashMap<&'p str, u64>> {
    let mut widths = HashMap::new();
    for id in pickle.arena.ids().filter(|id| matches!(pickle.arena.get(*id), Node::Persistent(_))) {
        if let Some(reference) = storage::reference(&pickle.arena, known, id)? {
            let width = *widths.entry(reference.key).or_insert(reference.scalar.width);
            if width != reference.scalar.width {
                return Err(Error::malformed(format!(
                    "storage \"{}\" is referred to with elements of {width} and of {} bytes",
                    reference.key, reference.scalar.width
                )));
            }
        }
    }
    Ok(widths)
}

/// Walks over the storages that follow the pickles.
fn storages<'k>(
    keys: &'k Pickle<'_>,
    widths: &HashMap<&str, u64>,
    start: u64,
    input: &Input,
) -> Result<Storages<'k>> {
    let items = keys
        .arena
        .items(keys.root)
        .ok_or_else(|| Error::malformed("the list of storages is not a list").with_offset(start))?;
    let source = input.source();
    let mut storages = Storages::default();
    let mut position = start;
    for key in items {
        let locate = |error: Error| error.with_offset(position);
        let key = keys
            .arena
            .text(*key)
            .ok_or_else(|| locate(Error::malformed("the key of a storage is not a text")))?;
        let width = widths.get(key).ok_or_else(|| {
            locate(Error::malformed(format!("no tensor says what is in storage \"{key}\"")))
        })?;
        let count = source.bytes(position, 8)?;
        let count = count.first_chunk::<8>().map_or(-1, |bytes| i64::from_le_bytes(*bytes));
        let length = u64::try_from(count).ok().and_then(|count| count.checked_mul(*width));
        let length = length
            .ok_or_else(|| locate(Error::malformed(format!("storage \"{key}\" has an impossible size"))))?;
        let span = input.span(FileId(0), position + 8, length)?;
        let stored = Stored { data: Ok(Data::Raw(span)), length };
        if storages.by_key.insert(key, stored).is_some() {
            return Err(locate(Error::new(Kind::Duplicate, format!("storage \"{key}\" occurs twice"))));
        }
        position = span.offset + length;
    }
    if position != source.len() {
        return Err(Error::malformed(format!("{} bytes follow the last storage", source.len() - position))
            .with_offset(position));
    }
    Ok(storages)
}
