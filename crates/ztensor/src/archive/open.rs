//! Opening: from the objects of an archive to a source that reads like the original.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::description::{Description, SKELETON};
use crate::decode;
use crate::error::{Error, Result};
use crate::index::{Component, Index};
use crate::source::Source;
use crate::source::assembly::{Assembly, Piece};

/// Puts the original together from an archive's index and files.
pub(crate) fn assemble(description: &Description, index: &Index, files: &[Arc<Source>]) -> Result<Source> {
    let archive = Arc::new(files.to_vec());
    let object = |name: &str| -> Result<Component> {
        let component = index.objects.get(name).and_then(|object| object.component("data"));
        component.cloned().ok_or_else(|| Error::malformed(format!("the archive has no object \"{name}\"")))
    };
    let skeleton: Arc<[u8]> = match index.objects.contains_key(SKELETON) {
        true => decode::bytes(&archive, &object(SKELETON)?)?.into(),
        false => [].into(),
    };
    let mut parts: Vec<Box<dyn Piece>> = Vec::with_capacity(2 * description.pieces.len() + 1);
    let (mut position, mut taken) = (0, 0);
    let mut fill = |parts: &mut Vec<Box<dyn Piece>>, length: u64| -> Result<()> {
        if length > 0 {
            let end = taken + length;
            if end > skeleton.len() as u64 {
                return Err(Error::malformed("the skeleton is too short"));
            }
            parts.push(Box::new(Bones { skeleton: Arc::clone(&skeleton), start: taken, length }));
            taken = end;
        }
        Ok(())
    };
    for piece in &description.pieces {
        fill(&mut parts, piece.offset - position)?;
        position = piece.offset + piece.length;
        let part = Stored { files: Arc::clone(&archive), component: object(&piece.object)? };
        if part.length() != piece.length {
            return Err(Error::malformed(format!(
                "a piece of {} bytes is stored as {}",
                piece.length,
                part.length()
            )));
        }
        parts.push(Box::new(part));
    }
    fill(&mut parts, description.length - position)?;
    if taken != skeleton.len() as u64 {
        return Err(Error::malformed("the skeleton is too long"));
    }
    let path = files.first().and_then(|file| file.path()).map(original_path);
    Ok(Source::from_assembly(Assembly::new(parts)?, path.as_deref()))
}

/// Where the original would lie: formats that name a tensor after the file see the original's name.
fn original_path(archive: &Path) -> PathBuf {
    match archive.extension() {
        Some(extension) if extension == "zstn" => archive.with_extension(""),
        _ => archive.to_path_buf(),
    }
}

/// Bytes that belong to no tensor.
struct Bones {
    skeleton: Arc<[u8]>,
    start: u64,
    length: u64,
}

impl Piece for Bones {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let from = (self.start + start) as usize;
        out.copy_from_slice(&self.skeleton[from..from + out.len()]);
        Ok(())
    }
}

/// An object of the archive.
struct Stored {
    files: Arc<Vec<Arc<Source>>>,
    component: Component,
}

impl Piece for Stored {
    fn length(&self) -> u64 {
        self.component.length
    }

    fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        match out.len() as u64 == self.component.length {
            true => decode::read_into(&self.files, &self.component, out),
            false => decode::range_into(&self.files, &self.component, start, out),
        }
    }
}
