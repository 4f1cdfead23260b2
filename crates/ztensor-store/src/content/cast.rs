//! Floats of one type as those of another, by a recipe (`spec/recipes.md`): what an entry of another type is a base through.

use ztensor::recipe::{Number, Recipe, Rounding};
use ztensor::{ElementType, Error, Result};

/// From one float type to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cast {
    from: Number,
    to: Number,
}

impl Cast {
    /// The cast between two types of entries; `None` where there is none, or nothing to cast.
    pub(crate) fn between(from: &str, to: &str) -> Option<Cast> {
        let float = |name: &str| Number::of(&ElementType::parse(name)).filter(|number| number.is_float());
        let (from, to) = (float(from)?, float(to)?);
        (from != to).then_some(Cast { from, to })
    }

    /// How many bytes so many become.
    pub(crate) fn length(self, length: u64) -> Option<u64> {
        let (from, to) = (self.from.width() as u64, self.to.width() as u64);
        (length.is_multiple_of(from)).then(|| (length / from).checked_mul(to))?
    }

    /// The bytes to be cast for these bytes of the result: whole elements, from where on, and how many bytes of the first are not wanted.
    pub(crate) fn needed(self, start: u64, length: u64) -> Result<(u64, u64, usize)> {
        let (from, to) = (self.from.width() as u64, self.to.width() as u64);
        let end = start.checked_add(length).ok_or_else(|| Error::malformed("a range is too long"))?;
        let (first, last) = (start / to, end.div_ceil(to));
        Ok((first * from, (last - first) * from, (start % to) as usize))
    }

    /// Casts whole elements.
    pub(crate) fn apply(self, bytes: &[u8]) -> Result<Vec<u8>> {
        let recipe = Recipe::operand(0, self.from).cast(self.to, Rounding::Nearest);
        let lengths = [bytes.len() as u64];
        let mut out = vec![0; recipe.length(&lengths)? as usize];
        recipe.apply(&&[bytes][..], &lengths, 0, &mut out)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_cast_are_whole_elements() {
        let widen = Cast::between("bf16", "f32").unwrap();
        assert_eq!(widen.length(6), Some(12));
        assert_eq!(widen.length(5), None);
        assert_eq!(widen.needed(5, 2).unwrap(), (2, 2, 1));
        assert_eq!(widen.apply(&[0x80, 0x3f]).unwrap(), 1f32.to_le_bytes());
        assert!(widen.apply(&[0x80]).is_err());
        let narrow = Cast::between("f32", "f16").unwrap();
        assert_eq!(narrow.needed(3, 2).unwrap(), (4, 8, 1));
        assert_eq!(narrow.apply(&1f32.to_le_bytes()).unwrap(), [0x00, 0x3c]);
        for (from, to) in [("f32", "f32"), ("f32", "i32"), ("u8", "f16"), ("nonsense", "f32")] {
            assert_eq!(Cast::between(from, to), None, "{from} {to}");
        }
    }
}
