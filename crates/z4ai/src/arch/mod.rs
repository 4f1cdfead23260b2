//! Hot loops, once portable and once per instruction set, all giving the same bytes. This is the only module of the crate with `unsafe`
//! code; everything above it is checked by the compiler.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod heads;
pub(crate) mod memory;
mod portable;

pub(crate) use heads::{HeadCall, HeadFormat, HeadInputs, Lines, RowLines, Sign, Split};

use crate::entropy::nested::{self, Geometry, Portable, Shifts};
use crate::entropy::rans::{DecoderTables, EncoderTables, LANES, MIXED_LANES, MOST_LANES, MixedDecoder};
use crate::error::Result;
use crate::transform::float::{MagnitudeRun, SignRun};
use crate::transform::reference::{Alphabet, CLASSES, EXPONENTS, Movement, RawLanes, RawReader, Word, Words};

/// Which implementation of the hot loops runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kernel(Level);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// What the elements of a block are made from besides the entropy-coded symbols and the raw bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restoration<'a> {
    pub movement: Movement,
    /// The contexts of each class by the number of an exponent.
    pub contexts: &'a [[u8; EXPONENTS]; CLASSES],
    /// The chunks that have symbols, in order.
    pub chunks: &'a [CodedChunk],
    /// How many elements of these have been made, a multiple of [`LANES`].
    pub made: usize,
    /// The elements of the reference.
    pub base: &'a [u8],
}

/// A block on its way from entropy-coded symbols to elements.
#[derive(Debug)]
pub(crate) struct RestoredBlock<'b, 'a, 'r> {
    pub inputs: Restoration<'a>,
    pub states: &'b mut [u32; LANES],
    pub words: &'a [u8],
    pub raw: &'b mut RawReader<'r>,
    pub out: &'b mut [u8],
}

/// A chunk of a block whose elements have symbols.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CodedChunk {
    pub number: u32,
    pub class: u8,
}

/// The bits that the symbols of subnormal floats leave open: of each element its sign, if signs differ, and above it the low bits of its magnitude.
#[derive(Debug)]
pub(crate) struct VerbatimBits<'a> {
    pub bytes: &'a [u8],
    /// In bits; past the end if there are too few of them.
    pub position: usize,
    /// Whether each element has its sign here.
    pub signs: bool,
    /// The sign of all of them otherwise.
    pub negative: bool,
}

impl Kernel {
    /// The plain implementation, which every CPU runs.
    pub const PORTABLE: Self = Self(Level::Portable);

    /// The fastest implementation that this CPU can run.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if avx512::runs() {
            return Self(Level::Avx512);
        } else if avx2::runs() {
            return Self(Level::Avx2);
        }
        Self::PORTABLE
    }

    /// Every implementation that this CPU can run.
    #[cfg(any(test, fuzzing))]
    pub fn available() -> Vec<Self> {
        let mut kernels = vec![Self::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        kernels.extend(avx2::runs().then_some(Self(Level::Avx2)));
        #[cfg(target_arch = "x86_64")]
        kernels.extend(avx512::runs().then_some(Self(Level::Avx512)));
        kernels
    }

    /// Encodes a block with the nested coder.
    pub fn nested_encode(
        self,
        elements: &[u8],
        geometry: Geometry,
        shifts: Shifts<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self.0 {
            Level::Portable => nested::encode_with::<Portable>(elements, geometry, shifts, out),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx2 => unsafe { avx2::nested::encode(elements, geometry, shifts, out) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx512 => unsafe { avx512::nested::encode(elements, geometry, shifts, out) },
        }
    }

    /// Decodes a block of the nested coder.
    pub fn nested_decode(
        self,
        block: &[u8],
        geometry: Geometry,
        shifts: Shifts<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        match self.0 {
            Level::Portable => nested::decode_with::<Portable>(block, geometry, shifts, out),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx2 => unsafe { avx2::nested::decode(block, geometry, shifts, out) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx512 => unsafe { avx512::nested::decode(block, geometry, shifts, out) },
        }
    }

    /// Decodes whole groups of one symbol per lane, of a stream with 1, 4, [`LANES`] or [`MOST_LANES`], while `words` certainly suffices for the next group, and returns how many
    /// symbols were written and bytes of `words` read. The caller finishes the rest one by one.
    pub fn rans_decode(
        self,
        tables: &DecoderTables,
        lanes: usize,
        states: &mut [u32; MOST_LANES],
        offsets: &[u16],
        words: &[u8],
        out: &mut [u8],
    ) -> (usize, usize) {
        match lanes {
            1 => portable::rans_decode::<1>(tables, states, offsets, words, out),
            4 => self.vectorised(
                #[inline(always)]
                || portable::rans_decode::<4>(tables, states, offsets, words, out),
            ),
            _ => match self.0 {
                Level::Portable if lanes == LANES => {
                    portable::rans_decode::<LANES>(tables, states, offsets, words, out)
                }
                Level::Portable => portable::rans_decode::<MOST_LANES>(tables, states, offsets, words, out),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
                Level::Avx2 => unsafe {
                    avx2::rans_decode(tables, &mut states[..lanes], offsets, words, out)
                },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Level::Avx512 => unsafe {
                    avx512::rans_decode(tables, &mut states[..lanes], offsets, words, out)
                },
            },
        }
    }

    /// Decodes the symbols of elements of a chunk of floats as [`Self::rans_decode`] does, in the contexts of the expected scales, and makes their heads with them. Returns up to
    /// where heads were made and how many bytes of words were read. Each group's escaped exponents, whose heads are yet to be corrected, are told by a bit. `None`, always on the
    /// portable kernel, leaves all of it to the caller.
    pub fn decode_heads(self, call: HeadCall) -> Option<(usize, usize)> {
        match self.0 {
            Level::Portable => None,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx2 => unsafe { heads::decode_heads::<avx2::heads::Loops>(call) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx512 => unsafe { heads::decode_heads::<avx512::heads::Loops>(call) },
        }
    }

    /// Moves elements by what decay says and nothing else. Returns how many bytes were made; the caller does the rest.
    pub fn decay<W: Word>(self, movement: Movement, base: &[u8], out: &mut [u8]) -> usize {
        match self.0 {
            Level::Portable => 0,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx2 | Level::Avx512 => unsafe { avx2::restore::decay::<W>(movement, base, out) },
        }
    }

    /// Decodes the symbols of whole groups of the elements of chunks as [`Self::rans_decode`] does, of a stream with [`LANES`], reads their raw bits and makes the elements. Returns how many were made and how many
    /// bytes of `words` were read. The caller does the rest; with the portable kernel that is all.
    pub fn restore<W: Word>(self, tables: &DecoderTables, block: RestoredBlock) -> (usize, usize) {
        match self.0 {
            Level::Portable => (0, 0),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx2 | Level::Avx512 => unsafe { avx2::restore::restore::<W>(tables, block) },
        }
    }

    /// Whether [`Self::restore_two`] does anything for elements of so many bytes.
    pub fn restores_two(self, width: usize) -> bool {
        match self.0 {
            Level::Portable => false,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => false,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => width == 2,
        }
    }

    /// [`Self::restore`] of two blocks with the same tables, contexts and movement in turn, until one of them has no more pieces: while one waits for its entropy coder, the other goes on.
    pub fn restore_two<W: Word>(
        self,
        tables: &DecoderTables,
        blocks: [RestoredBlock; 2],
    ) -> [(usize, usize); 2] {
        match self.0 {
            Level::Portable => [(0, 0); 2],
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => [(0, 0); 2],
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx512 => unsafe { avx512::restore::restore_two::<W>(tables, blocks) },
        }
    }

    /// Encodes a stream of 1, 4, [`LANES`] or [`MOST_LANES`] lanes from its last symbol to its first, and returns where its words begin; they fill `words` to the end. There is
    /// room for two bytes per symbol and two per lane more. `contexts` is as long as `symbols`, or empty.
    pub fn rans_encode(
        self,
        tables: &EncoderTables,
        lanes: usize,
        states: &mut [u32; MOST_LANES],
        symbols: &[u8],
        contexts: &[u8],
        words: &mut [u8],
    ) -> usize {
        let end = words.len();
        match lanes {
            1 => self.vectorised(
                #[inline(always)]
                || portable::rans_encode::<1>(tables, states, symbols, contexts, words, end),
            ),
            4 => self.vectorised(
                #[inline(always)]
                || portable::rans_encode::<4>(tables, states, symbols, contexts, words, end),
            ),
            _ => match self.0 {
                Level::Portable if lanes == LANES => {
                    portable::rans_encode::<LANES>(tables, states, symbols, contexts, words, end)
                }
                Level::Portable => {
                    portable::rans_encode::<MOST_LANES>(tables, states, symbols, contexts, words, end)
                }
                #[cfg(target_arch = "x86_64")]
                level @ (Level::Avx2 | Level::Avx512) => {
                    let whole = symbols.len() / lanes * lanes;
                    let (symbols, last) = symbols.split_at(whole);
                    let (contexts, last_contexts) = contexts.split_at(whole.min(contexts.len()));
                    // The last group is one group for any number of lanes that it may have.
                    let end =
                        portable::rans_encode::<MOST_LANES>(tables, states, last, last_contexts, words, end);
                    let states = &mut states[..lanes];
                    if level == Level::Avx512
                        && let Some(compact) = tables.compact()
                    {
                        let precision = tables.precision();
                        // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
                        let start = unsafe {
                            avx512::encode::rans_encode(
                                compact, precision, states, symbols, contexts, words, end,
                            )
                        };
                        if let Some(start) = start {
                            return start;
                        }
                    }
                    // SAFETY: as above; a CPU of the higher level has the instructions of the lower one.
                    unsafe { avx2::encode::rans_encode(tables, states, symbols, contexts, words, end) }
                }
            },
        }
    }

    /// Decodes the next steps of a run of magnitudes, up to one with an escape, if there is a quicker way than one lane after the other: what was expected of each, and how far
    /// it is from that.
    pub fn decode_magnitudes(
        self,
        run: &mut MagnitudeRun,
        stream: &mut MixedDecoder,
        context_mask: usize,
        expected: &mut [[u16; MIXED_LANES]],
        distances: &mut [[i16; MIXED_LANES]],
    ) {
        match self.0 {
            Level::Portable => {}
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx2 | Level::Avx512 => unsafe {
                avx2::magnitudes::decode(run, stream, context_mask, expected, distances);
            },
        }
    }

    /// Decodes a run of signs, if there is a quicker way than one lane after the other.
    pub fn decode_signs(self, run: &mut SignRun, stream: &mut MixedDecoder) -> bool {
        match self.0 {
            Level::Portable => false,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx2 => unsafe { avx2::signs::decode(run, stream) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx512 => unsafe { avx512::signs::decode(run, stream) },
        }
    }

    /// Puts the next elements of `dense` where bits are set, from the low end of each byte, and zeros elsewhere, in groups of eight for which `dense` certainly suffices. Returns how many
    /// groups were made and how many elements of `dense` they took. The caller makes the rest; with the portable kernel that is all.
    pub fn spread<const WIDTH: usize>(
        self,
        bitmap: &[u8],
        dense: &[[u8; WIDTH]],
        elements: &mut [[u8; WIDTH]],
    ) -> (usize, usize) {
        match self.0 {
            Level::Portable => (0, 0),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx2 | Level::Avx512 => unsafe { avx2::spread::spread(bitmap, dense, elements) },
        }
    }

    /// `table[index]` for each of the indices, modulo 32.
    pub fn look_up(self, table: &[u8; 32], indices: &[u8], found: &mut [u8]) {
        let done = match self.0 {
            Level::Portable => 0,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx2 | Level::Avx512 => unsafe { avx2::look_up::look_up(table, indices, found) },
        };
        for (found, &index) in found.iter_mut().zip(indices).skip(done) {
            *found = table[usize::from(index % 32)];
        }
    }

    /// Makes fp16 elements from their symbols, as `transform::subnormal` has them, and their verbatim bits: the first ones, and returns how many. The caller makes the others; with the
    /// portable kernel those are all.
    pub fn restore_subnormals(self, symbols: &[u8], verbatim: &mut VerbatimBits, out: &mut [u8]) -> usize {
        match self.0 {
            Level::Portable => 0,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => 0,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx512 => unsafe {
                if verbatim.signs {
                    avx512::subnormals::restore::<1>(symbols, verbatim, out)
                } else {
                    avx512::subnormals::restore::<0>(symbols, verbatim, out)
                }
            },
        }
    }

    /// The differences of whole pieces of elements from those of their base, with symbols and the numbers of the base's exponents: of how many elements, and how many bits the differences have in all.
    /// The caller does the rest; with the portable kernel that is all.
    pub fn differences<W: Word>(
        self,
        movement: Movement,
        current: &[u8],
        base: &[u8],
        differences: &mut [W],
        symbols: &mut [u8],
        numbers: &mut [u8],
    ) -> (usize, u32) {
        match self.0 {
            Level::Portable => (0, 0),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx2 => unsafe {
                avx2::differences::differences(movement, current, base, differences, symbols, numbers)
            },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx512 => unsafe {
                avx512::differences::differences(movement, current, base, differences, symbols, numbers)
            },
        }
    }

    /// Reads the differences with these symbols in whole pieces, as long as these have no raw bits, or have them in eight lanes and the words certainly suffice; returns how many
    /// differences that were. The caller reads the next piece and comes back; with the portable kernel it reads all.
    pub fn read_differences<W: Word>(
        self,
        alphabet: Alphabet,
        symbols: &[u8],
        raw: &mut RawReader,
        differences: &mut [W],
    ) -> usize {
        match self.0 {
            Level::Portable => 0,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx2 | Level::Avx512 => unsafe {
                avx2::raw_bits::read(alphabet, symbols, raw, differences)
            },
        }
    }

    /// Puts the raw bits of whole groups of differences, the last first, before those of eight lanes, or does nothing and says so.
    pub fn write_raw_bits<W: Word>(
        self,
        alphabet: Alphabet,
        symbols: &[u8],
        differences: &[W],
        state: &mut RawLanes,
        words: &mut Words,
    ) -> bool {
        match self.0 {
            Level::Portable => false,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx2 => unsafe { avx2::raw_bits::write(alphabet, symbols, differences, state, words) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx512 => unsafe { avx512::raw_bits::write(alphabet, symbols, differences, state, words) },
        }
    }

    /// Runs `work` compiled for this level's instructions: loops that are inlined into the closure vectorise with the wider registers.
    #[inline]
    pub fn vectorised<R>(self, work: impl FnOnce() -> R) -> R {
        match self.0 {
            Level::Portable => work(),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Kernel` of this level exists only where `detect` found the instructions.
            Level::Avx2 => unsafe { avx2::vectorised(work) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx512 => unsafe { avx512::vectorised(work) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_are_looked_up(table in any::<[u8; 32]>(), indices in prop::collection::vec(any::<u8>(), 0..200)) {
            for kernel in Kernel::available() {
                let mut found = vec![0; indices.len()];
                kernel.look_up(&table, &indices, &mut found);
                prop_assert!(found.iter().zip(&indices).all(|(&byte, &index)| byte == table[usize::from(index) % 32]));
            }
        }
    }
}
