//! Reading the datasets of a large group before they are listed, on all cores.

use super::attributes::{AttributeReader, Found};
use super::header::ObjectHeader;
use super::image::Image;
use super::walk::Waiting;
use super::{dataset, rounds};
use crate::error::{Error, Kind, Result};
use crate::index::Object;
use crate::limits::Budget;

/// Smaller groups are not worth it.
const FEWEST: usize = 64;
/// Objects that one task reads.
const TASK: usize = 256;

/// A dataset that was read. It is handed round in a box, being large.
pub(super) struct Dataset {
    /// The tensor, or why it cannot be read.
    pub tensor: std::result::Result<Object, Error>,
    /// Names and reasons of attributes that were not read.
    pub unread: Vec<(String, String)>,
    pub references: u32,
}

impl Dataset {
    /// Reads the dataset that a header describes.
    pub fn read<'a>(
        image: &Image<'a>,
        budget: &mut Budget,
        attributes: &mut AttributeReader<'a>,
        header: &ObjectHeader<'a>,
    ) -> Result<Box<Dataset>> {
        let Found { values, unread } = attributes.read(image, budget, header)?;
        let tensor = match dataset::tensor(image, budget, header, values) {
            Err(error) if error.kind() != Kind::Unsupported => return Err(error),
            tensor => tensor,
        };
        Ok(Box::new(Dataset { tensor, unread, references: header.references }))
    }
}

/// Reads those of the objects that are datasets. What is not one, has several names, or a header that cannot be read, is left for the walk to look
/// at, and to report, in its turn.
pub(super) fn read(image: &Image<'_>, budget: &mut Budget, objects: &mut [Waiting]) -> Result<()> {
    if objects.len() < FEWEST {
        return Ok(());
    }
    rounds::work(image, budget, objects.chunks_mut(TASK), |image, budget, objects| {
        let mut attributes = AttributeReader::new();
        let mut header = ObjectHeader::default();
        // The last one in is the first one out, so this is the order of the listing, which is mostly that of the file.
        for next in objects.iter_mut().rev() {
            if header.reread(image, next.address).is_ok()
                && header.references == 1
                && dataset::is_dataset(&header)
            {
                next.dataset = Some(Dataset::read(image, budget, &mut attributes, &header));
            }
        }
    })?;
    Ok(())
}
