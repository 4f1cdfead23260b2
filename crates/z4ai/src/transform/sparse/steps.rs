//! The hot loop of sparse blocks.

use crate::arch::Instructions;

/// Steps that kernels override.
pub(crate) trait Steps: Instructions {
    /// Puts the next elements of `dense` where bits of `bitmap` are set, from the low end of each byte, and
    /// zeros elsewhere.
    fn spread<const WIDTH: usize>(self, bitmap: &[u8], dense: &[[u8; WIDTH]], elements: &mut [[u8; WIDTH]]) {
        spread(bitmap, dense, elements);
    }
}

/// The portable form of [`Steps::spread`].
pub(crate) fn spread<const WIDTH: usize>(bitmap: &[u8], dense: &[[u8; WIDTH]], elements: &mut [[u8; WIDTH]]) {
    let mut position = 0;
    for (elements, &mask) in elements.chunks_mut(8).zip(bitmap) {
        // Rows that were never touched, and whole ones, come in runs.
        if mask == 0 {
            elements.fill([0; WIDTH]);
            continue;
        }
        if let (0xff, Some(values)) = (mask, dense.get(position..position + elements.len())) {
            elements.copy_from_slice(values);
            position += elements.len();
            continue;
        }
        for (bit, element) in elements.iter_mut().enumerate() {
            // The next dense element is read either way and masked out where a zero belongs: cheaper than an
            // unpredictable branch.
            let present = mask >> bit & 1;
            let value = dense.get(position).copied().unwrap_or([0; WIDTH]);
            *element = value.map(|byte| byte & present.wrapping_neg());
            position += usize::from(present);
        }
    }
}
