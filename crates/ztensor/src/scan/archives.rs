//! Zip archives: PyTorch's, NumPy's, Keras' and any others. Members are looked into by their first bytes, whatever they are called. Readers differ in
//! what they forgive: an archive that breaks the rules is gone through once more by what stands in it, without its directory.

use std::borrow::Cow;
use std::collections::HashSet;

use super::{MOST_NESTED, Part, arrays, is_pickle, keras, known_places, pickles, place};
use crate::encoding;
use crate::error::{Error, Result};
use crate::formats::pytorch;
use crate::formats::zip::{self, Member, Method};
use crate::index::Packing;
use crate::limits::Budget;
use crate::source::Source;

/// Names under which people keep pickles.
const PICKLES: [&str; 10] =
    [".pkl", ".pickle", ".joblib", ".dill", ".p", ".dat", ".data", ".ckpt", ".pt", ".pth"];
/// How far a member may be inflated, as a multiple of its size.
const MOST_EXPANSION: u64 = 256;
/// What is inflated of a member whose announced size cannot be trusted.
const MOST_UNANNOUNCED: usize = 64 << 20;
/// Bytes by which a member is recognised.
const HEAD: usize = 4096;
/// Compressed bytes that nearly always hold the first ones.
const FIRST: u64 = 64 << 10;

/// Scans the members of an archive. One that cannot be listed is not trusted: other readers are less strict.
pub(super) fn archive(source: &Source, name: &str, depth: usize, budget: &mut Budget) -> Result<Vec<Part>> {
    let members = match zip::members(source, budget) {
        Ok(members) => members,
        Err(error) => {
            let mut parts = carved(source, name, depth, budget);
            parts.push(Part::unread(place(name), "member", &error));
            return Ok(parts);
        }
    };
    let roots: HashSet<&str> =
        members.iter().filter_map(|member| member.name.strip_suffix("data.pkl")).collect();
    let mut parts = Vec::new();
    for member in &members {
        match scan_member(source, member, &roots, &inside(name, &member.name), depth, budget) {
            Ok(found) => parts.extend(found),
            Err(error) => parts.push(Part::unread(inside(name, &member.name), "member", &error)),
        }
    }
    // Some readers do not look at the mark, and what is marked need not be encrypted.
    if members.iter().any(|member| member.method == Method::Encrypted) {
        parts.extend(carved(source, name, depth, budget));
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

/// Scans an archive at the end of a file that begins as something else. Readers of archives start at the end, so to them the file is one.
pub(super) fn at_the_end(source: &Source, budget: &mut Budget) -> Result<Vec<Part>> {
    match zip::ends_with_one(source) {
        true => archive(source, "the archive at its end", 0, budget),
        false => Ok(Vec::new()),
    }
}

fn inside(name: &str, member: &str) -> String {
    if name.is_empty() { member.to_owned() } else { format!("{name} › {member}") }
}

fn is_named_like_a_pickle(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    PICKLES.iter().any(|end| lower.ends_with(end))
}

fn scan_member(
    source: &Source,
    member: &Member,
    roots: &HashSet<&str>,
    name: &str,
    depth: usize,
    budget: &mut Budget,
) -> Result<Vec<Part>> {
    if keras::is_description(&member.name) {
        return Ok(keras::member(name, &read(source, member, budget)?));
    }
    let named = is_named_like_a_pickle(&member.name);
    let head = start(source, member)?;
    if arrays::matches(&head) && !arrays::may_hold_objects(&head) {
        return Ok(Vec::new());
    }
    // PyTorch's storages hold elements, which look like the start of a pickle by accident. No pickle is as long as large ones.
    let is_storage = !named && is_storage(&member.name, roots);
    let is_large = is_storage && member.decoded_length > MOST_UNANNOUNCED as u64;
    if is_large || !is_worth_reading(&head, named, depth) {
        return Ok(Vec::new());
    }
    let bytes = read(source, member, budget)?;
    let parts = content(&bytes, named, name, member.offset, depth, budget)?;
    Ok(match is_storage {
        true => parts.into_iter().filter(|part| !part.globals.is_empty()).collect(),
        false => parts,
    })
}

fn is_worth_reading(head: &[u8], named: bool, depth: usize) -> bool {
    let is_archive = zip::matches(head) && depth + 1 < MOST_NESTED;
    named || arrays::matches(head) || is_archive || pytorch::begins_like_a_pickle(head)
}

/// Scans the content of a member.
fn content(
    bytes: &[u8],
    named: bool,
    name: &str,
    origin: u64,
    depth: usize,
    budget: &mut Budget,
) -> Result<Vec<Part>> {
    if arrays::matches(bytes) {
        budget.charge(bytes.len() as u64)?;
        return arrays::array(&Source::from_bytes(bytes.to_vec()), name, budget);
    }
    if zip::matches(bytes) && depth + 1 < MOST_NESTED {
        budget.charge(bytes.len() as u64)?;
        let inner = Source::from_bytes(bytes.to_vec());
        return known_places(&inner, bytes, name, depth + 1, budget).map(Option::unwrap_or_default);
    }
    let parts = pickles::stream(bytes, name, origin, budget);
    // By its first bytes alone many a thing looks like a pickle.
    Ok(if named || parts.iter().any(is_pickle) { parts } else { Vec::new() })
}

/// Whether a member holds the elements of one of PyTorch's storages: of an archive with a pickle at its root.
fn is_storage(name: &str, roots: &HashSet<&str>) -> bool {
    let Some((folder, _)) = name.rsplit_once('/') else { return false };
    let root = folder.strip_suffix("data").or_else(|| folder.strip_suffix("constants"));
    root.is_some_and(|root| roots.contains(root))
}

/// The bytes of a member, which may not be a bomb.
fn read<'s>(source: &'s Source, member: &Member, budget: &mut Budget) -> Result<Cow<'s, [u8]>> {
    let most = member.length.saturating_mul(MOST_EXPANSION).max(16 << 20);
    if member.decoded_length > most {
        return Err(Error::malformed(format!("it inflates to more than {MOST_EXPANSION} times its size")));
    }
    member.read(source, budget)
}

/// The first bytes of a member, fewer if it has fewer.
fn start<'s>(source: &'s Source, member: &Member) -> Result<Cow<'s, [u8]>> {
    let wanted = member.decoded_length.min(HEAD as u64);
    let stored = |most: u64| source.bytes(member.offset, member.length.min(most));
    let packing = match member.method {
        Method::Stored => return stored(wanted),
        Method::Bzip2 => Packing::Bzip2,
        Method::Lzma => Packing::Lzma,
        Method::Deflated => {
            let first = encoding::inflate_start(&stored(FIRST)?, wanted as usize)?;
            return match first.len() as u64 == wanted {
                true => Ok(first.into()),
                // Empty blocks may stand before what it holds.
                false => Ok(encoding::inflate_start(&stored(u64::MAX)?, wanted as usize)?.into()),
            };
        }
        Method::Other(_) | Method::Encrypted => {
            return member.data(crate::index::FileId(0)).map(|_| Cow::default());
        }
    };
    encoding::member_start(packing, &stored(u64::MAX)?, member.decoded_length, wanted).map(Cow::Owned)
}

/// What stands in the members of an archive that breaks the rules: PyTorch is content with less than the strict reader, so an archive that is
/// broken on purpose still has to show what is in it.
fn carved(source: &Source, name: &str, depth: usize, budget: &mut Budget) -> Vec<Part> {
    let mut parts = Vec::new();
    if let Err(error) = carve(source, name, depth, budget, &mut parts) {
        parts.push(Part::unread(place(name), "member", &error));
    }
    parts
}

/// Finds members by their local headers, and believes neither sizes nor names.
fn carve(
    source: &Source,
    name: &str,
    depth: usize,
    budget: &mut Budget,
    parts: &mut Vec<Part>,
) -> Result<()> {
    const SIGNATURE: &[u8] = b"PK\x03\x04";
    const HEADER: usize = 30;
    const STORED: usize = 0;
    const DEFLATED: usize = 8;
    let bytes = source.bytes(0, source.len().min(budget.limits().header_bytes))?;
    let field = |at: usize| {
        bytes.get(at..at + 2).map_or(0, |pair| usize::from(u16::from_le_bytes([pair[0], pair[1]])))
    };
    let signatures = bytes.windows(SIGNATURE.len()).enumerate().filter(|(_, window)| *window == SIGNATURE);
    for (header, _) in signatures {
        let length = field(header + 26);
        let start = header + HEADER + length + field(header + 28);
        let called = bytes.get(header + HEADER..header + HEADER + length).unwrap_or_default();
        let called = String::from_utf8_lossy(called);
        let named = is_named_like_a_pickle(&called);
        let rest = bytes.get(start..).unwrap_or_default();
        let mut found = Cow::Borrowed(rest);
        match field(header + 8) {
            // The members of an archive in it have headers of their own, which are found like this one.
            STORED if zip::matches(rest) => continue,
            STORED => {}
            DEFLATED => match encoding::inflate_start(rest, HEAD) {
                Ok(head) if is_worth_reading(&head, named, depth) => {
                    budget.charge(MOST_UNANNOUNCED as u64)?;
                    found = Cow::Owned(encoding::inflate_start(rest, MOST_UNANNOUNCED).unwrap_or(head));
                }
                _ => continue,
            },
            _ => continue,
        }
        if is_worth_reading(&found, named, depth) {
            let found = content(&found, named, &inside(name, &called), start as u64, depth, budget)?;
            // What is cut out of a broken archive may be anything.
            parts.extend(found.into_iter().filter(is_pickle));
        }
    }
    Ok(())
}
