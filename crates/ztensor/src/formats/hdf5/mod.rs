//! HDF5, and with it Keras: groups of datasets with attributes, in all the generations of the format that h5py writes. The reader is
//! strict, works from byte ranges and never recurses over what the file says; `walk` is the way through a file.

mod ahead;
mod attributes;
mod checksum;
mod chunks;
mod cursor;
mod dataset;
mod external_links;
mod group;
mod header;
mod heap;
mod image;
mod keras;
mod message;
mod rounds;
mod soft_links;
mod superblock;
mod tree;
mod walk;

use std::sync::Arc;

use self::external_links::Followed;
use self::image::Image;
use self::superblock::Superblock;
use super::{Input, zip};
use crate::error::{Error, Result};
use crate::index::{FileId, Format, Index};
use crate::source::headers::HeaderReader;

/// The signature at the start or behind a short user block; or a Keras archive.
pub(crate) fn matches(head: &[u8], input: &Input) -> bool {
    if zip::matches(head) {
        return keras::matches(&input.source());
    }
    superblock::is_in_head(head)
}

/// The signature behind a user block of any size. Looking for it touches pages all over the file, so every other format is asked first.
pub(crate) fn matches_behind_user_block(_head: &[u8], input: &Input) -> bool {
    let source = input.source();
    superblock::find(&source, 0, source.len()).is_some()
}

/// Indexes an HDF5 file or a Keras archive.
pub(crate) fn index(input: &mut Input) -> Result<Index> {
    let source = input.source();
    if zip::matches(&source.bytes(0, source.len().min(8))?) {
        return keras::index(input);
    }
    index_within(input, FileId(0), 0, source.len())
}

/// Indexes the HDF5 file that lies in `[start, end)` of an opened file.
fn index_within(input: &mut Input, file: FileId, start: u64, end: u64) -> Result<Index> {
    index_file(input, &mut Followed::default(), file, start, end)
}

fn index_file(
    input: &mut Input,
    followed: &mut Followed,
    file: FileId,
    start: u64,
    end: u64,
) -> Result<Index> {
    let source = Arc::clone(input.file(file)?);
    source.check(start, end.saturating_sub(start))?;
    let place = superblock::find(&source, start, end)
        .ok_or_else(|| Error::malformed("there is no HDF5 signature").with_offset(start))?;
    let start = start + place;
    let superblock = Superblock::read(&source, start, end)?;
    if superblock.length > end - start {
        return Err(Error::truncated(format!(
            "the file says it is {} bytes long, but it has {}",
            superblock.length,
            end - start
        ))
        .with_offset(start));
    }
    let mut index = Index::new(Format::Hdf5, superblock.version.to_string());
    let headers = HeaderReader::new(&source);
    let image = Image::new(&headers, file, start, end, superblock.widths);
    let links = walk::Walk::new(&image, &mut input.budget, &mut index).run(superblock.root)?;
    followed.follow(input, &mut index, file, links.external)?;
    // A path in this file may lead through another one, so these come last.
    links.soft.resolve(&image, &mut input.budget, &mut index, &links.groups)?;
    Ok(index)
}
