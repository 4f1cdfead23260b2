//! Coding of byte planes (the n-th byte of every element, palette indices, scales…): raw, constant or rANS. A
//! [`PlaneModel`] is made once from a histogram and shared by many streams; [`write_bytes`] is the
//! self-contained form for a single small plane.

use super::rans::{self, Tables};
use super::table::{FrequencyTable, Histogram, MAX_PRECISION, SYMBOLS, entropy_bits};
use crate::arch::memory;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

const RAW_PLANE: u8 = 0;
const CONSTANT_PLANE: u8 = 1;
const CODED_PLANE: u8 = 2;

/// How the bytes of a plane are coded.
#[derive(Debug)]
pub(crate) enum PlaneModel {
    /// As they are.
    Raw,
    /// Every byte has this value; nothing is stored.
    Constant(u8),
    /// Entropy coded with one table.
    Rans(Box<Tables>),
}

/// The histogram of a plane.
pub(crate) fn histogram(bytes: impl IntoIterator<Item = u8>) -> Histogram {
    // In runs of equal bytes every increment depends on the store before it; two tables halve that latency.
    let mut halves = [[0u32; SYMBOLS]; 2];
    for (index, byte) in bytes.into_iter().enumerate() {
        halves[index & 1][usize::from(byte)] += 1;
    }
    let [mut total, second] = halves;
    total.iter_mut().zip(second).for_each(|(a, b)| *a += b);
    total
}

/// The histogram of bytes that lie side by side, counted in several tables: with one, the increments of equal
/// neighbours depend on each other's stores.
pub(crate) fn histogram_of(bytes: &[u8]) -> Histogram {
    const TABLES: usize = 8;
    let (groups, rest) = bytes.as_chunks::<TABLES>();
    let mut total = [0; SYMBOLS];
    rest.iter().for_each(|&byte| total[usize::from(byte)] += 1);
    // With few bytes, clearing and adding the tables costs more than that latency.
    if groups.len() < SYMBOLS {
        bytes[..TABLES * groups.len()].iter().for_each(|&byte| total[usize::from(byte)] += 1);
        return total;
    }
    let mut tables = [[0u32; SYMBOLS]; TABLES];
    for group in groups {
        tables.iter_mut().zip(group).for_each(|(table, &byte)| table[usize::from(byte)] += 1);
    }
    for table in tables {
        total.iter_mut().zip(table).for_each(|(total, count)| *total += count);
    }
    total
}

impl PlaneModel {
    /// Chooses a model for planes with this histogram. `margin` is the part of the plane (in 1/1024) that
    /// entropy coding must save to be worth its time.
    pub fn choose(histogram: &Histogram, margin: u64) -> Result<Self> {
        let total: u64 = histogram.iter().map(|&count| u64::from(count)).sum();
        if let Some(byte) = histogram.iter().position(|&count| u64::from(count) == total) {
            return Ok(Self::Constant(byte as u8));
        }
        let table = FrequencyTable::normalise(histogram, MAX_PRECISION);
        let mut side = Vec::new();
        table.write(&mut side);
        let coded = entropy_bits(histogram) / 8 + side.len() as u64 + 8;
        if coded + total * margin / 1024 >= total {
            return Ok(Self::Raw);
        }
        Ok(Self::Rans(Box::new(Tables::new(vec![table])?)))
    }

    /// Appends the model.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Raw => out.push(RAW_PLANE),
            Self::Constant(byte) => out.extend([CONSTANT_PLANE, *byte]),
            Self::Rans(tables) => {
                out.push(CODED_PLANE);
                tables.frequencies().iter().for_each(|table| table.write(out));
            }
        }
    }

    /// Reads what [`PlaneModel::write`] wrote.
    pub fn read(reader: &mut Reader) -> Result<Self> {
        match reader.u8()? {
            RAW_PLANE => Ok(Self::Raw),
            CONSTANT_PLANE => Ok(Self::Constant(reader.u8()?)),
            CODED_PLANE => {
                let table = FrequencyTable::read_from(reader, MAX_PRECISION)?;
                Ok(Self::Rans(Box::new(Tables::new(vec![table])?)))
            }
            mode => Err(Error::corrupt(format!("unknown plane mode {mode}"))),
        }
    }

    /// Appends one plane, which must be covered by the histogram the model was chosen for.
    pub fn encode(&self, plane: &[u8], out: &mut Vec<u8>) {
        self.encode_in(rans::lanes_for(plane.len()), plane, out);
    }

    /// Appends one plane as [`Self::encode`] does, coded with so many lanes.
    pub fn encode_in(&self, lanes: usize, plane: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Raw => out.extend_from_slice(plane),
            Self::Constant(_) => {}
            Self::Rans(tables) => rans::encode_in(lanes, tables.encoder(), plane, &[], out),
        }
    }

    /// Passes over a plane of `count` bytes and says how long it is in the frame.
    pub fn skip(&self, reader: &mut Reader, count: usize) -> Result<usize> {
        let start = reader.position();
        let length = match self {
            Self::Raw => count,
            Self::Constant(_) => 0,
            Self::Rans(_) => reader.length()?,
        };
        reader.take(length)?;
        Ok(reader.position() - start)
    }

    /// Decodes a whole plane of `count` bytes.
    pub fn decode(&self, reader: &mut Reader, count: usize) -> Result<Vec<u8>> {
        self.decode_in(rans::lanes_for(count), reader, count)
    }

    /// Decodes a whole plane of `count` bytes that is coded with so many lanes.
    pub fn decode_in(&self, lanes: usize, reader: &mut Reader, count: usize) -> Result<Vec<u8>> {
        let mut bytes = memory::zeroed(count)?;
        self.decoder_in(lanes, reader, count)?.read(&mut bytes)?;
        Ok(bytes)
    }

    /// Decodes a whole plane into memory of its length.
    pub fn decode_into(&self, reader: &mut Reader, out: &mut [u8]) -> Result<()> {
        self.decoder(reader, out.len())?.read(out)
    }

    /// Opens a plane of `count` bytes at the reader's position.
    pub fn decoder<'m, 'a: 'm>(&'m self, reader: &mut Reader<'a>, count: usize) -> Result<PlaneDecoder<'m>> {
        self.decoder_in(rans::lanes_for(count), reader, count)
    }

    fn decoder_in<'m, 'a: 'm>(
        &'m self,
        lanes: usize,
        reader: &mut Reader<'a>,
        count: usize,
    ) -> Result<PlaneDecoder<'m>> {
        Ok(match self {
            Self::Raw => PlaneDecoder::Raw(reader.take(count)?),
            Self::Constant(byte) => PlaneDecoder::Constant(*byte),
            Self::Rans(tables) => {
                PlaneDecoder::Rans(Box::new(rans::SymbolDecoder::open_in(lanes, tables.decoder(), reader)?))
            }
        })
    }
}

/// Reads one plane piece by piece.
#[derive(Debug)]
pub(crate) enum PlaneDecoder<'a> {
    Raw(&'a [u8]),
    Constant(u8),
    Rans(Box<rans::SymbolDecoder<'a>>),
}

impl<'a> PlaneDecoder<'a> {
    /// The next `count` bytes, in `buffer` unless they can be borrowed from the frame. All pieces but the
    /// last are multiples of 32.
    pub fn next<'b>(&mut self, count: usize, buffer: &'b mut [u8]) -> Result<&'b [u8]>
    where
        'a: 'b,
    {
        let target =
            buffer.get_mut(..count).ok_or_else(|| Error::corrupt("a plane is longer than its block"))?;
        match self {
            Self::Raw(bytes) => {
                let (piece, rest) = bytes.split_at_checked(count).ok_or_else(|| Error::truncated("plane"))?;
                *bytes = rest;
                return Ok(piece);
            }
            Self::Constant(byte) => target.fill(*byte),
            Self::Rans(decoder) => decoder.decode(&[], target)?,
        }
        Ok(target)
    }

    /// Decodes all of a plane that has as many bytes as `out`.
    fn read(mut self, out: &mut [u8]) -> Result<()> {
        match self {
            Self::Raw(raw) => out.copy_from_slice(raw),
            _ => {
                self.next(out.len(), out)?;
            }
        }
        self.finish()
    }

    /// Fails unless the plane ended where it should.
    pub fn finish(&self) -> Result<()> {
        match self {
            Self::Rans(decoder) => decoder.finish(),
            _ => Ok(()),
        }
    }
}

/// Appends `bytes` with whatever model suits them; the reader must know their number.
pub(crate) fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let model = PlaneModel::choose(&histogram_of(bytes), 0)?;
    model.write(out);
    model.encode(bytes, out);
    Ok(())
}

/// Passes over what [`write_bytes`] wrote and says how long it is.
pub(crate) fn skip_bytes(reader: &mut Reader, count: usize) -> Result<usize> {
    let start = reader.position();
    PlaneModel::read(reader)?.skip(reader, count)?;
    Ok(reader.position() - start)
}

/// Reads what [`write_bytes`] wrote.
pub(crate) fn read_bytes(reader: &mut Reader, count: usize) -> Result<Vec<u8>> {
    PlaneModel::read(reader)?.decode(reader, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Kernel;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn planes_survive(bytes in proptest::collection::vec(prop_oneof![Just(0u8), 0u8..4, any::<u8>()], 0..3000)) {
            let mut out = Vec::new();
            write_bytes(&bytes, &mut out).unwrap();
            prop_assert!(out.len() <= bytes.len() + 2);
            for kernel in Kernel::available() { kernel.run(|| {
                let mut reader = Reader::new(&out, "test");
                assert_eq!(&read_bytes(&mut reader, bytes.len()).unwrap(), &bytes);
                reader.finish().unwrap();
            }); }
        }
    }
}
