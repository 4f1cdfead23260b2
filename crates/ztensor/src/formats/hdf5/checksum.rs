//! The checksum of HDF5's newer metadata structures: Bob Jenkins' public-domain "lookup3" hash, always over all bytes but the last four.

use crate::error::{Error, Kind, Result};

/// Checks that the last four bytes are the checksum of those before them, and returns those before them.
pub(super) fn verified<'a>(block: &'a [u8], offset: u64, what: &str) -> Result<&'a [u8]> {
    let Some((covered, stored)) = block.split_last_chunk::<4>() else {
        return Err(Error::truncated(format!("the {what} has no room for its checksum")).with_offset(offset));
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), lookup3(covered));
    if stored != computed {
        return Err(Error::new(
            Kind::Checksum,
            format!(
                "the checksum of the {what} does not match: stored {stored:08x}, computed {computed:08x}"
            ),
        )
        .with_offset(offset)
        .with_hint("The file is damaged; fetch it again or restore it from a backup."));
    }
    Ok(covered)
}

/// The hash of some bytes, with an initial value of zero.
pub(super) fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let mut state = [start; 3];
    // The last one to twelve bytes are mixed differently, so a full final block is held back.
    let whole = bytes.len().saturating_sub(1) / 12 * 12;
    let (blocks, tail) = bytes.split_at(whole);
    for block in blocks.as_chunks::<12>().0 {
        add(&mut state, block);
        mix(&mut state);
    }
    if tail.is_empty() {
        return state[2];
    }
    let mut last = [0; 12];
    last[..tail.len()].copy_from_slice(tail);
    add(&mut state, &last);
    finish(&mut state);
    state[2]
}

fn add(state: &mut [u32; 3], block: &[u8; 12]) {
    for (word, bytes) in state.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = word.wrapping_add(u32::from_le_bytes(*bytes));
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    fn step(x: &mut u32, y: &mut u32, z: &mut u32, turn: u32) {
        *x = x.wrapping_sub(*z) ^ z.rotate_left(turn);
        *z = z.wrapping_add(*y);
    }
    step(a, b, c, 4);
    step(b, c, a, 6);
    step(c, a, b, 8);
    step(a, b, c, 16);
    step(b, c, a, 19);
    step(c, a, b, 4);
}

fn finish([a, b, c]: &mut [u32; 3]) {
    fn step(x: &mut u32, y: u32, turn: u32) {
        *x = (*x ^ y).wrapping_sub(y.rotate_left(turn));
    }
    step(c, *b, 14);
    step(a, *c, 11);
    step(b, *a, 25);
    step(c, *b, 16);
    step(a, *c, 4);
    step(b, *a, 14);
    step(c, *b, 24);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }

    #[test]
    fn one_changed_bit_is_noticed() {
        let mut block = b"some metadata".to_vec();
        block.extend(lookup3(&block).to_le_bytes());
        assert_eq!(verified(&block, 0, "test").unwrap(), b"some metadata");
        for position in 0..block.len() {
            let mut damaged = block.clone();
            damaged[position] ^= 1;
            assert_eq!(verified(&damaged, 0, "test").unwrap_err().kind(), Kind::Checksum);
        }
    }
}
