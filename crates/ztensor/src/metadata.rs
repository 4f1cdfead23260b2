//! Changing what a file says about itself without touching its tensors: the header is written anew and the data behind it copied inside the
//! kernel (or shared, where the file system can), or, in `.zt`, a new manifest goes behind the old one. A crash leaves the old file or the new one.

use std::fs::File;
use std::path::Path;

pub use crate::formats::MetadataEdit;

use crate::error::{Error, Hints, Result};
use crate::formats::edit::{Front, NewValue, guess, no_such_key};
use crate::index::Format;
use crate::limits::{Budget, Limits};
use crate::open::OpenOptions;
use crate::output::Output;
use crate::source::{Io, Source};
use crate::tensor::{Attributes, Value};
use crate::zt::Writer;

/// The metadata of a file of any format.
pub fn read_metadata(path: impl AsRef<Path>) -> Result<Attributes> {
    Ok(OpenOptions::default().open(path)?.attributes().clone())
}

/// Changes the metadata of a `.zt`, `.safetensors` or `.gguf` file.
pub fn write_metadata(path: impl AsRef<Path>, edit: &MetadataEdit) -> Result<()> {
    write_metadata_with(path, edit, &mut |_| Ok(()))
}

/// Changes the metadata of a file; `progress` is told of the bytes that are copied and may end it.
pub fn write_metadata_with(
    path: impl AsRef<Path>,
    edit: &MetadataEdit,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let path = path.as_ref();
    rewrite(path, edit, progress).map_err(|error| error.with_path(path))
}

fn rewrite(path: &Path, edit: &MetadataEdit, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
    let reader = OpenOptions::default().open(path)?;
    if reader.archived().is_some() {
        return Err(Error::argument("this is an archive; its metadata is that of its original").with_hints(
            Hints::new(
                "Restore the original with `ztensor::archive::restore`, change it and archive it again.",
                "Restore the original with z4ai.safetensors.decompress_file, change it and archive it again.",
                "Restore the original with `ztensor restore`, change it and archive it again.",
            ),
        ));
    }
    let source = Source::open(path, Io::Auto)?;
    #[allow(unused_mut, reason = "not every build has a format that needs it")]
    let mut budget = Budget::new(Limits::default());
    let _ = &mut budget;
    match reader.format() {
        Format::Zt if reader.index().version.starts_with("1.") => {
            drop((reader, source));
            append(path, edit)
        }
        #[cfg(feature = "safetensors")]
        Format::Safetensors if crate::formats::safetensors::is_single(&source)? => {
            let front = crate::formats::safetensors::with_metadata(&source, edit)?;
            replace(path, &front, progress)
        }
        #[cfg(feature = "gguf")]
        Format::Gguf => {
            let front = crate::formats::gguf::with_metadata(&source, edit, &mut budget)?;
            replace(path, &front, progress)
        }
        Format::Zt => Err(Error::unsupported(format!(
            "metadata of .zt files is changed in version 1.2; this is version {}",
            reader.index().version
        ))
        .with_hints(Hints::new(
            "Copy it into a new file first: `ztensor::convert::copy_into`.",
            "Load it and save it anew.",
            "Rewrite it first: `ztensor migrate`.",
        ))),
        format => Err(Error::unsupported(format!(
            "metadata is changed in .zt, .safetensors and .gguf files; this is {format}"
        ))),
    }
}

/// Puts a new front before the data of a file.
fn replace(path: &Path, front: &Front, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
    let fail = |cause| Error::io("cannot read", path, cause);
    let old = File::open(path).map_err(fail)?;
    let length = old.metadata().map_err(fail)?.len();
    let mut output = Output::create(path)?;
    output.write(&front.bytes)?;
    output.copy_from(&old, front.rest, length.saturating_sub(front.rest), progress)?;
    output.publish(true)
}

/// A new manifest behind the old one of a `.zt` file.
fn append(path: &Path, edit: &MetadataEdit) -> Result<()> {
    let mut writer = Writer::append(path)?;
    for change in &edit.changes {
        if change.kind.is_some() {
            return Err(Error::argument(format!("\"{}\": types are named in GGUF files only", change.key)));
        }
        let before = writer.attributes().get(&change.key);
        match &change.to {
            NewValue::Removed => match before {
                Some(_) => writer.remove_attribute(&change.key),
                None => return Err(no_such_key(&change.key)),
            },
            NewValue::Value(value) => writer.set_attribute(change.key.clone(), value.clone()),
            NewValue::Literal(text) => {
                let value = match before {
                    Some(Value::Text(_)) => Value::Text(text.clone()),
                    _ => guess(text),
                };
                writer.set_attribute(change.key.clone(), value);
            }
        }
    }
    writer.finish().map(drop)
}
