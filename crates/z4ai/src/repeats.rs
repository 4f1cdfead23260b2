//! Blocks that repeat earlier data of their section, at any element offset: tied embeddings, duplicated layers, tiled tensors.

use std::collections::HashMap;

/// Elements between the places that are remembered; each block is searched over as many offsets.
const STRIDE: usize = 512;
/// Bytes that must agree before whole blocks are compared.
const KEY: usize = 16;

/// For each block of `bytes`, the offset of an earlier stretch with the same bytes that lies in blocks which are not copies themselves.
pub(crate) fn find(bytes: &[u8], block_length: usize, width: usize) -> Vec<Option<usize>> {
    let blocks = bytes.len().div_ceil(block_length);
    let mut copies = vec![None; blocks];
    if blocks < 2 {
        return copies;
    }
    let mut places: HashMap<[u8; KEY], usize> = HashMap::new();
    for place in (0..bytes.len()).step_by(STRIDE * width) {
        if let Some(key) = key(bytes, place) {
            places.entry(key).or_insert(place);
        }
    }
    for index in 1..blocks {
        let start = index * block_length;
        let block = &bytes[start..bytes.len().min(start + block_length)];
        let found = (0..STRIDE.min(block.len() / width)).find_map(|step| {
            let place = *places.get(&key(bytes, start + step * width)?)?;
            let source = place.checked_sub(step * width)?;
            let end = source + block.len();
            let original = end <= start
                && copies[source / block_length..=(end - 1) / block_length].iter().all(Option::is_none);
            (original && bytes[source..end] == *block).then_some(source)
        });
        copies[index] = found;
    }
    copies
}

/// The bytes at `place`, unless they are all the same, as in padding, where every place looks like every other.
fn key(bytes: &[u8], place: usize) -> Option<[u8; KEY]> {
    let key = *bytes.get(place..)?.first_chunk::<KEY>()?;
    (key != [key[0]; KEY]).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_found_at_any_offset() {
        let noise: Vec<u8> =
            (0..40_000u32).map(|i| (i.wrapping_mul(i).wrapping_mul(2654435761) >> 24) as u8).collect();
        for gap in [0, 2, 1030, 4096] {
            let data = [&noise[..], &vec![9; gap], &noise, &noise].concat();
            let copies = find(&data, 4096, 2);
            assert!(copies.iter().flatten().count() >= 17, "{gap} {copies:?}");
            for (index, source) in
                copies.iter().enumerate().filter_map(|(i, copy)| copy.map(|copy| (i, copy)))
            {
                let block = &data[index * 4096..data.len().min((index + 1) * 4096)];
                assert_eq!(&data[source..source + block.len()], block);
            }
        }
        assert!(find(&noise, 4096, 2).iter().all(Option::is_none));
        assert!(find(&[0; 10_000], 4096, 2).iter().all(Option::is_none));
    }
}
