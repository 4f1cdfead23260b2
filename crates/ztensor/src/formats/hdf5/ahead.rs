//! Reading the datasets of a large group before they are listed: in the order in which their headers lie in the file, because those that lie side
//! by side are read at once, and on all cores.

use super::attributes::{AttributeReader, Found};
use super::header::ObjectHeader;
use super::image::Image;
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

/// Reads those of the objects that are datasets, given by address and number. What is not one, or has a header that cannot be read, is left for
/// the walk to look at, and to report, in its turn.
pub(super) fn read(
    image: &Image<'_>,
    budget: &mut Budget,
    mut objects: Vec<(u64, usize)>,
) -> Result<Vec<(usize, Result<Box<Dataset>>)>> {
    if objects.len() < FEWEST {
        return Ok(Vec::new());
    }
    objects.sort_unstable();
    // An object of several names is read once; the walk finds it for the others.
    objects.dedup_by_key(|(address, _)| *address);
    let found = rounds::work(image, budget, &objects, TASK, |image, budget, objects| {
        let mut attributes = AttributeReader::new();
        let mut header = ObjectHeader::default();
        let mut found = Vec::with_capacity(objects.len());
        for &(address, number) in objects {
            if header.reread(image, address).is_ok() && dataset::is_dataset(&header) {
                found.push((number, Dataset::read(image, budget, &mut attributes, &header)));
            }
        }
        found
    })?;
    Ok(found.into_iter().flatten().collect())
}
