//! Groups failures with the same error text, without ids, numbers and quoted parts.

use std::collections::HashMap;

use postroom::clock::Timestamp;
use postroom::operator::{ERROR_GROUP_CHARS, Failed, FailedGroup};
use postroom::queue::{State, WorkQueue};
use sha2::{Digest, Sha256};

use crate::admin::sight::Sight;

/// The most failures per state to look at, from the newest back. Lower in tests, so that they reach the limit.
pub(super) const LOOKED_AT_MAX: usize = if cfg!(test) { 1500 } else { 100_000 };
const UUID_CHARS: usize = 36;
const HEX_CHARS_MIN: usize = 8;
/// A word this long, with this many digits, is an id of some kind.
const ID_CHARS_MIN: usize = 16;
const ID_DIGITS_MIN: usize = 3;

/// Failed messages with the same topic, service and error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Group {
    /// The id of the group, as long as it has messages.
    pub(super) digest: String,
    pub(super) topic: String,
    pub(super) party: Option<String>,
    pub(super) text: String,
    pub(super) messages: u64,
    pub(super) first_at: Option<Timestamp>,
    pub(super) last_at: Option<Timestamp>,
    /// The first row of the group that was looked at.
    pub(super) first_row: i64,
}

impl Group {
    /// Whether a message belongs to the group.
    pub(super) fn has(&self, failed: &Failed, sight: Sight) -> bool {
        self.topic == failed.topic
            && self.party.as_deref() == failed.party()
            && self.text == normalise(sight.words(failed.state, failed.error.as_deref()))
    }
}

/// The groups, and the first row that was looked at. Lists, searches and retries start there too.
pub(super) struct Looked {
    pub(super) groups: Vec<Group>,
    pub(super) messages: u64,
    /// There may be older messages.
    pub(super) is_bounded: bool,
    pub(super) first_row: i64,
}

impl Looked {
    pub(super) async fn at(queue: &WorkQueue, sight: Sight) -> postroom::Result<Self> {
        let counted = queue.failed_groups(LOOKED_AT_MAX).await?;
        let count = |state: Option<State>| {
            let those = counted.iter().filter(|group| state.is_none_or(|state| group.state == state));
            those.map(|group| group.messages).sum::<u64>()
        };
        let is_bounded = [State::Dead, State::Expired].iter().any(|state| count(Some(*state)) >= LOOKED_AT_MAX as u64);
        let (messages, first_row) =
            (count(None), counted.iter().map(|group| group.first_row).min().unwrap_or(i64::MIN));
        Ok(Self { groups: merge(counted, sight), messages, is_bounded, first_row })
    }
}

/// Merges groups with the same text, largest first.
fn merge(counted: Vec<FailedGroup>, sight: Sight) -> Vec<Group> {
    let mut groups: HashMap<(String, Option<String>, String), Group> = HashMap::new();
    for FailedGroup { topic, party, error, state, messages, first_at, last_at, first_row, .. } in counted {
        let text = normalise(sight.words(state, error.as_deref()));
        let group = groups.entry((topic, party, text)).or_insert_with_key(|(topic, party, text)| Group {
            digest: digest(topic, party.as_deref(), text),
            topic: topic.clone(),
            party: party.clone(),
            text: text.clone(),
            messages: 0,
            first_at,
            last_at,
            first_row,
        });
        group.messages += messages;
        (group.first_at, group.last_at) = (group.first_at.min(first_at), group.last_at.max(last_at));
        group.first_row = group.first_row.min(first_row);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|a, b| b.messages.cmp(&a.messages).then_with(|| a.digest.cmp(&b.digest)));
    groups
}

fn digest(topic: &str, party: Option<&str>, text: &str) -> String {
    let mut digest = Sha256::new();
    for part in [Some(topic), party, Some(text)] {
        // Lengths make the concatenation unambiguous.
        digest.update(part.map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
        digest.update(part.unwrap_or_default());
    }
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The text without ids, numbers and quoted parts, which differ each time. If a long text was cut, an open word or
/// quotation at its end is left out too.
fn normalise(text: &str) -> String {
    let is_cut = text.chars().count() >= ERROR_GROUP_CHARS;
    let whole_words = text.rfind(char::is_whitespace).filter(|_| is_cut).map_or(text, |end| &text[..end]);
    let (mut plain, mut rest) = (String::new(), whole_words.trim());
    let mut in_word = false;
    while let Some(sign) = rest.chars().next() {
        let taken = if let Some(quoted) = (!in_word).then(|| quoted(rest, is_cut)).flatten() {
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

/// The length of the quotation at the start of the text, if there is one that ends or was cut.
fn quoted(text: &str, is_cut: bool) -> Option<usize> {
    let quote = text.chars().next().filter(|sign| matches!(sign, '"' | '\'' | '`'))?;
    match text[1..].find([quote, '\n']) {
        Some(end) => text[1 + end..].starts_with(quote).then_some(end + 2),
        None => is_cut.then_some(text.len()),
    }
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
    let is_id = word.len() >= ID_CHARS_MIN && word.bytes().filter(u8::is_ascii_digit).count() >= ID_DIGITS_MIN;
    if is_id || is_hex && has_digit && (digits.len() < word.len() || digits.len() >= HEX_CHARS_MIN) {
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
            ("no 01ARZ3NDEKTSV4RRFFQ69G5FAV in sha256withrsa", "no # in sha#withrsa"),
            ("größe 12 überschritten", "größe # überschritten"),
            ("", ""),
        ] {
            assert_eq!(normalise(text), plain);
        }
    }

    #[test]
    fn what_a_cut_left_open_is_left_out() {
        let cut = |text: String| text.chars().take(ERROR_GROUP_CHARS).collect::<String>();
        let quoted = |name: &str| normalise(&cut(format!("refused: \"{name} {}", "x y ".repeat(60))));
        assert_eq!((quoted("Ada"), quoted("Bob")), ("refused: “…”".into(), "refused: “…”".into()));
        let words = "no stock ".repeat(22);
        let id = |id: &str| normalise(&cut(format!("{words}{id}{id}")));
        assert_eq!((id("abc"), id("xyz")), (words.trim().into(), words.trim().into()));
        let without_blanks = "x".repeat(ERROR_GROUP_CHARS);
        assert_eq!(normalise(&without_blanks), without_blanks);
    }

    #[test]
    fn what_says_the_same_is_one_group_within_its_topic_and_service() {
        let seen = |topic: &str, party: Option<&str>, error: &str| digest(topic, party, &normalise(error));
        assert_eq!(seen("a", None, "order 7"), seen("a", None, "order 8"));
        assert_ne!(seen("a", None, "order 7"), seen("b", None, "order 7"));
        assert_ne!(seen("a", None, "order 7"), seen("a", Some(""), "order 7"));
        assert_ne!(seen("a", Some("b"), "c"), seen("a", Some("bc"), ""));
    }
}
