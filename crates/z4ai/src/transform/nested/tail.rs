//! The part of an element that is not its exponent: sign and mantissa, stored as they are.
//!
//! Mantissa bits that are zero in a whole chunk and a sign that never changes in it are left out. Of the bits
//! that remain, whole bytes become byte planes and the odd bits become strided planes of single bits, which
//! unpack with shifts.

use super::geometry::FloatFields;
use super::streams::{NESTED_CHUNK, NESTED_GROUP};
use crate::error::{Error, Result};
use std::ops::{BitAnd, BitOr, Shl, Shr};

/// What happens to the sign bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TailSign {
    /// Stored above the mantissa bits.
    Stored,
    /// Clear in every element.
    Clear,
    /// Set in every element.
    Set,
}

/// Which bits of sign and mantissa a chunk stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) geometry: FloatFields,
    /// Low mantissa bits that are left out.
    pub(crate) trailing_zeros: u32,
    pub(crate) sign: TailSign,
}

impl Tail {
    /// Bits stored per element.
    fn bits(self) -> u32 {
        self.kept_mantissa() + u32::from(self.sign == TailSign::Stored)
    }

    /// Bits of mantissa stored per element.
    pub(crate) fn kept_mantissa(self) -> u32 {
        self.geometry.mantissa_bits - self.trailing_zeros
    }

    /// Planes of whole bytes.
    pub(crate) fn byte_planes(self) -> usize {
        self.bits() as usize / 8
    }

    /// Planes of single bits.
    pub(crate) fn bit_planes(self) -> usize {
        self.bits() as usize % 8
    }

    /// Bytes that the planes of a chunk of `count` elements take: first the bit planes, then the byte planes.
    pub(crate) fn stored_length(self, count: usize) -> usize {
        self.bit_planes() * bit_plane_length(count) + self.byte_planes() * count
    }

    /// The byte that describes the tail in a block's header.
    pub(crate) fn to_byte(self) -> u8 {
        self.trailing_zeros as u8 | (self.sign as u8) << 5
    }

    /// Reads the description back.
    pub(crate) fn from_byte(byte: u8, geometry: FloatFields) -> Result<Self> {
        let sign = match byte >> 5 {
            0 => TailSign::Stored,
            1 => TailSign::Clear,
            2 => TailSign::Set,
            _ => return Err(Error::corrupt("the sign of a nested chunk is stored, clear or set")),
        };
        let trailing_zeros = u32::from(byte & 31);
        if trailing_zeros > geometry.mantissa_bits {
            return Err(Error::corrupt("a nested chunk cannot drop more than the mantissa"));
        }
        Ok(Self { geometry, trailing_zeros, sign })
    }
}

/// Bytes of one plane of single bits.
pub(crate) fn bit_plane_length(count: usize) -> usize {
    count.div_ceil(NESTED_GROUP) * (NESTED_GROUP / 8)
}

/// An element as an integer of its own width, so that loops over elements fill whole vectors.
pub(crate) trait TailWord:
    Copy
    + From<u8>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    const BYTES: usize;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    fn truncate(value: u32) -> Self;
    fn widen(self) -> u32;
}

macro_rules! word {
    ($($type:ty),*) => {$(
        impl TailWord for $type {
            const BYTES: usize = size_of::<$type>();
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(0, Self::from_le_bytes)
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
            #[inline(always)]
            fn truncate(value: u32) -> Self {
                value as Self
            }
            #[inline(always)]
            fn widen(self) -> u32 {
                u32::from(self)
            }
        }
    )*};
}
word!(u8, u16, u32);

/// Reads the exponents of a chunk and finds out which bits of its tail must be stored.
#[inline(always)]
pub(crate) fn split<T: TailWord>(elements: &[u8], geometry: FloatFields, exponents: &mut [u8]) -> Tail {
    let (mut any, mut all) = (T::truncate(0), T::truncate(u32::MAX));
    let mask = T::truncate(geometry.exponent_mask());
    for (element, exponent) in elements.chunks_exact(T::BYTES).zip(exponents) {
        let value = T::read(element);
        any = any | value;
        all = all & value;
        *exponent = (value >> geometry.mantissa_bits & mask).widen() as u8;
    }
    let (any, all) = (any.widen(), all.widen());
    let sign = match (any >> geometry.sign_bit() & 1, all >> geometry.sign_bit() & 1) {
        (0, _) => TailSign::Clear,
        (_, 1) => TailSign::Set,
        _ => TailSign::Stored,
    };
    let trailing_zeros = any.trailing_zeros().min(geometry.mantissa_bits);
    Tail { geometry, trailing_zeros, sign }
}

/// Appends the planes of a chunk's tail: bit planes, then byte planes.
#[inline(always)]
pub(crate) fn store<T: TailWord>(elements: &[u8], tail: Tail, out: &mut Vec<u8>) {
    let (kept, geometry) = (tail.kept_mantissa(), tail.geometry);
    let mantissa = T::truncate(geometry.mantissa_mask());
    let one = T::truncate(1);
    let stored_sign = T::truncate(u32::from(tail.sign == TailSign::Stored));
    let value = |element: &[u8]| {
        let element = T::read(element);
        let sign = element >> geometry.sign_bit() & one & stored_sign;
        // Sign and mantissa are at most as wide as the element, so the sum of the shifts stays inside it.
        ((element & mantissa) >> tail.trailing_zeros)
            | if kept < geometry.sign_bit() { sign << kept } else { sign }
    };
    let start = out.len();
    let count = elements.len() / T::BYTES;
    let bit_plane = bit_plane_length(count);
    out.resize(start + tail.stored_length(count), 0);
    let (bit_part, byte_part) = out[start..].split_at_mut(tail.bit_planes() * bit_plane);
    for plane in 0..tail.byte_planes() {
        let bytes = &mut byte_part[plane * count..(plane + 1) * count];
        for (byte, element) in bytes.iter_mut().zip(elements.chunks_exact(T::BYTES)) {
            *byte = (value(element) >> (8 * plane as u32)).widen() as u8;
        }
    }
    if tail.bit_planes() == 0 {
        return;
    }
    let odd_shift = 8 * tail.byte_planes() as u32;
    for (index, group) in elements.chunks(NESTED_GROUP * T::BYTES).enumerate() {
        let mut odd = [0_u8; NESTED_GROUP];
        for (odd, element) in odd.iter_mut().zip(group.chunks_exact(T::BYTES)) {
            *odd = (value(element) >> odd_shift).widen() as u8;
        }
        for plane in 0..tail.bit_planes() {
            let first = plane * bit_plane + index * (NESTED_GROUP / 8);
            pack_bits(&odd, plane, &mut bit_part[first..first + NESTED_GROUP / 8]);
        }
    }
}

/// The low bit of every byte of a word.
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// Collects bit `plane` of 256 bytes: bit `k` of byte `b` comes from byte `32 k + b`.
#[inline(always)]
fn pack_bits(odd: &[u8; NESTED_GROUP], plane: usize, packed: &mut [u8]) {
    let mut words = [0_u64; 4];
    for (index, bytes) in odd.as_chunks::<8>().0.iter().enumerate() {
        words[index % 4] |= (u64::from_le_bytes(*bytes) >> plane & LOW_BITS) << (index / 4);
    }
    for (packed, word) in packed.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *packed = word.to_le_bytes();
    }
}

/// The reverse of [`pack_bits`] for all planes of a chunk.
#[inline(always)]
fn unpack_bits(packed: &[u8], bit_plane: usize, odd: &mut [u64; NESTED_CHUNK / 8]) {
    for (plane, packed) in packed.chunks_exact(bit_plane).enumerate() {
        for (packed, odd) in packed.as_chunks::<32>().0.iter().zip(odd.as_chunks_mut::<32>().0) {
            let words = bytemuck::cast::<_, [u64; 4]>(*packed).map(u64::from_le);
            for (field, odd) in odd.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                for (odd, word) in odd.iter_mut().zip(words) {
                    *odd |= (word >> field & LOW_BITS) << plane;
                }
            }
        }
    }
}

/// The odd bits of a chunk that has none.
static NO_ODD_BITS: [u8; NESTED_CHUNK] = [0; NESTED_CHUNK];

/// Puts exponents and the stored tail of a chunk together again.
#[inline(always)]
pub(crate) fn merge<T: TailWord>(exponents: &[u8], tail: Tail, planes: &[u8], out: &mut [u8]) -> Result<()> {
    let short = || Error::corrupt("a nested block ends inside its planes");
    let count = exponents.len().min(NESTED_CHUNK);
    let bit_plane = bit_plane_length(count);
    let (bit_part, byte_part) = planes.split_at_checked(tail.bit_planes() * bit_plane).ok_or_else(short)?;
    let mut unpacked;
    let odd = if tail.bit_planes() > 0 {
        unpacked = [0; NESTED_CHUNK / 8];
        unpack_bits(bit_part, bit_plane, &mut unpacked);
        unpacked = unpacked.map(u64::to_le);
        &bytemuck::cast_slice::<u64, u8>(&unpacked)[..count]
    } else {
        &NO_ODD_BITS[..count]
    };
    let plane = |index: usize| byte_part.get(index * count..(index + 1) * count).ok_or_else(short);
    let assemble = Assemble::<T>::new(tail);
    let elements = out.chunks_exact_mut(T::BYTES).zip(exponents);
    match (tail.byte_planes(), tail.bit_planes()) {
        (0, _) => {
            for ((out, &exponent), &odd) in elements.zip(odd) {
                assemble.one(exponent, T::from(odd), out);
            }
        }
        (1, 0) => {
            for ((out, &exponent), &first) in elements.zip(plane(0)?) {
                assemble.one(exponent, T::from(first), out);
            }
        }
        (1, _) => {
            for (((out, &exponent), &first), &odd) in elements.zip(plane(0)?).zip(odd) {
                let bits = u32::from(first) | u32::from(odd) << 8;
                assemble.one(exponent, T::truncate(bits), out);
            }
        }
        (2, _) => {
            for ((((out, &exponent), &first), &second), &odd) in
                elements.zip(plane(0)?).zip(plane(1)?).zip(odd)
            {
                let bits = u32::from(first) | u32::from(second) << 8 | u32::from(odd) << 16;
                assemble.one(exponent, T::truncate(bits), out);
            }
        }
        (_, _) => {
            for ((((out, &exponent), &first), &second), &third) in
                elements.zip(plane(0)?).zip(plane(1)?).zip(plane(2)?)
            {
                let bits = u32::from(first) | u32::from(second) << 8 | u32::from(third) << 16;
                assemble.one(exponent, T::truncate(bits), out);
            }
        }
    }
    Ok(())
}

/// The constants of putting one element together.
struct Assemble<T> {
    exponent_mask: u8,
    exponent_shift: u32,
    mantissa: T,
    trailing_zeros: u32,
    sign_from: u32,
    sign_to: u32,
    sign: T,
}

impl<T: TailWord> Assemble<T> {
    fn new(tail: Tail) -> Self {
        let geometry = tail.geometry;
        let kept = tail.kept_mantissa();
        Self {
            exponent_mask: geometry.exponent_mask() as u8,
            exponent_shift: geometry.mantissa_bits,
            mantissa: T::truncate((1 << kept) - 1),
            trailing_zeros: tail.trailing_zeros,
            sign_from: kept,
            sign_to: geometry.sign_bit(),
            sign: T::truncate(u32::from(tail.sign == TailSign::Set) << geometry.sign_bit()),
        }
    }

    #[inline(always)]
    fn one(&self, exponent: u8, tail: T, out: &mut [u8]) {
        let exponent = T::from(exponent & self.exponent_mask) << self.exponent_shift;
        let mantissa = (tail & self.mantissa) << self.trailing_zeros;
        let sign = (tail >> self.sign_from) << self.sign_to;
        (exponent | mantissa | sign | self.sign).write(out);
    }
}
