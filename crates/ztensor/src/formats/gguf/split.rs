//! Models split over files named `…-00001-of-00003.gguf`. Any part opens the whole: the others are looked for beside it, each must
//! say which part it is, and together they must hold as many tensors as they announce.

use std::path::Path;

use super::header::Header;
use super::{add_file, new_index, read_header};
use crate::error::{Error, Kind, Result};
use crate::formats::{Input, few};
use crate::index::{FileId, Index};
use crate::tensor::{Attributes, Value};

/// Which part of how many a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Counted from zero.
    number: u64,
    count: u64,
    /// Tensors in all parts together, where the file says so.
    tensors: Option<u64>,
}

impl Place {
    /// The place a file's metadata gives it; `None` for a model in one file.
    pub(super) fn of(attributes: &Attributes) -> Result<Option<Place>> {
        let count = number(attributes, "split.count")?.unwrap_or(0);
        if count <= 1 {
            return Ok(None);
        }
        let number_of = number(attributes, "split.no")?
            .ok_or_else(|| Error::malformed("the file has split.count but not split.no"))?;
        if number_of >= count || count > 99_999 {
            return Err(Error::malformed(format!("split.no is {number_of}, but split.count is {count}")));
        }
        let tensors = number(attributes, "split.tensors.count")?;
        Ok(Some(Place { number: number_of, count, tensors }))
    }

    /// The end of the file name of part `number`.
    fn suffix(self, number: u64) -> String {
        format!("-{:05}-of-{:05}.gguf", number + 1, self.count)
    }
}

fn number(attributes: &Attributes, key: &str) -> Result<Option<u64>> {
    match attributes.get(key).map(Value::as_u64) {
        None => Ok(None),
        Some(Some(value)) => Ok(Some(value)),
        Some(None) => Err(Error::malformed(format!("metadata \"{key}\" is not a number"))),
    }
}

/// Indexes all parts as one file.
pub(super) fn index(input: &mut Input, place: Place, header: Header) -> Result<Index> {
    let stem = stem(input.path(), place)?;
    let files = open_parts(input, place, &stem)?;

    let mut own = Some(header);
    let mut index: Option<Index> = None;
    for (number, &file) in (0..).zip(&files) {
        let header = match own.take_if(|_| number == place.number) {
            Some(header) => header,
            None => read_part(input, file, Place { number, ..place }).map_err(|e| named(input, file, e))?,
        };
        let index = index.get_or_insert_with(|| new_index(&header));
        add_file(input, file, header, index).map_err(|error| named(input, file, error))?;
    }
    let index = index.ok_or_else(|| Error::malformed("a split model without parts"))?;
    let found = (index.objects.len() + index.skipped.len()) as u64;
    match place.tensors {
        Some(announced) if announced != found => Err(Error::malformed(format!(
            "split.tensors.count announces {announced} tensors, but the parts hold {found}"
        ))),
        _ => Ok(index),
    }
}

/// What the names of all parts begin with.
fn stem(path: Option<&Path>, place: Place) -> Result<String> {
    let (part, count) = (place.number + 1, place.count);
    let error = |problem: &str, hint: String| {
        Error::unsupported(format!("this is part {part} of {count} of a split model, but {problem}"))
            .with_hint(hint)
    };
    let Some(path) = path else {
        return Err(error(
            "the other parts cannot be found from memory",
            "Open one of the parts by path.".into(),
        ));
    };
    let suffix = place.suffix(place.number);
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_suffix(&suffix)).map(str::to_owned).ok_or_else(|| {
        error("its name does not say so", format!("Give it back its name, which ends in \"{suffix}\"."))
    })
}

fn open_parts(input: &mut Input, place: Place, stem: &str) -> Result<Vec<FileId>> {
    let mut files = Vec::new();
    let mut missing = Vec::new();
    for number in 0..place.count {
        if number == place.number {
            files.push(FileId(0));
            continue;
        }
        let name = format!("{stem}{}", place.suffix(number));
        match input.shard(&name) {
            Ok(file) => files.push(file),
            Err(error) if error.kind() == Kind::NotFound => missing.push(format!("\"{name}\"")),
            Err(error) => return Err(error),
        }
    }
    if missing.is_empty() {
        return Ok(files);
    }
    Err(Error::new(
        Kind::NotFound,
        format!("{} of {} parts are missing: {}", missing.len(), place.count, few(&missing)),
    )
    .with_hint("Download the missing files into the same folder."))
}

fn read_part(input: &mut Input, file: FileId, expected: Place) -> Result<Header> {
    let header = read_header(input, file)?;
    match Place::of(&header.attributes)? {
        Some(found) if (found.number, found.count) == (expected.number, expected.count) => Ok(header),
        _ => Err(Error::malformed(format!(
            "by its name this is part {} of {}, but its metadata says otherwise",
            expected.number + 1,
            expected.count
        ))),
    }
}

/// Names the part that an error is about.
fn named(input: &Input, file: FileId, error: Error) -> Error {
    match input.file(file).map(|source| source.path()) {
        Ok(Some(path)) => error.with_path(path),
        _ => error,
    }
}
