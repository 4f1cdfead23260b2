//! Eight numbers of 32 bits, one for each lane of a coder, in as many registers as an instruction set needs
//! for them: what loops are written over that several instruction sets run alike.
#![allow(unsafe_code)]

/// Eight numbers in registers. All methods are inlined into loops that are compiled for the instructions.
///
/// # Safety
///
/// Of every method: the CPU must have the instructions. Pointers must be readable or writable for what they
/// are said to point to, and need no alignment.
pub(super) trait EightLanes: Copy {
    /// The same number in all lanes.
    unsafe fn all(number: i32) -> Self;
    unsafe fn of(numbers: [i32; 8]) -> Self;
    unsafe fn load(numbers: *const i32) -> Self;
    unsafe fn store(self, numbers: *mut i32);
    /// Eight bytes as numbers.
    unsafe fn load_bytes(bytes: *const u8) -> Self;
    /// Stores numbers that fit 16 bits, without a sign or with one.
    unsafe fn store_unsigned_words(self, words: *mut u16);
    unsafe fn store_signed_words(self, words: *mut i16);
    /// The first and the second numbers of eight pairs, each at a place of its own.
    unsafe fn load_pairs(places: [*const i32; 8]) -> (Self, Self);
    unsafe fn store_pairs(first: Self, second: Self, places: [*mut i32; 8]);

    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    /// The low halves of products.
    unsafe fn multiply(self, other: Self) -> Self;
    unsafe fn and(self, other: Self) -> Self;
    unsafe fn or(self, other: Self) -> Self;
    /// These bits where those of `mask` are clear.
    unsafe fn without(self, mask: Self) -> Self;
    unsafe fn least(self, other: Self) -> Self;
    unsafe fn least_unsigned(self, other: Self) -> Self;
    unsafe fn greatest(self, other: Self) -> Self;
    unsafe fn shift_left<const BITS: i32>(self) -> Self;
    /// To the left by as many bits as the other number says.
    unsafe fn shift_left_by(self, bits: Self) -> Self;
    /// To the right, with zeros or with copies of the sign.
    unsafe fn shift_right<const BITS: i32>(self) -> Self;
    unsafe fn shift_right_signed<const BITS: i32>(self) -> Self;

    /// All ones in the lanes where this number is greater than, or equal to, the other one.
    unsafe fn is_greater(self, other: Self) -> Self;
    unsafe fn is_equal(self, other: Self) -> Self;
    /// This number where `mask` is all ones, and `other` where it is zero.
    unsafe fn select(self, other: Self, mask: Self) -> Self;
    /// A bit for each lane of a mask.
    unsafe fn set_of(self) -> u8;

    /// Two neighbours at a time, the first in the lower half.
    unsafe fn pairs(self) -> [u64; 4];
    /// `table[index]` of eight indices; all must be readable.
    unsafe fn look_up(table: *const i32, index: Self) -> Self;
    /// `table[index % 8]` of eight indices, from a table of eight numbers.
    unsafe fn look_up_eight(table: *const i32, index: Self) -> Self;
    /// The next words for the lanes of a set and zeros for the others, and how many those were. Eight words
    /// must be readable.
    unsafe fn next_words(set: u8, words: *const u16) -> (Self, usize);

    /// The number at each of eight places, `offset` further on.
    #[inline(always)]
    unsafe fn load_each(places: &[*const i32; 8], offset: usize) -> Self {
        let [a, b, c, d, e, f, g, h] = places;
        // SAFETY: the caller vouches for the places and the instructions.
        unsafe {
            Self::of([
                a.add(offset).read(),
                b.add(offset).read(),
                c.add(offset).read(),
                d.add(offset).read(),
                e.add(offset).read(),
                f.add(offset).read(),
                g.add(offset).read(),
                h.add(offset).read(),
            ])
        }
    }

    /// Stores a number to each of eight places, `offset` further on.
    #[inline(always)]
    unsafe fn store_each(self, places: &[*mut i32; 8], offset: usize) {
        let mut each = [0; 8];
        // SAFETY: the caller vouches for the places and the instructions.
        unsafe {
            self.store(each.as_mut_ptr());
            for (number, place) in each.into_iter().zip(places) {
                place.add(offset).write(number);
            }
        }
    }

    /// All ones for the lanes of a set.
    #[inline(always)]
    unsafe fn lanes_of(set: u8) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe {
            let each = Self::of([1, 2, 4, 8, 16, 32, 64, 128]);
            Self::all(i32::from(set)).and(each).is_equal(each)
        }
    }
}
