//! Signs: stored as they are, left out where they are all the same, or eight of them as a symbol where one is
//! rarer than the other or where neighbours tend to agree, as in long filters of a convolution.

use super::FLOAT_CHUNK;
use super::steps::Steps;
use crate::arch::{self, dispatch};
use crate::dtype::FloatLayout;
use crate::entropy::plane::{self, PlaneModel};
use crate::entropy::rans;
use crate::entropy::table::{SYMBOLS, entropy_bits};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// How the signs of a section are coded.
#[derive(Debug)]
pub(super) enum Signs {
    /// Among the verbatim bits.
    Verbatim,
    /// All the same; true is negative.
    Constant(bool),
    /// Entropy coded, eight at a time.
    Coded(PlaneModel),
}

/// One bit in so many is what coded signs must save. Weights: half no change, double -0.003 %.
const JOINT_SIGN_GAIN: u64 = 32;
/// Elements, from all over a section, whose signs are compared with their neighbours'; in short sections they
/// would not save what their table takes.
const COMPARED_SIGNS: usize = 1 << 14;
/// Neighbours among these. Round numbers.
const SIGN_STRETCH: usize = 1 << 9;

impl Signs {
    /// The code of the mode in a model.
    pub fn to_code(&self) -> u8 {
        match self {
            Self::Verbatim => 0,
            Self::Constant(negative) => 1 + u8::from(*negative),
            Self::Coded(_) => 3,
        }
    }

    /// Appends the tables of coded signs.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Verbatim | Self::Constant(_) => {}
            Self::Coded(plane) => {
                out.push(0);
                plane.write(out);
            }
        }
    }

    /// Reads the signs of mode `code`.
    pub fn read(code: u8, reader: &mut Reader) -> Result<Self> {
        match code {
            0 => Ok(Self::Verbatim),
            1 | 2 => Ok(Self::Constant(code == 2)),
            _ if reader.u8()? == 0 => Ok(Self::Coded(PlaneModel::read(reader)?)),
            _ => Err(Error::corrupt("signs are coded in an unknown way")),
        }
    }

    /// Coded signs for a section with about so many negative and positive elements, if that saves enough.
    pub fn fit_coded(layout: FloatLayout, bytes: &[u8], counts: [u64; 2]) -> Result<Option<Self>> {
        // The cost is that of a sample, whose size fits a histogram.
        let total = counts[0] + counts[1];
        let sample =
            counts.map(|count| (u128::from(count) * SYMBOLS as u128 * 64 / u128::from(total.max(1))) as u32);
        let is_skewed = entropy_bits(&sample) < SYMBOLS as u64 * 64 * (JOINT_SIGN_GAIN - 1) / JOINT_SIGN_GAIN;
        if !is_skewed && !neighbours_agree(layout, bytes) {
            return Ok(None);
        }
        let mut packed = Vec::new();
        pack(layout, bytes, &mut packed);
        // Every symbol gets a frequency, since a model may code elements that it was not fitted to.
        let histogram = plane::histogram(packed.iter().copied()).map(|count| count + 1);
        Ok(match PlaneModel::choose(&histogram, 1024 / JOINT_SIGN_GAIN)? {
            PlaneModel::Raw => None,
            coded => Some(Self::Coded(coded)),
        })
    }

    /// Appends the signs of a block, if they are coded apart from the elements.
    pub fn encode(&self, layout: FloatLayout, bytes: &[u8], out: &mut Vec<u8>) {
        if let Self::Coded(plane) = self {
            let mut packed = Vec::new();
            pack(layout, bytes, &mut packed);
            plane.encode_in(rans::lanes_beside(packed.len()), &packed, out);
        }
    }

    /// Sets the signs of the block in `out`, whose elements are complete but for them if they are coded
    /// apart.
    pub fn decode(&self, layout: FloatLayout, reader: &mut Reader, out: &mut [u8]) -> Result<()> {
        let Self::Coded(plane) = self else { return Ok(()) };
        let count = (out.len() / layout.width).div_ceil(EIGHT);
        let packed = plane.decode_in(rans::lanes_beside(count), reader, count)?;
        if layout.width == 2 {
            dispatch!(kernel => kernel.set_signs(&packed, out.as_chunks_mut().0));
            return Ok(());
        }
        arch::vectorised(
            #[inline(always)]
            || match layout.width {
                4 => set_long_signs(&packed, out.as_chunks_mut().0),
                _ => set_wide_signs(&packed, out.as_chunks_mut().0),
            },
        );
        Ok(())
    }

    /// Whether signs are coded apart from the elements.
    pub fn are_apart(&self) -> bool {
        matches!(self, Self::Coded(_))
    }

    /// Bits of a sign among the verbatim bits.
    pub fn verbatim_bits(&self) -> u32 {
        u32::from(matches!(self, Self::Verbatim))
    }
}

/// Signs that are one symbol, the first one as its lowest bit.
const EIGHT: usize = 8;

/// Whether eight signs say something about each other, in a sample.
fn neighbours_agree(layout: FloatLayout, bytes: &[u8]) -> bool {
    let elements = bytes.len() / layout.width;
    if elements < 2 * COMPARED_SIGNS {
        return false;
    }
    let step = elements / (COMPARED_SIGNS / SIGN_STRETCH);
    let stretches = bytes.chunks(step * layout.width).take(COMPARED_SIGNS / SIGN_STRETCH);
    let mut packed = Vec::with_capacity(COMPARED_SIGNS / EIGHT);
    stretches.for_each(|part| pack(layout, &part[..SIGN_STRETCH * layout.width], &mut packed));
    let bits = (EIGHT * packed.len()) as u64;
    entropy_bits(&plane::histogram(packed.iter().copied())) < bits - bits / JOINT_SIGN_GAIN
}

/// Appends the signs of elements, eight to the byte.
fn pack(layout: FloatLayout, bytes: &[u8], packed: &mut Vec<u8>) {
    let mut heads = [0; FLOAT_CHUNK];
    packed.reserve((bytes.len() / layout.width).div_ceil(EIGHT));
    for chunk in bytes.chunks(FLOAT_CHUNK * layout.width) {
        let heads = &mut heads[..chunk.len() / layout.width];
        arch::vectorised(
            #[inline(always)]
            || layout.read_heads(chunk, heads),
        );
        let start = packed.len();
        packed.resize(start + heads.len().div_ceil(EIGHT), 0);
        dispatch!(kernel => kernel.pack_signs(heads, &mut packed[start..]));
    }
}

/// The portable form of [`super::Steps::pack_signs`].
pub(crate) fn pack_signs(heads: &[u16], packed: &mut [u8]) {
    for (heads, byte) in heads.chunks(EIGHT).zip(packed) {
        let signs = heads.iter().enumerate();
        *byte = signs.fold(0, |byte, (place, head)| byte | (head >> 15) << place) as u8;
    }
}

/// Makes a function that sets the signs of elements as wide as a word.
macro_rules! set_signs {
    ($name:ident, $word:ty) => {
        #[inline(always)]
        pub(crate) fn $name(packed: &[u8], elements: &mut [[u8; size_of::<$word>()]]) {
            const SIGN: $word = 1 << (<$word>::BITS - 1);
            let set = |elements: &mut [[u8; size_of::<$word>()]], signs: u8| {
                for (place, element) in elements.iter_mut().enumerate() {
                    // Multiplied, because not all vector registers know a shift for each number.
                    let sign = <$word>::from(signs).wrapping_mul(SIGN >> place) & SIGN;
                    *element = (<$word>::from_le_bytes(*element) | sign).to_le_bytes();
                }
            };
            let (groups, rest) = elements.as_chunks_mut::<EIGHT>();
            let last = packed.get(groups.len()).copied().unwrap_or(0);
            groups.iter_mut().zip(packed).for_each(|(elements, &signs)| set(elements, signs));
            set(rest, last);
        }
    };
}

set_signs!(set_signs, u16);
set_signs!(set_long_signs, u32);
set_signs!(set_wide_signs, u64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Kernel;

    /// Heads of both signs, as many as kernels take at a time, more and fewer; with their signs packed.
    fn cases() -> impl Iterator<Item = (Vec<u16>, Vec<u8>)> {
        [0, 1, 7, 8, 31, 32, 33, 64, 100, 4096, 4999].into_iter().map(|count| {
            let heads = (0..count).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 16) as u16);
            let heads: Vec<u16> = heads.collect();
            let mut packed = vec![0; heads.len().div_ceil(EIGHT)];
            pack_signs(&heads, &mut packed);
            (heads, packed)
        })
    }

    #[test]
    fn kernels_agree_on_pack_signs() {
        for (heads, expected) in cases() {
            for kernel in Kernel::available() {
                let mut packed = vec![0xff; expected.len()];
                kernel.run(|| dispatch!(kernel => kernel.pack_signs(&heads, &mut packed)));
                assert_eq!(packed, expected, "{kernel:?} {}", heads.len());
            }
        }
    }

    #[test]
    fn kernels_agree_on_set_signs() {
        for (heads, packed) in cases() {
            let expected: Vec<[u8; 2]> = heads.iter().map(|head| head.to_le_bytes()).collect();
            let magnitudes: Vec<[u8; 2]> = heads.iter().map(|head| (head & 0x7fff).to_le_bytes()).collect();
            for kernel in Kernel::available() {
                let mut elements = magnitudes.clone();
                kernel.run(|| dispatch!(kernel => kernel.set_signs(&packed, &mut elements)));
                assert_eq!(elements, expected, "{kernel:?} {}", heads.len());
            }
        }
    }
}
