//! Writes the archives of `torch.save`, one storage after the other, so that `torch.load(weights_only=True)` opens them: a pickle of nothing but the
//! values of a tree, and a member for each storage. Tensors that share their bytes share a storage.

mod pickler;
mod tensors;
mod values;
mod zip;

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

use self::tensors::Tensors;
use self::zip::Archive;
use crate::error::{Error, Result};
use crate::output::Output;
use crate::tensor::{Attributes, ElementType, Layout, Shape};
use crate::tree::Tree;

/// A tensor to be written.
pub struct WriteEntry<'a> {
    /// The name that the tree has for it.
    pub name: Cow<'a, str>,
    /// The dimensions.
    pub shape: Shape,
    /// How the parts make one tensor.
    pub layout: Layout,
    /// What the layout needs besides the parts.
    pub attributes: Attributes,
    /// The components.
    pub parts: Vec<WritePart<'a>>,
}

/// A component of a tensor to be written.
pub struct WritePart<'a> {
    /// Its role, such as `data`.
    pub role: Cow<'a, str>,
    /// What the elements are.
    pub element: ElementType,
    /// Bytes.
    pub length: u64,
    /// The number of its storage. Parts with the same number have the same bytes, which are written once.
    pub storage: usize,
}

/// Writes a file, asking for the bytes of one part after the other. Without a tree it is a dict of all tensors. Returns the file's size.
pub fn write<'a>(
    path: &Path,
    entries: &[WriteEntry<'_>],
    tree: Option<&Tree>,
    mut bytes: impl FnMut(&WriteEntry<'_>, &WritePart<'_>) -> Result<Cow<'a, [u8]>>,
) -> Result<u64> {
    let mut checked = |entry: &WriteEntry<'_>, part: &WritePart<'_>| {
        let data = bytes(entry, part).map_err(|error| error.with_tensor(&entry.name))?;
        match data.len() as u64 == part.length {
            true => Ok(data),
            false => {
                Err(Error::mismatch(format!("{} bytes were announced, {} came", part.length, data.len()))
                    .with_tensor(&entry.name))
            }
        }
    };
    let flat;
    let tree = match tree {
        Some(tree) => tree,
        None => {
            flat = Tree::of_names(entries.iter().map(|entry| entry.name.as_ref()));
            &flat
        }
    };
    let mut tensors = Tensors::new(entries);
    let pickle = values::pickle(tree, &mut tensors, &mut checked)?;
    zip::check_pickle(&pickle)?;

    let mut output = Output::create(path)?;
    let mut archive = Archive::new(&mut output);
    archive.add("data.pkl", &pickle)?;
    archive.add(".format_version", b"1")?;
    archive.add(".storage_alignment", b"64")?;
    archive.add("byteorder", b"little")?;
    let mut written = HashSet::new();
    for entry in entries {
        for part in &entry.parts {
            // What stands in the pickle itself, or what the tree does not mention, has no storage.
            let Some(number) = tensors.storage_number(part.storage) else { continue };
            if written.insert(part.storage) {
                archive.add(&format!("data/{number}"), &checked(entry, part)?)?;
            }
        }
    }
    archive.add("version", b"3\n")?;
    let identity = archive.identity();
    archive.add(".data/serialization_id", identity.as_bytes())?;
    archive.finish()?;
    let size = output.position();
    output.publish(false)?;
    Ok(size)
}
