//! Failures that say the same: their words, without what is different each time.

use std::collections::HashMap;

use postroom::{Failed, FailedGroup, State, Timestamp};
use sha2::{Digest, Sha256};

/// So many failures in each state are looked at.
pub(super) const LOOKED_AT_MAX: usize = 100_000;
const UUID_CHARS: usize = 36;
const HEX_CHARS_MIN: usize = 8;

/// Messages that were given up for the same reason, as far as one can tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Group {
    /// What it is known by, as long as there is one of them.
    pub(super) digest: String,
    pub(super) topic: String,
    pub(super) party: Option<String>,
    pub(super) text: String,
    pub(super) messages: u64,
    pub(super) first_at: Option<Timestamp>,
    pub(super) last_at: Option<Timestamp>,
}

impl Group {
    /// Whether a message is one of them.
    pub(super) fn has(&self, failed: &Failed) -> bool {
        self.topic == failed.topic
            && self.party.as_deref() == failed.party()
            && self.text == normalised(failed.state, failed.error.as_deref())
    }
}

/// Puts together what says the same; the largest group first.
pub(super) fn merge(counted: Vec<FailedGroup>) -> Vec<Group> {
    let mut groups: HashMap<(String, Option<String>, String), Group> = HashMap::new();
    for FailedGroup { topic, party, error, state, messages, first_at, last_at, .. } in counted {
        let text = normalised(state, error.as_deref());
        let group = groups.entry((topic, party, text)).or_insert_with_key(|(topic, party, text)| Group {
            digest: digest(topic, party.as_deref(), text),
            topic: topic.clone(),
            party: party.clone(),
            text: text.clone(),
            messages: 0,
            first_at,
            last_at,
        });
        group.messages += messages;
        (group.first_at, group.last_at) = (group.first_at.min(first_at), group.last_at.max(last_at));
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|a, b| b.messages.cmp(&a.messages).then_with(|| a.digest.cmp(&b.digest)));
    groups
}

fn digest(topic: &str, party: Option<&str>, text: &str) -> String {
    let mut digest = Sha256::new();
    for part in [Some(topic), party, Some(text)] {
        // With their lengths: no two of them can be told apart in another way.
        digest.update(part.map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
        digest.update(part.unwrap_or_default());
    }
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// What is said where there is no error.
pub(super) fn words(state: State, error: Option<&str>) -> &str {
    match (error, state) {
        (Some(error), _) => error,
        (None, State::Expired) => "not delivered in time",
        (None, _) => "no reason given",
    }
}

fn normalised(state: State, error: Option<&str>) -> String {
    normalise(words(state, error))
}

/// A text without what is different each time: ids, numbers and what stands in quotes.
fn normalise(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text.trim());
    let mut in_word = false;
    while let Some(sign) = rest.chars().next() {
        let taken = if let Some(quoted) = (!in_word).then(|| quoted(rest)).flatten() {
            plain.push_str("“…”");
            quoted
        } else if !in_word && is_uuid(rest) {
            plain.push('#');
            UUID_CHARS
        } else if sign.is_alphanumeric() {
            let end = rest.find(|sign: char| !sign.is_alphanumeric()).unwrap_or(rest.len());
            push_word(&mut plain, &rest[..end]);
            end
        } else {
            plain.push(if sign.is_whitespace() { ' ' } else { sign });
            sign.len_utf8()
        };
        in_word = sign.is_alphanumeric();
        rest = &rest[taken..];
    }
    plain
}

/// How long the quotation is that the text begins with, if it begins with one that ends.
fn quoted(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|sign| matches!(sign, '"' | '\'' | '`'))?;
    text[1..].find([quote, '\n']).filter(|end| text[1 + end..].starts_with(quote)).map(|end| end + 2)
}

fn is_uuid(text: &str) -> bool {
    let Some(text) = text.get(..UUID_CHARS) else { return false };
    let at_dash = |index| matches!(index, 8 | 13 | 18 | 23);
    text.bytes().enumerate().all(|(index, byte)| if at_dash(index) { byte == b'-' } else { byte.is_ascii_hexdigit() })
}

fn push_word(plain: &mut String, word: &str) {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    if is_hex && has_digit && (digits.len() < word.len() || digits.len() >= HEX_CHARS_MIN) {
        plain.push('#');
        return;
    }
    for sign in word.chars() {
        match sign {
            sign if !sign.is_numeric() => plain.push(sign),
            _ if plain.ends_with('#') => {}
            _ => plain.push('#'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_different_each_time_is_left_out() {
        for (text, plain) in [
            ("exit status 65: no such customer", "exit status #: no such customer"),
            ("no item 0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01 here", "no item # here"),
            ("can't find \"order 7\" in 'shop'", "can't find “…” in “…”"),
            ("commit deadbeef01 at 0xFF, face it", "commit # at #, face it"),
            ("10.0.0.1:8080 took 1.5s", "#.#.#.#:# took #.#s"),
            ("an \"open quote\nand 'another", "an \"open quote and 'another"),
            ("größe 12 überschritten", "größe # überschritten"),
            ("", ""),
        ] {
            assert_eq!(normalise(text), plain);
        }
    }

    #[test]
    fn what_says_the_same_is_one_group_within_its_topic_and_service() {
        let seen =
            |topic: &str, party: Option<&str>, error: &str| digest(topic, party, &normalised(State::Dead, Some(error)));
        assert_eq!(seen("a", None, "order 7"), seen("a", None, "order 8"));
        assert_ne!(seen("a", None, "order 7"), seen("b", None, "order 7"));
        assert_ne!(seen("a", None, "order 7"), seen("a", Some(""), "order 7"));
        assert_ne!(seen("a", Some("b"), "c"), seen("a", Some("bc"), ""));
    }

    #[test]
    fn without_words_the_state_speaks() {
        assert_eq!(normalised(State::Expired, None), "not delivered in time");
        assert_eq!(normalised(State::Dead, None), "no reason given");
    }
}
