//! Several opened files as one, such as the weights and the optimizer's state of one checkpoint. Tensors keep their names; where two files have a tensor of
//! one name, each has its file before it: `ema.pt::weight`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::index::{Chunked, Data, FileId, Index, Span};
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
                shift(&mut component.data, by);
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

/// Counts the files of byte ranges from `by` on.
fn shift(data: &mut Data, by: u32) {
    let moved = |span: Span| Span { file: FileId(span.file.0 + by), ..span };
    match data {
        Data::Raw(span)
        | Data::Zstd(span)
        | Data::ZstdSeekable(span)
        | Data::Z4ai(span)
        | Data::Deflate(span) => *span = moved(*span),
        Data::PackedMember(member) => member.span = moved(member.span),
        Data::Inline(_) | Data::Fill(_) => {}
        Data::Pieces(spans) => *spans = spans.iter().map(|span| moved(*span)).collect(),
        Data::Varints(runs) => {
            let run =
                |run: &crate::index::VarintRun| crate::index::VarintRun { span: moved(run.span), ..*run };
            *runs = runs.iter().map(run).collect();
        }
        Data::Unraveled(positions) => shift(&mut positions.inner, by),
        Data::SwappedBlocks(blocks) => shift(&mut blocks.inner, by),
        Data::Swapped { inner, .. } | Data::Negated { inner, .. } => shift(inner, by),
        Data::Strided(view) => shift(&mut view.inner, by),
        Data::Chunked(chunked) => {
            let mut own: Chunked = (**chunked).clone();
            own.chunks.iter_mut().for_each(|chunk| chunk.span = moved(chunk.span));
            *chunked = Arc::new(own);
        }
    }
}
