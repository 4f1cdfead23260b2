//! Base64 with padding (RFC 4648, section 4).

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode(bytes: &[u8], out: &mut String) {
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for position in 0..4 {
            match position <= group.len() {
                true => out.push(char::from(ALPHABET[(bits >> (18 - 6 * position) & 63) as usize])),
                false => out.push('='),
            }
        }
    }
}

/// The bytes of a text; `None` if it is not base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let (groups, []) = text.as_bytes().as_chunks::<4>() else { return None };
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (position, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|digit| **digit == b'=').count();
        if padding > 2 || (padding > 0 && position + 1 < groups.len()) {
            return None;
        }
        let mut bits = 0u32;
        for digit in &group[..4 - padding] {
            bits = bits << 6 | ALPHABET.iter().position(|letter| letter == digit)? as u32;
        }
        bits <<= 6 * padding;
        let [_, group @ ..] = bits.to_be_bytes();
        bytes.extend_from_slice(&group[..3 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for length in 0..70u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37) ^ 0xA5).collect();
            let mut text = String::new();
            encode(&bytes, &mut text);
            assert_eq!(decode(&text), Some(bytes));
        }
        let mut text = String::new();
        encode(b"\0\xff", &mut text);
        assert_eq!(text, "AP8=");
        for wrong in ["A", "AP8", "A===", "AP8=AP8=", "AP 8", "=AAA", "?AAA"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
