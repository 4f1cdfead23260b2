//! Elements that are not floats, against a reference: the difference of each from its predecessor there,
//! modulo the width, coded with whatever model suits the differences.

mod decode;
mod encode;
mod model;

pub(crate) use encode::differences;
pub(crate) use model::DifferenceModel;

use crate::arch;

/// Replaces each element of `target` by `combine` of it and the one of `other`, in the low bits of numbers of
/// 64.
fn each_element(target: &mut [u8], other: &[u8], width: usize, combine: impl Fn(u64, u64) -> u64) {
    macro_rules! with {
        ($number:ty) => {{
            let (target, _) = target.as_chunks_mut::<{ size_of::<$number>() }>();
            let (other, _) = other.as_chunks::<{ size_of::<$number>() }>();
            for (target, &other) in target.iter_mut().zip(other) {
                let (a, b) = (<$number>::from_le_bytes(*target), <$number>::from_le_bytes(other));
                *target = (combine(a.into(), b.into()) as $number).to_le_bytes();
            }
        }};
    }
    arch::vectorised(
        #[inline(always)]
        || match width {
            1 => with!(u8),
            2 => with!(u16),
            4 => with!(u32),
            _ => with!(u64),
        },
    );
}
