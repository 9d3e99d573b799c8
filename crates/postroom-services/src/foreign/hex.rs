//! Reads signatures written as hexadecimal digits.

/// Decodes 64 lower-case digits. Providers write no others, so each signature has exactly one form.
pub(super) fn decode(text: &str) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_64_lower_case_digits_are_a_signature() {
        let mut expected = [0xff; 32];
        (expected[0], expected[31]) = (0x0a, 0x90);
        assert_eq!(decode(&format!("0a{}90", "ff".repeat(30))), Some(expected));
        for bad in ["", "0a", &"0".repeat(63), &"0".repeat(65), &"F".repeat(64), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
