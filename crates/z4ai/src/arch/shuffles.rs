//! Byte shuffles that kernels look up by a set of lanes. A shuffle is what `pshufb` and `tbl` take: for each
//! byte the place that it comes from, or one past the register for a zero.

/// A byte shuffle, aligned so that none lies in two cache lines.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(in crate::arch) struct ByteShuffle(pub [u8; 16]);

/// For each set of eight lanes of two bytes: moves the next words to the lanes in the set, and zeros to the
/// others.
pub(in crate::arch) static SPREAD_WORDS: [ByteShuffle; 256] = spread::<256>(2);
/// For each set of four lanes of four bytes: moves the next numbers to the lanes in the set, and zeros to the
/// others.
pub(in crate::arch) static SPREAD_LONGS: [ByteShuffle; 16] = spread::<16>(4);
/// For each set of eight lanes of two bytes: moves the words of the lanes in the set to the end of the
/// register.
pub(in crate::arch) static WORDS_TO_END: [ByteShuffle; 256] = words_to_end();
/// For each set of eight lanes: how many bytes their words take.
#[cfg(target_arch = "aarch64")]
pub(in crate::arch) static BYTES_OF_WORDS: [u8; 256] = bytes_of_words();

const fn spread<const SETS: usize>(width: usize) -> [ByteShuffle; SETS] {
    let mut table = [ByteShuffle([0x80; 16]); SETS];
    let mut set = 0;
    while set < SETS {
        let (mut byte, mut taken) = (0, 0);
        while byte < 16 {
            if set >> (byte / width) & 1 == 1 {
                table[set].0[byte] = taken;
                taken += 1;
            }
            byte += 1;
        }
        set += 1;
    }
    table
}

const fn words_to_end() -> [ByteShuffle; 256] {
    let mut table = [ByteShuffle([0x80; 16]); 256];
    let mut set = 0;
    while set < 256 {
        let (mut lane, mut place) = (8, 16);
        while lane > 0 {
            lane -= 1;
            if set >> lane & 1 == 1 {
                place -= 2;
                table[set].0[place] = 2 * lane as u8;
                table[set].0[place + 1] = 2 * lane as u8 + 1;
            }
        }
        set += 1;
    }
    table
}

#[cfg(target_arch = "aarch64")]
const fn bytes_of_words() -> [u8; 256] {
    let mut table = [0; 256];
    let mut set = 0;
    while set < 256 {
        table[set] = 2 * (set as u8).count_ones() as u8;
        set += 1;
    }
    table
}
