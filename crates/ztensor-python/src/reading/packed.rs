//! Types narrower than a byte. Files pack them, lowest bits first; NumPy (through `ml_dtypes`) gives each element a byte of its own,
//! with the bits above it zero.

use pyo3::prelude::*;
use ztensor::ElementType;

use crate::element;
use crate::errors::{OrRaise, argument};
use crate::memory::array::Region;
use crate::memory::{Block, Memory};
use crate::work::Work;

/// Whether elements are packed several to a byte.
pub(crate) fn is_packed(element: &ElementType) -> bool {
    element.bits().is_some_and(|bits| bits < 8)
}

/// An array with a byte for each of some packed elements.
pub(crate) fn array<'py>(
    py: Python<'py>,
    packed: &[u8],
    element: &ElementType,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let descriptor = element::descriptor(py, element)?;
    let count = shape.iter().try_fold(1usize, |count, &dimension| count.checked_mul(dimension));
    let bits = element.bits().and_then(|bits| u32::try_from(bits).ok()).unwrap_or(8);
    let count =
        count.filter(|count| element.byte_length(*count as u64) == Some(packed.len() as u64)).ok_or_else(
            || argument(format!("{} bytes do not hold {shape:?} {element} elements", packed.len())),
        )?;
    let mut block = Block::new(count).or_raise()?;
    if let Some(target) = block.bytes().get_mut(..count) {
        py.work(|| unpack(packed, bits, target));
    }
    let memory = Memory::of_block(py, block)?.into_bound(py);
    let region = Region::new(&memory, 0, 0, count as u64)
        .ok_or_else(|| argument("the unpacked elements do not fit their block"))?;
    region.array(&descriptor, shape, None)
}

/// Spreads packed elements of `bits` bits over one byte each. Bytes that `packed` does not have count as zero.
fn unpack(packed: &[u8], bits: u32, out: &mut [u8]) {
    let mask = ((1u16 << bits) - 1) as u8;
    for (number, target) in out.iter_mut().enumerate() {
        let bit = number * bits as usize;
        let low = packed.get(bit / 8).copied().unwrap_or(0);
        let high = packed.get(bit / 8 + 1).copied().unwrap_or(0);
        *target = (u16::from_le_bytes([low, high]) >> (bit % 8)) as u8 & mask;
    }
}

/// Packs elements of one byte each, lowest bits first; the last byte is filled up with zeros.
pub(crate) fn pack(elements: &[u8], bits: u32) -> Vec<u8> {
    let mask = ((1u16 << bits) - 1) as u8;
    let mut packed = vec![0u8; (elements.len() * bits as usize).div_ceil(8)];
    for (number, element) in elements.iter().enumerate() {
        let bit = number * bits as usize;
        let [low, high] = (u16::from(element & mask) << (bit % 8)).to_le_bytes();
        for (place, part) in packed.iter_mut().skip(bit / 8).zip([low, high]) {
            *place |= part;
        }
    }
    packed
}
