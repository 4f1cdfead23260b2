//! Eight numbers of 32 bits, one for each lane of a coder, in as many registers as an instruction set needs
//! for them: loops that are the same for several instruction sets are written over these.
#![allow(unsafe_code)]

use super::Instructions;

/// Eight numbers in registers. The first of them come from a kernel, which exists only where the CPU has the
/// instructions, and all others from these: arithmetic is safe. All methods are inlined into loops that are
/// compiled for the instructions.
pub(super) trait EightLanes: Copy {
    /// The kernel whose instructions these are.
    type Kernel: Instructions;

    /// The same number in all lanes.
    fn all(kernel: Self::Kernel, number: i32) -> Self;
    fn of(kernel: Self::Kernel, numbers: [i32; 8]) -> Self;
    fn load(kernel: Self::Kernel, numbers: &[i32; 8]) -> Self;
    fn store(self, numbers: &mut [i32; 8]);
    /// Eight bytes as numbers.
    fn load_bytes(kernel: Self::Kernel, bytes: &[u8; 8]) -> Self;
    /// Stores numbers that fit 16 bits, without a sign or with one.
    fn store_unsigned_words(self, words: &mut [u16; 8]);
    fn store_signed_words(self, words: &mut [i16; 8]);
    /// The first and the second numbers of eight pairs, each at a place of its own.
    ///
    /// # Safety
    ///
    /// Two numbers must be readable at each place.
    unsafe fn load_pairs(kernel: Self::Kernel, places: [*const i32; 8]) -> (Self, Self);
    /// The reverse of [`EightLanes::load_pairs`].
    ///
    /// # Safety
    ///
    /// Two numbers must be writable at each place.
    unsafe fn store_pairs(first: Self, second: Self, places: [*mut i32; 8]);

    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    /// The low halves of products.
    fn multiply(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    /// These bits where those of `mask` are clear.
    fn without(self, mask: Self) -> Self;
    fn least(self, other: Self) -> Self;
    fn least_unsigned(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
    fn shift_left<const BITS: i32>(self) -> Self;
    /// Each number to the left by as many bits as the other number says.
    fn shift_left_by(self, bits: Self) -> Self;
    /// To the right, with zeros or with copies of the sign.
    fn shift_right<const BITS: i32>(self) -> Self;
    fn shift_right_signed<const BITS: i32>(self) -> Self;

    /// All ones in the lanes where this number is greater than, or equal to, the other one.
    fn is_greater(self, other: Self) -> Self;
    fn is_equal(self, other: Self) -> Self;
    /// This number where `mask` is all ones, and `other` where it is zero.
    fn select(self, other: Self, mask: Self) -> Self;
    /// A bit for each lane of a mask.
    fn set_of(self) -> u8;

    /// Two neighbours at a time, the first in the lower half.
    fn pairs(self) -> [u64; 4];
    /// `table[index]` of eight indices.
    ///
    /// # Safety
    ///
    /// The numbers at all indices must be readable.
    unsafe fn look_up(table: *const i32, index: Self) -> Self;
    /// `table[index]` of eight indices below eight, from a register.
    fn look_up_eight(table: &[i32; 8], index: Self) -> Self;
    /// The next words for the lanes of a set and zeros for the others, and how many those were.
    fn next_words(kernel: Self::Kernel, set: u8, words: &[u16; 8]) -> (Self, usize);

    /// The number at each of eight places, `offset` further on.
    ///
    /// # Safety
    ///
    /// It must be readable.
    #[inline(always)]
    unsafe fn load_each(kernel: Self::Kernel, places: &[*const i32; 8], offset: usize) -> Self {
        let [a, b, c, d, e, f, g, h] = places;
        // SAFETY: the caller vouches for the places.
        let numbers = unsafe {
            [
                a.add(offset).read(),
                b.add(offset).read(),
                c.add(offset).read(),
                d.add(offset).read(),
                e.add(offset).read(),
                f.add(offset).read(),
                g.add(offset).read(),
                h.add(offset).read(),
            ]
        };
        Self::of(kernel, numbers)
    }

    /// Stores a number to each of eight places, `offset` further on.
    ///
    /// # Safety
    ///
    /// It must be writable.
    #[inline(always)]
    unsafe fn store_each(self, places: &[*mut i32; 8], offset: usize) {
        let mut each = [0; 8];
        self.store(&mut each);
        for (number, place) in each.into_iter().zip(places) {
            // SAFETY: the caller vouches for the places.
            unsafe { place.add(offset).write(number) };
        }
    }

    /// All ones for the lanes of a set.
    #[inline(always)]
    fn lanes_of(kernel: Self::Kernel, set: u8) -> Self {
        let each = Self::of(kernel, [1, 2, 4, 8, 16, 32, 64, 128]);
        Self::all(kernel, i32::from(set)).and(each).is_equal(each)
    }
}
