//! Records: buffers of structures of one size, such as the blocks of a quantised GGUF tensor, in which scales
//! and packed levels alternate. A [`RecordLayout`] says which bits of a record belong together, so that each
//! kind of number is coded with its like.

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::wire::{Reader, put_length};

/// The longest record, in bytes.
const LONGEST: usize = 1 << 12;
/// The most fields of a record, arrays of a field, dimensions of an array and slices of an element.
const MOST_FIELDS: usize = 64;
const MOST_ARRAYS: usize = 16;
const MOST_DIMENSIONS: usize = 4;
const MOST_SLICES: usize = 16;

/// The fields of records of one length. Together they have every bit of a record once.
///
/// ```
/// use z4ai::{Dtype, Field, Options, RecordLayout};
/// // A scale in half precision, then 32 levels of eight bits.
/// let layout = RecordLayout::new(34, [Field::number(Dtype::F16, 0), Field::bytes(2, 32)])?;
/// let levels = |i: u32| (0..32).map(move |j| (i * j % 7) as u8);
/// let record = |i: u32| [0, 0x20 + (i % 3) as u8].into_iter().chain(levels(i));
/// let records: Vec<u8> = (0..100).flat_map(record).collect();
/// let frame = z4ai::compress(&records, &Options::new(Dtype::U8).records(layout))?;
/// assert_eq!(z4ai::decompress(&frame)?, records);
/// # Ok::<(), z4ai::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordLayout {
    length: usize,
    fields: Vec<Field>,
    /// By field. Only the encoder wants to know.
    hints: Vec<(usize, Given)>,
}

/// Fields that tell something about the elements of a later one. Fields are named by their place in the
/// layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// A field of bytes, one for each group of elements.
    Field(usize),
    /// Quantised weights: scales and offsets, one of each per group and of one byte, and what these are
    /// multiplied by, an fp16 number per record. They say which level stands for zero.
    ZeroPoint {
        /// The field of the scales.
        scales: usize,
        /// The field of the offsets.
        offsets: usize,
        /// The field that scales are multiplied by.
        scale_factor: usize,
        /// The field that offsets are multiplied by.
        offset_factor: usize,
    },
}

/// Elements of one kind, which are coded together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// What the elements are. Those of fewer bits than the type has are its low bits.
    pub dtype: Dtype,
    /// Where they lie, one array after the other.
    pub arrays: Vec<BitArray>,
}

/// An array of elements inside a record; the last dimension varies fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitArray {
    /// Its dimensions; none for a single element.
    pub dimensions: Vec<usize>,
    /// The bits of an element, from the lowest up.
    pub slices: Vec<BitSlice>,
}

/// Some bits of each element of an array, side by side in one byte of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitSlice {
    /// How many, from 1 to 8.
    pub bits: usize,
    /// Where those of the first element begin, in bits from the start of the record, each byte from its least
    /// significant one.
    pub start: usize,
    /// How much further those of the next element along each dimension begin.
    pub strides: Vec<usize>,
}

impl Given {
    /// The fields that tell something.
    pub(crate) fn fields(self) -> Vec<usize> {
        match self {
            Self::Field(source) => vec![source],
            Self::ZeroPoint { scales, offsets, scale_factor, offset_factor } => {
                vec![scales, offsets, scale_factor, offset_factor]
            }
        }
    }
}

impl BitSlice {
    /// Bits that begin there, with these strides.
    pub fn new(bits: usize, start: usize, strides: impl Into<Vec<usize>>) -> Self {
        Self { bits, start, strides: strides.into() }
    }
}

impl BitArray {
    /// Elements of these slices, in an array of these dimensions.
    pub fn new(dimensions: impl Into<Vec<usize>>, slices: impl Into<Vec<BitSlice>>) -> Self {
        Self { dimensions: dimensions.into(), slices: slices.into() }
    }
}

impl Field {
    /// A field of these arrays.
    pub fn new(dtype: Dtype, arrays: impl Into<Vec<BitArray>>) -> Self {
        Self { dtype, arrays: arrays.into() }
    }

    /// A single number at a byte of the record, little-endian.
    pub fn number(dtype: Dtype, offset: usize) -> Self {
        Self::numbers(dtype, offset, 1)
    }

    /// So many numbers, side by side.
    pub fn numbers(dtype: Dtype, offset: usize, count: usize) -> Self {
        let width = dtype.width();
        let slice = |byte| BitSlice::new(8, 8 * (offset + byte), [8 * width]);
        Self::new(dtype, [BitArray::new([count], (0..width).map(slice).collect::<Vec<_>>())])
    }

    /// So many bytes, side by side.
    pub fn bytes(offset: usize, count: usize) -> Self {
        Self::numbers(Dtype::U8, offset, count)
    }

    /// Elements of the field in one record.
    pub(crate) fn count(&self) -> usize {
        self.arrays.iter().map(|array| array.dimensions.iter().product::<usize>()).sum()
    }
}

/// A slice of one element: where it lies in a record, and where in the elements of its field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    pub bits: usize,
    /// Both in bits.
    pub in_record: usize,
    pub in_elements: usize,
}

impl RecordLayout {
    /// Checks that the fields have every bit of records of so many bytes once.
    pub fn new(length: usize, fields: impl Into<Vec<Field>>) -> Result<Self> {
        let layout = Self { length, fields: fields.into(), hints: Vec::new() };
        layout
            .check()
            .map_err(|rule| Error::new(ErrorKind::InvalidShape, format!("a record layout {rule}")))?;
        Ok(layout)
    }

    /// This layout with a hint: a field's elements depend on those of fields before it. It is an error if
    /// there are no such fields or they have other elements.
    pub fn given(mut self, field: usize, given: Given) -> Result<Self> {
        self.groups(field, given).map_err(|rule| Error::new(ErrorKind::InvalidShape, rule))?;
        self.hints.push((field, given));
        Ok(self)
    }

    /// The hint for a field.
    pub(crate) fn hint(&self, field: usize) -> Option<Given> {
        self.hints.iter().find(|(place, _)| *place == field).map(|&(_, given)| given)
    }

    /// Whether a hint names the field as one that tells something.
    pub(crate) fn is_source(&self, field: usize) -> bool {
        self.hints.iter().any(|(_, given)| given.fields().contains(&field))
    }

    /// In how many groups the elements of a record's field are, if it may depend on those fields.
    pub(crate) fn groups(&self, field: usize, given: Given) -> std::result::Result<usize, &'static str> {
        let rule = "a field depends on fields before it, of bytes and with one element for each group";
        let before = |place: usize| self.fields[..field.min(self.fields.len())].get(place).ok_or(rule);
        let bytes = |place| {
            before(place).and_then(|field| match field.dtype.width() {
                1 => Ok(field.count()),
                _ => Err(rule),
            })
        };
        let factor = |place| {
            before(place).and_then(|field| match (field.dtype, field.count()) {
                (Dtype::F16, 1) => Ok(()),
                _ => Err("factors are fp16, one in each record"),
            })
        };
        let own = self.fields.get(field).filter(|own| own.dtype.width() == 1).ok_or(rule)?.count();
        let groups = match given {
            Given::Field(source) => bytes(source)?,
            Given::ZeroPoint { scales, offsets, scale_factor, offset_factor } => {
                factor(scale_factor)?;
                factor(offset_factor)?;
                if bytes(scales)? != bytes(offsets)? {
                    return Err(rule);
                }
                bytes(scales)?
            }
        };
        if own.is_multiple_of(groups) { Ok(groups) } else { Err(rule) }
    }

    /// Bytes of a record.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The fields.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn check(&self) -> std::result::Result<(), &'static str> {
        if !(1..=LONGEST).contains(&self.length) {
            return Err("of no bytes, or of more than 4096");
        }
        if !(1..=MOST_FIELDS).contains(&self.fields.len()) {
            return Err("without fields, or with more than 64");
        }
        let mut used = vec![false; 8 * self.length];
        for field in &self.fields {
            field.check(used.len())?;
            for placed in field.slices() {
                let bits = used.get_mut(placed.in_record..placed.in_record + placed.bits);
                let bits = bits.ok_or("with bits outside its records")?;
                if bits.contains(&true) {
                    return Err("with bits that two elements have");
                }
                bits.fill(true);
                if placed.in_record % 8 + placed.bits > 8 || placed.in_elements % 8 + placed.bits > 8 {
                    return Err("with slices that reach from one byte into the next");
                }
            }
        }
        if used.contains(&false) { Err("with bits that no element has") } else { Ok(()) }
    }

    /// Reads what [`Self::write`] wrote.
    pub(crate) fn read(reader: &mut Reader) -> Result<Self> {
        let length = reader.length()?;
        let counted = |reader: &mut Reader, most: usize| match reader.length()? {
            count if count <= most => Ok(count),
            _ => Err(Error::corrupt("a record layout has more parts than it may have")),
        };
        let mut fields = Vec::new();
        for _ in 0..counted(reader, MOST_FIELDS)? {
            let dtype =
                Dtype::from_code(reader.u8()?)?.ok_or_else(|| Error::corrupt("a field without a dtype"))?;
            let mut arrays = Vec::new();
            for _ in 0..counted(reader, MOST_ARRAYS)? {
                let rank = counted(reader, MOST_DIMENSIONS)?;
                let numbers = |reader: &mut Reader| {
                    (0..rank).map(|_| counted(reader, 8 * LONGEST)).collect::<Result<Vec<usize>>>()
                };
                let dimensions = numbers(reader)?;
                let mut slices = Vec::new();
                for _ in 0..counted(reader, MOST_SLICES)? {
                    let (bits, start) = (usize::from(reader.u8()?), counted(reader, 8 * LONGEST)?);
                    slices.push(BitSlice { bits, start, strides: numbers(reader)? });
                }
                arrays.push(BitArray { dimensions, slices });
            }
            fields.push(Field { dtype, arrays });
        }
        let layout = Self { length, fields, hints: Vec::new() };
        layout.check().map_err(|rule| Error::corrupt(format!("a record layout {rule}")))?;
        Ok(layout)
    }

    /// Appends the layout.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put_length(out, self.length);
        put_length(out, self.fields.len());
        for field in &self.fields {
            out.push(Dtype::to_code(Some(field.dtype)));
            put_length(out, field.arrays.len());
            for array in &field.arrays {
                put_length(out, array.dimensions.len());
                array.dimensions.iter().for_each(|&size| put_length(out, size));
                put_length(out, array.slices.len());
                for slice in &array.slices {
                    out.push(slice.bits as u8);
                    put_length(out, slice.start);
                    slice.strides.iter().for_each(|&stride| put_length(out, stride));
                }
            }
        }
    }
}

impl Field {
    /// Checks what a field of a record of so many bits must keep before its slices are looked at one by one.
    fn check(&self, record_bits: usize) -> std::result::Result<(), &'static str> {
        if self.dtype.width() != self.dtype.scalar_width() {
            return Err("with complex elements");
        }
        if !(1..=MOST_ARRAYS).contains(&self.arrays.len()) {
            return Err("with a field of no arrays, or of more than 16");
        }
        for array in &self.arrays {
            let rank = array.dimensions.len();
            if rank > MOST_DIMENSIONS || array.slices.iter().any(|slice| slice.strides.len() != rank) {
                return Err(
                    "with an array of more than four dimensions, or of other strides than dimensions",
                );
            }
            let elements =
                array.dimensions.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
            if !elements.is_some_and(|count| (1..=record_bits).contains(&count)) {
                return Err("with an array of no elements, or of more than its records have bits");
            }
            if !(1..=MOST_SLICES).contains(&array.slices.len())
                || array.slices.iter().any(|slice| !(1..=8).contains(&slice.bits))
            {
                return Err(
                    "with elements of no slices or more than 16, or slices of no bits or more than 8",
                );
            }
            let bits: usize = array.slices.iter().map(|slice| slice.bits).sum();
            if bits > 8 * self.dtype.width() {
                return Err("with elements of more bits than their type has");
            }
            // The furthest element is inside the record, so that no place overflows.
            let inside = |slice: &BitSlice| {
                let steps = slice.strides.iter().zip(&array.dimensions);
                let mut places = steps.map(|(&stride, &size)| stride.checked_mul(size - 1));
                let last = places.try_fold(slice.start, |sum, place| sum.checked_add(place?));
                last.is_some_and(|last| last < record_bits)
            };
            if !array.slices.iter().all(inside) {
                return Err("with bits outside its records");
            }
        }
        Ok(())
    }

    /// Every slice of every element of a record.
    pub(crate) fn slices(&self) -> impl Iterator<Item = Placed> {
        let width = 8 * self.dtype.width();
        let mut before = 0;
        let arrays = self.arrays.iter().map(move |array| {
            let first = before;
            before += array.dimensions.iter().product::<usize>();
            (first, array)
        });
        arrays.flat_map(move |(first, array)| {
            let elements = 0..array.dimensions.iter().product::<usize>();
            let mut below = 0;
            let slices = array.slices.iter().map(move |slice| {
                let low = below;
                below += slice.bits;
                (low, slice)
            });
            slices.flat_map(move |(low, slice)| {
                elements.clone().map(move |index| {
                    let steps = slice.strides.iter().zip(&array.dimensions).rev();
                    let (_, in_record) = steps
                        .fold((index, slice.start), |(left, place), (&stride, &size)| {
                            (left / size, place + left % size * stride)
                        });
                    Placed { bits: slice.bits, in_record, in_elements: (first + index) * width + low }
                })
            })
        })
    }
}
