//! The texts in which protocol 0 spells its values: decimal numbers, quoted strings and escaped Unicode; and the variable-length integers
//! of protocol 2.

use crate::error::{Error, Result};

/// An integer, as far as 128 bits reach.
pub(super) enum Integer<'a> {
    Small(i64),
    Wide(i128),
    /// In two's complement.
    Huge(&'a [u8]),
    /// By its digits.
    HugeDecimal(&'a str),
}

impl From<i128> for Integer<'_> {
    fn from(value: i128) -> Self {
        i64::try_from(value).map_or(Integer::Wide(value), Integer::Small)
    }
}

/// A decimal integer, with the `L` that Python 2 appends.
pub(super) fn decimal(line: &[u8]) -> Result<Integer<'_>> {
    let line = line.trim_ascii();
    let digits = line.strip_suffix(b"L").unwrap_or(line);
    let wrong = || Error::malformed("an integer in the pickle is not a decimal number");
    let text = std::str::from_utf8(digits).map_err(|_| wrong())?;
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    Ok(text.parse::<i128>().map_or(Integer::HugeDecimal(text), Integer::from))
}

/// A two's-complement, little-endian integer of any length.
pub(super) fn two_complement(bytes: &[u8]) -> Integer<'_> {
    let Some(last) = bytes.last() else { return Integer::Small(0) };
    let mut wide = [if last & 0x80 == 0 { 0 } else { 0xFF }; 16];
    match wide.get_mut(..bytes.len()) {
        Some(target) => target.copy_from_slice(bytes),
        None => return Integer::Huge(bytes),
    }
    Integer::from(i128::from_le_bytes(wide))
}

pub(super) fn float(line: &[u8]) -> Result<f64> {
    let text = std::str::from_utf8(line.trim_ascii()).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| Error::malformed("a float in the pickle is not a decimal number"))
}

/// A quoted string with Python's escapes, as bytes.
pub(super) fn quoted(line: &[u8]) -> Result<Vec<u8>> {
    let line = line.trim_ascii();
    let wrong = || Error::malformed("a string in the pickle is not quoted correctly");
    let inner = match line {
        [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] => inner,
        _ => return Err(wrong()),
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let [escape, tail @ ..] = rest else { return Err(wrong()) };
        rest = tail;
        match escape {
            b'\\' | b'\'' | b'"' => bytes.push(*escape),
            b'a' => bytes.push(7),
            b'b' => bytes.push(8),
            b't' => bytes.push(b'\t'),
            b'n' => bytes.push(b'\n'),
            b'v' => bytes.push(11),
            b'f' => bytes.push(12),
            b'r' => bytes.push(b'\r'),
            b'x' => {
                let (digits, tail) = rest.split_at_checked(2).ok_or_else(wrong)?;
                bytes.push(number(digits, 16).and_then(|code| u8::try_from(code).ok()).ok_or_else(wrong)?);
                rest = tail;
            }
            b'0'..=b'7' => {
                let more = rest.iter().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                let (digits, tail) = rest.split_at(more);
                let code = digits
                    .iter()
                    .fold(u32::from(escape - b'0'), |code, digit| code * 8 + u32::from(digit - b'0'));
                bytes.push(code as u8);
                rest = tail;
            }
            other => bytes.extend([b'\\', *other]),
        }
    }
    Ok(bytes)
}

/// Latin-1 text with `\uXXXX` and `\UXXXXXXXX` escapes.
pub(super) fn escaped_unicode(line: &[u8]) -> Result<String> {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let [first, tail @ ..] = rest {
        let digits = match tail.first() {
            Some(b'u') if *first == b'\\' => 4,
            Some(b'U') if *first == b'\\' => 8,
            _ => {
                text.push(char::from(*first));
                rest = tail;
                continue;
            }
        };
        let code = tail.get(1..=digits).and_then(|digits| number(digits, 16));
        let code = code.ok_or_else(|| Error::malformed("a Unicode escape in the pickle is incomplete"))?;
        // Half of a surrogate pair has no character of its own.
        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        rest = &tail[digits + 1..];
    }
    Ok(text)
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    digits.iter().try_fold(0u32, |number, digit| {
        number.checked_mul(radix)?.checked_add(char::from(*digit).to_digit(radix)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_length() {
        assert!(matches!(two_complement(&[]), Integer::Small(0)));
        assert!(matches!(two_complement(&[0xFF]), Integer::Small(-1)));
        assert!(matches!(two_complement(&[0xFF, 0]), Integer::Small(255)));
        assert!(matches!(two_complement(&[0; 17]), Integer::Huge(_)));
        assert!(matches!(decimal(b"-12L"), Ok(Integer::Small(-12))));
        assert!(matches!(
            decimal(b"119547037146038801333356L"),
            Ok(Integer::Wide(0x1950_A86A_20F9_469C_FC6C))
        ));
        assert!(matches!(decimal(&[b'9'; 1000]), Ok(Integer::HugeDecimal(_))));
        assert!(decimal(b"1e5").is_err());
        assert!(decimal(b"").is_err());
    }

    #[test]
    fn strings_are_unescaped() {
        assert_eq!(quoted(br"'a\x41\n\\\101\q'").unwrap(), b"aA\n\\A\\q");
        assert_eq!(quoted(b"\"it's\"").unwrap(), b"it's");
        for wrong in [&b"'"[..], b"abc", b"'a\"", br"'\x4'", br"'\'"] {
            assert!(quoted(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(escaped_unicode(b"a\\u00e9\xE9\\U0001F600").unwrap(), "a\u{e9}\u{e9}\u{1F600}");
        assert!(escaped_unicode(b"\\u12").is_err());
    }
}
