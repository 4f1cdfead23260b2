//! Zip archives: PyTorch's, NumPy's, Keras' and any others. Members are looked into by their names and by their first bytes.

use std::borrow::Cow;

use super::{MOST_NESTED, Part, arrays, is_pickle, keras, known_places, pickles, place};
use crate::error::{Error, Result};
use crate::formats::pytorch;
use crate::formats::zip::{self, Member, Method};
use crate::limits::Budget;
use crate::source::Source;

/// Names under which people keep pickles.
const PICKLES: [&str; 10] =
    [".pkl", ".pickle", ".joblib", ".dill", ".p", ".dat", ".data", ".ckpt", ".pt", ".pth"];
/// How far a member may be inflated, as a multiple of its size.
const MOST_EXPANSION: u64 = 256;

/// Scans the members of an archive. One that cannot be listed is not trusted: other readers are less strict.
pub(super) fn archive(source: &Source, name: &str, depth: usize, budget: &mut Budget) -> Result<Vec<Part>> {
    let members = match zip::members(source, budget) {
        Ok(members) => members,
        Err(error) => {
            let mut parts = carved(source, budget)?;
            parts.push(Part::unread(place(name), "member", &error));
            return Ok(parts);
        }
    };
    let mut parts = Vec::new();
    for member in &members {
        let name = if name.is_empty() { member.name.clone() } else { format!("{name} › {}", member.name) };
        match scan_member(source, member, &members, &name, depth, budget) {
            Ok(found) => parts.extend(found),
            Err(error) => parts.push(Part::unread(name, "member", &error)),
        }
    }
    Ok(parts)
}

/// Scans an archive that stands in a pickle.
pub(crate) fn archive_in_memory(name: &str, bytes: &[u8], budget: &mut Budget) -> Vec<Part> {
    let scanned = budget.charge(bytes.len() as u64).and_then(|()| {
        archive(&Source::from_bytes(bytes.to_vec()), name, MOST_NESTED.saturating_sub(1), budget)
    });
    scanned.unwrap_or_else(|error| vec![Part::unread(name, "member", &error)])
}

fn scan_member(
    source: &Source,
    member: &Member,
    members: &[Member],
    name: &str,
    depth: usize,
    budget: &mut Budget,
) -> Result<Vec<Part>> {
    let lower = member.name.to_ascii_lowercase();
    let named = PICKLES.iter().any(|end| lower.ends_with(end));
    if keras::is_description(&member.name) {
        return Ok(keras::member(name, &read(source, member, budget)?));
    }
    // The elements of PyTorch's storages are no file of their own, whatever their first bytes look like.
    if !named && is_storage(member, members) {
        return Ok(Vec::new());
    }
    let head = match member.method {
        Method::Stored => source.bytes(member.offset, member.length.min(4096))?.into_owned(),
        // To see the first bytes, all of the member has to be inflated; only what may be code is worth it.
        _ if named || is_array(&lower) || lower.ends_with(".bin") => {
            read(source, member, budget)?.into_owned()
        }
        _ => return Ok(Vec::new()),
    };
    if arrays::matches(&head) {
        let bytes = match member.method {
            Method::Stored => source.bytes(member.offset, member.length)?.into_owned(),
            _ => head,
        };
        return arrays::array(&Source::from_bytes(bytes), name, budget);
    }
    if zip::matches(&head) && depth + 1 < MOST_NESTED {
        let inner = Source::from_bytes(read(source, member, budget)?.into_owned());
        return known_places(&inner, &head, name, depth + 1, budget).map(Option::unwrap_or_default);
    }
    if named || pytorch::begins_like_a_pickle(&head) {
        let bytes = read(source, member, budget)?;
        let parts = pickles::stream(&bytes, name, member.offset, budget);
        // By its first bytes alone many a thing looks like a pickle.
        return Ok(if named || parts.iter().any(is_pickle) { parts } else { Vec::new() });
    }
    Ok(Vec::new())
}

fn is_array(lower: &str) -> bool {
    lower.ends_with(".npy")
}

/// Whether a member holds the elements of one of PyTorch's storages.
fn is_storage(member: &Member, members: &[Member]) -> bool {
    let Some((folder, _)) = member.name.rsplit_once('/') else { return false };
    let root = folder.strip_suffix("data").or_else(|| folder.strip_suffix("constants"));
    root.is_some_and(|root| members.iter().any(|other| other.name.strip_prefix(root) == Some("data.pkl")))
}

/// The bytes of a member, which may not be a bomb.
fn read<'s>(source: &'s Source, member: &Member, budget: &mut Budget) -> Result<Cow<'s, [u8]>> {
    let most = member.length.saturating_mul(MOST_EXPANSION).max(16 << 20);
    if member.decoded_length > most {
        return Err(Error::malformed(format!("it inflates to more than {MOST_EXPANSION} times its size")));
    }
    member.read(source, budget)
}

/// The pickles among the members of an archive that breaks the rules, found by their local headers: PyTorch is content with less than the
/// strict reader, so an archive that is broken on purpose still has to show what is in it.
fn carved(source: &Source, budget: &mut Budget) -> Result<Vec<Part>> {
    const HEADER: usize = 30;
    let bytes = source.bytes(0, source.len().min(budget.limits().header_bytes))?;
    let field = |at: usize| {
        bytes.get(at..at + 2).map_or(0, |pair| usize::from(u16::from_le_bytes([pair[0], pair[1]])))
    };
    let mut parts = Vec::new();
    let mut position = 0;
    while let Some(found) =
        bytes.get(position..).and_then(|rest| rest.windows(4).position(|w| w == b"PK\x03\x04"))
    {
        let header = position + found;
        position = header + 4;
        let start = header + HEADER + field(header + 26) + field(header + 28);
        let name = bytes.get(header + HEADER..header + HEADER + field(header + 26)).unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        if field(header + 8) != 0 || !PICKLES.iter().any(|end| name.to_ascii_lowercase().ends_with(end)) {
            continue;
        }
        let rest = bytes.get(start..).unwrap_or_default();
        let end = rest.windows(2).position(|pair| pair == b"PK").unwrap_or(rest.len());
        parts.extend(pickles::stream(&rest[..end], &name, start as u64, budget));
    }
    Ok(parts)
}
