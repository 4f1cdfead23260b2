//! Files given to a command that does not take them: what they are, and which command does.

use std::io::{Cursor, Read};
use std::path::Path;

use z4ai::{Decoder, Effort, Error, ErrorKind, Options};
use ztensor::{Reader, codec_dtype};

use super::streams::{is_pipe, named, open};
use crate::{Failure, Result, limits};

/// Opens a delta. Whether it is one shows at its beginning, before the reference is read for nothing.
pub(super) fn open_delta(path: &Path) -> Result<(Box<dyn Read>, Option<u64>)> {
    /// The header of any frame fits in here.
    const HEAD: u64 = 64 << 10;
    let (mut input, length) = open(path)?;
    let mut head = Vec::new();
    input.by_ref().take(HEAD).read_to_end(&mut head)?;
    match Decoder::new(&head[..]) {
        Ok(_) => Err(Failure::new(format!(
            "{} is not a delta but a z4ai frame that needs no reference; restore it with `z4ai decompress`",
            named(path)
        ))),
        Err(error) if error.kind() == ErrorKind::NotAFrame => Err(failure(path, &error)),
        // A delta, or one that is damaged, which decoding says better.
        Err(_) => Ok((Box::new(Cursor::new(head).chain(input)), length)),
    }
}

/// What to say of a model file that was compressed as mere bytes: how small its archive would be, about.
pub(super) fn better_as_archive(path: &Path, effort: Effort) -> Option<String> {
    if is_pipe(path) {
        return None;
    }
    let reader = limits::open(path).ok().filter(|reader| !reader.is_empty())?;
    let found = format!("{} is a {} file", named(path), reader.format());
    let advice =
        "`ztensor archive` compresses its tensors by what they are, and its archives load like the original";
    let expected = match reader.archived() {
        Some(_) => return Some(format!("{found} in an archive, which is compressed already")),
        None => archive_ratio(&reader, effort).map(|ratio| format!(": about {ratio:.2}x")),
    };
    Some(format!("{found}; {advice}{}", expected.unwrap_or_default()))
}

/// The ratio that an archive would have, from samples of some of the tensors.
fn archive_ratio(reader: &Reader, effort: Effort) -> Option<f64> {
    /// Tensors that are looked at.
    const TENSORS: usize = 8;
    let components = reader.objects().flat_map(|(name, object)| {
        object.components.iter().map(move |(role, component)| (name, object, role, component))
    });
    let components: Vec<_> = components.filter(|(.., component)| component.length >= 1024).collect();
    let mut step = components.len() / TENSORS;
    step = step.max(1);
    let (mut plain, mut packed) = (0.0, 0.0);
    for (name, object, role, component) in components.iter().step_by(step) {
        let bytes = reader.component_bytes(name, role).ok()?;
        let shape = object.component_shape(role).map(|shape| shape.to_vec());
        let options = Options { dtype: codec_dtype(&component.element), shape, effort, ..Options::default() };
        let ratio = z4ai::estimate(&bytes, &options).ok()?;
        plain += bytes.len() as f64;
        packed += bytes.len() as f64 / ratio.max(f64::MIN_POSITIVE);
    }
    (packed > 0.0).then_some(plain / packed)
}

/// An error of the codec about a file.
pub(super) fn failure(path: &Path, error: &Error) -> Failure {
    let shown = named(path);
    let message = match (error.kind(), recognised(path)) {
        (ErrorKind::NotAFrame, Some(found)) => format!("{shown} is not a z4ai frame but {found}"),
        (ErrorKind::WrongReference, _) => {
            format!("{shown} is a delta; restore it with `z4ai apply` and the file that it was made against")
        }
        _ => format!("{shown}: {error}"),
    };
    Failure::about(path, error.kind().name(), message)
}

/// What a file is that is not a frame, and what to do with it.
fn recognised(path: &Path) -> Option<String> {
    if is_pipe(path) {
        return None;
    }
    match limits::options().describe_archive(path) {
        Ok(found) if !found.bases.is_empty() => {
            Some("the delta of a whole model file; restore it with `ztensor delta apply`".to_owned())
        }
        Ok(found) => {
            Some(format!("an archive of a {} file; restore it with `ztensor restore`", found.format))
        }
        Err(_) => {
            let format = limits::open(path).ok()?.format();
            Some(format!("a {format} file, which `ztensor` reads"))
        }
    }
}
