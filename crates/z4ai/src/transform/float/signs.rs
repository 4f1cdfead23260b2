//! Signs: stored as they are, left out where they are all the same, eight of them as a symbol where one is rarer than the other, or (at maximum effort) coded given the signs to the left, above and above left and the
//! element's own magnitude. Filters of a convolution and moments of an optimizer have regular signs; most other weights do not.

use super::CHUNK;
use super::scale::{STEPS, Scales};
use crate::arch;
use crate::dtype::FloatLayout;
use crate::entropy::plane::{self, PlaneModel};
use crate::entropy::rans::{self, Tables};
use crate::entropy::table::{FrequencyTable, Histogram, MAX_PRECISION, SYMBOLS, entropy_bits};
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};

/// How the signs of a section are coded.
#[derive(Debug)]
pub(super) enum Signs {
    /// Among the verbatim bits.
    Verbatim,
    /// All the same; true is negative.
    Constant(bool),
    /// Entropy coded, eight at a time.
    Skewed(PlaneModel),
    /// Entropy coded given others.
    Context(Box<SignContexts>),
}

/// One bit in so many is what skewed signs must save.
const SKEW: u64 = 32;

/// Contexts: eight for the neighbours times four for the magnitude.
const CONTEXTS: usize = 32;

/// The tables of coded signs.
#[derive(Debug)]
pub(super) struct SignContexts {
    row_length: usize,
    tables: Tables,
}

/// The contexts of a block's signs, one after the other: which of the neighbours to the left, above and above left are negative, as the low bits. Outside the
/// block all is positive.
pub(super) struct SignNeighbours {
    /// The signs so far, behind as many positive ones as the row above needs.
    signs: Vec<u8>,
    left: usize,
    above_left: usize,
    position: usize,
}

impl SignNeighbours {
    pub fn new(row_length: usize, count: usize) -> Self {
        Self { signs: vec![0; row_length + count], left: 0, above_left: 0, position: 0 }
    }

    /// The context of the next sign, which `code` then encodes or decodes.
    #[inline(always)]
    pub fn next(&mut self, row_length: usize, code: impl FnOnce(usize) -> Result<u8>) -> Result<u8> {
        let above = self.signs.get(self.position).map_or(0, |&sign| usize::from(sign));
        let sign = code(self.left | above << 1 | self.above_left << 2)?;
        if let Some(target) = self.signs.get_mut(self.position + row_length) {
            *target = sign;
        }
        (self.left, self.above_left, self.position) = (usize::from(sign), above, self.position + 1);
        Ok(sign)
    }
}

/// The magnitude's class: octaves from what the scales expect.
#[inline(always)]
fn magnitude_class(layout: FloatLayout, head: u16, expected: i16) -> usize {
    let octave = 1i32 << layout.head_mantissa_bits();
    let distance = i32::from(head & 0x7fff) - i32::from(expected) * octave / STEPS;
    usize::from(distance >= -2 * octave) + usize::from(distance >= -octave) + usize::from(distance >= 0)
}

impl Signs {
    /// The code of the mode in a model.
    pub fn to_code(&self) -> u8 {
        match self {
            Self::Verbatim => 0,
            Self::Constant(negative) => 1 + u8::from(*negative),
            Self::Skewed(_) | Self::Context(_) => 3,
        }
    }

    /// Appends the tables of coded signs.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Verbatim | Self::Constant(_) => {}
            Self::Skewed(plane) => {
                put_length(out, 0);
                plane.write(out);
            }
            Self::Context(contexts) => {
                put_length(out, contexts.row_length);
                contexts.tables.frequencies().iter().for_each(|table| table.write(out));
            }
        }
    }

    /// Reads the signs of mode `code` of a section of `elements` elements.
    pub fn read(code: u8, reader: &mut Reader, elements: usize) -> Result<Self> {
        match code {
            0 => return Ok(Self::Verbatim),
            1 | 2 => return Ok(Self::Constant(code == 2)),
            _ => {}
        }
        let row_length = reader.length()?;
        if row_length == 0 {
            return Ok(Self::Skewed(PlaneModel::read(reader)?));
        }
        if row_length > elements {
            return Err(Error::corrupt("a row is longer than its section"));
        }
        let tables =
            (0..CONTEXTS).map(|_| FrequencyTable::read_from(reader, MAX_PRECISION)).collect::<Result<_>>()?;
        Ok(Self::Context(Box::new(SignContexts::new(row_length, tables)?)))
    }

    /// Skewed signs for a section with about so many negative and positive elements, if that saves enough.
    pub fn fit_skewed(layout: FloatLayout, bytes: &[u8], counts: [u64; 2]) -> Result<Option<Self>> {
        // The cost is that of a sample, whose size fits a histogram.
        let total = counts[0] + counts[1];
        let sample =
            counts.map(|count| (u128::from(count) * SYMBOLS as u128 * 64 / u128::from(total.max(1))) as u32);
        if entropy_bits(&sample) >= SYMBOLS as u64 * 64 * (SKEW - 1) / SKEW {
            return Ok(None);
        }
        let mut packed = Vec::new();
        pack(layout, bytes, &mut packed);
        // Whoever takes elements from elsewhere may meet other symbols.
        let histogram = plane::histogram(packed.iter().copied()).map(|count| count + 1);
        Ok(match PlaneModel::choose(&histogram, 1024 / SKEW)? {
            PlaneModel::Raw => None,
            coded => Some(Self::Skewed(coded)),
        })
    }

    /// Coded signs for a section, if they take less than verbatim ones.
    pub fn fit_contexts(
        layout: FloatLayout,
        bytes: &[u8],
        scales: &Scales,
        row_length: usize,
        block: usize,
    ) -> Result<Option<Self>> {
        let mut histograms: Vec<Histogram> = vec![[0; SYMBOLS]; CONTEXTS];
        for (index, part) in bytes.chunks(block).enumerate() {
            let (signs, contexts) = survey(layout, part, scales, row_length, index * block / layout.width)?;
            for (&sign, &context) in signs.iter().zip(&contexts) {
                histograms[usize::from(context)][usize::from(sign)] += 1;
            }
        }
        let tables: Vec<FrequencyTable> =
            histograms.iter().map(|histogram| FrequencyTable::normalise(histogram, MAX_PRECISION)).collect();
        let mut side = Vec::new();
        tables.iter().for_each(|table| table.write(&mut side));
        let blocks = bytes.len().div_ceil(block) as u64;
        let coded: u64 = histograms.iter().map(|histogram| entropy_bits(&histogram[..2])).sum();
        let coded = coded + 8 * (side.len() as u64 + blocks * 130);
        let verbatim = (bytes.len() / layout.width) as u64;
        if coded >= verbatim {
            return Ok(None);
        }
        Ok(Some(Self::Context(Box::new(SignContexts::new(row_length, tables)?))))
    }

    /// Appends the signs of a block, if they are coded apart from the elements.
    pub fn encode(
        &self,
        layout: FloatLayout,
        bytes: &[u8],
        scales: &Scales,
        start: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self {
            Self::Verbatim | Self::Constant(_) => {}
            Self::Skewed(plane) => {
                let mut packed = Vec::new();
                pack(layout, bytes, &mut packed);
                plane.encode_in(rans::lanes_beside(packed.len()), &packed, out);
            }
            Self::Context(contexts) => contexts.encode(layout, bytes, scales, start, out)?,
        }
        Ok(())
    }

    /// Sets the signs of the block in `out`, whose elements are complete but for them if they are coded apart.
    pub fn decode(
        &self,
        layout: FloatLayout,
        reader: &mut Reader,
        scales: &Scales,
        start: usize,
        out: &mut [u8],
    ) -> Result<()> {
        match self {
            Self::Verbatim | Self::Constant(_) => Ok(()),
            Self::Skewed(plane) => {
                let count = (out.len() / layout.width).div_ceil(EIGHT);
                let packed = plane.decode_in(rans::lanes_beside(count), reader, count)?;
                arch::vectorised(
                    #[inline(always)]
                    || match layout.width {
                        2 => unpack_short(&packed, out),
                        4 => unpack_long(&packed, out),
                        _ => unpack_wide(&packed, out),
                    },
                );
                Ok(())
            }
            Self::Context(contexts) => contexts.decode(layout, reader, scales, start, out),
        }
    }

    /// Whether signs are coded apart from the elements.
    pub fn are_apart(&self) -> bool {
        matches!(self, Self::Skewed(_) | Self::Context(_))
    }

    /// Bits of a sign among the verbatim bits.
    pub fn verbatim_bits(&self) -> u32 {
        u32::from(matches!(self, Self::Verbatim))
    }
}

/// Signs that are one symbol, the first one as its lowest bit.
const EIGHT: usize = 8;

/// Appends the signs of elements, eight to the byte.
fn pack(layout: FloatLayout, bytes: &[u8], packed: &mut Vec<u8>) {
    let mut heads = [0; CHUNK];
    for chunk in bytes.chunks(CHUNK * layout.width) {
        arch::vectorised(
            #[inline(always)]
            || {
                let heads = &mut heads[..chunk.len() / layout.width];
                layout.read_heads(chunk, heads);
                let (groups, rest) = heads.as_chunks::<EIGHT>();
                packed.extend(groups.iter().map(|heads| signs_of(heads)));
                packed.extend((!rest.is_empty()).then(|| signs_of(rest)));
            },
        );
    }
}

/// The signs of at most eight heads.
#[inline(always)]
fn signs_of(heads: &[u16]) -> u8 {
    heads.iter().enumerate().fold(0, |byte, (place, head)| byte | (head >> 15) << place) as u8
}

/// Makes a function that sets the signs of elements as wide as a word.
macro_rules! unpack {
    ($name:ident, $word:ty) => {
        #[inline(always)]
        fn $name(packed: &[u8], out: &mut [u8]) {
            const WIDTH: usize = size_of::<$word>();
            const SIGN: $word = 1 << (<$word>::BITS - 1);
            let set = |elements: &mut [[u8; WIDTH]], signs: u8| {
                for (place, element) in elements.iter_mut().enumerate() {
                    // Multiplied, because not all vector registers know a shift for each number.
                    let sign = <$word>::from(signs).wrapping_mul(SIGN >> place) & SIGN;
                    *element = (<$word>::from_le_bytes(*element) | sign).to_le_bytes();
                }
            };
            let (elements, _) = out.as_chunks_mut::<WIDTH>();
            let (groups, rest) = elements.as_chunks_mut::<EIGHT>();
            let last = packed.get(groups.len()).copied().unwrap_or(0);
            groups.iter_mut().zip(packed).for_each(|(elements, &signs)| set(elements, signs));
            set(rest, last);
        }
    };
}

unpack!(unpack_short, u16);
unpack!(unpack_long, u32);
unpack!(unpack_wide, u64);

/// The signs of a block and the contexts they are coded in.
fn survey(
    layout: FloatLayout,
    bytes: &[u8],
    scales: &Scales,
    row_length: usize,
    start: usize,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let count = bytes.len() / layout.width;
    let mut heads = vec![0u16; count];
    layout.read_heads(bytes, &mut heads);
    let mut expected = vec![0i16; count];
    arch::vectorised(
        #[inline(always)]
        || scales.fill(start, &mut expected),
    );
    let mut neighbours = SignNeighbours::new(row_length, count);
    let (mut signs, mut contexts) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (&head, &expected) in heads.iter().zip(&expected) {
        let sign = neighbours.next(row_length, |neighbours| {
            contexts.push((neighbours << 2 | magnitude_class(layout, head, expected)) as u8);
            Ok((head >> 15) as u8)
        })?;
        signs.push(sign);
    }
    Ok((signs, contexts))
}

impl SignContexts {
    fn new(row_length: usize, tables: Vec<FrequencyTable>) -> Result<Self> {
        Ok(Self { row_length, tables: Tables::new(tables)? })
    }

    /// Appends the signs of a block.
    pub fn encode(
        &self,
        layout: FloatLayout,
        bytes: &[u8],
        scales: &Scales,
        start: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (signs, contexts) = survey(layout, bytes, scales, self.row_length, start)?;
        rans::encode(self.tables.encoder(), &signs, &contexts, out);
        Ok(())
    }

    /// Sets the signs of the block in `out`, whose elements are complete but for them.
    pub fn decode(
        &self,
        layout: FloatLayout,
        reader: &mut Reader,
        scales: &Scales,
        start: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let count = out.len() / layout.width;
        let mut decoder = rans::SymbolDecoder::open(self.tables.decoder(), reader, count)?;
        let mut neighbours = SignNeighbours::new(self.row_length, count);
        let (mut expected, mut heads, mut classes) = ([0i16; CHUNK], [0u16; CHUNK], [0u8; CHUNK]);
        let mut position = 0;
        for chunk in out.chunks_mut(CHUNK * layout.width) {
            let elements = chunk.len() / layout.width;
            arch::vectorised(
                #[inline(always)]
                || {
                    scales.fill(start + position, &mut expected[..elements]);
                    layout.read_heads(chunk, &mut heads);
                    for ((class, &head), &expected) in
                        classes[..elements].iter_mut().zip(&heads).zip(&expected)
                    {
                        *class = magnitude_class(layout, head, expected) as u8;
                    }
                },
            );
            for (element, &class) in chunk.chunks_exact_mut(layout.width).zip(&classes) {
                let sign = neighbours.next(self.row_length, |neighbours| {
                    decoder.step(position, (neighbours << 2 | usize::from(class)) << MAX_PRECISION)
                })?;
                position += 1;
                element[layout.width - 1] |= sign << 7;
            }
        }
        decoder.finish()
    }
}
