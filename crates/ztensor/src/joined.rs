//! Several opened files as one, such as the weights and the optimizer's state of one checkpoint. Tensors keep their names; where two files have a tensor of
//! one name, each has its file before it: `ema.pt::weight`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::index::{FileId, Index};
use crate::limits::Limits;
use crate::reader::Reader;

/// What stands between a file and a name that two files have.
const SEPARATOR: &str = "::";

/// Joins opened files, each with the name that tells its tensors from those of others.
pub(crate) fn join(parts: Vec<(String, Reader)>, limits: &Limits, verify: bool) -> Result<Reader> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for (_, part) in &parts {
        let attributes = part.index().attributes.keys().map(|key| format!("\0{key}"));
        for name in part.names().map(str::to_owned).chain(attributes) {
            *counts.entry(name).or_default() += 1;
        }
    }
    let shown = |file: &str, name: String, key: &str| match counts.get(key) {
        Some(2..) => format!("{file}{SEPARATOR}{name}"),
        _ => name,
    };
    let mut files = Vec::new();
    let mut joined: Option<Index> = None;
    for (file, part) in parts {
        let by = u32::try_from(files.len()).map_err(|_| Error::new(Kind::Limit, "too many files"))?;
        files.extend(part.sources().iter().map(Arc::clone));
        let index = part.into_index();
        let joined = joined.get_or_insert_with(|| Index::new(index.format, index.version));
        for (name, mut object) in index.objects {
            for (_, component) in &mut object.components {
                component.data.shift_files(by);
            }
            joined.insert(shown(&file, name.clone(), &name), object)?;
        }
        for (key, value) in index.attributes {
            joined.attributes.insert(shown(&file, key.clone(), &format!("\0{key}")), value);
        }
        joined.states_attributes |= index.states_attributes;
        joined.skipped.extend(index.skipped);
        let digests = index.file_digests.into_iter();
        joined.file_digests.extend(digests.map(|(FileId(file), digest)| (FileId(file + by), digest)));
        joined.recovered = joined.recovered.or(index.recovered);
    }
    let joined = joined.ok_or_else(|| Error::new(Kind::NotFound, "there are no tensors to open"))?;
    Ok(Reader::new(files, joined, None, limits.clone(), verify))
}
