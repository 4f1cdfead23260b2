//! The zip form that `torch.save` has written since 1.6, and TorchScript archives: a pickle, and each storage in a member of its own.

use std::borrow::Cow;
use std::collections::HashMap;

use super::attributes;
use super::globals;
use super::pickle::Machine;
use super::rebuild::{Place, Rebuilder};
use super::storage::{Storages, Stored};
use super::walk::Walk;
use super::{Indexed, left_out, tree};
use crate::error::{Error, Result};
use crate::formats::Input;
use crate::formats::zip::{self, Member, Method};
use crate::index::{FileId, Format, Index};
use crate::limits::Budget;
use crate::source::Source;
use crate::tensor::Value;

/// A deflated pickle is usually a tenth of its size and never less than this part; more is a bomb.
const MOST_PICKLE_EXPANSION: u64 = 256;

/// Whether a member's name is that of the pickle which every archive of this form has.
pub(super) fn is_main_pickle(name: &[u8]) -> bool {
    name == b"data.pkl"
        || (name.ends_with(b"/data.pkl") && name.iter().filter(|byte| **byte == b'/').count() == 1)
}

/// Indexes an archive.
pub(super) fn index(input: &mut Input, wants_tree: bool) -> Result<Indexed> {
    let source = input.source();
    let members = zip::members(&source, &mut input.budget)?;
    let main = members
        .iter()
        .find(|member| is_main_pickle(member.name.as_bytes()))
        .ok_or_else(|| Error::malformed("the archive has no data.pkl"))?;
    let root = main.name.strip_suffix("data.pkl").unwrap_or_default();
    let find = |name: &str| members.iter().find(|member| member.name.strip_prefix(root) == Some(name));

    let version = match find("version").or_else(|| find(".data/version")) {
        Some(member) => short_text(member, &source, &mut input.budget)?,
        None => String::new(),
    };
    let mut index = Index::new(Format::Pytorch, version);
    let big_endian = match find("byteorder") {
        Some(member) => match short_text(member, &source, &mut input.budget)?.as_str() {
            "little" => false,
            "big" => true,
            other => {
                return Err(Error::malformed(format!(
                    "the byte order is \"{other}\", not \"little\" or \"big\""
                ))
                .with_offset(member.offset));
            }
        },
        None => false,
    };

    let data = storages(&members, root, "data/", big_endian);
    let bytes = read_pickle(main, &source, &mut input.budget)?;
    let pickle = Machine::new(&bytes).finish(main.offset, &mut input.budget)?;
    let known = globals::known_in(&pickle.arena);
    let rebuilder = Rebuilder::new(&pickle.arena, &known, &data, place(main, &bytes));
    // Most archives have a storage for each tensor.
    index.objects.reserve(data.by_key.len());
    let mut walk = Walk::new(rebuilder, &mut index, &mut input.budget).noting_tensors(wants_tree);
    walk.add(pickle.root, "")?;
    let (rebuilder, tensors) = walk.finish();
    let tree =
        wants_tree.then(|| tree::tree(&rebuilder, &tensors, pickle.root, &mut input.budget)).transpose()?;
    left_out::note_left_out(&pickle.arena, &mut index);

    // TorchScript keeps tensors that its code mentions as constants; the code calls them CONSTANTS.c0, CONSTANTS.c1, …
    if let Some(member) = find("constants.pkl") {
        let constants = storages(&members, root, "constants/", big_endian);
        let bytes = read_pickle(member, &source, &mut input.budget)?;
        let pickle = Machine::new(&bytes).finish(member.offset, &mut input.budget)?;
        let known = globals::known_in(&pickle.arena);
        let rebuilder = Rebuilder::new(&pickle.arena, &known, &constants, place(member, &bytes));
        let mut walk = Walk::new(rebuilder, &mut index, &mut input.budget);
        for (position, id) in pickle.arena.items(pickle.root).unwrap_or_default().iter().enumerate() {
            walk.add(*id, &format!("CONSTANTS.c{position}"))?;
        }
        left_out::note_left_out(&pickle.arena, &mut index);
    }
    Ok((index, tree))
}

/// The plain value, or the list of them, that is the whole content of an archive; `None` if it is anything else.
pub(crate) fn plain_value(source: &Source, budget: &mut Budget) -> Result<Option<Value>> {
    if !zip::matches(&source.head(4)?) {
        return Ok(None);
    }
    let members = zip::members(source, budget)?;
    let Some(main) = members.iter().find(|member| is_main_pickle(member.name.as_bytes())) else {
        return Ok(None);
    };
    let bytes = read_pickle(main, source, budget)?;
    let pickle = Machine::new(&bytes).finish(main.offset, budget)?;
    Ok(attributes::plain_value(&pickle.arena, pickle.root))
}

/// The storages in the members of one folder.
fn storages<'m>(members: &'m [Member], root: &str, folder: &str, big_endian: bool) -> Storages<'m> {
    let stored = |member: &'m Member| {
        let key = member.name.strip_prefix(root)?.strip_prefix(folder)?;
        let data = member.data(FileId(0)).map_err(|error| error.message().to_owned());
        Some((key, Stored { data, length: member.decoded_length }))
    };
    let mut by_key = HashMap::with_capacity(members.len());
    by_key.extend(members.iter().filter_map(stored));
    Storages { by_key, big_endian }
}

fn place<'p>(member: &Member, bytes: &'p [u8]) -> Place<'p> {
    Place { bytes, origin: (member.method == Method::Stored).then_some((FileId(0), member.offset)) }
}

/// The bytes of a pickle member, which may not be a bomb.
pub(super) fn read_pickle<'s>(
    member: &Member,
    source: &'s Source,
    budget: &mut Budget,
) -> Result<Cow<'s, [u8]>> {
    let most = member.length.saturating_mul(MOST_PICKLE_EXPANSION);
    if member.method != Method::Stored && member.decoded_length > most.max(1 << 20) {
        return Err(Error::malformed(format!(
            "the archive member \"{}\" inflates to more than {MOST_PICKLE_EXPANSION} times its size",
            member.name
        ))
        .with_offset(member.offset));
    }
    member.read(source, budget)
}

/// A member that holds one word.
fn short_text(member: &Member, source: &Source, budget: &mut Budget) -> Result<String> {
    if member.decoded_length > 64 {
        return Err(Error::malformed(format!("the archive member \"{}\" should hold one word", member.name))
            .with_offset(member.offset));
    }
    Ok(String::from_utf8_lossy(&member.read(source, budget)?).trim().to_owned())
}
