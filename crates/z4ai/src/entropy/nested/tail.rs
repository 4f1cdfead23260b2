//! The part of an element that is not its exponent: sign and mantissa, stored as they are.
//!
//! Mantissa bits that are zero in the whole block and a sign that never changes are left out. Of the bits that remain,
//! whole bytes become byte planes and the odd bits become strided planes of single bits, which unpack with shifts.

use super::geometry::Geometry;
use super::streams::{CHUNK, GROUP};
use crate::damage::{Damaged, broken};
use std::ops::{BitAnd, BitOr, Shl, Shr};

/// What happens to the sign bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Stored above the mantissa bits.
    Stored,
    /// Clear in every element.
    Clear,
    /// Set in every element.
    Set,
}

/// Which bits of sign and mantissa a block stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    geometry: Geometry,
    trailing_zeros: u32,
    sign: Sign,
}

impl Tail {
    /// Bits stored per element.
    fn bits(self) -> u32 {
        self.kept_mantissa() + u32::from(self.sign == Sign::Stored)
    }

    fn kept_mantissa(self) -> u32 {
        self.geometry.mantissa_bits - self.trailing_zeros
    }

    /// Planes of whole bytes.
    fn byte_planes(self) -> usize {
        self.bits() as usize / 8
    }

    /// Planes of single bits.
    fn bit_planes(self) -> usize {
        self.bits() as usize % 8
    }

    /// Bytes that the planes of `count` elements take: first the bit planes, then the byte planes.
    pub(crate) fn stored_length(self, count: usize) -> Option<usize> {
        let bit_plane = count.div_ceil(GROUP).checked_mul(GROUP / 8)?;
        self.bit_planes().checked_mul(bit_plane)?.checked_add(self.byte_planes().checked_mul(count)?)
    }

    /// The two bytes that describe the tail in a block's header.
    pub(crate) fn to_bytes(self) -> [u8; 2] {
        [self.trailing_zeros as u8, self.sign as u8]
    }

    /// Read the description back.
    pub(crate) fn from_bytes([trailing_zeros, sign]: [u8; 2], geometry: Geometry) -> Result<Self, Damaged> {
        let sign = match sign {
            0 => Sign::Stored,
            1 => Sign::Clear,
            2 => Sign::Set,
            _ => return Err(broken("the sign of a nested block is stored, clear or set")),
        };
        if u32::from(trailing_zeros) > geometry.mantissa_bits {
            return Err(broken("a nested block cannot drop more than the mantissa"));
        }
        Ok(Self { geometry, trailing_zeros: u32::from(trailing_zeros), sign })
    }
}

/// An element as an integer of its own width, so that loops over elements fill whole vectors.
pub(crate) trait Word:
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
        impl Word for $type {
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

/// Read the exponents of all elements and find out which bits of the tail must be stored.
#[inline(always)]
pub(crate) fn split<T: Word>(elements: &[u8], geometry: Geometry, exponents: &mut [u8]) -> Tail {
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
        (0, _) => Sign::Clear,
        (_, 1) => Sign::Set,
        _ => Sign::Stored,
    };
    let trailing_zeros = any.trailing_zeros().min(geometry.mantissa_bits);
    Tail { geometry, trailing_zeros, sign }
}

/// Append the planes of the tail: bit planes, then byte planes.
#[inline(always)]
pub(crate) fn store<T: Word>(elements: &[u8], tail: Tail, out: &mut Vec<u8>) {
    let (kept, geometry) = (tail.kept_mantissa(), tail.geometry);
    let mantissa = T::truncate(geometry.mantissa_mask());
    let one = T::truncate(1);
    let stored_sign = T::truncate(u32::from(tail.sign == Sign::Stored));
    let value = |element: &[u8]| {
        let element = T::read(element);
        let sign = element >> geometry.sign_bit() & one & stored_sign;
        // Sign and mantissa are at most as wide as the element, so the sum of the shifts stays inside it.
        ((element & mantissa) >> tail.trailing_zeros)
            | if kept < geometry.sign_bit() { sign << kept } else { sign }
    };
    for plane in 0..tail.bit_planes() as u32 {
        let bit = 8 * tail.byte_planes() as u32 + plane;
        for group in elements.chunks(GROUP * T::BYTES) {
            let mut bytes = [0_u8; GROUP / 8];
            for (index, element) in group.chunks_exact(T::BYTES).enumerate() {
                bytes[index % 32] |= ((value(element) >> bit & one).widen() as u8) << (index / 32);
            }
            out.extend_from_slice(&bytes);
        }
    }
    for plane in 0..tail.byte_planes() as u32 {
        out.extend(
            elements.chunks_exact(T::BYTES).map(|element| (value(element) >> (8 * plane)).widen() as u8),
        );
    }
}

/// Put exponents and the stored tail of the elements from `start` on together again. `planes` is the stored tail of a
/// block of `count` elements, `exponents` and `out` cover the same elements, at most a chunk.
#[inline(always)]
pub(crate) fn merge<T: Word>(
    exponents: &[u8],
    tail: Tail,
    planes: &[u8],
    count: usize,
    start: usize,
    out: &mut [u8],
) -> Result<(), Damaged> {
    let short = broken("a nested block ends inside its planes");
    let bit_plane = count.div_ceil(GROUP) * (GROUP / 8);
    let (bit_part, byte_part) = planes.split_at_checked(tail.bit_planes() * bit_plane).ok_or(short)?;
    let mut odd = [0_u8; CHUNK];
    for plane in 0..tail.bit_planes() {
        let first = plane * bit_plane + start / 8;
        let length = exponents.len().div_ceil(GROUP) * (GROUP / 8);
        let packed = bit_part.get(first..first + length).ok_or(short)?;
        for (packed, odd) in packed.as_chunks::<32>().0.iter().zip(odd.as_chunks_mut::<GROUP>().0) {
            for field in 0..8 {
                for (odd, &byte) in odd[32 * field..32 * field + 32].iter_mut().zip(packed) {
                    *odd |= (byte >> field & 1) << plane;
                }
            }
        }
    }
    let end = start + exponents.len();
    let plane = |index: usize| byte_part.get(index * count + start..index * count + end).ok_or(short);
    let odd = &odd[..exponents.len()];
    let assemble = Assemble::<T>::new(tail);
    let elements = out.chunks_exact_mut(T::BYTES).zip(exponents);
    match (tail.byte_planes(), tail.bit_planes()) {
        (0, _) => {
            elements.zip(odd).for_each(|((out, &exponent), &odd)| assemble.one(exponent, T::from(odd), out))
        }
        (1, 0) => {
            elements.zip(plane(0)?).for_each(|((out, &exponent), &a)| assemble.one(exponent, T::from(a), out))
        }
        (1, _) => elements.zip(plane(0)?).zip(odd).for_each(|(((out, &exponent), &a), &odd)| {
            assemble.one(exponent, T::from(a) | T::from(odd) << (8 % (8 * T::BYTES as u32)), out);
        }),
        (2, _) => elements.zip(plane(0)?.iter().zip(plane(1)?)).zip(odd).for_each(
            |(((out, &exponent), (&a, &b)), &odd)| {
                let bits = u32::from(a) | u32::from(b) << 8 | u32::from(odd) << 16;
                assemble.one(exponent, T::truncate(bits), out);
            },
        ),
        (_, _) => elements.zip(plane(0)?.iter().zip(plane(1)?).zip(plane(2)?)).for_each(
            |((out, &exponent), ((&a, &b), &c))| {
                let bits = u32::from(a) | u32::from(b) << 8 | u32::from(c) << 16;
                assemble.one(exponent, T::truncate(bits), out);
            },
        ),
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

impl<T: Word> Assemble<T> {
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
            sign: T::truncate(u32::from(tail.sign == Sign::Set) << geometry.sign_bit()),
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
