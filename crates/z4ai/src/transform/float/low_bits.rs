//! Packing of the bits that look random (sign and low mantissa bits of the head): a few bits per element,
//! stored verbatim. A chunk's elements are spread over strided bit positions, so that packing and unpacking
//! are plain loops over whole arrays, which compilers vectorise.

use super::FLOAT_CHUNK;

/// The parts of a field of `bits` (at most 15) bits, each with its width (8, 4, 2 or 1) and its position in
/// the field.
fn parts(bits: u32) -> impl Iterator<Item = (u32, u32)> {
    [8, 4, 2, 1].into_iter().filter(move |width| bits & width != 0).scan(0, |position, width| {
        let start = *position;
        *position += width;
        Some((width, start))
    })
}

/// Bytes that `count` elements of `bits` bits take.
pub(in crate::transform) fn packed_len(count: usize, bits: u32) -> usize {
    let whole = count / FLOAT_CHUNK * (FLOAT_CHUNK / 8) * bits as usize;
    let rest = count % FLOAT_CHUNK;
    whole + parts(bits).map(|(width, _)| (rest * width as usize).div_ceil(8)).sum::<usize>()
}

/// Appends one chunk of at most [`FLOAT_CHUNK`] fields.
#[inline(always)]
pub(in crate::transform) fn pack(fields: &[u16], bits: u32, out: &mut Vec<u8>) {
    for (width, position) in parts(bits) {
        let stride = (fields.len() * width as usize).div_ceil(8);
        let start = out.len();
        out.resize(start + stride, 0);
        let bytes = &mut out[start..];
        if fields.len() == FLOAT_CHUNK {
            match width {
                8 => pack_chunk::<1>(fields, position, bytes),
                4 => pack_chunk::<2>(fields, position, bytes),
                2 => pack_chunk::<4>(fields, position, bytes),
                _ => pack_chunk::<8>(fields, position, bytes),
            }
            continue;
        }
        let mask = (1u16 << width) - 1;
        for (turn, segment) in fields.chunks(stride.max(1)).enumerate() {
            let shift = turn as u32 * width;
            for (byte, field) in bytes.iter_mut().zip(segment) {
                *byte |= ((field >> position & mask) as u8) << shift;
            }
        }
    }
}

/// Writes the parts of a whole chunk, so many to a byte.
#[inline(always)]
fn pack_chunk<const IN_BYTE: usize>(fields: &[u16], position: u32, bytes: &mut [u8]) {
    let (stride, width) = (FLOAT_CHUNK / IN_BYTE, 8 / IN_BYTE);
    let segments: [&[u16]; IN_BYTE] = std::array::from_fn(|turn| &fields[turn * stride..(turn + 1) * stride]);
    let mask = ((1u32 << width) - 1) as u16;
    for (index, byte) in bytes[..stride].iter_mut().enumerate() {
        let mut packed = 0;
        for (turn, segment) in segments.iter().enumerate() {
            packed |= (segment[index] >> position & mask) << (turn * width);
        }
        *byte = packed as u8;
    }
}

/// Reads one chunk of `fields.len()` fields from the front of `packed`, which holds at least [`packed_len`]
/// bytes.
#[inline(always)]
pub(in crate::transform) fn unpack(mut packed: &[u8], bits: u32, fields: &mut [u16]) {
    if bits == 0 {
        fields.fill(0);
    }
    for (width, position) in parts(bits) {
        let stride = (fields.len() * width as usize).div_ceil(8);
        let (bytes, rest) = packed.split_at(stride.min(packed.len()));
        packed = rest;
        let mask = ((1u16 << width) - 1) as u8;
        for (turn, segment) in fields.chunks_mut(stride.max(1)).enumerate() {
            let shift = turn as u32 * width;
            // The first part sets the field, the others add to it.
            let keep = if position == 0 { 0 } else { u16::MAX };
            for (field, byte) in segment.iter_mut().zip(bytes) {
                *field = *field & keep | u16::from(byte >> shift & mask) << position;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_chunks_are_packed_as_others_are() {
        let fields: Vec<u16> =
            (0..FLOAT_CHUNK as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 17) as u16).collect();
        for bits in 0..=15 {
            let masked: Vec<u16> = fields.iter().map(|field| field & ((1 << bits) - 1)).collect();
            let mut packed = Vec::new();
            pack(&masked, bits, &mut packed);
            let mut unpacked = vec![0xffff; FLOAT_CHUNK];
            unpack(&packed, bits, &mut unpacked);
            assert_eq!(unpacked, masked, "{bits}");
        }
    }

    proptest! {
        #[test]
        fn fields_survive(fields in proptest::collection::vec(any::<u16>(), 0..FLOAT_CHUNK), bits in 0u32..=15) {
            let masked: Vec<u16> = fields.iter().map(|field| field & ((1 << bits) - 1)).collect();
            let mut packed = Vec::new();
            pack(&masked, bits, &mut packed);
            prop_assert_eq!(packed.len(), packed_len(masked.len(), bits));
            let mut unpacked = vec![0xffff; masked.len()];
            unpack(&packed, bits, &mut unpacked);
            prop_assert_eq!(unpacked, masked);
        }
    }
}
