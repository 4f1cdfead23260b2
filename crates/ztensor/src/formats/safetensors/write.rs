//! The safetensors writer: tensors sorted by dtype, widest first, then by name, behind a header padded to eight bytes: byte for byte
//! what the reference implementation writes.

use std::cmp::Reverse;
use std::path::Path;

use super::name_of;
use super::types::rank;
use crate::error::{Error, Hints, Result};
use crate::output::Output;
use crate::tensor::{ElementType, Layout, Shape};

/// A tensor to be written: its name, type and shape, and a way to get its bytes when their turn comes.
pub struct Entry<'a> {
    /// The tensor's name.
    pub name: &'a str,
    /// What the elements are.
    pub element: ElementType,
    /// The dimensions.
    pub shape: Shape,
    /// Bytes once decoded.
    pub length: u64,
}

/// Writes a file, asking for the bytes of one tensor after the other. Metadata may be empty, which is not the same as none. Returns the file's
/// size.
pub fn write<'a>(
    path: &Path,
    entries: Vec<Entry<'_>>,
    metadata: Option<&[(String, String)]>,
    bytes: impl FnMut(&str) -> Result<std::borrow::Cow<'a, [u8]>>,
) -> Result<u64> {
    let mut output = Output::create(path)?;
    write_to(&mut output, entries, metadata, bytes)?;
    let size = output.position();
    output.publish(false)?;
    Ok(size)
}

/// How a file begins, and its tensors in the order in which their bytes follow.
pub fn layout<'a>(
    mut entries: Vec<Entry<'a>>,
    metadata: Option<&[(String, String)]>,
) -> Result<(Vec<u8>, Vec<Entry<'a>>)> {
    entries.sort_by_cached_key(|entry| (Reverse(rank(&entry.element)), entry.name.to_owned()));
    let header = header(&entries, metadata)?;
    Ok(([&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat(), entries))
}

fn write_to<'a>(
    output: &mut Output,
    entries: Vec<Entry<'_>>,
    metadata: Option<&[(String, String)]>,
    mut bytes: impl FnMut(&str) -> Result<std::borrow::Cow<'a, [u8]>>,
) -> Result<()> {
    let (front, entries) = layout(entries, metadata)?;
    output.write(&front)?;
    for entry in &entries {
        let data = bytes(entry.name).map_err(|error| error.with_tensor(entry.name))?;
        if data.len() as u64 != entry.length {
            return Err(Error::mismatch(format!(
                "{} bytes were announced, {} came",
                entry.length,
                data.len()
            ))
            .with_tensor(entry.name));
        }
        output.write(&data)?;
    }
    Ok(())
}

fn header(entries: &[Entry<'_>], metadata: Option<&[(String, String)]>) -> Result<String> {
    use std::fmt::Write;
    let quote = |text: &str| serde_json::Value::from(text).to_string();
    let mut header = String::from("{");
    let mut separator = "";
    if let Some(metadata) = metadata {
        header.push_str("\"__metadata__\":{");
        for (key, text) in metadata {
            // Writing to a String cannot fail.
            let _ = write!(header, "{separator}{}:{}", quote(key), quote(text));
            separator = ",";
        }
        header.push('}');
        separator = ",";
    }
    let mut position = 0u64;
    for entry in entries {
        if entry.name == "__metadata__" {
            return Err(Error::argument("safetensors keeps this name for the metadata")
                .with_tensor(entry.name)
                .with_hint("Rename the tensor, or write a .zt file."));
        }
        let dtype = name_of(&entry.element).ok_or_else(|| {
            Error::unsupported(format!("safetensors has no dtype for {}", entry.element))
                .with_tensor(entry.name)
                .with_hint("Write a .zt file instead.")
        })?;
        let end =
            position.checked_add(entry.length).ok_or_else(|| Error::argument("the tensors are too large"))?;
        let _ = write!(
            header,
            "{separator}{}:{{\"dtype\":\"{dtype}\",\"shape\":[{}],\"data_offsets\":[{position},{end}]}}",
            quote(entry.name),
            entry.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
        );
        position = end;
        separator = ",";
    }
    header.push('}');
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    Ok(header)
}

/// Why an object of a layout cannot be written as it is.
pub fn check_layout(name: &str, layout: &Layout) -> Result<()> {
    match layout {
        Layout::Dense => Ok(()),
        other => {
            Err(Error::unsupported(format!("safetensors holds dense tensors only, this one is {other}"))
                .with_tensor(name)
                .with_hints(Hints::new(
                    "Write a .zt file instead, or convert ggml blocks with `Storage::dequantize`.",
                    "Write a .zt file instead, or read ggml blocks with dequantize=True.",
                    "Write a .zt file instead, or convert ggml blocks with --dequantize.",
                )))
        }
    }
}
