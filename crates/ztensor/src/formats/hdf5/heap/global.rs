//! Global heaps: collections of byte strings that attributes point into. A collection is taken apart once and kept, because the
//! attributes of a file usually share a few.

use std::collections::HashMap;

use super::super::image::Image;
use crate::error::{Error, Result};
use crate::limits::Budget;
use crate::source::headers::Piece;

/// What one object costs in the table of its collection.
const OBJECT_COST: u64 = 48;

/// The collections read so far.
#[derive(Default)]
pub(in super::super) struct GlobalHeaps<'a> {
    collections: HashMap<u64, Collection<'a>>,
}

struct Collection<'a> {
    bytes: Piece<'a>,
    /// Start and length of each object.
    objects: HashMap<u16, (usize, usize)>,
}

impl<'a> GlobalHeaps<'a> {
    /// The bytes of one object.
    pub fn object(
        &mut self,
        image: &Image<'a>,
        budget: &mut Budget,
        address: u64,
        number: u32,
    ) -> Result<&[u8]> {
        let collection = match self.collections.entry(address) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(Collection::read(image, budget, address)?)
            }
        };
        let range = u16::try_from(number).ok().and_then(|number| collection.objects.get(&number));
        let bytes = range.and_then(|&(start, length)| collection.bytes.get(start..)?.get(..length));
        let bytes = bytes.ok_or_else(|| {
            Error::malformed(format!("the global heap has no object {number}"))
                .with_offset(image.offset(address))
        })?;
        image.charge(bytes.len() as u64)?;
        Ok(bytes)
    }
}

impl<'a> Collection<'a> {
    fn read(image: &Image<'a>, budget: &mut Budget, address: u64) -> Result<Collection<'a>> {
        let head = image.read(address, (8 + image.widths.length) as u64)?;
        let mut cursor = image.cursor(&head, address, "global heap");
        cursor.signature(b"GCOL")?;
        cursor.version(1..=1)?;
        cursor.skip(3)?;
        let length = cursor.length()?;
        let bytes = image.read(address, length)?;
        let mut cursor = image.cursor(&bytes, address, "global heap");
        cursor.skip(head.len())?;

        let mut objects = HashMap::new();
        while cursor.rest().len() >= 8 + image.widths.length {
            let number = cursor.u16()?;
            cursor.skip(6)?;
            let length = cursor.length()?;
            // Object 0 is the free space that closes the collection.
            if number == 0 {
                break;
            }
            let length = usize::try_from(length).map_err(|_| cursor.error("an object is too long"))?;
            let start = cursor.position();
            cursor.skip(length)?;
            cursor.align();
            budget.charge(OBJECT_COST)?;
            if objects.insert(number, (start, length)).is_some() {
                return Err(cursor.error("an object's number occurs twice"));
            }
        }
        Ok(Collection { bytes, objects })
    }
}
