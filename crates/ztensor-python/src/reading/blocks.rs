//! Decoding into memory of our own: which component goes into which block, and the work of filling them, in file order, on all cores,
//! without the interpreter lock.

use pyo3::prelude::*;
use rayon::prelude::*;
use z4ai::pages;
use ztensor::Error;
use ztensor::index::Component;

use crate::errors::{OrRaise, to_python};
use crate::memory::Block;
use crate::reading::booleans;
use crate::work::Work;

/// Components below this size share a block.
const SMALL: usize = 1 << 20;
/// Size of a shared block.
const SHARED: usize = 4 << 20;
/// Alignment inside shared blocks: a cache line, and what every SIMD load wants.
const ALIGNMENT: usize = 64;
/// Bytes to decode before Python may handle signals, so that Ctrl-C is not ignored for long.
const BATCH: usize = 256 << 20;

/// One component that is wanted.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) role: &'a str,
    pub(crate) component: &'a Component,
}

/// Where a component lies: the number of its block, and the offset there.
pub(crate) type Place = (usize, usize);

/// Decodes components into fresh blocks. Returns the blocks and the place of each component.
pub(crate) fn fill(
    py: Python<'_>,
    reader: &ztensor::Reader,
    wanted: &[&Wanted<'_>],
) -> PyResult<(Vec<Block>, Vec<Place>)> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&number| wanted[number].component.data.first_span());

    let mut packing = Packing::default();
    let mut places = vec![(0, 0); wanted.len()];
    for &number in &order {
        let Wanted { component, name, role } = *wanted[number];
        reader.check_proportion(name, role).or_raise()?;
        let length = usize::try_from(component.length).map_err(|_| {
            to_python(&Error::malformed("the tensor is larger than the address space").with_tensor(name))
        })?;
        places[number] = packing.place(number, length);
    }

    let mut blocks: Vec<Block> =
        packing.blocks.iter().map(|plan| Block::new(plan.size)).collect::<ztensor::Result<_>>().or_raise()?;
    // Small components are filled in any order, each less than what is brought in at once.
    let shared = blocks.iter_mut().zip(&packing.blocks).filter(|(_, plan)| plan.slots.len() > 1);
    let mut shared: Vec<&mut Block> = shared.map(|(block, _)| block).collect();
    py.work(|| shared.par_iter_mut().for_each(|block| pages::bring(block.bytes())));
    let mut tasks = Vec::with_capacity(wanted.len());
    for (block, plan) in blocks.iter_mut().zip(&packing.blocks) {
        let mut rest = block.bytes();
        for slot in &plan.slots {
            let (target, tail) = rest.split_at_mut(slot.length.next_multiple_of(ALIGNMENT));
            tasks.push((wanted[slot.number], &mut target[..slot.length]));
            rest = tail;
        }
    }
    decode(py, reader, tasks)?;
    Ok((blocks, places))
}

/// Decodes components into the memory given for each, in batches between which Python may handle signals.
pub(crate) fn decode(
    py: Python<'_>,
    reader: &ztensor::Reader,
    tasks: Vec<(&Wanted<'_>, &mut [u8])>,
) -> PyResult<()> {
    reader.announce(tasks.iter().map(|(wanted, _)| wanted.component));
    let mut tasks = tasks.into_iter().peekable();
    while tasks.peek().is_some() {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(task) = tasks.next_if(|(_, target)| bytes == 0 || bytes + target.len() <= BATCH) {
            bytes += task.1.len();
            batch.push(task);
        }
        let work = || {
            let decode = |(wanted, target): (&Wanted<'_>, &mut [u8])| {
                reader.component_into(wanted.name, wanted.role, target)?;
                booleans::normalise(&wanted.component.element, target);
                Ok(())
            };
            // What comes over a network comes in order.
            if reader.is_remote() {
                batch.into_iter().par_bridge().try_for_each(decode)
            } else {
                batch.into_par_iter().try_for_each(decode)
            }
        };
        py.working(reader.is_remote(), work)?;
        py.check_signals()?;
    }
    Ok(())
}

/// Which component lies where, before there is memory.
#[derive(Default)]
struct Packing {
    blocks: Vec<Plan>,
    /// The shared block that still has room.
    shared: Option<usize>,
}

#[derive(Default)]
struct Plan {
    size: usize,
    slots: Vec<Slot>,
}

struct Slot {
    number: usize,
    length: usize,
}

impl Packing {
    /// Finds a place for a component.
    fn place(&mut self, number: usize, length: usize) -> Place {
        let open =
            self.shared.filter(|&shared| length < SMALL && self.blocks[shared].size + length <= SHARED);
        let block = open.unwrap_or_else(|| {
            self.blocks.push(Plan::default());
            self.blocks.len() - 1
        });
        if length < SMALL {
            self.shared = Some(block);
        }
        let plan = &mut self.blocks[block];
        let offset = plan.size;
        plan.size += length.next_multiple_of(ALIGNMENT);
        plan.slots.push(Slot { number, length });
        (block, offset)
    }
}
