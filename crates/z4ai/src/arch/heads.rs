//! What kernels make the heads of floats from, besides the entropy-coded symbols.

use crate::entropy::rans::DecoderTables;
use crate::transform::float::scale::{STEPS, Segment};

/// Where the bits of a head come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadFormat {
    /// Mantissa bits that are stored verbatim.
    pub low_mantissa: u32,
    pub sign: Sign,
}

/// Where the sign of a head comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// It is stored verbatim, above the mantissa bits.
    Stored,
    /// All have the same; `true` is negative.
    Constant(bool),
}

/// What the heads of a chunk are made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadInputs<'a> {
    pub format: HeadFormat,
    pub expected: Expected<'a>,
    /// The verbatim bits.
    pub packed: &'a [u8],
}

/// What is expected of the heads of a chunk: one for each, or for each group of [`LANES`](crate::entropy::rans::LANES).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    /// What is added to symbols: whole octaves, above a zero for each mantissa bit of a symbol.
    octaves: &'a [i16],
    /// Where in a table's slots the context of each begins; empty if there is one context.
    offsets: &'a [u16],
    by_group: bool,
    /// Where the slots of the last context would end.
    slots: usize,
}

impl<'a> Expected<'a> {
    /// From the scales of as many elements, or groups, as there are octaves to be written; `centre` octaves are taken away. The fraction of a scale is the context,
    /// if the tables have contexts.
    #[inline(always)]
    pub fn new<'s>(
        scales: impl Iterator<Item = Segment<'s>>,
        by_group: bool,
        centre: i16,
        tables: &DecoderTables,
        octaves: &'a mut [i16],
        offsets: &'a mut [u16],
    ) -> Self {
        const FRACTION: i16 = STEPS as i16 - 1;
        let precision = tables.precision();
        let slots = (STEPS as usize) << precision;
        let offsets = if tables.slots().len() == slots { &mut offsets[..octaves.len()] } else { &mut [] };
        let octave = |scale: i16| (scale & !FRACTION) - centre * STEPS as i16;
        let offset = |scale: i16| ((scale & FRACTION) as u16) << precision;
        let mut start = 0;
        for Segment { length, base, columns } in scales {
            let octaves = octaves.get_mut(start..start + length).unwrap_or_default();
            let offsets = offsets.get_mut(start..start + length).unwrap_or_default();
            start += length;
            if columns.is_empty() {
                octaves.fill(octave(base));
                offsets.fill(offset(base));
                continue;
            }
            // In two loops if there are contexts, since each of them then has one thing to write.
            for (target, &column) in octaves.iter_mut().zip(columns) {
                *target = octave(base + i16::from(column));
            }
            for (target, &column) in offsets.iter_mut().zip(columns) {
                *target = offset(base + i16::from(column));
            }
        }
        // Kernels rely on what follows from the tables; there are no more elements than scales.
        offsets.iter_mut().skip(start).for_each(|offset| *offset = 0);
        Self { octaves, offsets, by_group, slots }
    }

    pub fn octaves(&self) -> &'a [i16] {
        self.octaves
    }

    pub fn offsets(&self) -> &'a [u16] {
        self.offsets
    }

    pub fn by_group(&self) -> bool {
        self.by_group
    }

    /// The slots that offsets may lead to.
    pub fn slots(&self) -> usize {
        self.slots
    }
}
