//! NumPy's type strings: a byte order, a kind and a width, such as `<f4`.

use super::literal::Literal;
use crate::tensor::{ElementType, Known};

/// An element type, and the width of the units to swap if the file has them in big-endian order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ArrayType {
    pub element: ElementType,
    pub swapped: Option<u8>,
}

/// The type of a `descr`, or why arrays of that type are not read.
pub(super) fn array_type(descr: &Literal<'_>) -> Result<ArrayType, String> {
    let Literal::Text(text) = descr else {
        return Err("a structured array, whose elements are records of several fields".to_owned());
    };
    let (order, code) = match text.as_bytes() {
        [order @ (b'<' | b'>' | b'|' | b'='), ..] => (*order, text.get(1..).unwrap_or_default()),
        _ => (b'=', *text),
    };
    let code = if code == "?" { "b1" } else { code };
    // NumPy has no names for the types of ml_dtypes. Few are told from all others by what it writes instead, and only with a byte order, which
    // true void types do not have.
    let known = Known::find(|names| names.npy == Some(code))
        .filter(|known| order == b'<' || known.names.numpy.is_some_and(|numpy| !numpy.from_ml_dtypes));
    let element = known.ok_or_else(|| reason(order, code, text))?.element();
    let width = element.storage.width() as u8;
    Ok(ArrayType { swapped: (order == b'>' && width > 1).then_some(width), element })
}

/// Why an array of objects is not read.
pub(super) const OBJECTS: &str =
    "an array of Python objects, which only the pickle module could read, by running code";

fn reason(order: u8, code: &str, text: &str) -> String {
    match code.as_bytes().first() {
        Some(b'O') => OBJECTS.to_owned(),
        Some(b'U' | b'S' | b'a') => format!("an array of strings (\"{text}\")"),
        Some(b'M' | b'm') => format!("an array of dates or durations (\"{text}\")"),
        Some(b'V') if order == b'<' => {
            format!("NumPy wrote \"{text}\" for a type it does not know; several types of that width exist")
        }
        Some(b'V') => format!("an array of raw bytes without a type (\"{text}\")"),
        Some(b'f' | b'c') => format!("floats of the width of this platform's long double (\"{text}\")"),
        _ => format!("unknown type \"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType;

    #[test]
    fn byte_order_matters_only_where_there_is_more_than_one_byte() {
        let of = |text| array_type(&Literal::Text(text));
        assert_eq!(of(">c8").unwrap().swapped, Some(4));
        assert_eq!(of(">i2").unwrap().swapped, Some(2));
        assert_eq!(of(">i1").unwrap().swapped, None);
        assert_eq!(of("<f8").unwrap().swapped, None);
        assert_eq!(of("<V2").unwrap().element, DType::BF16.into());
        for text in ["|V2", "<V1", "|O", "<U5", "|S3", "<M8[ns]", "<f16", "<c32", "", "<", "é", "<f4x"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
