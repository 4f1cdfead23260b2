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

/// A dataset that was read.
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
    ) -> Result<Dataset> {
        let Found { values, unread } = attributes.read(image, budget, header)?;
        let tensor = match dataset::tensor(image, budget, header, values) {
            Err(error) if error.kind() != Kind::Unsupported => return Err(error),
            tensor => tensor,
        };
        Ok(Dataset { tensor, unread, references: header.references })
    }
}

/// What was read ahead of the members of one group, by their places among those that wait.
pub(super) struct Ahead {
    first: usize,
    tasks: Vec<Vec<Option<Result<Dataset>>>>,
}

impl Ahead {
    /// Reads those of the objects from `first` on that are datasets, if they are many. What is not one, has several names, or a header that cannot be
    /// read, is left for the walk to look at, and to report, in its turn.
    pub fn read(
        image: &Image<'_>,
        budget: &mut Budget,
        waiting: &[Waiting],
        first: usize,
    ) -> Result<Option<Ahead>> {
        let objects = waiting.get(first..).unwrap_or_default();
        if objects.len() < FEWEST {
            return Ok(None);
        }
        let tasks = rounds::work(image, budget, objects.chunks(TASK), |image, budget, objects| {
            let mut attributes = AttributeReader::new();
            let mut header = ObjectHeader::default();
            let mut read = |next: &Waiting| {
                header.reread(image, next.address).ok()?;
                (header.references == 1 && dataset::is_dataset(&header))
                    .then(|| Dataset::read(image, budget, &mut attributes, &header))
            };
            objects.iter().map(&mut read).collect()
        })?;
        Ok(Some(Ahead { first, tasks }))
    }

    /// Whether an object that waited at a place is one of these.
    pub fn covers(&self, place: usize) -> bool {
        place >= self.first
    }

    /// The dataset that waited at a place, if it was read.
    pub fn take(&mut self, place: usize) -> Option<Result<Dataset>> {
        let place = place.checked_sub(self.first)?;
        self.tasks.get_mut(place / TASK)?.get_mut(place % TASK)?.take()
    }
}
