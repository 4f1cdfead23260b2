//! Sections with copies: stretches of the data that repeat others, put back after the blocks have been
//! decoded.

use super::section::Section;
use crate::arch::memory;
use crate::block::BlockContext;
use crate::error::Result;
use crate::threads;
use std::ops::Range;

/// Decodes `range` of a section with copies into `out`: first the blocks that it needs, each once, then the
/// stretches that it is made of.
pub(super) fn restore_copies(
    section: &Section,
    context: &BlockContext,
    range: Range<usize>,
    out: &mut [u8],
) -> Result<()> {
    if out.len() == section.length {
        return restore_in_place(section, context, out);
    }
    let needed = section.needed(range.clone());
    let mut originals = memory::zeroed(section.original_length)?;
    let blocks = originals.chunks_mut(section.block_length).enumerate();
    let blocks: Vec<_> = blocks.filter(|(index, _)| needed.get(*index) == Some(&true)).collect();
    let results = threads::map(blocks.into_iter(), |(index, target)| context.decode(section, index, target));
    results.into_iter().collect::<Result<()>>()?;
    let mut rest = out;
    for source in section.sources(range) {
        let (target, after) = rest.split_at_mut(source.len().min(rest.len()));
        target.copy_from_slice(originals.get(source).unwrap_or_default());
        rest = after;
    }
    Ok(())
}

/// Decodes all of a section with copies: the originals to the front of `out`, from where they are moved to
/// their places, the last ones first, and copied.
fn restore_in_place(section: &Section, context: &BlockContext, out: &mut [u8]) -> Result<()> {
    let originals = out.get_mut(..section.original_length).unwrap_or_default();
    let blocks = originals.chunks_mut(section.block_length).enumerate();
    let results = threads::map(blocks, |(index, target)| context.decode(section, index, target));
    results.into_iter().collect::<Result<()>>()?;
    // Where the originals between copies begin, and by how much they move.
    let (mut gaps, mut original, mut moved) = (Vec::with_capacity(section.copies.len() + 1), 0, 0);
    for copy in &section.copies {
        gaps.push((original, moved));
        original += copy.gap;
        moved += copy.length;
    }
    gaps.push((original, moved));
    let mut end = section.original_length;
    for &(start, moved) in gaps.iter().rev() {
        out.copy_within(start..end, start + moved);
        end = start;
    }
    for (copy, &(start, moved)) in section.copies.iter().zip(&gaps) {
        let mut target = start + moved + copy.gap;
        let mut source = copy.source..copy.source + copy.length;
        // The source may span several gaps.
        while !source.is_empty() {
            let gap = gaps.partition_point(|gap| gap.0 <= source.start);
            let end = gaps.get(gap).map_or(source.end, |next| next.0.min(source.end));
            let moved = gaps[gap - 1].1;
            out.copy_within(source.start + moved..end + moved, target);
            target += end - source.start;
            source.start = end;
        }
    }
    Ok(())
}
