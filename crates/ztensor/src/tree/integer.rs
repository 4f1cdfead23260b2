//! Integers of any size: decimal digits in the text of a tree, two's complement in pickles.

/// Digits of the longest integer. Python reads no longer one from a text, because that takes quadratic time.
pub const MOST_DIGITS: usize = 4300;

/// Decimal digits that fit a 64-bit number.
const STEP: usize = 18;
const STEP_VALUE: u64 = 1_000_000_000_000_000_000;

/// The digits of a little-endian two's complement number; `None` if they are too many.
pub fn decimal(bytes: &[u8]) -> Option<String> {
    // A digit takes more than three bits.
    if bytes.len() > MOST_DIGITS / 2 {
        return None;
    }
    let negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
    let mut limbs: Vec<u32> = Vec::with_capacity(bytes.len() / 4 + 1);
    for chunk in bytes.chunks(4) {
        let mut limb = [if negative { 0xFF } else { 0 }; 4];
        limb[..chunk.len()].copy_from_slice(chunk);
        limbs.push(u32::from_le_bytes(limb));
    }
    if negative {
        let mut carry = true;
        for limb in &mut limbs {
            let (sum, over) = (!*limb).overflowing_add(u32::from(carry));
            (*limb, carry) = (sum, over);
        }
    }
    let mut groups = Vec::new();
    while limbs.iter().any(|limb| *limb != 0) {
        let mut rest = 0u128;
        for limb in limbs.iter_mut().rev() {
            let value = rest << 32 | u128::from(*limb);
            // A quotient of numbers that begin below the divisor fits.
            *limb = (value / u128::from(STEP_VALUE)) as u32;
            rest = value % u128::from(STEP_VALUE);
        }
        groups.push(rest);
    }
    let mut digits = String::from(if negative { "-" } else { "" });
    match groups.pop() {
        Some(first) => digits.push_str(&first.to_string()),
        None => digits.push('0'),
    }
    groups.iter().rev().for_each(|group| digits.push_str(&format!("{group:0STEP$}")));
    (digits.len() <= MOST_DIGITS).then_some(digits)
}

/// The shortest little-endian two's complement form of a number by its digits, which may have a sign before them; `None` if they are no number,
/// or too many.
pub fn two_complement(text: &str) -> Option<Vec<u8>> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.is_empty() || digits.len() > MOST_DIGITS || !digits.bytes().all(|digit| digit.is_ascii_digit())
    {
        return None;
    }
    let mut limbs: Vec<u32> = Vec::with_capacity(digits.len() / 9 + 1);
    for digit in digits.bytes() {
        let mut carry = u64::from(digit - b'0');
        for limb in &mut limbs {
            let value = u64::from(*limb) * 10 + carry;
            *limb = value as u32;
            carry = value >> 32;
        }
        if carry != 0 {
            limbs.push(carry as u32);
        }
    }
    limbs.push(0);
    if negative {
        let mut carry = true;
        for limb in &mut limbs {
            let (sum, over) = (!*limb).overflowing_add(u32::from(carry));
            (*limb, carry) = (sum, over);
        }
    }
    let mut bytes: Vec<u8> = limbs.iter().flat_map(|limb| limb.to_le_bytes()).collect();
    let filler = if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xFF } else { 0 };
    while let [.., before, last] = bytes[..] {
        if last != filler || (before ^ filler) & 0x80 != 0 {
            break;
        }
        bytes.pop();
    }
    if bytes == [0] {
        bytes.clear();
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_there_and_back() {
        for value in [0i128, 1, -1, 127, 128, -128, -129, 255, 65535, i64::MIN.into(), i128::MAX, i128::MIN] {
            let bytes = two_complement(&value.to_string()).unwrap();
            assert_eq!(decimal(&bytes).unwrap(), value.to_string());
            assert_eq!(decimal(&value.to_le_bytes()).unwrap(), value.to_string());
        }
        assert_eq!(two_complement("0").unwrap(), b"");
        assert_eq!(two_complement("-128").unwrap(), [0x80]);
        assert_eq!(two_complement("128").unwrap(), [0x80, 0]);
        let long = format!("-{}", "9876543210".repeat(100));
        assert_eq!(decimal(&two_complement(&long).unwrap()).unwrap(), long);
        for wrong in ["", "-", "1e5", "+1", "1.0"] {
            assert_eq!(two_complement(wrong), None, "{wrong}");
        }
        assert_eq!(two_complement(&"9".repeat(MOST_DIGITS + 1)), None);
        assert_eq!(decimal(&vec![0x7F; 4000]), None);
    }
}
