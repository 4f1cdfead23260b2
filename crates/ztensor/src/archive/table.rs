//! The table of an archive: for every piece of the original how its bytes are stored. Kept apart from the manifest, in a few bytes per piece,
//! because models with thousands of small tensors would otherwise pay more for the index than for the tensors. `spec/archive.md` has the bytes.

use std::collections::BTreeSet;

use super::description::damaged;
use crate::error::Result;
use crate::recipe::Recipe;

/// How the pieces of the original are stored, and which tensors of a base they refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub pieces: Vec<PieceEntry>,
    /// Tensors of the base, by the numbers that pieces use. Empty in an archive that stands by itself.
    pub base: Vec<BaseTensor>,
}

/// A run of the original's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PieceEntry {
    /// Bytes of the skeleton that come before it.
    pub gap: u64,
    /// Bytes of the original.
    pub length: u64,
    pub stored: Stored,
}

/// How a piece is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// As it is, with its checksum.
    Raw { crc32c: u32 },
    /// As a z4ai frame of so many bytes.
    Frame { length: u64 },
    /// Not at all: it equals an earlier piece.
    Twin { piece: usize },
    /// Not at all: it equals a tensor of the base, whose digest is here.
    Copy { tensor: usize, digest: [u8; 16] },
    /// As a z4ai delta of so many bytes against a tensor of the base.
    Delta { tensor: usize, length: u64 },
    /// As a z4ai delta of so many bytes against what a recipe makes of its operands.
    Derived { recipe: Vec<u8>, operands: Vec<OperandEntry>, length: u64 },
}

/// What a recipe is applied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OperandEntry {
    /// A tensor of the base.
    Base { tensor: usize },
    /// Another piece, which refers to no pieces itself.
    Piece { piece: usize },
    /// So many bytes, stored with the piece as a z4ai frame.
    Frame { length: u64, stored: u64 },
}

/// A component of a tensor in a base.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BaseTensor {
    /// The number of the base.
    pub base: usize,
    /// The tensor.
    pub name: String,
    /// The component.
    pub role: String,
}

const RAW: u8 = 0;
const FRAME: u8 = 1;
const TWIN: u8 = 2;
const COPY: u8 = 3;
const DELTA: u8 = 4;
const DERIVED: u8 = 5;

const OF_BASE: u8 = 0;
const OF_PIECE: u8 = 1;
const OF_FRAME: u8 = 2;

impl Stored {
    /// Bytes the piece takes in the archive.
    pub(crate) fn length(&self, decoded: u64) -> u64 {
        match self {
            Stored::Raw { .. } => decoded,
            Stored::Frame { length } | Stored::Delta { length, .. } => *length,
            Stored::Twin { .. } | Stored::Copy { .. } => 0,
            Stored::Derived { operands, length, .. } => {
                let frames = operands.iter().map(|operand| match operand {
                    OperandEntry::Frame { stored, .. } => *stored,
                    OperandEntry::Base { .. } | OperandEntry::Piece { .. } => 0,
                });
                frames.fold(*length, u64::saturating_add)
            }
        }
    }

    /// Whether it is made of another piece.
    pub(crate) fn refers_to_pieces(&self) -> bool {
        match self {
            Stored::Derived { operands, .. } => {
                operands.iter().any(|operand| matches!(operand, OperandEntry::Piece { .. }))
            }
            _ => false,
        }
    }
}

impl Table {
    /// The bytes of a table that refers to so many bases.
    pub(crate) fn encode(&self, bases: usize) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.base.len() as u64);
        for tensor in &self.base {
            if bases > 1 {
                put_varint(&mut out, tensor.base as u64);
            }
            for text in [&tensor.name, &tensor.role] {
                put_varint(&mut out, text.len() as u64);
                out.extend_from_slice(text.as_bytes());
            }
        }
        put_varint(&mut out, self.pieces.len() as u64);
        for piece in &self.pieces {
            put_varint(&mut out, piece.gap);
            put_varint(&mut out, piece.length);
            match &piece.stored {
                Stored::Raw { crc32c } => {
                    out.push(RAW);
                    out.extend_from_slice(&crc32c.to_le_bytes());
                }
                Stored::Frame { length } => {
                    out.push(FRAME);
                    put_varint(&mut out, *length);
                }
                Stored::Twin { piece } => {
                    out.push(TWIN);
                    put_varint(&mut out, *piece as u64);
                }
                Stored::Copy { tensor, digest } => {
                    out.push(COPY);
                    put_varint(&mut out, *tensor as u64);
                    out.extend_from_slice(digest);
                }
                Stored::Delta { tensor, length } => {
                    out.push(DELTA);
                    put_varint(&mut out, *tensor as u64);
                    put_varint(&mut out, *length);
                }
                Stored::Derived { recipe, operands, length } => {
                    out.push(DERIVED);
                    put_varint(&mut out, recipe.len() as u64);
                    out.extend_from_slice(recipe);
                    put_varint(&mut out, operands.len() as u64);
                    operands.iter().for_each(|operand| operand.encode(&mut out));
                    put_varint(&mut out, *length);
                }
            }
        }
        out
    }

    /// Reads a table and checks that twins and base tensors exist. Lengths are checked where they are used.
    pub(crate) fn decode(bytes: &[u8], bases: usize) -> Result<Table> {
        let mut cursor = Cursor { rest: bytes };
        let mut table = Table::default();
        for _ in 0..cursor.varint()? {
            let base = match bases {
                0 | 1 => Some(0),
                _ => usize::try_from(cursor.varint()?).ok().filter(|base| *base < bases),
            };
            let base = base.ok_or_else(|| damaged("a tensor is of a base that is not listed"))?;
            table.base.push(BaseTensor { base, name: cursor.text()?, role: cursor.text()? });
        }
        for number in 0..cursor.varint()? {
            let (gap, length) = (cursor.varint()?, cursor.varint()?);
            let tensor = |cursor: &mut Cursor<'_>| {
                let number = cursor.varint()?;
                let known = usize::try_from(number).ok().filter(|number| *number < table.base.len());
                known.ok_or_else(|| damaged("a piece refers to a tensor that is not listed"))
            };
            let stored = match cursor.array::<1>()? {
                [RAW] => Stored::Raw { crc32c: u32::from_le_bytes(cursor.array()?) },
                [FRAME] => Stored::Frame { length: cursor.varint()? },
                [TWIN] => {
                    let twin = usize::try_from(cursor.varint()?).ok();
                    let known = twin.and_then(|twin| Some((twin, table.pieces.get(twin)?)));
                    match known {
                        Some((piece, PieceEntry { stored, length: other, .. }))
                            if *other == length && !matches!(stored, Stored::Twin { .. }) =>
                        {
                            Stored::Twin { piece }
                        }
                        _ => return Err(damaged(&format!("piece {number} has no twin"))),
                    }
                }
                [COPY] => Stored::Copy { tensor: tensor(&mut cursor)?, digest: cursor.array()? },
                [DELTA] => Stored::Delta { tensor: tensor(&mut cursor)?, length: cursor.varint()? },
                [DERIVED] => {
                    let size =
                        usize::try_from(cursor.varint()?).ok().filter(|size| *size <= Recipe::MOST_BYTES);
                    let size = size.ok_or_else(|| damaged("a recipe is too long"))?;
                    let recipe = cursor.take(size)?.to_vec();
                    let count = cursor.varint()?;
                    if count > Recipe::MOST_OPERANDS as u64 {
                        return Err(damaged("a recipe has too many operands"));
                    }
                    let operands = (0..count).map(|_| OperandEntry::decode(&mut cursor, &tensor));
                    let operands = operands.collect::<Result<Vec<_>>>()?;
                    Stored::Derived { recipe, operands, length: cursor.varint()? }
                }
                [other] => return Err(damaged(&format!("a piece is stored in an unknown way ({other})"))),
            };
            table.pieces.push(PieceEntry { gap, length, stored });
        }
        if !cursor.rest.is_empty() {
            return Err(damaged("bytes follow the table"));
        }
        table.check_operands()?;
        Ok(table)
    }

    /// Pieces that others are made of exist, and are made of no pieces themselves: nothing goes round in circles.
    fn check_operands(&self) -> Result<()> {
        for entry in &self.pieces {
            let Stored::Derived { operands, .. } = &entry.stored else { continue };
            for operand in operands {
                let OperandEntry::Piece { piece } = operand else { continue };
                let of = match self.pieces.get(*piece).map(|entry| &entry.stored) {
                    Some(Stored::Twin { piece }) => self.pieces.get(*piece).map(|entry| &entry.stored),
                    stored => stored,
                };
                if of.is_none_or(Stored::refers_to_pieces) {
                    return Err(damaged(
                        "a piece is made of one that does not exist, or that is made of another",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Numbers the bases that tensors are of from 0 on without gaps, in their order. Returns the numbers that they had.
    pub(crate) fn renumber_bases(&mut self) -> BTreeSet<usize> {
        let used: BTreeSet<usize> = self.base.iter().map(|tensor| tensor.base).collect();
        for tensor in &mut self.base {
            tensor.base = used.range(..tensor.base).count();
        }
        used
    }

    /// Whether a reader has to know recipes.
    pub(crate) fn has_recipes(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece.stored, Stored::Derived { .. }))
    }
}

impl OperandEntry {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            OperandEntry::Base { tensor } => {
                out.push(OF_BASE);
                put_varint(out, *tensor as u64);
            }
            OperandEntry::Piece { piece } => {
                out.push(OF_PIECE);
                put_varint(out, *piece as u64);
            }
            OperandEntry::Frame { length, stored } => {
                out.push(OF_FRAME);
                put_varint(out, *length);
                put_varint(out, *stored);
            }
        }
    }

    fn decode<'a>(
        cursor: &mut Cursor<'a>,
        tensor: &impl Fn(&mut Cursor<'a>) -> Result<usize>,
    ) -> Result<OperandEntry> {
        Ok(match cursor.array::<1>()? {
            [OF_BASE] => OperandEntry::Base { tensor: tensor(cursor)? },
            [OF_PIECE] => {
                OperandEntry::Piece { piece: usize::try_from(cursor.varint()?).unwrap_or(usize::MAX) }
            }
            [OF_FRAME] => OperandEntry::Frame { length: cursor.varint()?, stored: cursor.varint()? },
            [other] => return Err(damaged(&format!("an operand is stored in an unknown way ({other})"))),
        })
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| damaged("the table is cut off"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.first_chunk().copied().ok_or_else(|| damaged("the table is cut off"))
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..u64::BITS).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            if bits.checked_shl(shift).map(|shifted| shifted >> shift) != Some(bits) {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged("a number in the table is too large"))
    }

    fn text(&mut self) -> Result<String> {
        let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        let text = std::str::from_utf8(self.take(length)?);
        text.map(str::to_owned).map_err(|_| damaged("a name in the table is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let piece = |gap, length, stored| PieceEntry { gap, length, stored };
        Table {
            pieces: vec![
                piece(8, 300, Stored::Frame { length: 211 }),
                piece(0, 4, Stored::Raw { crc32c: 0xdead_beef }),
                piece(1 << 40, 300, Stored::Twin { piece: 0 }),
                piece(0, u64::MAX, Stored::Copy { tensor: 1, digest: [9; 16] }),
                piece(3, 77, Stored::Delta { tensor: 0, length: 12 }),
                piece(
                    0,
                    9,
                    Stored::Derived {
                        recipe: vec![0x80],
                        operands: vec![
                            OperandEntry::Base { tensor: 1 },
                            OperandEntry::Piece { piece: 2 },
                            OperandEntry::Frame { length: 300, stored: 20 },
                        ],
                        length: 14,
                    },
                ),
            ],
            base: vec![
                BaseTensor { base: 0, name: "layer.weight".into(), role: "data".into() },
                BaseTensor { base: 0, name: "größe".into(), role: "values".into() },
            ],
        }
    }

    #[test]
    fn a_table_survives() {
        assert_eq!(Table::decode(&table().encode(1), 1).unwrap(), table());
        assert_eq!(Table::decode(&Table::default().encode(0), 0).unwrap(), Table::default());
    }

    #[test]
    fn tensors_of_several_bases_say_whose_they_are() {
        let mut table = table();
        table.base[1].base = 2;
        assert_eq!(Table::decode(&table.encode(3), 3).unwrap(), table);
        assert!(Table::decode(&table.encode(3), 2).is_err());
    }

    #[test]
    fn a_cut_or_lengthened_table_is_refused() {
        let bytes = table().encode(1);
        for length in 0..bytes.len() {
            assert!(Table::decode(&bytes[..length], 1).is_err(), "{length}");
        }
        assert!(Table::decode(&[&bytes[..], &[0]].concat(), 1).is_err());
    }

    #[test]
    fn pieces_are_not_made_of_each_other() {
        let derived = |piece| Stored::Derived {
            recipe: vec![0x80],
            operands: vec![OperandEntry::Piece { piece }],
            length: 1,
        };
        let entry = |stored| PieceEntry { gap: 0, length: 1, stored };
        let decoded = |second, third| {
            let pieces = vec![entry(Stored::Raw { crc32c: 0 }), entry(second), entry(third)];
            Table::decode(&Table { pieces, base: vec![] }.encode(0), 0)
        };
        assert!(decoded(derived(0), derived(0)).is_ok());
        assert!(decoded(derived(2), Stored::Raw { crc32c: 0 }).is_ok());
        assert!(decoded(derived(0), Stored::Twin { piece: 1 }).is_ok());
        for (second, third) in [(derived(1), derived(0)), (derived(2), derived(0)), (derived(3), derived(0))]
        {
            assert!(decoded(second, third).is_err());
        }
    }

    #[test]
    fn twins_and_base_tensors_must_exist() {
        for stored in [
            Stored::Twin { piece: 0 },
            Stored::Twin { piece: 5 },
            Stored::Copy { tensor: 0, digest: [0; 16] },
            Stored::Delta { tensor: 0, length: 1 },
        ] {
            let pieces = vec![PieceEntry { gap: 0, length: 1, stored }];
            assert!(Table::decode(&Table { pieces, base: vec![] }.encode(0), 0).is_err());
        }
        let piece = |length, stored| PieceEntry { gap: 0, length, stored };
        let first = piece(4, Stored::Raw { crc32c: 0 });
        for second in [piece(5, Stored::Twin { piece: 0 }), piece(4, Stored::Twin { piece: 1 })] {
            let table = Table { pieces: vec![first.clone(), second], base: vec![] };
            assert!(Table::decode(&table.encode(0), 0).is_err());
        }
    }
}
