//! Checks names that travel. They are checked again at run time in the same way.

use syn::{Error, LitStr, Result};

const TOPIC_CHARS_MAX: usize = 255;
const SERVICE_BYTES_MAX: usize = 64;

/// Checks a topic: it has no whitespace and no control characters.
pub(crate) fn topic(text: &LitStr) -> Result<String> {
    let topic = text.value();
    let chars = topic.chars().count();
    if chars == 0 || chars > TOPIC_CHARS_MAX || topic.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Error::new(
            text.span(),
            format!(
                "a topic is 1 to {TOPIC_CHARS_MAX} characters without whitespace and control characters, like \
                 \"order.approved\""
            ),
        ));
    }
    Ok(topic)
}

/// Checks a service's name: `[a-z0-9][a-z0-9._-]{0,63}`.
pub(crate) fn service(text: &LitStr) -> Result<String> {
    let name = text.value();
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut bytes = name.bytes();
    let is_fine = bytes.next().is_some_and(allowed) && bytes.all(|byte| allowed(byte) || b"._-".contains(&byte));
    if !is_fine || name.len() > SERVICE_BYTES_MAX {
        return Err(Error::new(
            text.span(),
            format!(
                "a service's name is 1 to {SERVICE_BYTES_MAX} of a-z, 0-9, '.', '_' and '-', and begins with a letter \
                 or digit"
            ),
        ));
    }
    Ok(name)
}

/// Checks the id of a key, which must fit in a header.
pub(crate) fn key_id(text: &LitStr) -> Result<()> {
    let id = text.value();
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if id.is_empty() || id.len() > SERVICE_BYTES_MAX || !id.bytes().all(is_fine) {
        let what = format!("a key's id is 1 to {SERVICE_BYTES_MAX} letters, digits, '.', '_' and '-'");
        return Err(Error::new(text.span(), what));
    }
    Ok(())
}

/// Converts `send_mail` to `SendMail`.
pub(crate) fn camel_case(name: &str) -> String {
    let words = name.trim_start_matches("r#").split('_').filter(|word| !word.is_empty());
    words
        .map(|word| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>()).unwrap_or_default()
        })
        .collect()
}

/// Finds the allowed word that is probably meant, if there is one.
pub(crate) fn nearest<'a>(word: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let distance = |other: &str| {
        let mut row: Vec<usize> = (0..=other.len()).collect();
        for (i, a) in word.bytes().enumerate() {
            let mut diagonal = std::mem::replace(&mut row[0], i + 1);
            for (j, b) in other.bytes().enumerate() {
                let cost = diagonal + usize::from(a != b);
                diagonal = row[j + 1];
                row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
            }
        }
        row[other.len()]
    };
    allowed.iter().copied().min_by_key(|other| distance(other)).filter(|other| distance(other) <= 2)
}

/// Writes the error message for a word that is not allowed in its place.
pub(crate) fn unknown(what: &str, word: &str, allowed: &[&str]) -> String {
    let list = allowed.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match nearest(word, allowed) {
        Some(meant) => format!("unknown {what} `{word}`; did you mean `{meant}`? Allowed are {list}"),
        None => format!("unknown {what} `{word}`; allowed are {list}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_gives_its_call_a_name() {
        assert_eq!(camel_case("send_mail"), "SendMail");
        assert_eq!(camel_case("r#type"), "Type");
        assert_eq!(camel_case("_x__y2"), "XY2");
    }

    #[test]
    fn a_slip_is_recognised_and_anything_else_is_not() {
        assert_eq!(nearest("secrte", &["url", "secret", "sends"]), Some("secret"));
        assert_eq!(nearest("password", &["url", "secret", "sends"]), None);
    }
}
