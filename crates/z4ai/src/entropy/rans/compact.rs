//! Encoder tables of few symbols, small enough for the registers of a CPU: one instruction then looks up as
//! many symbols as a register holds.

use crate::entropy::table::{EncoderSymbol, SYMBOLS};

/// Symbols that a table has room for, and those of a half.
pub(crate) const COMPACT_ROOM: usize = 2 * COMPACT_HALF;
pub(crate) const COMPACT_HALF: usize = 64;
/// The symbols of the escapes of floats, one for each value of the two mantissa bits. Every table has them,
/// since they are far from all other symbols.
pub(crate) const ESCAPE_SYMBOLS: usize = 4;

/// The entries of one context.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct CompactTable {
    /// The words of which an [`EncoderSymbol`] consists, the lower one of each pair first: of its fields, and
    /// of its reciprocal.
    pub words: [[u16; COMPACT_ROOM]; 4],
}

/// The entries of all contexts.
#[derive(Debug)]
pub(crate) struct CompactTables {
    /// As many as there are contexts, a power of two.
    pub tables: Vec<CompactTable>,
    /// Symbols from [`Self::ESCAPE_SYMBOLS`] on are this much further to the front.
    pub moved: u16,
    /// Whether all symbols are in the first half.
    pub is_half: bool,
    /// The first halves of four tables, if they have all symbols.
    pub planes: Option<Box<CompactPlanes>>,
}

/// The entries of four contexts with half a table each, by the byte: of the fields, the lowest first, then of
/// the reciprocal.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct CompactPlanes(pub [[u8; PLANE]; 8]);

/// Entries of all contexts.
const PLANE: usize = COMPACT_CONTEXTS * COMPACT_HALF;
pub(crate) const COMPACT_CONTEXTS: usize = 4;

impl CompactPlanes {
    fn new(tables: &[CompactTable; COMPACT_CONTEXTS]) -> Self {
        let mut planes = [[0; PLANE]; 8];
        for (context, table) in tables.iter().enumerate() {
            for (planes, words) in planes.chunks_exact_mut(2).zip(&table.words) {
                for (place, word) in words[..COMPACT_HALF].iter().enumerate() {
                    let bytes = word.to_le_bytes();
                    planes[0][context * COMPACT_HALF + place] = bytes[0];
                    planes[1][context * COMPACT_HALF + place] = bytes[1];
                }
            }
        }
        Self(planes)
    }
}

impl CompactTables {
    pub const ESCAPE_SYMBOLS: u16 = ESCAPE_SYMBOLS as u16;

    /// The tables with these entries, [`SYMBOLS`] for each context, if their symbols are few.
    pub fn new(entries: &[EncoderSymbol]) -> Option<Self> {
        let (contexts, _) = entries.as_chunks::<SYMBOLS>();
        let occurs = |symbol: &usize| contexts.iter().any(|entries| entries[*symbol].frequency() > 0);
        let first = (ESCAPE_SYMBOLS..SYMBOLS).find(occurs).unwrap_or(ESCAPE_SYMBOLS);
        let last = (ESCAPE_SYMBOLS..SYMBOLS).rfind(occurs).unwrap_or(ESCAPE_SYMBOLS);
        if last - first >= COMPACT_ROOM - ESCAPE_SYMBOLS {
            return None;
        }
        let table = |entries: &[EncoderSymbol; SYMBOLS]| {
            let mut words = [[0; COMPACT_ROOM]; 4];
            for (place, symbol) in (0..ESCAPE_SYMBOLS).chain(first..=last).enumerate() {
                let EncoderSymbol { fields, reciprocal } = entries[symbol];
                words[0][place] = fields as u16;
                words[1][place] = (fields >> 16) as u16;
                words[2][place] = reciprocal as u16;
                words[3][place] = (reciprocal >> 16) as u16;
            }
            CompactTable { words }
        };
        let tables: Vec<CompactTable> = contexts.iter().map(table).collect();
        let is_half = last - first < COMPACT_HALF - ESCAPE_SYMBOLS;
        let all = <&[CompactTable; COMPACT_CONTEXTS]>::try_from(&tables[..]).ok().filter(|_| is_half);
        let planes = all.map(|tables| Box::new(CompactPlanes::new(tables)));
        Some(Self { tables, moved: (first - ESCAPE_SYMBOLS) as u16, is_half, planes })
    }
}
