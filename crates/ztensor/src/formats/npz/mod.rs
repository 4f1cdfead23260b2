//! NumPy arrays: `.npy`, one array, and `.npz`, a zip archive of them. Arrays that are stored plainly are read in place, also in Fortran
//! order; of a deflated member only the start is inflated when the file is opened.

mod array;
mod header;
mod literal;
mod member;
mod types;

use rayon::prelude::*;

use super::{Input, zip};
use crate::error::{Error, Kind, Result};
use crate::index::{FileId, Format, Index, Object, Span};
use array::Storage;
use header::{Header, Preamble};

/// An array, or an archive with arrays in it. The extension speaks for an archive that has no members, or none that can be listed.
pub(crate) fn matches(head: &[u8], input: &Input) -> bool {
    if head.starts_with(header::MAGIC) {
        return true;
    }
    let source = input.source();
    zip::matches(head)
        && (zip::any_name(&source, |name| name.ends_with(b".npy"))
            || (input.extension() == "npz" && !zip::any_name(&source, |_| true)))
}

/// Indexes an array file or an archive.
pub(crate) fn index(input: &mut Input) -> Result<Index> {
    let source = input.source();
    let head = source.bytes(0, source.len().min(header::MAGIC.len() as u64))?;
    if *head == *header::MAGIC { array_file(input) } else { archive(input) }
}

/// A `.npy` file: one array, named after the file, or `arr_0` as NumPy names what has no name.
fn array_file(input: &mut Input) -> Result<Index> {
    let source = input.source();
    let stem = input.path().and_then(|path| path.file_stem()).map(|stem| stem.to_string_lossy().into_owned());
    let name = stem.unwrap_or_else(|| "arr_0".to_owned());
    let start = source.bytes(0, source.len().min(header::LONGEST + 64))?;
    let preamble = Preamble::parse(&start)?;
    let mut index = Index::new(Format::Npz, format!("{}.{}", preamble.version.0, preamble.version.1));
    let parsed = Header::parse(preamble, &start)?;
    let span = Span { file: FileId(0), offset: 0, length: source.len() };
    match array::object(parsed, preamble.data, Storage::Plain(span)) {
        Ok(object) => index.insert(name, object)?,
        Err(error) if error.kind() == Kind::Unsupported => skip(&mut index, name, &error),
        Err(error) => return Err(error.with_tensor(&name)),
    }
    Ok(index)
}

fn archive(input: &mut Input) -> Result<Index> {
    let source = input.source();
    let members = zip::members(&source, &mut input.budget)?;
    let per_object = size_of::<Object>() as u64;
    input.budget.charge(per_object.saturating_mul(members.len() as u64))?;
    // Headers of deflated members have to be inflated, which is worth all cores.
    let objects: Vec<Result<Object>> = members
        .par_iter()
        .with_min_len(64)
        .map_init(member::Headers::default, |headers, member| headers.object(&source, member))
        .collect();
    let mut index = Index::new(Format::Npz, "");
    index.objects.reserve(members.len());
    for (member, object) in members.into_iter().zip(objects) {
        input.budget.charge_object()?;
        let mut name = member.name;
        if name.ends_with(".npy") {
            name.truncate(name.len() - ".npy".len());
        }
        match object {
            Ok(object) => index.insert(name, object)?,
            Err(error) if error.kind() == Kind::Unsupported => skip(&mut index, name, &error),
            Err(error) => return Err(error.with_tensor(&name).with_offset(member.offset)),
        }
    }
    Ok(index)
}

fn skip(index: &mut Index, name: String, error: &Error) {
    match error.message() == types::OBJECTS {
        true => index.skip_code(name, error.message()),
        false => index.skip(name, error.message()),
    }
}
