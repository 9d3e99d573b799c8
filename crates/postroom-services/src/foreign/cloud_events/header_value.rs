//! Attributes as header values: they are percent-encoded, and older senders quote them.

/// Encodes a text as a header value. Double quotes are encoded too, so nothing in it needs quoting.
pub(super) fn encode(text: &str) -> String {
    let mut coded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' if !matches!(byte, b'"' | b'%') => coded.push(char::from(byte)),
            _ => coded.push_str(&format!("%{byte:02X}")),
        }
    }
    coded
}

/// Decodes a header value. It returns `None` when the value is not properly encoded.
pub(super) fn decode(value: &str) -> Option<String> {
    unescape(&unquote(value)?)
}

/// Removes double quotes, which older senders put around values or parts of them.
fn unquote(value: &str) -> Option<String> {
    let (mut text, mut is_quoted) = (String::with_capacity(value.len()), false);
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => is_quoted = !is_quoted,
            '\\' if is_quoted => text.push(characters.next()?),
            _ => text.push(character),
        }
    }
    (!is_quoted).then_some(text)
}

fn unescape(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first == b'%' {
            let (&[high, low], after) = rest.split_first_chunk()?;
            let [high, low] = [high, low].map(|digit| char::from(digit).to_digit(16));
            bytes.push(u8::try_from(high? << 4 | low?).ok()?);
            rest = after;
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification() {
        assert_eq!(encode("Euro € 😀"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
        assert_eq!(decode("Euro%20%E2%82%AC%20%F0%9F%98%80").as_deref(), Some("Euro € 😀"));
    }

    #[test]
    fn every_character_comes_back() {
        let codes = (0..0x1000).chain((0x1000..=0x0010_ffff).step_by(7));
        for text in codes.filter_map(char::from_u32).map(String::from) {
            let coded = encode(&text);
            assert!(coded.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'), "{text:?}");
            assert_eq!(decode(&coded).as_ref(), Some(&text));
        }
    }

    #[test]
    fn other_ways_to_write_it_are_understood() {
        for (value, text) in [
            ("", ""),
            ("needless %30%31 and%2fsmall %e2%82%ac", "needless 01 and/small €"),
            (r#""all in quotes""#, "all in quotes"),
            (r#"" blanks "kept"#, " blanks kept"),
            (r#""a \"quote\" and a \\""#, r#"a "quote" and a \"#),
            (r"no \escape outside", r"no \escape outside"),
            (r#""%22""#, "\""),
            ("%2525", "%25"),
        ] {
            assert_eq!(decode(value).as_deref(), Some(text), "{value}");
        }
    }

    #[test]
    fn what_is_not_well_coded_is_refused() {
        let broken = ["%", "%0", "%g0", "%0g", "100% sure", "\"open", "\"open\\", "a\"", "%+1"];
        // Overlong forms, surrogates, truncated sequences, and bytes that cannot begin a character.
        let not_utf8 = ["%C0%A0", "%ED%A0%80", "%ED%A0%80%ED%B0%80", "%E2", "%E2x", "%E2%82", "%82", "%E2%E2", "%FF"];
        for value in broken.into_iter().chain(not_utf8) {
            assert_eq!(decode(value), None, "{value}");
        }
    }
}
